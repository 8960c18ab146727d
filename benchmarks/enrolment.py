"""Enrolling one sample against fitting anew: ``OMP_NUM_THREADS=1 python benchmarks/enrolment.py``.

Two clocks for each classifier, each comparing like with like. "ready" counts until the next query can be
coded, so it holds all the work: this is the figure to judge enrolment by. "call" counts ``fit`` and
``partial_fit`` alone. ``partial_fit`` leaves work to the next query (copying the atoms together, Cholesky
factors, Gram matrices), where it is done once for all samples enrolled until then, so its call says what one
more sample costs in a row of them and not what a single one costs. SRC, the exact NRC and SoftNRC do so in
``fit`` too, which only stores the atoms.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

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


def median_ms(work, repeats):
    times = []
    for _ in range(repeats):
        started = clock()
        work()
        times.append(clock() - started)
    return 1e3 * statistics.median(times)


def ready(model):
    """Make what the first query would make."""
    solver = model.solver_
    if hasattr(type(solver), "_prepared"):
        _ = solver._prepared
    solver.prepare()
    _ = model.dictionary_.atoms
    for name in model._solver_names:
        inverse = getattr(getattr(model, name), "_inverse", None)
        _ = getattr(inverse, "_own", None), getattr(inverse, "_factor", None)


def measure(make, X, y, repeats):
    """Milliseconds of (refit ready, enrol ready, refit call, enrol call)."""
    model = make().fit(X[1:], y[1:])
    lazy = hasattr(type(model.solver_), "_prepared")
    model.predict(X[:2])  # compiled kernels are loaded, threads are up

    def refit():
        model.fit(X, y)
        ready(model)

    refit_ready = median_ms(refit, repeats)
    refit_call = median_ms(lambda: model.fit(X, y), repeats) if lazy else refit_ready
    model.fit(X, y)
    enrol_call = median_ms(lambda: model.partial_fit(X[:1], y[:1]), repeats)
    model.fit(X, y)
    ready(model)

    def enrol():
        model.partial_fit(X[:1], y[:1])
        ready(model)

    return refit_ready, median_ms(enrol, repeats), refit_call, enrol_call


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, default=3000)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 10])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--cpu", action="store_true", help="count processor time: for a busy machine")
    options = parser.parse_args()
    if options.cpu:
        global clock
        clock = time.process_time
    for n_classes in options.classes:
        X, y = samples(options.atoms, options.features, n_classes)
        print(f"\nN={options.atoms} D={options.features} K={n_classes}, ms, median of {options.repeats}")
        print(f"{'':10}{'refit':>9}{'enrol':>9}{'ratio':>9}   {'fit call':>9}{'enrol call':>11}{'ratio':>9}")
        for name, make in MODELS.items():
            refit, enrol, fit_call, enrol_call = measure(make, X, y, options.repeats)
            only_stores = "  fit only stores the atoms" if fit_call < 0.5 * refit else ""
            print(
                f"{name:10}{refit:9.1f}{enrol:9.2f}{f'1/{refit / enrol:.0f}':>9}   "
                f"{fit_call:9.1f}{enrol_call:11.2f}{f'1/{fit_call / enrol_call:.0f}':>9}{only_stores}"
            )


if __name__ == "__main__":
    main()
