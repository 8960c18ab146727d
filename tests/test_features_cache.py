"""The cache of features: what makes a key, what counts as damage, and many writers at once."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from residuum.errors import DataError, UsageError
from residuum.features import EigenfacePCA, Scattering2D, cached_transform
from residuum.features.cache import FeatureStore, cache_key

RNG = np.random.default_rng(0)
X = RNG.random((12, 64))


class Counting(TransformerMixin, BaseEstimator):
    """Doubles, and counts on the class how often it had to."""

    calls = 0

    def __init__(self, factor=2.0):
        self.factor = factor

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        type(self).calls += 1
        return np.asarray(X) * self.factor


@pytest.fixture(autouse=True)
def _fresh():
    Counting.calls = 0


def test_computed_once(tmp_path):
    first = cached_transform(Counting(), X, cache_dir=tmp_path / "deep" / "er")
    second = cached_transform(Counting(), X, cache_dir=tmp_path / "deep" / "er")
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, first)
    assert second.dtype == first.dtype
    assert Counting.calls == 1


def test_memory_map(tmp_path):
    for _ in range(2):
        features = cached_transform(Counting(), X, cache_dir=tmp_path)
        assert isinstance(features, np.memmap)
        assert not features.flags.writeable
        np.testing.assert_array_equal(features, 2 * X)
    assert Counting.calls == 1


def entry(folder, transformer, data):
    return FeatureStore(folder)._path(cache_key(transformer, data))


def test_an_entry_is_one_npy_file(tmp_path):
    cached_transform(Counting(), X, cache_dir=tmp_path)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path == entry(tmp_path, Counting(), X)
    np.testing.assert_array_equal(np.load(path), 2 * X)


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.float32([1.5]), np.asfortranarray(np.eye(3)[:2])])
def test_arrays_come_back_as_they_were(tmp_path, array):
    store = FeatureStore(tmp_path)
    assert store.get("ab12") is None
    store.put("ab12", array)
    kept = store.get("ab12")
    assert kept.dtype == array.dtype
    np.testing.assert_array_equal(kept, array)


def changed(index, value):
    other = X.copy()
    other.flat[index] = value
    return other


@pytest.mark.parametrize(
    ("transformer", "data"),
    [
        (Counting(3.0), X),
        (Counting(2), X),
        (Counting(None), X),
        (Counting(np.float64(2.0)), X),
        (StandardScaler().fit(X), X),
        (Counting(), changed(-1, 0.5)),
        (Counting(), X.astype(np.float32)),
        (Counting(), X.astype(">f8")),
        (Counting(), X.reshape(24, 32)),
        (Counting(), X[:-1]),
        (Counting(), X.view(np.int64)),
    ],
)
def test_any_difference_makes_another_key(transformer, data):
    assert cache_key(transformer, data) != cache_key(Counting(), X)


def test_layout_and_container_do_not_matter():
    key = cache_key(Counting(), X)
    assert cache_key(Counting(), np.asfortranarray(X)) == key
    assert cache_key(Counting(), np.repeat(X, 2, axis=0)[::2]) == key
    assert cache_key(Counting(), X.tolist()) == key


def test_learned_state_counts():
    fitted = EigenfacePCA(3).fit(X)
    assert cache_key(fitted, X) == cache_key(EigenfacePCA(3).fit(X), X)
    assert cache_key(fitted, X) != cache_key(EigenfacePCA(3).fit(X[:-1]), X)
    assert cache_key(fitted, X) != cache_key(EigenfacePCA(3), X)
    pipelines = [make_pipeline(Scattering2D(J=2, L=2), EigenfacePCA(3)).fit(part) for part in (X, X, X[:-1])]
    keys = [cache_key(pipeline, X) for pipeline in pipelines]
    assert keys[0] == keys[1] != keys[2]


def test_threads_do_not_count():
    assert cache_key(Scattering2D(n_jobs=2), X) == cache_key(Scattering2D(), X)
    assert cache_key(Scattering2D(J=2), X) != cache_key(Scattering2D(), X)


def test_keys_are_stable_between_processes(tmp_path):
    code = (
        "import numpy as np; from residuum.features import Scattering2D; "
        "from residuum.features.cache import cache_key; "
        "print(cache_key(Scattering2D(J=2, image_shape=(2, 3)), np.arange(12.0).reshape(2, 6)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    here = cache_key(Scattering2D(J=2, image_shape=(2, 3)), np.arange(12.0).reshape(2, 6))
    assert run.stdout.strip() == here


@given(
    st.lists(st.one_of(st.integers(), st.text(), st.lists(st.integers(0, 3), max_size=3)), max_size=4),
    st.lists(st.one_of(st.integers(), st.text(), st.lists(st.integers(0, 3), max_size=3)), max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_different_structures_never_share_a_key(left, right):
    assert (cache_key(Counting(left), X[:1]) == cache_key(Counting(right), X[:1])) == (left == right)


@pytest.mark.parametrize("damage", ["empty", "half", "shorter", "append", "delete", "garbage"])
def test_damage_is_noticed_and_repaired(tmp_path, damage):
    cached_transform(Counting(), X, cache_dir=tmp_path)
    path = entry(tmp_path, Counting(), X)
    content = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        replacement = {
            "empty": b"",
            "half": content[: len(content) // 2],
            "shorter": content[:-1],
            "append": content + b"{}",
            "garbage": b"\x93NUMPY\x01\x00\xff\xff{'shape': (10**12,)}",
        }[damage]
        path.write_bytes(replacement)
    np.testing.assert_array_equal(cached_transform(Counting(), X, cache_dir=tmp_path), 2 * X)
    assert Counting.calls == 2
    np.testing.assert_array_equal(cached_transform(Counting(), X, cache_dir=tmp_path), 2 * X)
    assert Counting.calls == 2


def test_every_flipped_byte_is_noticed(tmp_path):
    data = X[:2, :4]
    cached_transform(Counting(), data, cache_dir=tmp_path)
    path = entry(tmp_path, Counting(), data)
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[position] ^= 0x10
        path.write_bytes(flipped)
        np.testing.assert_array_equal(cached_transform(Counting(), data, cache_dir=tmp_path), 2 * data)
    assert Counting.calls == 1 + len(range(0, len(content), 7))


def test_many_writers_leave_one_good_entry(tmp_path):
    code = (
        "import sys, numpy as np; from residuum.features import EigenfacePCA, cached_transform\n"
        "X = np.random.default_rng(0).random((300, 40)); pca = EigenfacePCA(5).fit(X)\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for part in range(20):\n"
        "    got = cached_transform(pca, X[part:], cache_dir=sys.argv[1])\n"
        "    np.testing.assert_array_equal(got, pca.transform(X[part:]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors[-2000:]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 20


def test_an_unwritable_folder_is_an_error_that_says_what_to_do(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(DataError, match=r"could not be kept .* choose another cache folder"):
        cached_transform(Counting(), X, cache_dir=blocked)


def test_a_failing_transformer_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        cached_transform(Counting("a"), X, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_no_half_entry(tmp_path):
    code = (
        "import resource, signal, sys, numpy as np\n"
        "from residuum.errors import DataError\n"
        "from residuum.features import EigenfacePCA, cached_transform\n"
        "X = np.random.default_rng(0).random((300, 40)); pca = EigenfacePCA(5).fit(X)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try:\n"
        "    cached_transform(pca, X, cache_dir=sys.argv[1])\n"
        "except DataError as error:\n"
        "    assert 'free some space' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    if sys.platform == "win32":
        pytest.skip("file size limits are a POSIX thing")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("transformer", "data", "message"),
    [
        (Counting(), X.astype(object), "Got X of type ndarray and dtype object"),
        (Counting(), ["a.jpg"], "Got X of type list and dtype <U5"),
        (Counting(), csr_array(X), "toarray"),
        (FunctionTransformer(csr_array), X, "Got features of type csr_array"),
    ],
)
def test_what_has_no_key_or_no_file_is_refused(tmp_path, transformer, data, message):
    with pytest.raises(UsageError, match=message):
        cached_transform(transformer, data, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_named_functions_count():
    log, exp = (cache_key(FunctionTransformer(function), X) for function in (np.log1p, np.expm1))
    assert log != exp


def test_default_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("residuum.features.cache.cache_folder", lambda: tmp_path)
    assert FeatureStore().folder == tmp_path / "features"
