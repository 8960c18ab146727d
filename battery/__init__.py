"""The battery: what must never happen, tried many times. ``python -m battery --help`` says how to run it.

A group is one module with a function ``cases(scope)`` that yields `Case`s. A case passes unless it raises.
Where the tests prove a group already, the battery runs those tests (`through_pytest`) and counts the results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))  # oracles and helpers of the tests are used here as well

# Number -> (module, title). To add a group, write one file and add one line.
GROUPS = {
    1: ("sklearn_checks", "scikit-learn checks"),
    2: ("bad_inputs", "bad inputs"),
    3: ("containers", "containers"),
    4: ("scaling", "scaling"),
    5: ("degenerate", "degenerate geometry"),
    6: ("properties", "solver properties"),
    7: ("batches", "batch invariance"),
    8: ("seeds", "seeds"),
    9: ("crashes", "killed processes"),
    10: ("signals", "signals"),
    11: ("disk", "disk"),
    12: ("downloads", "downloads"),
    13: ("archives", "archives"),
    14: ("model_files", "model files"),
    15: ("fuzzing", "fuzzing"),
    16: ("resources", "resources"),
    17: ("web_page", "web page"),
    18: ("command_line", "command line"),
    19: ("lies", "lying certificates"),
}


@dataclass(frozen=True)
class Scope:
    """How much of a group is wanted."""

    quick: bool = False
    seed: int = 0

    def count(self, quick: int, full: int) -> int:
        """One of two numbers."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Case:
    """Something that must hold: `run` raises where it does not.

    It may return how many cases it stands for, where that is not one.
    """

    name: str
    run: Callable[[], int | None]


class Skipped(Exception):
    """A case that cannot run here; the message says what it needs."""


def refusal(call: Callable[[], object], *kinds: type[Exception]) -> str:
    """The message of the error of one of these kinds that a call must raise."""
    try:
        call()
    except kinds as error:
        message = str(error)
    else:
        raise AssertionError("it was taken")
    assert message, "the error says nothing"
    return message
