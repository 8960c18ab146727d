"""Coverage of every room by statements and by branches, from the JSON of coverage.py.

python tests/coverage_by_room.py htmlcov/coverage.json [--least 95]
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path, PurePath

COUNTED = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_room(files):
    """Room -> counts of statements and branches, and of those that were reached."""
    rooms = defaultdict(lambda: dict.fromkeys(COUNTED, 0))
    for name, content in files.items():
        inside = PurePath(name.replace("\\", "/")).parts
        inside = inside[inside.index("residuum") + 1 :]
        room = inside[0] + "/" if len(inside) > 1 else "the top"
        for count in COUNTED:
            rooms[room][count] += content["summary"][count]
    return dict(rooms)


def share(counts, kind):
    """Reached statements or branches in per cent of all."""
    whole, reached = {
        "statements": (counts["num_statements"], counts["covered_lines"]),
        "branches": (counts["num_branches"], counts["covered_branches"]),
    }[kind]
    return 100 * reached / whole if whole else 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--least", type=float, default=95.0, help="Per cent of all branches to be reached.")
    args = parser.parse_args()
    rooms = by_room(json.loads(args.file.read_text())["files"])
    total = {count: sum(room[count] for room in rooms.values()) for count in COUNTED}
    print(f"{'room':<14}{'statements':>11}{'reached':>9}{'branches':>10}{'reached':>9}")
    for name, counts in [*sorted(rooms.items()), ("all", total)]:
        statements, branches = share(counts, "statements"), share(counts, "branches")
        print(
            f"{name:<14}{counts['num_statements']:>11}{statements:>8.1f}%"
            f"{counts['num_branches']:>10}{branches:>8.1f}%"
        )
    return 0 if share(total, "branches") >= args.least else 1


if __name__ == "__main__":
    raise SystemExit(main())
