"""Dictionaries in shards and many queries, without a cluster: every algorithm by threads of this process."""

import json
import subprocess
import sys
import threading
import warnings

import numpy as np
import photo_model
import pytest
from families import rank_deficient
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from residuum import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC, save_model, scale
from residuum.dictionary import unit_rows
from residuum.errors import DataError, DataFormatError, ModelFileError, UsageError
from residuum.estimators import METHODS as ALL_METHODS
from residuum.problem import dense
from residuum.scale import memory
from residuum.scale.columns import Query
from residuum.scale.runner import as_bytes
from residuum.scale.shards import open_shards

METHODS = [
    NSC(),
    SRC(),
    SRC(positive=True, l1=0.1),
    CRC(),
    CROC(),
    ProCRC(),
    NRC(),
    NRC(solver="exact"),
    SoftNRC(),
    SoftNRC(neg_weight=np.inf),
]


def names(model):
    return repr(model)


def samples(seed=0, n=90, d=12, n_classes=3):
    """Float32 samples of classes of very different sizes, and queries."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, d)) + 0.5
    sizes = rng.multinomial(n - n_classes, [0.8, 0.15, 0.05]) + 1
    y = rng.permutation(np.repeat(["cat", "dog", "eel"], sizes))
    X = centres[np.searchsorted(["cat", "dog", "eel"], y)] + rng.normal(scale=0.7, size=(n, d))
    queries = centres[rng.integers(0, n_classes, 25)] + rng.normal(scale=0.7, size=(25, d))
    return X.astype(np.float32), y, queries.astype(np.float32)


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """The same samples in shards of 7 atoms, which cut classes, of one atom, and in one shard."""
    X, y, _ = samples()
    folder = tmp_path_factory.mktemp("layouts")
    return {
        rows: scale.shard(X, y, folder / str(rows), part_bytes=4 * 12 * rows).folder for rows in (7, 1, 1000)
    }


@pytest.mark.parametrize("model", METHODS, ids=names)
@pytest.mark.parametrize("rows", [7, 1, 1000])
def test_sharded_vs_array(model, rows, layouts):
    X, y, queries = samples()
    array = type(model)(**model.get_params()).fit(X, y)
    sharded = scale.Sharded(model).fit(layouts[rows])
    assert sharded.predict(queries).tolist() == array.predict(queries).tolist()
    np.testing.assert_allclose(sharded.residuals(queries), array.residuals(queries), rtol=2e-3, atol=2e-4)
    assert sharded.score(queries, array.predict(queries)) == 1


@pytest.mark.parametrize("model", METHODS, ids=names)
def test_codes_and_certificates_vs_array(model, layouts):
    X, y, queries = samples()
    array = type(model)(**model.get_params()).fit(X, y).solve(queries)
    sharded = scale.Sharded(model).fit(layouts[7]).solve(queries)
    np.testing.assert_allclose(dense(sharded.codes), dense(array.codes), atol=2e-3)
    assert sharded.converged.all()
    if not isinstance(model, NRC) or model.solver == "exact":
        assert sharded.gap.max() <= 1e-6
    else:
        np.testing.assert_allclose(sharded.gap, array.gap, rtol=1e-3)
    if isinstance(model, SRC) or getattr(model, "solver", "") == "exact":
        assert sharded.violation.max() <= 1e-10
        assert sharded.gap.max() <= 1e-10
        assert ((dense(sharded.codes) != 0) == (dense(array.codes) != 0)).all()
        np.testing.assert_allclose(dense(sharded.codes), dense(array.codes), atol=1e-13)


@pytest.mark.parametrize("model", METHODS, ids=names)
def test_batch_threads_and_memory_change_no_bit(model, layouts):
    _, _, queries = samples()
    one = scale.Sharded(model, runner=scale.Local(n_jobs=1)).fit(layouts[7])
    other = scale.Sharded(model, runner=scale.Local(n_jobs=2, memory=1000), batch=3).fit(layouts[7])
    closed_form = isinstance(model, NSC | CRC | CROC | ProCRC)
    few = (
        queries if closed_form else queries[:11]
    )  # closed forms answer by blocks of the queries that are given
    expected = one.residuals(queries)[: len(few)]
    np.testing.assert_array_equal(other.residuals(few), expected)
    a, b = one.solve(queries[:11]), other.solve(queries[:11])
    for name in ("violation", "gap", "n_iter", "converged"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(dense(a.codes), dense(b.codes))


@pytest.mark.parametrize("model", [SRC(), NRC(solver="exact")], ids=names)
def test_the_layout_of_queries_changes_no_bit(model, layouts):
    _, _, queries = samples()
    sharded = scale.Sharded(model).fit(layouts[7])
    together = dense(sharded.solve(np.asfortranarray(queries)).codes)
    alone = np.concatenate([dense(sharded.solve(query[None].copy()).codes) for query in queries])
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("model", [SRC(), NRC(solver="exact")], ids=names)
def test_an_atom_that_leaves_the_support_at_the_end_is_certified_too(model, layouts):
    """The shards left it out, because it was in the support when they were asked."""
    sharded = scale.Sharded(model).fit(layouts[7]).estimator_
    atoms = sharded.dictionary_.atoms[:2]
    y = atoms[1].astype(np.float64)  # the residual of no code, and so far from optimal
    query = Query(0, y, y, atoms, np.arange(2), np.array([1e-16, 0.0]))
    largest, penalty = sharded.solver_._with_those_that_left(query, -1e-9, 0.5)
    excess = 1 - getattr(model, "l1", 0) / 2
    assert largest == pytest.approx(excess, abs=1e-7)
    assert penalty >= 0.5 + largest**2
    query.code = np.array([1e-16, 1e-16])
    assert sharded.solver_._with_those_that_left(query, -1e-9, 0.5) == (-1e-9, 0.5)


@pytest.mark.parametrize("model", [CRC(), NRC(solver="exact"), SoftNRC()], ids=names)
def test_explanations_vs_array(model, layouts):
    X, y, queries = samples()
    array = type(model)(**model.get_params()).fit(X, y).explain(queries[0])
    sharded = scale.Sharded(model).fit(layouts[7]).explain(queries[0])
    assert (sharded.label, sharded.runner_up, sharded.atoms_used) == (
        array.label,
        array.runner_up,
        array.atoms_used,
    )
    assert sharded.atoms[0].sample == array.atoms[0].sample
    assert sharded.atoms[0].share == pytest.approx(array.atoms[0].share, abs=1e-3)


def test_shards_are_unit_rows_sorted_by_class_with_their_samples(layouts):
    X, y, _ = samples()
    shards = open_shards(layouts[7])
    assert shards.classes.tolist() == ["cat", "dog", "eel"]
    seen = []
    for shard in shards.shards:
        atoms, numbers = shard.atoms().copy(), shard.rows()[0]
        np.testing.assert_array_equal(atoms, unit_rows(X[numbers])[0])
        labels = [shards.classes[run.label] for run in shard.runs for _ in range(run.stop - run.first)]
        assert labels == y[numbers].tolist()
        seen += labels
        assert shard.norms[0] <= np.linalg.norm(X[numbers], axis=1).min() * (1 + 1e-6)
    assert seen == sorted(y.tolist())
    order = np.argsort(y, kind="stable")
    np.testing.assert_array_equal(scale.Sharded(CRC()).fit(layouts[7]).estimator_.dictionary_.samples, order)


def test_duplicates_are_found_and_the_first_carries_the_weight(tmp_path):
    X, y, queries = samples()
    X, y = np.concatenate([X, X[::-1]]), np.concatenate([y, y[::-1]])
    shards = scale.shard(X, y, tmp_path / "twice", part_bytes=4 * 12 * 7)
    assert sum(shard.n_duplicates for shard in shards.shards) == len(X) // 2
    array = NRC(solver="exact").fit(X, y)
    sharded = scale.Sharded(NRC(solver="exact")).fit(shards)
    np.testing.assert_allclose(dense(sharded.encode(queries)), dense(array.encode(queries)), atol=1e-13)


def test_queries_that_are_zero_or_atoms(layouts):
    X, _, queries = samples()
    queries = np.concatenate([queries[:2], np.zeros((1, 12), np.float32), X[:3]])
    for model in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sharded = scale.Sharded(model).fit(layouts[7])
            assert np.isfinite(dense(sharded.encode(queries))).all()
            assert sharded.predict(queries)[2] == "cat"


def test_centred_atoms_are_certified_without_an_inner_direction(tmp_path):
    rng = np.random.default_rng(3)
    X, y, queries = rng.normal(size=(200, 10)), np.arange(200) % 4, rng.normal(size=(20, 10))
    shards = scale.shard(X.astype(np.float32), y, tmp_path / "centred", part_bytes=4 * 10 * 30)
    sharded = scale.Sharded(NRC(solver="exact")).fit(shards)
    assert not len(sharded.estimator_.dictionary_.interior)
    solution = sharded.solve(queries)
    assert solution.converged.all()
    assert solution.gap.max() <= 1e-10


def test_partial_fit_appends_a_shard_and_old_models_stay(tmp_path):
    X, y, queries = samples()
    folder = tmp_path / "grown"
    scale.shard(X[:60], y[:60], folder, part_bytes=4 * 12 * 20)
    model = scale.Sharded(NRC(solver="exact")).fit(folder)
    before, saved = model.residuals(queries), model.save_model(tmp_path / "model")
    more, labels = np.concatenate([X[60:], X[:1]]), np.concatenate([y[60:], ["fox"]])
    model.partial_fit(more, labels)
    array = NRC(solver="exact").fit(X[:60], y[:60]).partial_fit(more, labels)
    assert model.classes_.tolist() == array.classes_.tolist()
    np.testing.assert_allclose(dense(model.encode(queries)), dense(array.encode(queries)), atol=1e-13)
    np.testing.assert_array_equal(scale.load_model(saved).residuals(queries), before)
    np.testing.assert_allclose(
        scale.Sharded(CRC()).fit(folder).residuals(queries),
        CRC().fit(np.concatenate([X[:60], more]), np.concatenate([y[:60], labels])).residuals(queries),
        rtol=1e-4,
    )


@pytest.mark.parametrize("kind", ["npy", "folder", "parquet", "zarr", "dask", "csv", "npz"])
def test_every_source_gives_the_same_shards(kind, tmp_path):
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra 'tables': pyarrow")
    X, y, _ = samples()
    expected = scale.shard(X, y, tmp_path / "expected", part_bytes=700)
    labels, reading = y, None
    if kind == "npy":
        np.save(tmp_path / "X.npy", X)
        np.save(tmp_path / "y.npy", y)
        source, labels = tmp_path / "X.npy", tmp_path / "y.npy"
    elif kind == "folder":
        source = tmp_path / "parts"
        source.mkdir()
        for i in range(3):
            np.save(source / f"{i}.npy", X[30 * i : 30 * i + 30])
    elif kind == "zarr":
        source = tmp_path / "X.zarr"
        array = pytest.importorskip("zarr").create_array(source, shape=X.shape, chunks=(20, 12), dtype="f4")
        array[:] = X
    elif kind == "dask":
        source = pytest.importorskip("dask.array").from_array(X, chunks=(25, 12))
    elif kind == "npz":
        source, labels = tmp_path / "all.npz", None
        np.savez(source, X=X, y=y)
    else:
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(X.astype(np.float64)).add_prefix("f").assign(animal=y)
        source, labels, reading = tmp_path / "t.csv", None, {"label": "animal"}
        if kind == "csv":
            table.to_csv(source, index=False)
        else:
            source = tmp_path / "tables"
            source.mkdir()
            for i in range(3):
                table[30 * i : 30 * i + 30].to_parquet(source / f"{i}.parquet")
    found = scale.shard(source, labels, tmp_path / "found", part_bytes=700, reading=reading)
    assert len(found.shards) == len(expected.shards)
    for ours, theirs in zip(found.shards, expected.shards, strict=True):
        np.testing.assert_allclose(ours.atoms().copy(), theirs.atoms().copy(), atol=1e-7)
        np.testing.assert_array_equal(ours.rows(), theirs.rows())
        assert ours.runs == theirs.runs


def test_a_part_with_nan_is_named_with_its_place(tmp_path):
    X, y, _ = samples()
    (tmp_path / "parts").mkdir()
    for i in range(3):
        np.save(tmp_path / "parts" / f"{i}.npy", X[30 * i : 30 * i + 30])
    bad = X[30:60].copy()
    bad[4, 7] = np.nan
    np.save(tmp_path / "parts" / "1.npy", bad)
    with pytest.raises(DataFormatError, match=r"1\.npy, row 4, column 7: nan"):
        scale.shard(tmp_path / "parts", y, tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()
    model = CRC().fit(X, y)
    with pytest.raises(DataFormatError, match=r"1\.npy, row 4, column 7: nan"):
        scale.answer(model, tmp_path / "parts", tmp_path / "answers", runner=scale.Local(n_jobs=1))
    assert not list((tmp_path / "answers").glob("00001*"))


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "flip rows"])
@pytest.mark.parametrize("model", [CRC(l2=0.1), NRC(solver="exact"), SoftNRC(), NRC()], ids=names)
def test_a_harmed_shard_is_one_error_that_names_it(model, harm, tmp_path):
    X, y, queries = samples()
    shards = scale.shard(
        np.concatenate([X, X[:1]]), np.append(y, y[0]), tmp_path / "s", part_bytes=4 * 12 * 20
    )
    sharded = scale.Sharded(model, runner=scale.Local(memory=5000)).fit(shards)
    path = tmp_path / "s" / ("00002.npy" if harm != "flip rows" else "00002.rows.npy")
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(bytes(content[:-7] if harm == "cut" else content))
    if harm == "flip rows":
        with pytest.raises(DataError, match=r"00002\.rows\.npy"):
            _ = sharded.estimator_.dictionary_.samples
        return
    if isinstance(model, CRC):  # answers without shards, and codes with them
        sharded.predict(queries)
    with pytest.raises(DataError, match=r"00002\.npy"):
        sharded.solve(queries)
    with pytest.raises(DataError, match=r"00002\.npy"):
        scale.Sharded(model).fit(shards).solve(queries)


def test_answers_are_those_of_one_call_and_a_run_goes_on(tmp_path):
    X, y, queries = samples()
    model = SoftNRC().fit(X, y)
    path = save_model(model, tmp_path / "m.residuum")
    whole = scale.answer(path, queries, tmp_path / "whole", rows=10, runner=scale.Local(n_jobs=1))
    table = "".join(file.read_text().split("\n", 1)[1] for file in sorted(whole.glob("*.csv")))
    assert [line.split(",")[1] for line in table.split()] == model.predict(queries).tolist()
    part = scale.answer(path, queries, tmp_path / "part", rows=10, runner=scale.Local(n_jobs=2))
    (part / "00001.csv").unlink()
    kept = (part / "00000.csv").stat().st_mtime_ns
    scale.answer(path, queries, part, rows=10)
    assert (part / "00000.csv").stat().st_mtime_ns == kept
    for file in whole.iterdir():
        assert (part / file.name).read_bytes() == file.read_bytes()
    with pytest.raises(UsageError, match="another"):
        scale.answer(path, queries, part, rows=5)


def test_every_kind_of_answer(tmp_path):
    from scipy.sparse import load_npz

    from residuum import ConfidentClassifier

    X, y, queries = samples()
    parts = [queries[first : first + 10] for first in range(0, len(queries), 10)]
    model = ConfidentClassifier(NRC(solver="exact")).fit(X, y)
    folder = scale.answer(model, queries, tmp_path / "r", what="residuals", rows=10)
    found = [np.load(file) for file in sorted(folder.glob("*.npy"))]
    np.testing.assert_array_equal(np.vstack(found), np.vstack([model.residuals(part) for part in parts]))
    folder = scale.answer(model, queries, tmp_path / "p", what="probabilities", rows=10)
    found = [np.load(file) for file in sorted(folder.glob("*.npy"))]
    np.testing.assert_array_equal(np.vstack(found), np.vstack([model.predict_proba(part) for part in parts]))
    plain = NRC(solver="exact").fit(X, y)
    folder = scale.answer(plain, queries, tmp_path / "c", what="codes", rows=10)
    found = [load_npz(file).toarray() for file in sorted(folder.glob("*.npz"))]
    codes = np.vstack([dense(plain.encode(part)) for part in parts])
    np.testing.assert_array_equal(np.vstack(found), codes)
    folder = scale.answer(plain, X, tmp_path / "e", what="evaluation", rows=40, labels=y)
    figures = json.loads((folder / "evaluation.json").read_text())
    assert figures["accuracy"] == pytest.approx(plain.score(X, y))
    with pytest.raises(UsageError, match="no probabilities"):
        scale.answer(plain, queries, tmp_path / "none", what="probabilities")


def test_a_sharded_model_answers_sources_too(layouts, tmp_path):
    _, _, queries = samples()
    model = scale.Sharded(NRC(solver="exact")).fit(layouts[7])
    saved = model.save_model(tmp_path / "model")
    folder = scale.answer(saved, queries, tmp_path / "a", rows=10)
    table = "".join(file.read_text().split("\n", 1)[1] for file in sorted(folder.glob("*.csv")))
    assert [line.split(",")[1] for line in table.split()] == model.predict(queries).tolist()


def test_wrong_use_is_refused(layouts, tmp_path):
    X, y, _ = samples()
    with pytest.raises(UsageError, match="takes the folder"):
        scale.Sharded(CRC()).fit(X, y)
    with pytest.raises(UsageError, match="class_weight"):
        scale.Sharded(CRC(class_weight="balanced")).fit(layouts[7])
    with pytest.raises(UsageError, match="l2 must be at least"):
        scale.Sharded(CRC(l2=1e-9)).fit(layouts[7])
    with pytest.raises(UsageError, match="step_tol"):
        scale.Sharded(NRC(step_tol=1e-3)).fit(layouts[7])
    with pytest.raises(UsageError, match="holds a dictionary already"):
        scale.shard(X, y, layouts[7])
    with pytest.raises(UsageError, match="one label for each"):
        scale.shard(X, y[:-1], tmp_path / "few")
    with pytest.raises(UsageError, match="memory must be"):
        scale.Local(memory="lots")
    assert as_bytes("4GB") == 4 * 2**30
    assert as_bytes("512 MiB") == 2**29


def test_the_memory_that_is_kept_is_bounded(layouts):
    sharded = scale.Sharded(NRC(solver="exact"), runner=scale.Local(n_jobs=1, memory=3000)).fit(layouts[7])
    sharded.predict(samples()[2])
    assert sum(array.nbytes for array in memory._kept.values()) <= 3000


def test_the_commands_read_new_tables_as_the_shards_were_read(tmp_path, capsys):
    """The label column stands first and is called nothing special, and new tables do not have it."""
    pytest.importorskip("pyarrow", reason="needs the extra 'tables': pyarrow")
    from residuum.cli.main import main

    pandas = pytest.importorskip("pandas")
    X, y, queries = samples()
    for name, rows in (("train", X), ("new", queries)):
        (tmp_path / name).mkdir()
        table = pandas.DataFrame(rows.astype(np.float64)).add_prefix("f")
        for i, first in enumerate(range(0, len(rows), 40)):
            some = table[first : first + 40].copy()
            if name == "train":
                some.insert(0, "animal", y[first : first + 40])
            some.to_parquet(tmp_path / name / f"{i}.parquet")
    place = str(tmp_path)
    assert (
        main(["shard", f"{place}/train", "--label", "animal", "--out", f"{place}/s", "--part-size", "1kB"])
        == 0
    )
    assert "3 classes" in capsys.readouterr().out
    assert main(["fit", f"{place}/s", "--method", "NRC", "--set", "solver=exact", "--out", f"{place}/m"]) == 0
    assert main(["fit", f"{place}/s", "--method", "NRC", "--pca", "3", "--out", f"{place}/n"]) == 2
    command = ["predict", f"{place}/m", f"{place}/new", "--out", f"{place}/a", "--memory", "2kB"]
    assert main(command) == 0
    rows = (tmp_path / "a" / "00000.csv").read_text().split()[1:]
    expected = NRC(solver="exact").fit(X, y).predict(queries)
    assert [row.split(",")[1] for row in rows] == expected.tolist()
    assert main(command[:-2]) == 0
    assert main(["predict", f"{place}/m", f"{place}/new"]) == 2


def test_a_worker_that_prices_atoms_does_not_load_scikit_learn():
    """Its memory is for shards: scikit-learn and what it brings took as much again."""
    code = "import sys, residuum.scale.pricing as p; p.fetch; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "method", [name for name in ALL_METHODS if name not in {type(m).__name__ for m in METHODS}]
)
def test_methods_without_a_solver_over_shards_are_refused(method, tmp_path):
    X, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    folder = scale.shard(X, y, tmp_path / "s").folder
    with pytest.raises(UsageError, match=f"'estimator' parameter of Sharded .* Got {method}"):
        scale.Sharded(ALL_METHODS[method]()).fit(folder)


# ------------------------------------------------------------------------------ atoms that are hard to price


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("model", [NRC(solver="exact"), SRC(l1=1e-9)], ids=names)
def test_atoms_that_only_rounding_makes_independent_reach_as_far_as_in_one_array(model, seed, tmp_path):
    """Codes are as large as 1e7, and a certificate that cannot be given is not claimed."""
    rng = np.random.default_rng(seed)
    X = rank_deficient(rng).astype(np.float32)
    queries = rng.standard_normal((6, X.shape[1]))
    sharded = scale.Sharded(model).fit(scale.shard(X, np.arange(len(X)) // 4, tmp_path))
    atoms = sharded.estimator_.dictionary_.atoms[:].astype(np.float64)
    array = type(model)(**model.get_params()).fit(atoms, np.arange(len(X)) // 4)
    found, expected = sharded.solve(queries), array.solve(queries)
    reached = dense(expected.codes) @ array.dictionary_.unit(slice(None))
    np.testing.assert_allclose(dense(found.codes) @ atoms, reached, atol=1e-6)
    assert (found.converged == (found.gap <= 1e-10)).all()


def test_very_many_atoms_that_float32_cannot_clear(tmp_path):
    """All atoms lie in a plane, so the residual of a query is orthogonal to every one of them."""
    rng = np.random.default_rng(0)
    X, y = (rng.random((400, 2)) @ rng.random((2, 12))).astype(np.float32), np.arange(400) % 2
    queries = X[:5] + X[5:10] + rng.normal(scale=0.1, size=(5, 12))
    found = scale.Sharded(NRC(solver="exact")).fit(scale.shard(X, y, tmp_path)).solve(queries)
    assert found.converged.all()
    assert found.gap.max() <= 1e-10
    alone = NRC(solver="exact").fit(X, y)
    reached = dense(alone.encode(queries)) @ alone.dictionary_.atoms
    np.testing.assert_allclose(
        dense(found.codes) @ unit_rows(X[np.argsort(y, kind="stable")])[0], reached, atol=1e-5
    )


def test_a_weight_that_leaves_no_atom_is_certified(layouts):
    found = scale.Sharded(SRC(l1=2.5)).fit(layouts[7]).solve(samples()[2])
    assert not dense(found.codes).any()
    assert found.converged.all()
    assert found.gap.max() <= 1e-10


def test_shards_of_several_blocks_vs_array(tmp_path):
    """The products are too large for 48 rows at a time, and the farthest atom is in the first block."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2500, 48)).astype(np.float32)
    X[0, :40] = 0
    y, queries = (np.arange(2500) >= 1250).astype(int), rng.uniform(size=(8, 48)).astype(np.float32)
    model = NRC(solver="exact")
    sharded = scale.Sharded(model).fit(scale.shard(X, y, tmp_path))
    assert (X @ sharded.estimator_.dictionary_.interior > 0).all()
    array = NRC(solver="exact").fit(X, y)
    np.testing.assert_allclose(sharded.residuals(queries), array.residuals(queries), rtol=1e-5)


@pytest.mark.parametrize("model", [NRC(), SoftNRC()], ids=names)
def test_the_first_query_prepares_a_solver_that_nobody_prepared(model, layouts):
    queries = unit_rows(samples()[2])[0]
    prepared = scale.Sharded(model).fit(layouts[7]).estimator_
    fresh = type(prepared.solver_)(prepared._make_solver(prepared.dictionary_), 512)
    np.testing.assert_array_equal(fresh.solve(queries).codes, prepared.solver_.solve(queries).codes)


def test_threads_that_fill_the_memory_at_once_keep_no_more_than_allowed():
    def fill(target):
        target[:] = 1
        if len(target) == 70:  # another part is read meanwhile
            other = threading.Thread(target=memory.remembered, args=("other", 60, fill))
            other.start()
            other.join()

    memory.keep_at_most(0)
    memory.keep_at_most(100)
    try:
        assert memory.remembered("one", 70, fill).tolist() == [1] * 70
        assert {name: len(kept) for name, kept in memory._kept.items()} == {"other": 60}
    finally:
        memory.keep_at_most(0)


# ------------------------------------------------------------------------------ what is refused, and how


def test_rows_of_a_shard_that_nobody_has_read_are_verified_first(tmp_path):
    X, y, _ = samples()
    (shard,) = scale.shard(X, y, tmp_path).shards
    rows = np.array([5, 2])
    np.testing.assert_array_equal(shard.some_atoms(rows), shard.atoms()[rows])
    content = bytearray((tmp_path / "00000.npy").read_bytes())
    content[-1] ^= 1
    (tmp_path / "00000.npy").write_bytes(content)
    for harmed in (shard, open_shards(tmp_path).shards[0]):
        with pytest.raises(DataError, match=r"00000\.npy is damaged"):
            harmed.some_atoms(rows)
    with pytest.raises(DataError, match=r"00000\.npy is damaged"):
        shard._fill(np.empty(len(content) + 1, np.uint8))  # it was longer when its size was asked for


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format_version": 2}, "format version 2 is not 1"),
        ({"parts": [{}]}, "does not describe shards: KeyError"),
        ({"n_features": 11}, r"float32 of shape \(90, 12\)\. The manifest says \(90, 11\)"),
        (None, r"there is no manifest\.json\. Make one with residuum shard"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(change, said, tmp_path):
    X, y, _ = samples()
    scale.shard(X, y, tmp_path)
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    path.unlink() if change is None else path.write_text(json.dumps(content | change))
    with pytest.raises(DataError, match=said):
        scale.Sharded(CRC()).fit(tmp_path)


def test_shards_of_which_a_model_was_made_must_be_there(layouts, tmp_path):
    saved = scale.Sharded(CRC()).fit(layouts[7]).save_model(tmp_path / "m")
    path = saved / "model.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"sha256": ["0" * 64]}))
    with pytest.raises(DataFormatError, match=r"no shard with the checksum 000.* fit anew"):
        scale.load_model(saved)
    path.write_text(json.dumps(content | {"format_version": 2}))
    with pytest.raises(ModelFileError, match="format version 2 is not 1"):
        scale.load_model(saved)
    with pytest.raises(DataError, match=r"holds no model: there is no model\.json"):
        scale.load_model(tmp_path)


def test_what_sharded_cannot_take_is_refused(layouts):
    for model, batch, shards, said in (
        (CRC(), 0, layouts[7], r"'batch' parameter of Sharded must be 1 or more\. Got 0"),
        (LogisticRegression(), 9, layouts[7], r"'estimator' parameter of Sharded .* Got LogisticRegression"),
        (CRC(), 9, open_shards(layouts[7], only=[]), "holds no atom"),
    ):
        with pytest.raises(UsageError, match=said):
            scale.Sharded(model, batch=batch).fit(shards)


def test_samples_that_cannot_be_enrolled_change_nothing(tmp_path):
    X, _, queries = samples()
    model = scale.Sharded(CRC()).fit(scale.shard(X, np.arange(90) % 3, tmp_path))
    before, manifest = model.residuals(queries), (tmp_path / "manifest.json").read_bytes()
    for rows, labels, said in (
        (
            X[:2, :5],
            [0, 1],
            r"samples of 12 features with one label each\. Got X of shape \(2, 5\) and 2 labels",
        ),
        (X[:2], [0], r"of shape \(2, 12\) and 1 labels"),
        (X[:2] * np.inf, [0, 1], "takes finite samples"),
        (X[:2], ["0", "1"], "must hold numbers"),
    ):
        with pytest.raises(UsageError, match=said):
            model.partial_fit(rows, labels)
    with pytest.warns(UserWarning, match="2 of 2 samples are zero vectors and were not enrolled"):
        model.partial_fit(0 * X[:2], [0, 1])
    assert (tmp_path / "manifest.json").read_bytes() == manifest
    np.testing.assert_array_equal(model.residuals(queries), before)
    with pytest.warns(UserWarning, match="1 of 2 samples"):
        model.partial_fit(X[:2] * [[0], [1]], [3, 4])
    assert model.classes_.tolist() == [0, 1, 2, 4]


def write_parts(folder, *parts):
    folder.mkdir()
    for i, part in enumerate(parts):
        np.save(folder / f"{i}.npy", part)
    return folder


def test_parts_that_do_not_go_together_are_named(tmp_path):
    X, y, _ = samples()
    for i, (parts, labels, said) in enumerate(
        (
            ((X[:50], X[50:, :9]), y, r"1\.npy has 9 columns; the parts before have 12"),
            ((X[:50], X[50:].astype(str)), y, r"1\.npy: expected numbers \(n_samples, n_features\)\. Got <U"),
            ((X,), None, r"0\.npy: a dictionary needs numbers and labels\. Got no labels"),
        )
    ):
        with pytest.raises(DataFormatError, match=said):
            scale.shard(write_parts(tmp_path / f"{i}", *parts), labels, tmp_path / f"{i}out")
    tables = tmp_path / "tables"
    tables.mkdir()
    for name, kind in (("0", 7), ("1", "cat")):
        (tables / f"{name}.csv").write_text("a,b,kind\n" + f"1,2,{kind}\n" * 3)
    with pytest.raises(DataFormatError, match=r"Labels must be of one kind\. Got int, str"):
        scale.shard(tables, None, tmp_path / "mixed", reading={"label": "kind"})
    with pytest.raises(UsageError, match=r"0\.csv has them in a column: name it instead"):
        scale.shard(tables, y, tmp_path / "both")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([1.0, 2.0], r"Got ndarray of shape \(2,\)"),
        ({"X": 1}, r"path, or an array of shape \(n_samples, n_features\)\. Got dict\."),
    ],
)
def test_a_source_is_a_path_or_has_rows_and_columns(source, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        scale.shard(source, None, tmp_path / "s")
    np.save(tmp_path / "flat.npy", np.arange(3.0))
    with pytest.raises(DataFormatError, match=r"flat\.npy: expected an array .* Got shape \(3,\)"):
        scale.shard(tmp_path / "flat.npy", None, tmp_path / "s")


def test_zero_samples_are_left_out_and_empty_parts_are_no_harm(tmp_path):
    X, y, _ = samples()
    folder = write_parts(tmp_path / "parts", X[:0], X[:40], X[40:] * (np.arange(50) > 0)[:, None])
    with pytest.warns(UserWarning, match="1 of 90 training samples are zero vectors and were dropped"):
        shards = scale.shard(folder, y, tmp_path / "s")
    assert sorted(shards.shards[0].rows()[0].tolist()) == [i for i in range(90) if i != 40]
    assert shards.n_samples == 90
    with (
        pytest.warns(UserWarning, match="90 of 90"),
        pytest.raises(DataFormatError, match="All 90 training samples are zero vectors"),
    ):
        scale.shard(0 * X, y, tmp_path / "none")


class Elsewhere(scale.Local):
    """Threads in the place of workers that see something else under a path."""

    def __init__(self, **seen):
        super().__init__(n_jobs=1)
        self.seen = seen

    def map(self, function, parts, task):
        return super().map(function, parts, task._replace(**self.seen))


def test_workers_must_see_the_model_and_the_answers_of_the_client(tmp_path):
    X, y, queries = samples()
    ours, other = (save_model(CRC(l2=l2).fit(X, y), tmp_path / f"{l2}.residuum") for l2 in (0.1, 0.2))
    with pytest.raises(DataError, match=r"0\.2\.residuum is not the model file that the client has"):
        scale.answer(ours, queries, tmp_path / "a", runner=Elsewhere(model=str(other)))
    (tmp_path / "theirs").mkdir()
    with pytest.raises(DataError, match=r"a.00000\.csv was written by a worker and is not seen here"):
        scale.answer(ours, queries, tmp_path / "a", runner=Elsewhere(out=str(tmp_path / "theirs")))
    assert (tmp_path / "theirs" / "00000.csv").exists()


def test_codes_are_those_after_all_steps_of_the_model(tmp_path):
    from scipy.sparse import load_npz

    X, y, queries = samples()
    model = make_pipeline(StandardScaler(), NRC(solver="exact")).fit(X, y)
    folder = scale.answer(model, queries, tmp_path, what="codes")
    expected = dense(model[-1].encode(model[0].transform(queries)))
    np.testing.assert_array_equal(load_npz(folder / "00000.npz").toarray(), expected)
    with pytest.raises(UsageError, match=r"must be one of predict, residuals, .* Got 'labels'"):
        scale.answer(model, queries, tmp_path, what="labels")
    with pytest.raises(DataError, match="rows 0 to 24: there are no labels to compare the answers with"):
        scale.answer(model, queries, tmp_path / "e", what="evaluation")


def test_photographs_are_answered_by_the_step_that_reads_them(tmp_path):
    from PIL import Image

    shots, labels, fitted = photo_model.photographs()
    (tmp_path / "new").mkdir()
    for i, shot in enumerate(shots):
        Image.fromarray(shot).save(tmp_path / "new" / f"{i}.png")
    path = save_model(fitted, tmp_path / "m.residuum", about={"input": photo_model.WITH})
    folder = scale.answer(path, tmp_path / "new", tmp_path / "a", rows=4)
    rows = [line.split(",") for file in sorted(folder.glob("*.csv")) for line in file.read_text().split()[1:]]
    assert [row[1] for row in rows] == labels
    with pytest.raises(DataFormatError, match="Got images, which have no numbers yet"):
        scale.shard(tmp_path / "new", None, tmp_path / "s")
