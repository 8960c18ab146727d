"""Files of embeddings, and the sign that a mean was subtracted from them."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from residuum.errors import DataFormatError, UsageError
from residuum.features.centring import looks_centred, mean_cosine
from residuum.inputs import ExpectedColumns, TableFormat, read_data

VECTORS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.fixture
def parquet(tmp_path):
    """Write columns to a Parquet file."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        pq.write_table(pa.table(columns), tmp_path / "data.parquet")
        return tmp_path / "data.parquet"

    write.pa = pa
    return write


def test_npz_with_embeddings_and_labels(tmp_path):
    np.savez(tmp_path / "data.npz", embeddings=np.array(VECTORS), labels=["x", "y"])
    data = read_data(tmp_path / "data.npz")
    assert (data.features.tolist(), data.labels.tolist(), data.kind) == (VECTORS, ["x", "y"], "array")


@pytest.mark.parametrize("kind", ["list", "large", "fixed", "whole numbers"])
def test_parquet_column_of_lists_is_an_array(parquet, kind):
    pa = parquet.pa
    types = {"list": pa.list_(pa.float32()), "large": pa.large_list(pa.float64())}
    types |= {"fixed": pa.list_(pa.float64(), 3), "whole numbers": pa.list_(pa.int64())}
    path = parquet(id=["p", "q"], embedding=pa.array(VECTORS, types[kind]), label=["1", "2"])
    data = read_data(path)
    assert (data.features.tolist(), data.labels.tolist(), data.names.tolist()) == (
        VECTORS,
        [1, 2],
        ["p", "q"],
    )
    assert (data.kind, data.columns, data.features.dtype.kind) == ("array", None, "f")
    again = read_data(path, expected=ExpectedColumns(None, 3, "label"))  # as `residuum predict` reads it
    assert (again.features.tolist(), again.labels.tolist()) == (VECTORS, [1, 2])


def test_parquet_lists_that_cannot_be_rows(parquet):
    with pytest.raises(DataFormatError, match=r"column 1 \('e'\): the lists must .* same length.* Got 3, 2"):
        read_data(parquet(e=[[1.0, 2.0, 3.0], [1.0, 2.0]], label=["x", "y"]))
    with pytest.raises(DataFormatError, match="Got 3, no list"):
        read_data(parquet(e=[[1.0, 2.0, 3.0], None], label=["x", "y"]))
    with pytest.raises(DataFormatError, match=r"'e'\) and column 2 \('age'\) are both features.*--drop"):
        read_data(parquet(e=VECTORS, age=[1, 2], label=["x", "y"]))
    assert read_data(parquet(e=VECTORS, age=[1, 2], label=["x", "y"]), drop=["age"]).features.shape == (2, 3)
    only_age = read_data(parquet(e=VECTORS, age=[1, 2], label=["x", "y"]), drop=["e"])
    assert (only_age.kind, only_age.columns) == ("table", ("age",))
    hole = parquet(e=[[1.0, 2.0, 3.0], [4.0, None, 6.0]], label=["x", "y"])
    with pytest.raises(DataFormatError, match=r"row 1, column 1 \('e'\): the value is missing"):
        read_data(hole)
    assert read_data(hole, text=TableFormat(missing="drop")).features.tolist() == VECTORS[:1]
    with pytest.raises(UsageError, match="'nonsense' is not a column"):
        read_data(hole, label="nonsense")


def test_mean_cosine_is_that_of_all_pairs():
    X = np.random.default_rng(0).normal(size=(5000, 4)) + 0.5  # more rows than one block
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    cosines = unit @ unit.T
    expected = (cosines.sum() - len(X)) / (len(X) * (len(X) - 1))
    assert mean_cosine(X) == pytest.approx(expected, rel=1e-10)
    assert mean_cosine(X * np.random.default_rng(1).uniform(0.1, 9, size=(5000, 1))) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("n", [20, 1797])
def test_digits_look_centred_once_their_mean_is_subtracted(n):
    X = load_digits().data[:n]
    assert not looks_centred(X)
    assert looks_centred(X - X.mean(axis=0))
    assert not looks_centred(X[:1])
