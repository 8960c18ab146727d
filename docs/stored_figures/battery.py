"""docs/battery.md: the table that `python -m battery` prints."""

from __future__ import annotations

from stored_figures.runs import origin, stored, table


def battery_run() -> str:
    run = stored("battery")
    heads = ["#", "group", "cases", "passed", "seconds", "processor"]
    rows = [
        [
            str(group["number"]),
            group["name"],
            *(f"{group[name]:,.0f}" for name in ("cases", "passed", "seconds", "processor")),
        ]
        for group in run["groups"]
    ]
    failed = sum(len(group["failures"]) for group in run["groups"])
    skipped = sum(len(group["skipped"]) for group in run["groups"])
    cases = sum(group["cases"] for group in run["groups"])
    told = f"{cases:,} cases, {failed or 'none'} failed, {skipped or 'none'} skipped."
    return "\n\n".join([table(heads, rows, "---"), told, origin(run)])
