"""`python -m dmc` is `dmc`: what launchers of ranks start."""

import sys

from dmc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
