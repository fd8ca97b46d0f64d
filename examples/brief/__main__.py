"""`python -m brief`, with `examples/` on the path, as `scripts/demo` has it."""

import os
import sys

from .command import main

# The demo is there to show the reasons, so its trace has them too; who has set the variable is not overruled.
os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")
sys.exit(main())
