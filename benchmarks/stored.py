"""Store what a benchmark found, with everything that says where it comes from.

Scripts of this folder take ``--json FILE`` by `add_option` and `store`. A command that prints JSON itself is
stored by this script, which runs it, for one:

    python benchmarks/stored.py docs/data/bench_wide.json residuum bench --shape wide --json

Afterwards ``python docs/numbers_in_text.py`` writes the figures into the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from residuum.system.files import write_text
from residuum.system.json_text import to_json
from residuum.system.machine import THREAD_VARIABLES, machine_facts

ROOT = Path(__file__).parents[1]


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option ``--json``."""
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="Also write figures and machine facts here."
    )


def store(file: Path | None, content: dict[str, Any]) -> None:
    """Write a file with the command line of this process, or nothing where no file is given."""
    if file:
        words = ["python", f"benchmarks/{Path(sys.argv[0]).name}", *_without_json(sys.argv[1:])]
        write_text(file, to_json(origin(words) | content))


def origin(words: list[str]) -> dict[str, Any]:
    """Command, commit, time, load and machine."""
    settings = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    if "RESIDUUM_DATA" in os.environ:
        settings.append("RESIDUUM_DATA=folder")
    load = [round(value, 1) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {
        "command": " ".join([*settings, shlex.join(words)]),
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load_average": load,  # over 1, 5 and 15 minutes, when the run ended
        "machine": machine_facts(),
    }


def _commit() -> str:
    found = _git("rev-parse", "--short=12", "HEAD")
    changed = found != "unknown" and _git("status", "--porcelain", "src")
    return f"{found}+" if changed else found


def _without_json(words: list[str]) -> list[str]:
    words = [word for word in words if not word.startswith("--json=")]
    if "--json" not in words:
        return words
    at = words.index("--json")
    return words[:at] + words[at + 2 :]


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def main() -> None:
    """Run a command that prints JSON, and store it."""
    file, *words = sys.argv[1:]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 4):  # 4: some codes missed their tolerance, which the figures say too
        raise SystemExit(done.returncode)
    content = json.loads(done.stdout)
    machine = content.pop("machine", None)
    content.pop("folder", None)  # a place on this machine
    words[0] = Path(words[0]).name
    facts = origin(words)
    write_text(Path(file), to_json(facts | ({"machine": machine} if machine else {}) | content))


if __name__ == "__main__":
    main()
