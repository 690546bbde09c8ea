"""`python -m controller` is `tabled`."""

import sys

from .daemon import main

sys.exit(main())
