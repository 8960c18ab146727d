"""docs/scale.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stored_figures.runs import DATA, origin, paragraph, stored, table


def scale_model() -> str:
    runs = [stored(f"scale_nnls_{size}") for size in ("30k", "60k", "120k", "240k")]
    atoms = [run["atoms"] for run in runs]
    passes = [run["passes"] for run in runs]
    measured = [run["sharded"]["processor"] for run in runs]
    each = [ms / count for ms, count in zip(measured, passes)]
    slope = (each[1] - each[0]) / (atoms[1] - atoms[0])
    start = each[0] - slope * atoms[0]
    model = [count * (start + slope * n) for count, n in zip(passes, atoms)]
    rows = [
        [f"{n:,}", f"{count:.1f}", f"{ms:.1f}", "fitted" if i < 2 else f"{model[i]:.1f}"]
        for i, (n, count, ms) in enumerate(zip(atoms, passes, measured))
    ]
    apart = " and ".join(f"{100 * (measured[i] / model[i] - 1):+.0f} %" for i in (2, 3))
    violation, gap = (max(run[name] for run in runs) for name in ("violation", "gap"))
    large = stored("scale_nnls_1m")
    far, whole = large["passes"] * (start + slope * large["atoms"]), 8 * 1e9 * slope / 1e3
    told = paragraph(
        f"The model is `passes x ({start:.2f} ms + {1e6 * slope:.1f} ns x N)`: the working set, and 2 D",
        "operations for each atom with the search for candidates. It was fitted to the first two rows; the",
        f"last two were held out, and their measurements are {apart} from the model. In all four the",
        f"largest violation was {violation:.1e}, the largest gap {gap:.1e};",
        f"{runs[0]['converged']} queries converged at each size. At N = 1,000,000 on two workers the model",
        f"says {far:.0f} ms; measured are {large['sharded']['processor']:.0f} with 384 queries, and more",
        "with fewer, which share each reading of the shards.",
    )
    told += "\n\n" + paragraph(
        "Extrapolated, a query over 10^9 atoms takes 8 passes or more (their number grows slowly with N)",
        f"of {1e6 * slope:.1f} s, {whole:.0f} s of processor time. The memory of 10^4 cores holds the",
        f"dictionary (1 TB, 100 MB each), and their share of a query would be {whole / 10:.0f} ms; the one",
        "driver of today takes as long as that (below). This is an extrapolation of four thousand times.",
    )
    assert len({run["converged"] for run in runs}) == 1
    return "\n\n".join([table(["N", "passes", "measured, ms", "model, ms"], rows), told, origin(runs[-1])])


def scale_runs() -> str:
    rows = [
        *(_scale_row(f"nnls_{size}", _exact_codes) for size in ("60k", "250k", "1m")),
        *(_scale_row(f"nnls_1m_{count}", _walls) for count in ("one_worker", "two_workers")),
        *(_scale_row(f"soft_{size}", _labels) for size in ("60k", "250k")),
        *(_scale_row(f"moments_{size}", _labels) for size in ("60k", "1m")),
        _scale_row("queries", _many_queries),
        _scale_row("search", _search),
    ]
    one, two, middle = (stored(f"scale_nnls_{name}") for name in ("1m_one_worker", "1m_two_workers", "250k"))
    share = two["sharded"]["wall"] / one["sharded"]["wall"]
    growth = two["sharded"]["processor"] / middle["sharded"]["processor"]
    told = paragraph(
        f"With two workers a query takes {share:.2f} of the wall time that it takes with one. From 250,000",
        f"to 1,000,000 atoms the processor time of 128 queries grows {growth:.1f} times. The driver takes",
        f"{two['sharded']['driver'] / two['passes']:.1f} ms for each query and pass.",
    )
    heads = ["command", "sharded, ms", "one process, ms", "sharded / one process", "and"]
    runs = [stored(path.stem) for path in sorted(DATA.glob("scale_*.json"))]
    dates, commits = (sorted({run[name] for run in runs}) for name in ("date", "commit"))
    loads = [run["load_average"][0] for run in runs]
    origins = (
        f"*From {dates[0]} to {dates[-1]}, commits {', '.join(commits)}, 2 cores"
        f" ({runs[0]['machine']['cpu']}), load average {min(loads)} to {max(loads)}.*"
    )
    return "\n\n".join([table(heads, rows, "---"), origins, told])


def _scale_row(name: str, told: Callable[[dict[str, Any]], str]) -> list[str]:
    run = stored(f"scale_{name}")
    ours = run.get("sharded") or run["cluster"]
    alone = run.get("one process") or run.get("one process by codes")
    beside = (
        [_milliseconds(alone["processor"]), f"{ours['processor'] / alone['processor']:.2g}"]
        if alone
        else ["", ""]
    )
    command = run["command"].partition("scale.py ")[2]
    return [f"`{command}`", _milliseconds(ours["processor"]), *beside, told(run)]


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _exact_codes(run: dict[str, Any]) -> str:
    parts = [
        f"{run['passes']:.1f} passes, at most {run['most passes']}",
        f"violation {run['violation']:.1e}",
        f"the same supports in {run['same supports']} of {run['queries']}, codes to {run['codes apart']:.1e}",
    ]
    if "kB up" in run:
        parts.append(f"{run['kB down']:.0f} kB down and {run['kB up']:.0f} kB up per query")
        parts.append(f"{max(run['largest memory of workers, MB'])} MB per worker")
    return "; ".join(parts)


def _walls(run: dict[str, Any]) -> str:
    return (
        f"wall time {run['sharded']['wall']:.1f} ms, of which the driver takes {run['sharded']['driver']:.1f}"
    )


def _labels(run: dict[str, Any]) -> str:
    if "passes" not in run:
        return f"the same labels as in float64 for {run['same labels as float64']} of {run['queries']}"
    first = f"of the first 16 queries {run['passes']:.0f} passes and a gap of {run['gap']:.1e}"
    return f"the same labels for {run['same labels']} of {run['queries']}; {first}"


def _many_queries(run: dict[str, Any]) -> str:
    walls = f"{run['cluster']['wall']:.2f} against {run['one process']['wall']:.2f} ms"
    moved = run["bytes that workers sent per query, by Dask's count"]
    assert run["same bytes in 25 parts"]
    return f"wall time {walls}; {moved:.1f} bytes per query between workers; the same bytes in all 25 parts"


def _search(run: dict[str, Any]) -> str:
    assert run["same scores"]
    return "45 fits on the digits, two new workers; the same scores"
