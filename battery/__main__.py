"""Run groups of the battery, two at a time, each in a process of its own, and print one line for each."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import IO

from battery import GROUPS, ROOT

HANG = 3600  # seconds after which a case that neither ends nor fails counts as hung


@dataclass
class Outcome:
    """What became of one group."""

    number: int
    name: str
    cases: int = 0
    passed: int = 0
    seconds: float = 0.0
    failures: list[dict[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def run_group(number: int, args: argparse.Namespace) -> Outcome:
    """Start the worker of a group and count what it tells."""
    outcome, begun = Outcome(number, GROUPS[number][1]), time.perf_counter()
    order = {"group": number, "quick": args.quick, "seed": args.seed, "only": args.case}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "battery.worker", json.dumps(order)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        assert worker.stdout is not None
        current = _count(worker.stdout, worker, outcome, args)
        code = worker.wait()
        if code:
            log.seek(0)
            reason = f"the process of the group ended with code {code}: {log.read()[-1500:].strip()}"
            _fail(outcome, current, reason, args)
    outcome.seconds = time.perf_counter() - begun
    _say(f"{_line(outcome)}")
    return outcome


def _count(lines: IO[str], worker: subprocess.Popen[str], outcome: Outcome, args: argparse.Namespace) -> str:
    """Add up the cases of a worker; return the name of the last that began."""
    current = "start"
    while True:
        alarm = threading.Timer(HANG, os.killpg, (worker.pid, signal.SIGKILL))
        alarm.start()
        line = lines.readline()
        alarm.cancel()
        if not line:
            return current
        told = json.loads(line)
        current = told.get("begins", current)
        if "ends" not in told:
            continue
        if told["skipped"]:
            outcome.skipped.append(f"{told['ends']}: {told['skipped']}")
        elif told["error"]:
            _fail(outcome, told["ends"], told["error"], args)
        else:
            outcome.cases += told["cases"]
            outcome.passed += told["cases"]
        if args.verbose:
            _say(f"{outcome.number} {outcome.name}: {told['ends']} ({told['seconds']:.1f} s)")


def _fail(outcome: Outcome, case: str, error: str, args: argparse.Namespace) -> None:
    outcome.cases += 1
    quick = "--quick " if args.quick else ""
    again = f"python -m battery {quick}--seed {args.seed} {outcome.number} --case {shlex.quote(case)}"
    outcome.failures.append({"case": case, "error": error, "again": again})
    _say(f"FAILED {outcome.number} {outcome.name}: {case}\n  {error}\n  {again}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _line(outcome: Outcome) -> str:
    note = f"  {len(outcome.failures)} FAILED" if outcome.failures else ""
    note += f"  {len(outcome.skipped)} skipped" if outcome.skipped else ""
    return (
        f"{outcome.number:>2}  {outcome.name:<22}{outcome.cases:>9,}{outcome.passed:>9,}"
        f"{outcome.seconds:>9.1f}{note}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m battery", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="Number or name; all without one.")
    parser.add_argument("--quick", action="store_true", help="A share of every group, within five minutes.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of everything that is drawn at random.")
    parser.add_argument("--case", metavar="TEXT", help="Only the cases whose names contain this.")
    parser.add_argument("--jobs", type=int, default=2, help="Groups at a time.")
    parser.add_argument("--list", action="store_true", help="Name the groups and stop.")
    parser.add_argument("--json", action="store_true", help="Print JSON instead of the table.")
    parser.add_argument("--verbose", action="store_true", help="Name every case on stderr.")
    args = parser.parse_args()
    by_name = {name: number for number, names in GROUPS.items() for name in (str(number), *names)}
    unknown = [name for name in args.groups if name not in by_name]
    if unknown:
        parser.error(f"{unknown[0]!r} is no group; --list names them.")
    args.numbers = list(dict.fromkeys(by_name[name] for name in args.groups)) or list(GROUPS)
    return args


def main() -> int:
    """Run what was asked for; the exit code is 1 where anything failed."""
    args = _arguments()
    if args.list:
        for number, (module, title) in GROUPS.items():
            print(f"{number:>2}  {module:<16}{title}")
        return 0
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = list(pool.map(lambda number: run_group(number, args), args.numbers))
    if args.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        print(" #  group                     cases   passed  seconds")
        print("\n".join(map(_line, outcomes)))
        for outcome in outcomes:
            for failure in outcome.failures:
                print(f"\n{outcome.number} {failure['case']}\n  {failure['error']}\n  {failure['again']}")
            for reason in dict.fromkeys(text.rpartition(": ")[2] for text in outcome.skipped):
                print(f"\n{outcome.number} skipped: {reason}")
    return int(any(outcome.failures or not outcome.cases for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
