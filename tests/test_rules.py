"""Decision rules against their formulas, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import make_case

from residuum.rules import RULES, CodedParts, compared


def literal(name, blocks, y, parts):
    whole = sum(block @ part for block, part in zip(blocks, parts, strict=True))
    scores = []
    for block, part in zip(blocks, parts, strict=True):
        norm, reach = np.linalg.norm(part), np.linalg.norm(block @ part)
        scores.append(
            {
                "residual": np.linalg.norm(y - block @ part),
                "scaled_residual": np.linalg.norm(y - block @ part) / norm if norm else np.inf,
                "reconstruction": np.linalg.norm(whole - block @ part),
                "relative_residual": np.linalg.norm(y - block @ part) / reach if reach else np.inf,
            }[name]
        )
    return scores


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rule_vs_formula(case, name, form):
    codes = np.random.default_rng(1).normal(size=(len(case.queries), case.dictionary.n_atoms))
    codes[np.abs(codes) < 0.5] = 0
    codes[2, case.dictionary.blocks[1]] = 0  # a class that takes no part
    codes[4] = 0
    scores = RULES[name](CodedParts(case.dictionary, case.unit_queries, form(codes)))
    edges = case.dictionary.starts[1:-1]
    expected = [
        literal(name, case.blocks, y, np.split(c, edges))
        for y, c in zip(case.unit_queries, codes, strict=True)
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-12)


def test_residual_of_an_exact_reconstruction_is_zero_to_rounding():
    case = make_case("wide")
    codes = np.eye(case.dictionary.n_atoms)[:5]
    scores = RULES["residual"](CodedParts(case.dictionary, case.dictionary.atoms[:5], codes))
    assert scores[:, 0].max() < 1e-15


class GivenParts:
    """Residuals that are given, with one error for all."""

    precision = np.finfo(np.float64).eps

    def __init__(self, residuals, error):
        self.residuals, self.error = lambda: np.array(residuals), lambda *_: error
        self.share = lambda _quantity, value: error / value.min(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_classes_within_their_errors_tie_for_the_first_and_others_do_not(dtype):
    scores = [[0.5 + 1e-13, 0.7, 0.5], [0.2, 0.1, 0.3], [np.inf, np.inf, np.inf], [1e-9, 3e-13, 0.0]]
    for error, winners in ((1e-13, [0, 1, 0, 2]), (1e-14, [2, 1, 0, 2]), (2e-13, [0, 1, 0, 1])):
        found = compared(RULES["residual"], GivenParts(scores, error))
        settled = found.settled(np.dtype(dtype))
        assert settled.dtype == dtype
        assert settled.argmin(axis=1).tolist() == winners
        assert found.rows.tolist() == [0] * (winners[0] == 0) + [2] + [3] * (winners[3] == 1)


def test_scores_that_float32_cannot_tell_apart_keep_their_order():
    found = compared(RULES["residual"], GivenParts([[1 + 1e-10, 1.0]], 1e-15))
    assert found.settled(np.dtype(np.float32)).argmin(axis=1).tolist() == [1]
