"""Decision rules against their formulas, dense and sparse."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import make_case

from residuum.rules import RULES, CodedParts, settle_ties


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


def test_ties_up_to_rounding_are_settled_for_the_first_class():
    scores = np.array([[0.5 + 1e-13, 0.7, 0.5], [0.2, 0.1, 0.3], [np.inf, np.inf, np.inf]])
    np.testing.assert_array_equal(settle_ties(scores, np.zeros((3, 1))).argmin(axis=1), [0, 1, 0])


def test_ties_follow_the_rounding_of_the_scores_and_not_their_size():
    scores = np.array([[3e-12, 2e-12], [3e-12, 2e-12]])
    rounding = np.array([[1e-16], [1e-12]])
    np.testing.assert_array_equal(settle_ties(scores, rounding).argmin(axis=1), [1, 0])
