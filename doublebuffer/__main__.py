"""``python -m doublebuffer``."""

import sys

from doublebuffer.cli import main

sys.exit(main())
