"""A dictionary in parts computes what the same dictionary in one piece computes."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from residuum.grown_dictionary import GrownDictionary, Parts

from residuum.dictionary import Dictionary


def grown(rng, dtype, *, n_base=30, n_joined=5, n_classes=4):
    """A dictionary in parts and the same in one piece; class 2 is empty, class 3 only joined."""
    classes = np.concatenate([np.sort(rng.integers(0, 2, n_base)), rng.choice([0, 1, 3], n_joined - 1), [3]])
    rows = rng.standard_normal((len(classes), 7)).astype(dtype)
    source = np.argsort(classes, kind="stable")
    starts = np.searchsorted(classes[source], np.arange(n_classes + 1)).astype(np.int64)
    in_parts = GrownDictionary(Parts(rows[:n_base], rows[n_base:], source), starts, source)
    return in_parts, Dictionary(rows[source], starts, source)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wanted", [np.float32, np.float64])
@pytest.mark.parametrize("n_joined", [1, 5])
def test_products_vs_one_piece(dtype, wanted, n_joined):
    rng = np.random.default_rng(n_joined)
    in_parts, whole = grown(rng, dtype, n_joined=n_joined)
    tol = 1e-12 if dtype == np.float64 else 1e-5
    points = rng.standard_normal((3, 7)).astype(wanted)
    codes = rng.standard_normal((3, whole.n_atoms)).astype(wanted)
    for name, argument in (("correlations", points), ("combinations", codes)):
        got, expected = getattr(in_parts, name)(argument), getattr(whole, name)(argument)
        assert got.dtype == expected.dtype == np.result_type(dtype, wanted)
        np.testing.assert_allclose(got, expected, rtol=0, atol=tol)
    assert in_parts.dtype == dtype
    assert in_parts.n_features == 7
    for k in range(4):
        assert np.array_equal(in_parts.class_block(k), whole.class_block(k))
    assert np.array_equal(in_parts.rows(np.array([3, 0])), whole.rows(np.array([3, 0])))
    assert "atoms" not in in_parts.__dict__
    sparse = sp.csr_array(codes)
    np.testing.assert_allclose(in_parts.combinations(sparse), whole.combinations(sparse), rtol=0, atol=tol)
    assert np.array_equal(in_parts.atoms, whole.atoms)
    assert all(np.array_equal(in_parts.class_block(k), whole.class_block(k)) for k in range(4))


def test_asking_for_the_atoms_changes_no_bit():
    rng = np.random.default_rng(0)
    in_parts, _ = grown(rng, np.float64, n_base=200, n_joined=9)
    codes = rng.standard_normal((1, in_parts.n_atoms))
    before = in_parts.combinations(codes), in_parts.correlations(codes[:, :7])
    assert len(in_parts.atoms) == 209
    after = in_parts.combinations(codes), in_parts.correlations(codes[:, :7])
    assert [a.tobytes() for a in before] == [a.tobytes() for a in after]


def test_what_was_forgotten_is_let_go():
    rng = np.random.default_rng(0)
    before, _ = grown(rng, np.float64)
    kept = np.delete(np.arange(before.n_atoms), [2, 30])
    none = np.empty((0, 7))
    starts = np.array([0, 5, 10, 10, len(kept)])
    after = GrownDictionary.changed(before, kept, none, starts, before.samples[kept])
    np.testing.assert_array_equal(after.rows(np.arange(len(kept))), before.atoms[kept])
    codes = rng.standard_normal((2, len(kept)))
    np.testing.assert_allclose(after.combinations(codes), codes @ before.atoms[kept], atol=1e-12)
    assert after.parts is None
    assert np.array_equal(after.class_block(1), before.atoms[kept][5:10])


def test_rows_that_joined_are_put_together_before_they_are_many():
    rng = np.random.default_rng(0)
    dictionary = Dictionary(rng.standard_normal((320, 7)), np.array([0, 320]), np.arange(320))
    most = 0
    for n in range(320, 360):
        row = rng.standard_normal((1, 7))
        dictionary = GrownDictionary.changed(
            dictionary, np.arange(n + 1), row, np.array([0, n + 1]), np.arange(n + 1)
        )
        most = max(most, len(dictionary.parts.joined))
        assert np.array_equal(dictionary.rows(np.array([n])), row)
    assert 10 <= most <= 12
    assert dictionary.atoms.shape == (360, 7)


def test_pickles_hold_the_atoms_once():
    rng = np.random.default_rng(0)
    in_parts, whole = grown(rng, np.float64, n_base=2000)
    size = len(pickle.dumps(in_parts))
    for k in range(4):
        in_parts.class_block(k)
    assert len(pickle.dumps(in_parts)) == size
    again = pickle.loads(pickle.dumps(in_parts))
    assert np.array_equal(again.class_block(3), whole.class_block(3))
