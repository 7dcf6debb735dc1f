"""`python -m dmc` runs `dmc`, for launchers of ranks."""

import sys

from dmc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
