"""`residuum bench` on small problems: its rows are whole, and what it says about accuracy is right."""

import json

import numpy as np
import pytest

from residuum.cli.main import main
from residuum.experiments import benchmark, tall_benchmark


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The same benchmarks with few atoms, queries and shapes."""
    parts, few = benchmark.mixture_of_parts, list(tall_benchmark.cases(12))
    monkeypatch.setattr(benchmark, "mixture_of_parts", lambda atoms, queries: parts(60, 8, n_features=30))
    kinds = {case.problem: case for case in reversed(few)}
    monkeypatch.setattr(tall_benchmark, "cases", lambda n_rhs: list(kinds.values()))
    monkeypatch.setenv("RESIDUUM_DATA", str(tmp_path))  # without MNIST


def rows_of(capsys, *words):
    assert main(["bench", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def test_wide_rows(small, capsys):
    rows = rows_of(capsys, "--shape", "wide", "--n-jobs", "1")
    exact = [row for row in rows if row["method"] == "residuum: exact"]
    assert {row["problem"] for row in exact} == {"nonnegative", "lasso"}
    for row in exact:
        assert row["gap"] < 1e-9
        assert row["ratio"] == pytest.approx(row["ms_per_query"] / _product(rows, row), rel=1e-9)
    assert any("scipy" in row["method"] and "ratio" in row for row in rows)
    skipped = [row for row in rows if row["data"].startswith("MNIST")]
    assert skipped
    assert all("mnist.npz is not in the data home" in row["status"] for row in skipped)


def _product(rows, of):
    (product,) = (
        row["ms_per_query"]
        for row in rows
        if row["method"].startswith("GEMM") and (row["data"], row["problem"]) == (of["data"], of["problem"])
    )
    return product


def test_tall_rows(small, capsys):
    rows = rows_of(capsys, "--shape", "tall")
    assert {row["problem"] for row in rows} == {case.problem for case in tall_benchmark.cases(12)}
    excess = {row["method"]: row["excess"] for row in rows if "excess" in row}
    scipy = [value for method, value in excess.items() if "scipy" in method.lower()]
    assert scipy
    assert all(np.abs(value) < 1e-10 for value in scipy)  # the same optimum
    assert all("not installed" in row["status"] for row in rows if "status" in row)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_a_peer_that_is_not_installed_is_named(small, capsys, monkeypatch, shape):
    def missing(*_):
        import no_such_package  # noqa: F401

    module = tall_benchmark if shape == "tall" else benchmark
    monkeypatch.setattr(module, "PEERS", {"absent": (2, missing), "broken": (2, _broken)})
    rows = rows_of(capsys, "--shape", shape)
    assert {row["status"] for row in rows if row["method"] == "absent"} == {
        "skipped: no_such_package is not installed"
    }
    assert {row["status"] for row in rows if row["method"] == "broken"} == {"failed: it broke"}


def _broken(*_):
    raise RuntimeError("it broke")


def test_mnist_where_it_is_there(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 28, 28), dtype=np.uint8), np.arange(60) % 10
    np.savez(tmp_path / "mnist.npz", x_train=images[:50], y_train=labels[:50], x_test=images[50:])
    monkeypatch.setenv("RESIDUUM_DATA", str(tmp_path))
    for per_class, n_train in ((3, 30), (None, 50)):
        train, test = benchmark.mnist(per_class, 7, n_features=9)
        assert (train.shape, test.shape) == ((n_train, 9), (7, 9))
        np.testing.assert_allclose(np.linalg.norm(train, axis=1), 1)


def test_all_of_mnist_is_asked_for_with_large_alone(small, capsys):
    rows = rows_of(capsys, "--shape", "wide", "--no-peers", "--large", "--n-jobs", "1")
    (large,) = [row for row in rows if row["data"] == "MNIST 60,000"]
    assert "mnist.npz is not in the data home" in large["status"]


def test_tables_for_people(small, capsys):
    assert main(["bench", "--no-peers", "--n-jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "residuum: exact" in said
    assert "product A'B" in said
