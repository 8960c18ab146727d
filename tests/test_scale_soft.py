"""SoftNRC over shards in both precisions, and sources of many queries that the other tests leave out."""

import numpy as np
import pytest

from residuum import CRC, SoftNRC, scale
from residuum.errors import DataFormatError
from residuum.scale import soft
from residuum.scale.soft_kernels import add_positive


def samples(n=300, d=16):
    rng = np.random.default_rng(5)
    centres = rng.uniform(size=(3, d))
    y = np.arange(n) % 3
    X = centres[y] + rng.uniform(size=(n, d))
    return X.astype(np.float32), y, (centres[y[:20]] + rng.uniform(size=(20, d))).astype(np.float32)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_add_positive_vs_product(kind):
    rng = np.random.default_rng(0)
    atoms, prices = rng.normal(size=(37, 9)).astype(kind), rng.normal(size=(11, 37)).astype(kind)
    prices[3] = -1
    reach = np.ones((11, 9))
    add_positive(prices, atoms, reach)
    np.testing.assert_allclose(reach, 1 + np.maximum(prices, 0) @ atoms, rtol=1e-4, atol=1e-4)
    assert (reach[3] == 1).all()


@pytest.mark.parametrize("single_steps", [40, 1])
def test_gaps_are_those_of_the_codes_in_both_precisions(single_steps, tmp_path, monkeypatch):
    """With one step in float32 every query is solved again in float64."""
    monkeypatch.setattr(soft, "_SINGLE_STEPS", single_steps)
    X, y, queries = samples()
    sharded = scale.Sharded(SoftNRC(tol=1e-6)).fit(scale.shard(X, y, tmp_path / "s", part_bytes=4 * 16 * 70))
    found = sharded.solve(queries)
    assert found.converged.all()
    assert (found.n_iter > single_steps).all() == (single_steps == 1)
    solver = sharded.estimator_.solver_
    unit = queries.astype(np.float64) / np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
    true = solver.problem.gap(sharded.estimator_.dictionary_, unit, found.codes)
    assert (true <= 1e-6).all()
    assert (found.gap >= 0.9 * true - 1e-9).all()
    exact = SoftNRC(tol=1e-12).fit(X.astype(np.float64), y).solve(queries.astype(np.float64))
    np.testing.assert_allclose(found.codes, exact.codes, atol=2e-3)


@pytest.mark.parametrize("kind", ["zarr", "dask", "csv"])
def test_queries_from_every_source_are_answered_alike(kind, tmp_path):
    X, y, queries = samples()
    model = CRC().fit(X, y)
    expected = scale.answer(model, queries, tmp_path / "array", rows=8, what="residuals")
    if kind == "zarr":
        source = tmp_path / "q.zarr"
        array = pytest.importorskip("zarr").create_array(
            source, shape=queries.shape, chunks=(8, 16), dtype="f4"
        )
        array[:] = queries
    elif kind == "dask":
        source = pytest.importorskip("dask.array").from_array(queries, chunks=(8, 16))
    else:
        source = tmp_path / "q.csv"
        np.savetxt(source, queries, delimiter=",", header=",".join(f"f{i}" for i in range(16)), comments="")
    found = scale.answer(model, source, tmp_path / "found", rows=8, what="residuals")
    files = sorted(file.name for file in expected.glob("*.npy"))
    assert files == sorted(file.name for file in found.glob("*.npy"))
    assert len(files) == 3
    for file in files:
        np.testing.assert_allclose(np.load(found / file), np.load(expected / file), atol=1e-6)


def test_nan_in_a_dask_array_is_named_with_its_place(tmp_path):
    X, y, queries = samples()
    bad = queries.copy()
    bad[13, 2] = np.inf
    source = pytest.importorskip("dask.array").from_array(bad, chunks=(8, 16))
    with pytest.raises(DataFormatError, match=r"rows 8 to 15, row 5, column 2: inf"):
        scale.answer(CRC().fit(X, y), source, tmp_path / "out")


def test_images_are_turned_into_features_where_they_are_answered(tmp_path, capsys):
    from residuum.cli.main import main

    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 128)):
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(4):
            pixels = rng.integers(low, low + 128, size=(8, 8)).astype(np.uint8)
            pixels[: 4 if low else 8, :4] = 250  # a shape, since brightness alone is scaled away
            image.fromarray(pixels).save(tmp_path / "train" / name / f"{i}.png")
    place = str(tmp_path)
    assert main(["fit", f"{place}/train", "--method", "CRC", "--out", f"{place}/m.residuum"]) == 0
    found = scale.answer(f"{place}/m.residuum", f"{place}/train", tmp_path / "a", rows=3)
    table = [line.split(",") for f in sorted(found.glob("*.csv")) for line in f.read_text().split()[1:]]
    assert len(table) == 8
    assert [row[1] for row in table] == ["dark"] * 4 + ["light"] * 4
