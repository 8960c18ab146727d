"""Dictionaries in shards and many queries on real Dask clusters, whose workers are killed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import residuum
from residuum import CRC, NRC, NRCCV, SoftNRC, save_model, scale
from residuum.cli.main import main
from residuum.errors import DataError
from residuum.problem import dense
from residuum.scale.cluster import connected
from residuum.scale.runner import ClusterError

distributed = pytest.importorskip("distributed")


def samples():
    rng = np.random.default_rng(1)
    centres = rng.uniform(size=(3, 16))
    y = np.arange(150) % 3
    X = centres[y] + rng.uniform(size=(150, 16))
    queries = centres[np.arange(40) % 3] + rng.uniform(size=(40, 16))
    return X.astype(np.float32), y, queries.astype(np.float32)


@pytest.fixture(scope="module")
def cluster():
    with connected("local:2") as runner:
        yield runner.client


def test_cross_validation_through_joblib_has_the_same_scores(cluster):
    """GridSearchCV runs on the workers; our own searches share arrays, and stay in this process."""
    X, y, _ = samples()
    grid = {"rho": [0.1, 1.0], "max_iter": [3, 5]}
    alone = GridSearchCV(NRC(), grid, cv=3).fit(X, y).cv_results_["mean_test_score"]
    search = NRCCV(rhos=grid["rho"], max_iters=grid["max_iter"], cv=3, n_jobs=2)
    ours = clone(search).fit(X, y).cv_results_["mean_test_score"]
    with parallel_config("dask"):
        there = GridSearchCV(NRC(), grid, cv=3, n_jobs=-1).fit(X, y).cv_results_["mean_test_score"]
        np.testing.assert_array_equal(clone(search).fit(X, y).cv_results_["mean_test_score"], ours)
    np.testing.assert_array_equal(there, alone)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    X, y, _ = samples()
    return scale.shard(X, y, tmp_path_factory.mktemp("shards") / "s", part_bytes=4 * 16 * 20).folder


def kill_a_worker(client):
    """SIGKILL one worker."""
    pids = client.run(os.getpid)
    address = sorted(pids)[0]
    os.kill(pids[address], signal.SIGKILL)


class Killing(scale.Dask):
    """Kills a worker in the middle of chosen passes."""

    def __init__(self, client, moments):
        super().__init__(client)
        self.moments, self.passes = moments, 0

    def map(self, function, parts, *common):
        self.passes += 1
        kill = self.passes in self.moments
        found = super().map(function, parts, *common)
        if kill and len(parts) > 1:
            kill_a_worker(self.client)
        yield from found


@pytest.mark.parametrize("model", [CRC(), NRC(), NRC(solver="exact"), SoftNRC()], ids=repr)
def test_a_cluster_and_a_killed_worker_change_no_bit(model, cluster, folder):
    _, _, queries = samples()
    alone = scale.Sharded(model, runner=scale.Local(n_jobs=1)).fit(folder)
    # A new worker takes seconds to start, so one method stands for all here; kill_workers.py takes them all.
    runner = Killing(cluster, {3} if getattr(model, "solver", "") == "exact" else set())
    together = scale.Sharded(model, runner=runner, batch=30).fit(folder)
    np.testing.assert_array_equal(together.residuals(queries), alone.residuals(queries))
    assert runner.passes >= max(runner.moments, default=0)
    a, b = alone.solve(queries[:5]), together.solve(queries[:5])
    np.testing.assert_array_equal(a.gap, b.gap)
    np.testing.assert_array_equal(dense(a.codes), dense(b.codes))


def test_many_queries_on_a_cluster_with_a_killed_worker(cluster, tmp_path):
    X, y, queries = samples()
    model = save_model(SoftNRC().fit(X, y), tmp_path / "m.residuum")
    np.save(tmp_path / "q.npy", queries)
    alone = scale.answer(model, tmp_path / "q.npy", tmp_path / "alone", rows=5, runner=scale.Local(n_jobs=1))
    together = scale.answer(
        model, tmp_path / "q.npy", tmp_path / "together", rows=5, runner=Killing(cluster, {1})
    )
    assert len(list(alone.glob("*.csv"))) == 8
    for file in alone.iterdir():
        assert (together / file.name).read_bytes() == file.read_bytes()
    assert not list(together.glob(".*"))


def die(part):
    """Kill the worker that works on part 1, as the kernel does when memory is short."""
    if part == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def failures(dask_scheduler, allowed):
    dask_scheduler.allowed_failures, before = allowed, dask_scheduler.allowed_failures
    return before


def test_a_part_that_kills_its_workers_is_named(cluster):
    before = cluster.run_on_scheduler(failures, allowed=0)
    try:
        with pytest.raises(ClusterError, match=r"again and again while they had 1 to work on\. .* memory"):
            list(scale.Dask(cluster).map(die, [1]))
    finally:
        cluster.run_on_scheduler(failures, allowed=before)


def test_a_worker_that_is_lost_twice_is_not_given_up(cluster):
    """Dask closes a worker for good that is not there 15 s after it was lost, though it is starting again."""
    import dask
    from dask.utils import parse_timedelta

    assert parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout")) > 24 * 3600


def test_a_harmed_shard_is_named_by_the_worker(cluster, tmp_path):
    X, y, queries = samples()
    scale.shard(X, y, tmp_path / "s", part_bytes=4 * 16 * 50)
    model = scale.Sharded(NRC(solver="exact"), runner=scale.Dask(cluster, memory=1)).fit(tmp_path / "s")
    content = bytearray((tmp_path / "s" / "00001.npy").read_bytes())
    content[-1] ^= 64
    (tmp_path / "s" / "00001.npy").write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"00001\.npy is damaged"):
        model.predict(queries)
    (tmp_path / "s" / "00001.npy").unlink()
    with pytest.raises(DataError, match=r"00001\.npy cannot be read"):
        model.predict(queries)


def test_a_file_that_a_worker_does_not_see_is_named(cluster, tmp_path):
    with pytest.raises(ClusterError, match=r"No such file or directory: .*none\.npy'\. Workers must see"):
        list(scale.Dask(cluster).map(Path.read_bytes, [tmp_path / "none.npy"]))


def test_a_client_that_has_given_up_its_scheduler_is_one_clear_error(cluster):
    with distributed.Client(cluster.scheduler.address) as client:
        client.close()
        with pytest.raises(ClusterError, match="connection to the Dask scheduler was lost"):
            list(scale.Dask(client).map(abs, [-1]))


def test_the_address_of_a_scheduler_leads_to_its_workers(cluster):
    with connected(cluster.scheduler.address, memory="1MB") as runner:
        assert list(runner.map(abs, range(-3, 0))) == [3, 2, 1]
        assert sorted(runner.client.nthreads()) == sorted(cluster.nthreads())


def test_a_client_of_another_version_is_told_so_by_the_worker(cluster, monkeypatch):
    monkeypatch.setattr(residuum, "__version__", "0.0.1")
    with pytest.raises(ClusterError, match=r"The worker tcp://.* has residuum .* and not 0\.0\.1"):
        list(scale.Dask(cluster).map(abs, [-1]))


@pytest.fixture
def started(tmp_path):
    """Starts a scheduler and workers by their command line; ends them all."""
    running = []

    def start(*arguments, source=None):
        source = source or Path(residuum.__file__).parents[1]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=tmp_path,
            )
        )

    yield start
    for process in reversed(running):
        process.terminate()
    for process in running:
        process.wait()


def scheduler(start, tmp_path):
    file = str(tmp_path / "scheduler.json")
    start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", file)
    return file


def test_the_command_on_a_cluster_started_by_command_line(started, tmp_path, capsys):
    X, y, queries = samples()
    file = scheduler(started, tmp_path)
    for _ in range(2):
        started("worker", "--nthreads", "1", "--no-dashboard", "--scheduler-file", file)
    with distributed.Client(scheduler_file=file) as client:
        client.wait_for_workers(2)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    assert main(["shard", f"{tmp_path}/train.npz", "--out", f"{tmp_path}/s", "--part-size", "2kB"]) == 0
    assert (
        main(["fit", f"{tmp_path}/s", "--method", "NRC", "--set", "solver=exact", "--out", f"{tmp_path}/m"])
        == 0
    )
    (tmp_path / "new").mkdir()
    for i in range(2):
        np.save(tmp_path / "new" / f"{i}.npy", queries[20 * i : 20 * i + 20])
    for name, extra in (("alone", []), ("together", ["--cluster", file])):
        assert (
            main(["predict", f"{tmp_path}/m", f"{tmp_path}/new", "--out", f"{tmp_path}/{name}", *extra]) == 0
        )
    for part in ("00000.csv", "00001.csv"):
        assert (tmp_path / "alone" / part).read_bytes() == (tmp_path / "together" / part).read_bytes()
    expected = NRC(solver="exact").fit(X, y).predict(queries[:20])
    rows = (tmp_path / "together" / "00000.csv").read_text().split()[1:]
    assert [int(row.split(",")[1]) for row in rows] == expected.tolist()


def test_other_versions_on_a_worker_are_one_clear_error(started, tmp_path):
    X, y, _ = samples()
    other = tmp_path / "other"
    shutil.copytree(
        Path(residuum.__file__).parent, other / "residuum", ignore=shutil.ignore_patterns("__pycache__")
    )
    init = other / "residuum" / "__init__.py"
    init.write_text(init.read_text().replace(residuum.__version__, "0.0.1"))
    file = scheduler(started, tmp_path)
    started("worker", "--nthreads", "1", "--no-dashboard", "--scheduler-file", file, source=other)
    with distributed.Client(scheduler_file=file) as client:
        client.wait_for_workers(1)
        shards = scale.shard(X, y, tmp_path / "s")
        with pytest.raises(ClusterError, match=r"residuum 0\.0\.1 and not"):
            scale.Sharded(CRC(), runner=scale.Dask(client)).fit(shards)


def test_wrong_clusters_are_refused(tmp_path, capsys):
    X, y, queries = samples()
    model = save_model(CRC().fit(X, y), tmp_path / "m.residuum")
    np.save(tmp_path / "q.npy", queries)
    for where, code in (("nowhere", 2), ("local:none", 2), (f"{tmp_path}/no.json", 2), ("host:port", 1)):
        command = ["predict", str(model), f"{tmp_path}/q.npy", "--out", f"{tmp_path}/out", "--cluster", where]
        assert main(command) == code
        assert "--cluster" in capsys.readouterr().err
    assert main(["predict", str(model), f"{tmp_path}/q.npy", "--cluster", "local"]) == 2
