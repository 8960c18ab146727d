"""Run groups of the battery, each in a process of its own or in several, and print one line for each."""

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
from dataclasses import dataclass, field
from typing import IO, Any

from battery import GROUPS, ROOT

# The long groups, which begin first so that none is left to the end: into how many processes each is divided.
PARTS = {15: 12, 16: 2, 9: 4, 10: 4, 8: 4, 19: 4, 6: 4, 14: 2, 18: 2, 11: 2, 5: 2, 7: 2}
FUZZING = 15  # waits for its ten minutes most of the time, so all of it runs beside the other groups
THREADED = (7, 16)  # groups that try several threads
HANG = 3600  # seconds after which a case that neither ends nor fails counts as hung


@dataclass
class Outcome:
    """What became of one group."""

    number: int
    name: str
    cases: int = 0
    passed: int = 0
    seconds: float = 0.0
    processor: float = 0.0  # seconds of processor time, those of the processes that it started included
    failures: list[dict[str, str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    parts_left: int = 1
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def facts(self) -> dict[str, Any]:
        """What `--json` prints."""
        hidden = ("parts_left", "lock")
        return {key: value for key, value in vars(self).items() if key not in hidden}


def run_group(outcome: Outcome, part: int, parts: int, args: argparse.Namespace) -> None:
    """Start a worker for one part of a group and count what it tells."""
    begun = time.perf_counter()
    order = {
        "group": outcome.number, "quick": args.quick, "seed": args.seed, "only": args.case, "part": part,
        "parts": parts,
    }  # fmt: skip
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "BATTERY_SHARED": args.shared}
    if outcome.number not in THREADED:
        environment["OMP_NUM_THREADS"] = (
            "1"  # threads of BLAS that wait for each other cost more than they bring
        )
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        # A group of its own, but in this session: kernels that share the processor by session would give a
        # session of its own as much as all the others, however nice it is.
        worker = subprocess.Popen(
            [sys.executable, "-m", "battery.worker", json.dumps(order)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            process_group=0,
        )
        assert worker.stdout is not None
        current = _count(worker.stdout, worker, outcome, args)
        code = worker.wait()
        if code:
            log.seek(0)
            reason = f"the process of the group ended with code {code}: {log.read()[-1500:].strip()}"
            _fail(outcome, current, reason, args)
    with outcome.lock:
        outcome.seconds += time.perf_counter() - begun
        outcome.parts_left -= 1
        if not outcome.parts_left:
            _say(f"{_line(outcome)}")


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
        with outcome.lock:
            outcome.processor += told.get("processor", 0.0)
            outcome.cases += told.get("cases", 0)
            outcome.passed += told.get("cases", 0)
        if "ends" not in told:
            continue
        if told["skipped"]:
            outcome.skipped.append(f"{told['ends']}: {told['skipped']}")
        elif told["error"]:
            _fail(outcome, told["ends"], told["error"], args)
        if args.verbose:
            _say(f"{outcome.number} {outcome.name}: {told['ends']} ({told['seconds']:.1f} s)")


def _fail(outcome: Outcome, case: str, error: str, args: argparse.Namespace) -> None:
    with outcome.lock:
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
        f"{outcome.number:>2}  {outcome.name:<22}{outcome.cases:>10,}{outcome.passed:>10,}"
        f"{outcome.seconds:>9.1f}{outcome.processor:>11.1f}{note}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m battery", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="Number or name; all without one.")
    parser.add_argument("--quick", action="store_true", help="A share of every group, within five minutes.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of everything that is drawn at random.")
    parser.add_argument("--case", metavar="TEXT", help="Only the cases whose names contain this.")
    parser.add_argument("--jobs", type=int, default=2, help="Processes at a time, without the fuzzers.")
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


def run_groups(args: argparse.Namespace) -> list[Outcome]:
    """Run all parts of all groups that are wanted, the long groups first."""
    outcomes = {number: Outcome(number, GROUPS[number][1]) for number in args.numbers}
    with ThreadPoolExecutor(PARTS[FUZZING]) as beside, ThreadPoolExecutor(args.jobs) as pool:
        running = []
        for number in dict.fromkeys([*(n for n in PARTS if n in outcomes), *outcomes]):
            parts = 1 if args.quick or args.case else PARTS.get(number, 1)
            outcomes[number].parts_left = parts
            place = beside if number == FUZZING and not args.quick else pool
            running += [place.submit(run_group, outcomes[number], i, parts, args) for i in range(parts)]
        for future in running:
            future.result()
    return list(outcomes.values())


def main() -> int:
    """Run what was asked for; the exit code is 1 where anything failed."""
    args = _arguments()
    if args.list:
        for number, (module, title) in GROUPS.items():
            print(f"{number:>2}  {module:<16}{title}")
        return 0
    with tempfile.TemporaryDirectory(prefix="battery-shared-") as args.shared:
        outcomes = run_groups(args)
    if args.json:
        print(json.dumps({"groups": [outcome.facts() for outcome in outcomes]}, indent=1))
    else:
        print(" #  group                      cases    passed  seconds  processor")
        print("\n".join(map(_line, outcomes)))
        for outcome in outcomes:
            for failure in outcome.failures:
                print(f"\n{outcome.number} {failure['case']}\n  {failure['error']}\n  {failure['again']}")
            for reason in dict.fromkeys(text.rpartition(": ")[2] for text in outcome.skipped):
                print(f"\n{outcome.number} skipped: {reason}")
    return int(any(outcome.failures or not outcome.cases for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
