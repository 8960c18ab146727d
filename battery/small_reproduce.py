"""``residuum`` with small grids in Table 1, so that the processes of ``reproduce`` take most of its time."""

from __future__ import annotations

import sys
from dataclasses import replace

from residuum.cli.main import main
from residuum.paper import tables
from residuum.paper.entries import Quick

CHOICES = {
    "NSC": {"l2s": (0.1,)},
    "SVM": {"Cs": (1.0,)},
    "SRC": {"l1s": (0.3,)},
    "CRC": {"l2s": (0.01,)},
    "CROC": {"l2s": (0.01,), "weights": (0.5,)},
    "ProCRC": {"gammas": (0.1,), "l2s": (0.01,)},
    "NRC": {"rhos": (1.0, 0.1), "max_iters": (5,)},
}

if __name__ == "__main__":
    tables.EXPERIMENTS["table1"] = replace(
        tables.TABLE1, grids={"authors": CHOICES}, validation=100, quick=Quick(rows=(54, 120))
    )
    sys.exit(main())
