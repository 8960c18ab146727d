"""docs/measurements.md and docs/explorer.md, but for what `residuum bench` times."""

from __future__ import annotations

import re
import statistics

from stored_figures.runs import origin, stored, table


def own_tables() -> str:
    run, columns = stored("own_tables"), ("default", "--select cv", "logistic", "kNN", "boosting")
    heads = ["table", "default", "--select cv", "logistic regression", "kNN", "gradient boosting"]
    rows = [
        [
            row["table"],
            *(f"{row[c]:.1f}" for c in columns),
            f"{row[columns[1]] - max(row[c] for c in columns[2:]):+.1f}",
        ]
        for row in run["rows"]
    ]
    return table([*heads, "cv - best of the three"], rows) + "\n\n" + origin(run)


def continuum() -> str:
    run = stored("continuum")
    methods = [name for name in run["rows"][0] if name != "data"]
    rows = [
        [row["data"], *(f"{statistics.mean(row[m]):.1f} ± {statistics.stdev(row[m]):.1f}" for m in methods)]
        for row in run["rows"]
    ]
    return table(["", *methods], rows, "---") + "\n\n" + origin(run)


def calibration() -> str:
    run = stored("calibration")
    words = {
        "rule='scaled_residual', solver='exact'": ", exact, scaled residual",
        "rule='scaled_residual'": ", scaled residual",
    }
    rows = []
    for row in run["rows"]:
        name, parameters = re.fullmatch(r"(\w+)\((.*)\)", row["classifier"]).groups()
        errors = [f"{row[key]:.3f}" for key in ("ECE t = 1", "ECE ours", "ECE sklearn")]
        rows.append([name + words.get(parameters, ""), f"{row['accuracy']:.1f}", *errors])
    heads = ["", "accuracy %", "softmax of residuals", "`ConfidentClassifier`", "sklearn"]
    return table(heads, rows) + "\n\n" + origin(run)


def selection() -> str:
    run = stored("selection")
    rows = [
        [
            r["name"],
            str(r["candidates"]),
            str(r["timed by GridSearchCV"]),
            f"1/{r['GridSearchCV s'] / r['ours s']:.0f}",
            f"{r['largest difference']:.0e}" if r["largest difference"] else "0",
        ]
        for r in run["rows"]
    ]
    heads = ["", "candidates", "of these timed by GridSearchCV", "our share of its time", "scores differ by"]
    return table(heads, rows) + "\n\n" + origin(run)


def enrolment() -> str:
    run = stored("enrolment")
    names = {"NRC admm": "NRC, five steps", "NRC exact": "NRC, exact"}
    shares = {(r["model"], r["classes"]): f"1/{r['refit ms'] / r['enrol ms']:.1f}" for r in run["rows"]}
    models, classes = dict.fromkeys(model for model, _ in shares), (100, 10)
    rows = [[names.get(model, model), *(shares[model, k] for k in classes)] for model in models]
    return table(["", "K = 100", "K = 10"], rows, "---") + "\n\n" + origin(run)


def enrolment_60000() -> str:
    run = stored("enrolment_60000")
    words = {"NRC admm": "NRC, five steps,", "NRC exact": "NRC, exact,"}
    shares = [
        f"{words.get(r['model'], r['model'])} 1/{r['refit ms'] / r['enrol ms']:.1f}" for r in run["rows"]
    ]
    size = f"N = {run['atoms']:,}, D = {run['features']}, K = 10"
    return f"The same with {size}: {'; '.join(shares)}.\n\n" + origin(run)


def memory() -> str:
    run = stored("memory")
    rows = [
        [r["method"], f"{r['atoms']:,}", f"{r['kept']:.1f}", f"{r['peak']:.1f}", f"{r['predict MB']:.0f} MB"]
        for r in run["rows"]
    ]
    heads = ["", "training samples", "kept after a fit", "peak of a fit", "`predict`, 200 queries"]
    return table(heads, rows) + "\n\n" + origin(run)


def core() -> str:
    run = stored("core")
    rows = [[r["method"], f"{r['float64']:.1f}", f"{r['float32']:.1f}"] for r in run["rows"]]
    return table(["10 classes, N = 3,000, D = 500", "float64", "float32"], rows) + "\n\n" + origin(run)


def moments() -> str:
    run = stored("moments")
    rows = [[r["method"], f"{r['ratio']:.2f}"] for r in run["rows"]]
    return table(["10 classes, N = 60,000, D = 256", "float64"], rows) + "\n\n" + origin(run)


def few_right_hand_sides() -> str:
    run = stored("few_right_hand_sides")
    rows = [[f"{r['right-hand sides']:,}", f"{r['residuum']:.3g}", f"{r['SciPy']:.3g}"] for r in run["rows"]]
    return (
        table(["right-hand sides of 200 x 10", "residuum, µs each", "SciPy, µs each"], rows)
        + "\n\n"
        + origin(run)
    )


def million() -> str:
    run = stored("million_right_hand_sides")
    beyond, each = f"{run['beyond both MB']:.0f} MB", f"{run['microseconds']:.1f} microseconds"
    return (
        f"**{run['count']:,} right-hand sides** of 200 x 10: input {run['input MB']:,.0f} MB, returned\n"
        f"{run['returned MB']:.0f} MB, {beyond} beyond both at the peak (`getrusage`); {each} each,\n"
        f"{run['products']:.1f} times the product A'B; {run['converged']:,} certified.\n\n" + origin(run)
    )


def explorer() -> str:
    runs = stored("explorer_digits"), stored("explorer_mnist")
    rows = []
    for digits, mnist in zip(*(run["rows"] for run in runs), strict=True):
        cells = [f"{r['median ms']:.3g} ({r['largest ms']:.3g})" for r in (digits, mnist)]
        slider = {"exact": "exact optimum", "max_iter": "T"}.get(digits["slider"], digits["slider"])
        rows.append([f"{digits['method']}, {slider}", *cells])
    heads = [
        f"{name}, {run['atoms']:,} atoms × {run['features']}" for name, run in zip(("digits", "MNIST"), runs)
    ]
    return table(["", *heads], rows) + "\n\n" + "\n\n".join(map(origin, runs))
