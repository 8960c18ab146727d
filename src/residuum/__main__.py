"""``python -m residuum`` is the command ``residuum``."""

import sys

from residuum.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
