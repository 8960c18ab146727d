"""SoftNRC over shards in both precisions, and sources of many queries that the other tests leave out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from residuum import CRC, NRC, SoftNRC, scale
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


@pytest.mark.parametrize("model", [SoftNRC(), SoftNRC(l2=1e-3), NRC()], ids=repr)
def test_no_batch_changes_a_bit(model, tmp_path):
    """Queries that end sooner leave their places in the products, which matter to some kernels."""
    X, y, _ = samples()
    queries = np.random.default_rng(5).uniform(size=(40, X.shape[1])).astype(np.float32)
    scale.shard(X, y, tmp_path)
    expected = scale.Sharded(model).fit(tmp_path).residuals(queries)
    for batch in (7, 13):
        found = scale.Sharded(model, batch=batch).fit(tmp_path).residuals(queries)
        np.testing.assert_array_equal(found, expected)


def test_float64_goes_on_where_float32_ended(tmp_path):
    """From zero on, these queries take 105 passes, and 150."""
    rng = np.random.default_rng(0)
    X, queries = (rng.uniform(size=(n, 30)).astype(np.float32) for n in (200, 40))
    scale.shard(X, np.arange(200) % 5, tmp_path)
    for l2, most in ((3e-3, 85), (1e-3, 125)):
        solution = scale.Sharded(SoftNRC(l2=l2)).fit(tmp_path).solve(queries)
        assert solution.converged.all()
        assert solution.n_iter.max() < most


def test_steps_that_change_nothing_divide_by_nothing(tmp_path):
    X, y, queries = samples()
    scale.shard(X, y, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        scale.Sharded(SoftNRC(l2=1e-9)).fit(tmp_path).residuals(queries)


def test_a_table_with_columns_in_another_order_is_read_by_their_names(tmp_path):
    X, y, queries = samples()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    model = CRC().fit(frame, y)
    expected = model.predict(pd.DataFrame(queries, columns=frame.columns)).tolist()
    table = pd.DataFrame(queries, columns=frame.columns)[frame.columns[::-1]]
    table.to_csv(tmp_path / "new.csv", index=False)
    answers = scale.answer(model, tmp_path / "new.csv", tmp_path / "answers")
    (file,) = answers.glob("*.csv")
    assert pd.read_csv(file)["label"].tolist() == expected
    table.rename(columns={"c3": "other"}).to_csv(tmp_path / "wrong.csv", index=False)
    with pytest.raises(DataFormatError, match="c3"):
        scale.answer(model, tmp_path / "wrong.csv", tmp_path / "none")


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
