"""``python -m worker`` does what ``doublebuffer worker`` does: the one place here that knows the command."""

import sys

from doublebuffer.cli import main

sys.exit(main(["worker", *sys.argv[1:]]))
