"""docs/reproduction.md: benchmarks/usps_question.py and benchmarks/yale_question.py."""

from __future__ import annotations

import statistics
from typing import Any

from stored_figures.runs import origin, paragraph, stored, table


def _question(name: str, paper: list[str]) -> str:
    """One row for every n and preparation, after the row of the paper where it has the column's method."""
    run = stored(name)
    columns = list(run["rows"][0]["accuracy %"])
    rows = []
    for n in dict.fromkeys(row["per class"] for row in run["rows"]):
        if paper:
            rows.append([str(n), "paper", *(str(run["paper"][str(n)].get(p, "")) for p in paper)])
        for row in (row for row in run["rows"] if row["per class"] == n):
            means = [f"{statistics.mean(row['accuracy %'][column]):.2f}" for column in columns]
            rows.append([str(n), row["preparation"], *means])
    return table(["n", "preparation", *columns], rows, "---") + "\n\n" + origin(run)


def _means(run: dict[str, Any], per_class: int, preparation: str) -> dict[str, float]:
    row = next(r for r in run["rows"] if (r["per class"], r["preparation"]) == (per_class, preparation))
    return {column: statistics.mean(values) for column, values in row["accuracy %"].items()}


def usps_rivals() -> str:
    run = stored("usps_rivals")
    sizes = list(dict.fromkeys(row["per class"] for row in run["rows"]))
    gains = []
    for method in ("NSC", "CRC", "CROC", "ProCRC"):
        signed, low = (
            [_means(run, n, f"values in {ends}, PCA 100")[method] for n in sizes]
            for ends in ("[-1, 1]", "[0, 1]")
        )
        gains.append(f"{method} {' and '.join(f'{a - b:+.1f}' for a, b in zip(signed, low, strict=True))}")
    said = paragraph(
        f"From −1 to 1 less from 0 to 1, in points at n = {' and '.join(map(str, sizes))}:",
        f"{'; '.join(gains)}.".replace("-", "−"),
    )
    return _question("usps_rivals", ["NSC", "CRC", "CROC", "ProCRC"]) + "\n\n" + said


def usps_preparations() -> str:
    run = stored("usps_preparations")
    best, name, column = max(
        (statistics.mean(values), row["preparation"], column)
        for row in run["rows"]
        for column, values in row["accuracy %"].items()
        if column in ("T = 5", "T = 16..20", "exact")
    )
    lacks = run["paper"][str(run["rows"][0]["per class"])]["NRC"] - best
    said = f"The highest figure of NRC is {best:.2f} ({name}, {column}), {lacks:.1f} below the paper's."
    return _question("usps_preparations", ["NRC", "NRC", "NRC", "CRC", "SRC", "NSC"]) + "\n\n" + said


def usps_constraints() -> str:
    run = stored("usps_constraints")
    (row,) = run["rows"]
    lines = [[code, f"{statistics.mean(values):.2f}"] for code, values in row["accuracy %"].items()]
    means = _means(run, row["per class"], row["preparation"])
    plain, best = means["c ≥ 0"], max(means, key=lambda code: means[code])
    lacks = run["paper"][str(row["per class"])]["NRC"] - plain
    said = paragraph(
        f"The best of them, {best}, makes up for {means[best] - plain:.1f} of the {lacks:.1f} points that",
        "c ≥ 0 alone lacks.",
    )
    return table(["code", "accuracy %"], lines) + "\n\n" + origin(run) + "\n\n" + said


def usps_svm() -> str:
    run = stored("usps_svm")
    heads, rows, said = list(run["rows"][0]["accuracy %"]), [], []
    for row in run["rows"]:
        n, paper = row["per class"], run["paper"][str(row["per class"])]["SVM"]
        means = [statistics.mean(values) for values in row["accuracy %"].values()]
        rows.append([str(n), *(f"{mean:.1f}" for mean in means), str(paper)])
        said.append(f"{means[1] - means[0]:.1f} of {paper - means[0]:.1f} points at n = {n}")
    text = paragraph(f"Pairing one class with one other brings {' and '.join(said)}.")
    return "\n\n".join([table(["n", *heads, "paper"], rows), text, origin(run)])


def usps_fixed() -> str:
    (method,) = (m for m in stored("usps_fixed")["rows"] if m["method"] == "ProCRC")
    means, setting = max(
        (([statistics.mean(trials) for trials in s["accuracy %"]], s["setting"]) for s in method["settings"]),
        key=lambda found: statistics.mean(found[0]),
    )
    said = f"The one setting of ProCRC with the highest mean, {_words(setting)}, has {_row(means)}."
    return _fixed("usps_fixed") + "\n\n" + said


def yale_fixed() -> str:
    return _fixed("yale_fixed")


def _fixed(name: str) -> str:
    """Of every method, the setting whose worst row is nearest to the paper, and how far that row is."""
    run = stored(name)
    rows = []
    for method in run["rows"]:
        paper = [row[method["method"]] for row in run["paper"].values()]
        far, means, setting = min(
            (
                (max(abs(m - p) for m, p in zip(means, paper, strict=True)), means, setting["setting"])
                for setting in method["settings"]
                for means in [[statistics.mean(trials) for trials in setting["accuracy %"]]]
            ),
            key=lambda found: found[0],
        )
        rows.append([method["method"], _words(setting), _row(means), _row(paper), f"{far:.1f}"])
    heads = ["method", "setting", " / ".join(run["paper"]), "paper", "largest difference"]
    return table(heads, rows, "---") + "\n\n" + origin(run)


def yale_fixed_ranges() -> str:
    run = stored("yale_fixed")
    found = {
        method["method"]: [
            (setting["setting"], [statistics.mean(trials) for trials in setting["accuracy %"]])
            for setting in method["settings"]
        ]
        for method in run["rows"]
    }
    small = [
        means
        for setting, means in found["CRC"]
        if setting["rule"] == "scaled_residual" and setting["l2"] < 0.011
    ]
    differ = max(max(row) - min(row) for row in zip(*small, strict=True))
    paper = [row["NSC"] for row in run["paper"].values()]
    near = [
        means[-1] - means[0]
        for _, means in found["NSC"]
        if max(abs(m - p) for m, p in zip(means, paper, strict=True)) < 4
    ]
    return (
        paragraph(
            f"- **CRC** with the scaled residual is the same to {differ:.1f} points for all {len(small)}",
            "ridges from 1e-6 to 0.01, between which lies λ = 0.001·N/700 of the authors' scripts.",
        )
        + "\n"
        + paragraph(
            f"- **NSC** rises from d = 84 to 300 by {paper[-1] - paper[0]:.1f} points in the paper, and by",
            f"{min(near):.1f} to {max(near):.1f} with the {len(near)} of {len(found['NSC'])} settings that",
            "are less than 4 points from the paper in every row.",
        )
    )


def _words(setting: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} = {value:.3g}" if isinstance(value, float | int) else value.replace("_", " ")
        for key, value in setting.items()
    )


def _row(values: list[float]) -> str:
    return " / ".join(f"{value:.1f}" for value in values)
