"""`python -m controller.cli` is `tablectl`."""

import sys

from . import main

sys.exit(main())
