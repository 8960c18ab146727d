"""Dictionaries in shards against one process that holds everything; many queries on a cluster.

    OMP_NUM_THREADS=1 python benchmarks/scale.py nnls --atoms 1000000 --workers 2
    OMP_NUM_THREADS=1 python benchmarks/scale.py soft --atoms 60000
    OMP_NUM_THREADS=1 python benchmarks/scale.py moments --atoms 60000
    OMP_NUM_THREADS=1 python benchmarks/scale.py search --atoms 10 --workers 2
    OMP_NUM_THREADS=1 python benchmarks/scale.py queries --method NRC --atoms 5000 --queries 12000 --workers 2

Atoms are MNIST digits (mnist.npz in the folder RESIDUUM_DATA, else random mixtures) of 16 x 16 pixels under
random affine deformations. Processor time of this process and of the workers, in one run; --workers 0 stands
for threads of this process. --json FILE keeps the figures (`stored`).
"""

from __future__ import annotations

import argparse
import os
import pickle
import resource
import tempfile
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

# Worker processes import this file, so it loads no more than a worker needs: other names come on first use.
import residuum
from residuum import scale

SIDE = 16
METHODS = {"CRC": "CRC", "NRC": "NRC", "exact": "NRC", "SoftNRC": "SoftNRC"}  # of queries


def digits(n: int, seed: int, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Deformed MNIST digits as float32 rows of 256 pixels, and their labels."""
    home = Path(os.environ.get("RESIDUUM_DATA", "."))
    if not (home / "mnist.npz").is_file():
        from core import mixtures

        X, y = mixtures(n, SIDE * SIDE, 10, seed=seed)
        return X.astype(np.float32), y
    with np.load(home / "mnist.npz") as file:
        images, labels = file[f"x_{part}"], file[f"y_{part}"]
    rng = np.random.default_rng(seed)
    chosen = np.arange(n) % len(images)
    out = np.empty((n, SIDE * SIDE), np.float32)
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, SIDE)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    for first in range(0, n, 4096):
        some = images[chosen[first : first + 4096]].astype(np.float32)
        angle, shear = rng.normal(scale=0.12, size=(2, len(some)))
        scales = np.exp(rng.normal(scale=0.08, size=(len(some), 2)))
        turn = np.stack([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
        turn = turn * scales[:, None]
        turn[:, 0, 1] += shear
        at = grid @ turn.transpose(0, 2, 1) + rng.normal(scale=0.05, size=(len(some), 1, 2))
        out[first : first + 4096] = bilinear(some, 13.5 + 13.5 * np.clip(at, -0.999, 0.999))
    return out + np.float32(1e-3), labels[chosen].astype(np.int64)


def bilinear(images: np.ndarray, at: np.ndarray) -> np.ndarray:
    low = np.floor(at).astype(int)
    row, column = (at - low)[..., 0], (at - low)[..., 1]
    which = np.arange(len(images))[:, None]
    i, j = low[..., 0], low[..., 1]
    top = images[which, i, j] * (1 - column) + images[which, i, j + 1] * column
    below = images[which, i + 1, j] * (1 - column) + images[which, i + 1, j + 1] * column
    return (top * (1 - row) + below * row).astype(np.float32)


def worker_time() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def worker_memory() -> float:
    """Largest resident memory so far, in MB; ru_maxrss would also count the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def worker_traffic(dask_worker) -> int:
    return dask_worker.transfer_outgoing_bytes_total


class Counting:
    """A runner that counts the bytes that go to the workers and come back, as they are pickled."""

    def __init__(self, runner, n_workers: int) -> None:
        self.runner, self.n_workers, self.down, self.up = runner, n_workers, 0, 0

    def map(self, function, parts, *common):
        # To the scheduler, to the worker that opens them, and from there to the others.
        self.down += len(pickle.dumps(common)) * (self.n_workers + 1) + 2 * len(pickle.dumps(parts))
        for found in self.runner.map(function, parts, *common):
            self.up += len(pickle.dumps(found))
            yield found


class Meter:
    """Processor time of this process and of the workers, kept by name in milliseconds."""

    def __init__(self, client, figures: dict) -> None:
        self.client, self.figures = client, figures

    def alone(self):
        """The same without workers."""
        return Meter(None, self.figures)

    def ratio(self, one: str, other: str) -> None:
        found = self.figures[one]["processor"] / self.figures[other]["processor"]
        self.tell(f"{one} / {other}", found, f"{found:.3f}")

    def tell(self, name: str, value, text: str = "") -> None:
        self.figures[name] = value
        print(f"{name}: {text or value}")

    def workers(self, function):
        return [] if self.client is None else list(self.client.run(function).values())

    @contextmanager
    def measure(self, name: str, n_queries: int = 1):
        wall, own, theirs = time.perf_counter(), time.process_time(), sum(self.workers(worker_time))
        yield
        own, theirs = time.process_time() - own, sum(self.workers(worker_time)) - theirs
        wall = time.perf_counter() - wall
        kept = {"processor": own + theirs, "driver": own, "wall": wall}
        kept = {kind: 1e3 * seconds / n_queries for kind, seconds in kept.items()}
        self.figures[name] = kept
        print(
            f"{name:34}{kept['processor']:10.2f} ms processor "
            f"(driver {kept['driver']:.2f}), {kept['wall']:10.2f} ms wall"
        )


def nnls(args, folder, X, y, Q, runner, meter) -> None:
    runner = Counting(runner, args.workers)
    sharded = scale.Sharded(residuum.NRC(solver="exact", n_jobs=1), runner=runner, batch=args.batch)
    with meter.measure("sharded fit"):
        sharded.fit(folder)
    sharded.predict(Q[:2])  # compiles, and verifies checksums once
    runner.down = runner.up = 0
    with meter.measure("sharded", len(Q)):
        ours = sharded.solve(Q)
    tell_certificate(meter, ours)
    if meter.client is not None:
        meter.tell("largest memory of workers, MB", [round(m) for m in meter.workers(worker_memory)])
        meter.tell("kB down", runner.down / len(Q) / 1e3)
        meter.tell("kB up", runner.up / len(Q) / 1e3)
        meter.client.shutdown()
    if args.alone:
        array = residuum.NRC(solver="exact", n_jobs=1)
        with meter.alone().measure("one process fit"):
            array.fit(X, y)
        array.predict(Q[:2])
        with meter.alone().measure("one process", len(Q)):
            theirs = array.solve(Q)
        same = sum(
            np.array_equal(a.indices, b.indices) for a, b in zip(ours.codes, theirs.codes, strict=True)
        )
        meter.tell("same supports", same)
        meter.tell("codes apart", float(np.abs(ours.codes - theirs.codes).max()))
        meter.ratio("sharded", "one process")


def tell_certificate(meter, solution) -> None:
    meter.tell("passes", float(solution.n_iter.mean()))
    meter.tell("most passes", int(solution.n_iter.max()))
    meter.tell("violation", float(solution.violation.max()))
    meter.tell("gap", float(solution.gap.max()))
    meter.tell("converged", f"{solution.converged.sum()} of {len(solution.converged)}")


def soft(args, folder, X, y, Q, runner, meter) -> None:
    sharded = scale.Sharded(residuum.SoftNRC(tol=1e-6), runner=runner, batch=args.batch)
    with meter.measure("sharded fit"):
        sharded.fit(folder)
    sharded.predict(Q[:2])  # compiles, and verifies checksums once
    with meter.measure("sharded", len(Q)):
        ours = sharded.predict(Q)
    if args.alone:
        array = residuum.SoftNRC(tol=1e-6, n_jobs=1)
        with meter.alone().measure("one process fit"):
            array.fit(X, y)
        array.predict(Q[:2])
        with meter.alone().measure("one process", len(Q)):
            theirs = array.predict(Q)
        meter.tell("same labels", int((ours == theirs).sum()))
        meter.ratio("sharded", "one process")
    tell_certificate(meter, sharded.solve(Q[:16]))


def moments(args, folder, X, y, Q, runner, meter) -> None:
    sharded = scale.Sharded(residuum.CRC(), runner=runner)
    with meter.measure("sharded fit"):
        sharded.fit(folder)
    with meter.measure("sharded", len(Q)):
        ours = sharded.predict(Q)
    if args.alone:
        array = residuum.CRC().fit(X.astype(np.float64), y)
        assert array.solver_.uses_moments
        meter.tell("same labels as float64", int((ours == array.predict(Q.astype(np.float64))).sum()))
        array.solver_.uses_moments = False
        array.solver_.__dict__.pop("_form", None)
        with meter.alone().measure("one process by codes", len(Q)):
            array.predict(Q.astype(np.float64))
        meter.ratio("sharded", "one process by codes")


def queries(args, folder, X, y, Q, runner, meter) -> None:
    place = Path(folder).parent
    np.save(place / "q.npy", Q)
    exact = {"solver": "exact"} if args.method == "exact" else {}
    fitted = getattr(residuum, METHODS[args.method])(**exact).fit(X, y)  # OMP_NUM_THREADS=1: one thread
    model = residuum.save_model(fitted, place / "m.residuum")
    for name, where in (("one process", scale.Local(n_jobs=1)), ("cluster", runner)):
        if name == "cluster" and meter.client is not None:
            scale.answer(model, Q[:1], place / "warm", runner=where)
        before = sum(meter.workers(worker_traffic))
        with (meter if name == "cluster" else meter.alone()).measure(name, len(Q)):
            scale.answer(model, place / "q.npy", place / name, rows=args.batch, runner=where)
        if meter.client is not None and name == "cluster":
            moved = sum(meter.workers(worker_traffic)) - before
            meter.tell("bytes that workers sent per query, by Dask's count", moved / len(Q))
    files = sorted(path.name for path in (place / "cluster").glob("*.csv"))
    same = all(
        (place / "cluster" / f).read_bytes() == (place / "one process" / f).read_bytes() for f in files
    )
    meter.tell(f"same bytes in {len(files)} parts", same)


def search(args, folder, X, y, Q, runner, meter) -> None:
    """GridSearchCV on the bundled digits, here and by joblib's backend for Dask."""
    from joblib import parallel_config
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV

    X, y = load_digits(return_X_y=True)
    grid = {"rho": [0.1, 1.0, 10.0], "max_iter": [3, 5, 10]}
    here = GridSearchCV(residuum.NRC(n_jobs=1), grid, cv=5)
    there = GridSearchCV(residuum.NRC(n_jobs=1), grid, cv=5, n_jobs=-1)
    with meter.alone().measure("one process"):
        here.fit(X, y)
    with meter.measure("cluster"), parallel_config("dask"):
        there.fit(X, y)
    same = np.array_equal(here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"])
    meter.tell("same scores", same)


def main() -> None:
    from stored import add_option, store

    from residuum.scale.cluster import local_workers

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["nnls", "soft", "moments", "queries", "search"])
    parser.add_argument("--method", choices=list(METHODS), default="SoftNRC", help="of queries")
    parser.add_argument("--atoms", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=96)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--memory", default=None, help="bytes of shards that each worker keeps")
    parser.add_argument("--no-alone", dest="alone", action="store_false", help="leave out the one process")
    add_option(parser)
    args = parser.parse_args()
    figures: dict = {"what": args.what, "atoms": args.atoms, "queries": args.queries, "workers": args.workers}
    X, y = digits(args.atoms, 1, "train")
    Q, _ = digits(args.queries, 2, "test")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shards"
        if args.what not in ("queries", "search"):
            with Meter(None, figures).measure("shard"):
                shards = scale.shard(X, y, folder)
            print(f"{args.atoms} x {X.shape[1]} atoms in {len(shards.shards)} shards, {len(Q)} queries")
        with local_workers(args.workers) if args.workers else nullcontext() as client:
            memory = args.memory
            runner = scale.Dask(client, memory=memory) if client else scale.Local(n_jobs=1, memory=memory)
            globals()[args.what](args, folder, X, y, Q, runner, Meter(client, figures))
        store(args.json, figures)


if __name__ == "__main__":
    main()
