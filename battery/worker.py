"""One group in a process of its own: a line of JSON for every case that begins or ends."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time
import traceback
from typing import Any

from battery import GROUPS, Scope, Skipped


def run_group(number: int, scope: Scope, only: str | None) -> None:
    """Run the cases whose names contain `only`."""
    results = os.fdopen(os.dup(1), "w")  # what the cases print goes to stderr, which the parent keeps
    os.dup2(2, 1)
    faulthandler.enable()

    def tell(**facts: Any) -> None:
        results.write(json.dumps(facts) + "\n")
        results.flush()

    tell(begins="what all cases of the group share")
    module = importlib.import_module(f"battery.{GROUPS[number][0]}")
    for case in module.cases(scope):
        if only is not None and only not in case.name:
            continue
        tell(begins=case.name)
        begun, count, error, skipped = time.perf_counter(), 1, "", ""
        try:
            count = case.run() or 1
        except Skipped as reason:
            count, skipped = 0, str(reason)
        except BaseException as found:  # also what is no Exception: a panic in Rust, an exit, an interrupt
            if isinstance(found, KeyboardInterrupt):
                raise
            error = _described(found)
        tell(ends=case.name, cases=count, error=error, skipped=skipped, seconds=time.perf_counter() - begun)


def _described(error: BaseException) -> str:
    """Type, message and where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    told = "\n".join([str(error), *getattr(error, "__notes__", ())])  # notes of Hypothesis: the example
    text = " ".join(told.split()) or "(no message)"
    return f"{type(error).__name__}: {text[:1500]} ({os.path.basename(place.filename)}:{place.lineno})"  # noqa: PTH119


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    run_group(order["group"], Scope(order["quick"], order["seed"]), order["only"])
