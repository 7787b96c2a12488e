"""Runs the command line: `python -m ltrbench`."""

import sys

from ltrbench.cli import main

sys.exit(main())
