"""The command ``residuum``, also as ``python -m residuum``."""

import signal
import sys


def run() -> int:
    """Run the command and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An interrupt while modules are imported ends the process, before it can become another error.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from residuum.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
