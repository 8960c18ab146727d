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
from pathlib import Path
from typing import Any

import numpy as np

from residuum import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC, save_model, scale
from residuum.scale.cluster import local_workers

MODELS = [NSC(), CRC(), CROC(), ProCRC(), NRC(), SRC(), NRC(solver="exact"), SoftNRC()]


class Killer(threading.Thread):
    """Kills one of the workers again and again, each time when all of them are there."""

    def __init__(self, client: Any, seed: int, most: int) -> None:
        super().__init__(daemon=True)
        self.client, self.most, self.kills = client, most, 0
        self._dice, self._done = random.Random(seed), threading.Event()

    def run(self) -> None:
        nannies = self.client.cluster.workers.values()
        killed = None
        while self.kills < self.most and not self._done.wait(self._dice.uniform(0.05, 2.0)):
            processes = [nanny.process.pid if nanny.process else None for nanny in nannies]
            # A process is there from its start on, and a worker when the scheduler knows it.
            if None in processes or killed in processes or len(self.client.nthreads()) < len(processes):
                continue
            killed = self._dice.choice(processes)
            os.kill(killed, signal.SIGKILL)
            self.kills += 1

    def stop(self) -> None:
        self._done.set()
        self.join()


def main() -> None:
    import dask

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    X, y = rng.uniform(size=(2000, 64)).astype(np.float32), np.arange(2000) % 5
    queries = rng.uniform(size=(200, 64)).astype(np.float32)
    # Workers die here because they are killed, and not because of what they work on.
    dask.config.set({"distributed.scheduler.allowed-failures": 1000})
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        folder = scale.shard(X, y, home / "s", part_bytes=4 * 64 * 100).folder
        files = [save_model(model.fit(X, y), home / f"{i}.residuum") for i, model in enumerate(MODELS)]

        def answers(i: int, runner: Any, out: Path) -> tuple[np.ndarray, dict[str, bytes]]:
            model = type(MODELS[i])(**MODELS[i].get_params())
            residuals = scale.Sharded(model, runner=runner).fit(folder).residuals(queries)
            scale.answer(files[i], queries, out, rows=20, runner=runner)
            return residuals, {file.name: file.read_bytes() for file in out.iterdir()}

        alone = [answers(i, scale.Local(n_jobs=1), home / f"alone-{i}") for i in range(len(MODELS))]
        with local_workers(2) as client:
            killer, rounds, left = Killer(client, args.seed, args.kills), 0, set[str]()
            killer.start()
            while killer.kills < args.kills:
                assert killer.is_alive(), "what kills the workers has ended too early"
                rounds += 1
                for i, model in enumerate(MODELS):
                    residuals, written = answers(i, scale.Dask(client), home / f"together-{rounds}-{i}")
                    np.testing.assert_array_equal(residuals, alone[i][0], err_msg=repr(model))
                    differ = [name for name, content in alone[i][1].items() if written.get(name) != content]
                    assert not differ, f"{model!r}: other bytes in {differ}"
                    left.update(written.keys() - alone[i][1].keys())
                    print(f"{model!r}: same bits after {killer.kills} kills", flush=True)
            killer.stop()
    print(f"{killer.kills} kills, {rounds} rounds over {len(MODELS)} methods: every bit the same")
    print(f"files that killed workers began and left under names of their own: {len(left)}", *sorted(left))


if __name__ == "__main__":
    main()
