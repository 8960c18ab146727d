"""One group in a process of its own: a line of JSON for every case that begins or ends."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from typing import Any

from battery import GROUPS, Scope, Skipped


def run_group(number: int, scope: Scope, only: str | None, part: int, parts: int) -> None:
    """Run the cases whose names contain `only` and that belong to one part of the group.

    Cases whose names differ only after the last comma share what they prepare, so they stay together.
    """
    results = os.fdopen(os.dup(1), "w")  # what the cases print goes to stderr, which the parent keeps
    os.dup2(2, 1)
    faulthandler.enable()

    def tell(**facts: Any) -> None:
        results.write(json.dumps(facts) + "\n")
        results.flush()

    tell(begins="what all cases of the group share")
    module = importlib.import_module(f"battery.{GROUPS[number][0]}")
    families: dict[str, int] = {}
    for case in module.cases(scope):
        family = families.setdefault(case.name.rpartition(",")[0] or case.name, len(families))
        if (only is not None and only not in case.name) or family % parts != part:
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
            count, error = 0, _described(found)
        tell(ends=case.name, cases=count, error=error, skipped=skipped, seconds=time.perf_counter() - begun)
    tell(processor=processor_time())


def processor_time() -> float:
    """Seconds of this process and of all that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _described(error: BaseException) -> str:
    """Type, message and where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    told = "\n".join([str(error), *getattr(error, "__notes__", ())])  # notes of Hypothesis: the example
    text = " ".join(told.split()) or "(no message)"
    return f"{type(error).__name__}: {text[:1500]} ({os.path.basename(place.filename)}:{place.lineno})"  # noqa: PTH119


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    # A shell has Ctrl-C ignored by what it starts in the background, and every process inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scope = Scope(order["quick"], order["seed"])
    run_group(order["group"], scope, order["only"], order["part"], order["parts"])
