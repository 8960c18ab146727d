"""What `residuum bench` and benchmarks/wide_bars.py time: README and docs/measurements.md."""

from __future__ import annotations

from stored_figures.runs import origin, stored, table


def wide_speed() -> str:
    run = stored("bench_wide")
    names = {
        "GEMM queries @ atoms.T": "GEMM queries × atoms",
        "residuum: exact": "**residuum, exact**",
        "residuum: ADMM, 5 steps": "residuum, five steps of ADMM",
        "residuum: SoftNRC, gap 1e-10": "residuum, SoftNRC to a gap of 1e-10",
        "spams": "SPAMS, positive LARS with cached Gram",
        "celer": "celer",
        "skglm": "skglm",
        "scipy": "SciPy nnls",
        "scikit-learn LassoLars": "scikit-learn LassoLars",
    }
    place = ("MNIST 300 per class", "nonnegative")
    found = {r["method"]: r for r in run["rows"] if (r["data"], r["problem"]) == place}
    rows = []
    for name, words in names.items():
        r = found[name]
        note = f" (violation {r['violation']:.0e}, gap {r['gap']:.0e}, proved)" if "gap" in r else ""
        ratio = f"{r['ratio']:,.1f}" if r["ratio"] < 100 else f"{r['ratio']:,.0f}"
        rows.append([words + note, f"{r['ms_per_query']:.3g}", ratio])
    heads = [
        f"non-negative codes, support {found['residuum: exact']['support']:.0f}",
        "ms per query",
        "GEMM = 1",
    ]
    return table(heads, rows) + "\n\n" + origin(run)


def wide_bars() -> str:
    runs = stored("wide_bars"), stored("wide_bars_large")
    rows = []
    for row in [row for run in runs for row in run["rows"]]:
        assert row["converged"] == row["queries"]
        product, ours, spams = (row["ms"].get(side) for side in ("product", "residuum", "SPAMS"))
        rows.append([
            f"{row['data']}, {row['atoms']:,} atoms", f"{product:.3g}",
            f"**{ours:.3g}** ({ours / product:.1f} products)",
            f"{spams:.3g} ({spams / ours:.1f} times ours)" if spams else "", f"{row['gap']:.0e}",
        ])  # fmt: skip
    heads = ["", "product", "residuum", "SPAMS", "largest gap"]
    return table(heads, rows) + "\n\n" + "\n\n".join(map(origin, runs))


def tall_speed() -> str:
    return _tall(
        "bench_tall",
        ("SPAMS", "SciPy", "pyMCR", "cvxopt", "pysptools", "daqp", "proxqp", "osqp", "fnnls", "jaxopt"),
    )


def tall_speed_two_threads() -> str:
    return _tall("bench_tall_two_threads", ("SPAMS", "SciPy", "cvxopt"))


def _tall(name: str, peers: tuple[str, ...]) -> str:
    run, cases = stored(name), {}
    for row in run["rows"]:
        if "us_per_rhs" in row:
            cases.setdefault(f"{row['data']}, {row['problem']}", {})[row["method"].lower()] = row[
                "us_per_rhs"
            ]
    found = [p for p in peers if any(any(m.startswith(p.lower()) for m in times) for times in cases.values())]
    rows = []
    for case, times in cases.items():
        cells = [next((_plain(us) for m, us in times.items() if m.startswith(p.lower())), "") for p in found]
        rows.append([case, _plain(times["product a'b"]), f"**{_plain(times['residuum'])}**", *cells])
    return table(["", "A'B", "residuum", *found], rows) + "\n\n" + origin(run)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def random_problems() -> str:
    run = stored("search_least_squares")
    names = ("lies", "worse", "worse yet converged", "outside", "open")
    rows = [
        [option, *(f"{counts.get(name, 0):,}" for name in names)] for option, counts in run["options"].items()
    ]
    heads = ["option", "refuted", "above 1e-9", "of these certified", "outside", "not certified"]
    return table(heads, rows) + "\n\n" + origin(run)
