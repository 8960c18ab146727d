"""Files of embeddings, and the sign that a mean was subtracted from them."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from residuum import NRC
from residuum.errors import DataFormatError, UsageError
from residuum.features.centring import looks_centred
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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_digits_look_centred_once_their_own_mean_is_subtracted(dtype):
    X = load_digits().data.astype(dtype)
    assert not looks_centred(X)
    centred = X - X.mean(axis=0)
    assert looks_centred(centred)
    assert looks_centred(np.concatenate([centred] * 3))  # more rows than one block
    assert not looks_centred(centred[:900])  # the mean of all is not that of some
    assert not looks_centred(X[:1] - X[:1])


def test_non_negative_codes_of_centred_samples_reach_everything():
    """Why it matters: the cone of centred samples is their span, so exact NRC explains any query."""
    rng = np.random.default_rng(0)
    X, labels, query = rng.random((12, 30)), np.arange(12) % 3, rng.random((1, 30))
    centred, asked = X - X.mean(axis=0), query - X.mean(axis=0)
    assert looks_centred(centred)

    def left(samples, target):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = NRC(solver="exact").fit(samples, labels)
            return np.linalg.norm(target - model.reconstruct(target)[0])

    span = np.linalg.lstsq(centred.T, asked[0], rcond=None)[0] @ centred
    assert left(centred, asked) == pytest.approx(np.linalg.norm(asked - span), rel=1e-6)
    raw = np.linalg.lstsq(X.T, query[0], rcond=None)[0] @ X
    assert left(X, query) > 1.05 * np.linalg.norm(query - raw)
