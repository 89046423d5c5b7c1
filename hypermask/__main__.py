"""`python -m hypermask` is the command line without installation."""

import sys

from hypermask.cli import main

sys.exit(main())
