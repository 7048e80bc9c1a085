"""`python -m rltop`."""

import sys

from rltop.cli import main

if __name__ == "__main__":
    sys.exit(main())
