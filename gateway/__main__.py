"""``python -m gateway`` does what ``doublebuffer gateway`` does: the one place here that knows the command."""

import sys

from doublebuffer.cli import main

sys.exit(main(["gateway", *sys.argv[1:]]))
