"""Enrolling one sample against fitting anew: ``OMP_NUM_THREADS=1 python benchmarks/enrolment.py``.

Two clocks for each classifier, each comparing like with like. The first counts until one query is answered,
less what the same query takes when it is asked again (median of three), so it holds all the work: this is the
figure to judge enrolment by. "call" counts ``fit`` and ``partial_fit`` alone. ``partial_fit`` leaves work to
the next query (factors, rows of Gram matrices), where it is done once for all samples enrolled until then, so
its call says what one more sample costs in a row of them and not what a single one costs. "answer" is what
one query takes when it is asked again, after the fit and after the enrolment.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from stored import add_option, store

from residuum import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC

MODELS = {
    "NSC": NSC,
    "SRC": SRC,
    "CRC": CRC,
    "CROC": CROC,
    "ProCRC": ProCRC,
    "NRC admm": NRC,
    "NRC exact": lambda: NRC(solver="exact"),
    "SoftNRC": SoftNRC,
}


def samples(n_atoms, n_features, n_classes):
    """Non-negative classes that overlap, like images."""
    rng = np.random.default_rng(0)
    centres = np.abs(rng.standard_normal((n_classes, n_features)))
    y = np.arange(n_atoms) % n_classes
    return np.abs(centres[y] + 0.5 * rng.standard_normal((n_atoms, n_features))), y


clock = time.perf_counter


def ms(work):
    started = clock()
    work()
    return 1e3 * (clock() - started)


def measure(make, X, y, n_atoms, repeats):
    """Milliseconds of (work of a refit, work of enrolling, the two calls, later answers after each)."""
    query = X[-1:]
    model = make().fit(X[:n_atoms], y[:n_atoms])
    model.predict(query)  # compiled kernels are loaded, threads are up

    def answers():
        first, *later = [ms(lambda: model.predict(query)) for _ in range(4)]
        return first, statistics.median(later)

    times = []
    for i in range(n_atoms, n_atoms + repeats):
        refit = ms(lambda: model.fit(X[:n_atoms], y[:n_atoms]))
        first, fitted = answers()
        enrol = ms(lambda i=i: model.partial_fit(X[i : i + 1], y[i : i + 1]))
        first_enrolled, enrolled = answers()
        work = refit + first - fitted, enrol + first_enrolled - enrolled
        times.append((*work, refit, enrol, fitted, enrolled))
    return [statistics.median(column) for column in zip(*times, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, default=3000)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 10])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="count processor time: for a busy machine")
    add_option(parser)
    options, kept = parser.parse_args(), []
    if options.cpu:
        global clock
        clock = time.process_time
    for n_classes in options.classes:
        X, y = samples(options.atoms + options.repeats + 1, options.features, n_classes)
        print(f"\nN={options.atoms} D={options.features} K={n_classes}, ms, median of {options.repeats}")
        heads = ("refit", "enrol", "ratio", "fit call", "enrol call", "ratio", "answer", "enrolled")
        print(" " * 10 + "".join(f"{head:>12}" for head in heads))
        for name, make in MODELS.items():
            refit, enrol, fit_call, enrol_call, fitted, enrolled = measure(
                make, X, y, options.atoms, options.repeats
            )
            ratios = (f"1/{refit / enrol:.0f}", f"1/{fit_call / enrol_call:.0f}")
            print(
                f"{name:10}{refit:12.1f}{enrol:12.2f}{ratios[0]:>12}{fit_call:12.1f}{enrol_call:12.2f}"
                f"{ratios[1]:>12}{fitted:12.2f}{enrolled:12.2f}"
            )
            kept.append({"classes": n_classes, "model": name, "refit ms": refit, "enrol ms": enrol})
    store(options.json, {"atoms": options.atoms, "features": options.features, "rows": kept})


if __name__ == "__main__":
    main()
