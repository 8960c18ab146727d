"""Kill workers with SIGKILL at random moments, over all methods, and compare every bit with one process.

OMP_NUM_THREADS=1 python tests/kill_workers.py --kills 20
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

from residuum import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC, save_model, scale


def main() -> None:
    import dask
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    rng = np.random.default_rng(args.seed)
    X, y = rng.uniform(size=(2000, 64)).astype(np.float32), np.arange(2000) % 5
    queries = rng.uniform(size=(200, 64)).astype(np.float32)
    models = [NSC(), CRC(), CROC(), ProCRC(), NRC(), SRC(), NRC(solver="exact"), SoftNRC()]
    # Workers die here because they are killed, and not because of what they work on.
    dask.config.set({"distributed.scheduler.allowed-failures": 1000})
    with tempfile.TemporaryDirectory() as place:
        folder = scale.shard(X, y, Path(place) / "s", part_bytes=4 * 64 * 100).folder
        alone = [
            scale.Sharded(model, runner=scale.Local(n_jobs=1)).fit(folder).residuals(queries)
            for model in models
        ]
        files = [save_model(model.fit(X, y), Path(place) / f"{i}.residuum") for i, model in enumerate(models)]
        expected = [
            scale.answer(file, queries, Path(place) / f"alone-{i}", rows=20, runner=scale.Local(n_jobs=1))
            for i, file in enumerate(files)
        ]
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        with cluster, Client(cluster, direct_to_workers=True) as client:
            done, kills, rounds = threading.Event(), [], 0

            def kill() -> None:
                while not done.wait(dice.uniform(0.05, 3.0)) and len(kills) < args.kills:
                    # A worker that is killed before it has started makes its nanny give up.
                    if len(client.nthreads()) == 2:
                        with suppress(Exception):  # the worker may be gone before it is asked
                            pids = sorted(client.run(os.getpid).values())
                            os.kill(dice.choice(pids), signal.SIGKILL)
                            kills.append(1)

            killer = threading.Thread(target=kill, daemon=True)
            killer.start()
            while len(kills) < args.kills:
                rounds += 1
                for i, model in enumerate(models):
                    together = scale.Sharded(
                        type(model)(**model.get_params()), runner=scale.Dask(client)
                    ).fit(folder)
                    np.testing.assert_array_equal(together.residuals(queries), alone[i], err_msg=repr(model))
                    out = Path(place) / f"together-{rounds}-{i}"
                    scale.answer(files[i], queries, out, rows=20, runner=scale.Dask(client))
                    for file in expected[i].iterdir():
                        assert (out / file.name).read_bytes() == file.read_bytes(), (model, file.name)
                    print(f"{model!r}: same bits after {len(kills)} kills", flush=True)
            done.set()
            killer.join()
    print(f"{len(kills)} kills, {rounds} rounds over {len(models)} methods: every bit the same")


if __name__ == "__main__":
    main()
