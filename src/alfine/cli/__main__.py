"""`python -m alfine.cli` is `alfine`."""

import sys

from . import main

sys.exit(main())
