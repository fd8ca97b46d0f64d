"""`python -m brief`, with `examples/` on the path, as `scripts/demo` has it."""

import sys

from .command import main

sys.exit(main())
