"""Every script of examples/ runs as a user runs it, and explanations by examples are what they say."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.optimize

import residuum
from residuum import NRC, explain_by_examples

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
NEEDS = {  # what is not among our own dependencies
    "mcr_als": "pymcr",
    "dask_queries": "dask.array",
    "serve_client": "uvicorn",
}


def run_script(path, *args, cwd):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"{path.name} needs {NEEDS[path.stem]}")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(residuum.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }
    quiet = ("-W", "error::UserWarning", "-W", "ignore:FigureCanvasAgg is non-interactive")
    command = [sys.executable, *quiet, str(path), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What a script prints; each runs once."""
    folder = tmp_path_factory.mktemp("empty")

    @functools.cache
    def output(stem):
        printed = run_script(EXAMPLES / f"{stem}.py", cwd=folder)
        assert not list(folder.iterdir())  # an example leaves nothing behind
        return printed

    return output


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs_and_its_docstring_says_how(path, outputs):
    assert f"python examples/{path.name}" in path.read_text()
    assert outputs(path.stem).strip()


def test_few_shot_takes_a_file_of_embeddings(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 20)
    X = rng.random((60, 30)) + 2 * np.repeat(np.eye(3), 20, axis=0) @ rng.random((3, 30))
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    out = run_script(EXAMPLES / "few_shot.py", tmp_path / "mine.npz", cwd=tmp_path)
    assert out.startswith("3 classes, 5 samples of each, 45 queries")
    assert float(re.search(r"SoftNRC +([\d.]+) %", out)[1]) > 80


@pytest.mark.parametrize(
    ("stem", "figure", "most"),
    [
        ("unmixing", "largest error of a sum", 1e-12),
        ("unmixing", "error of the areas:", 0.02),
        ("mcr_als", "largest difference from pyMCR's NNLS:", 1e-9),
        ("mcr_als", "error of the concentrations:", 0.02),
        ("t2_distribution", "error of the myelin water fraction:", 0.04),
        ("cell_types", "largest relative difference from SciPy:", 1e-9),
        ("cell_types", "error of the shares:", 0.03),
        ("nmf", "nnls", 1e-10),
        ("positive_regression", "largest difference from scikit-learn:", 1e-9),
    ],
)
def test_a_recipe_prints_the_figure_that_it_is_about(stem, figure, most, outputs):
    assert float(re.search(rf"{figure} +([\d.e-]+\d)", outputs(stem))[1]) <= most


@pytest.mark.parametrize("stem", ["unmixing", "t2_distribution"])
def test_a_recipe_writes_its_picture(stem, tmp_path):
    run_script(EXAMPLES / f"{stem}.py", "--out", "mine.png", cwd=tmp_path)
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def embeddings():
    """Examples of three classes, with text labels, and a query that is a mixture of two of them."""
    rng = np.random.default_rng(1)
    X = np.maximum(rng.normal(size=(40, 25)), 0)
    return X, np.array(["ape", "bee", "cat"])[np.arange(40) % 3], 3 * X[4] + 2 * X[11] + 0.1 * rng.random(25)


def test_weights_are_those_of_non_negative_least_squares(embeddings):
    X, labels, query = embeddings
    found = explain_by_examples(X, labels, query)
    atoms = X / np.linalg.norm(X, axis=1, keepdims=True)
    unit = query / np.linalg.norm(query)
    weights = scipy.optimize.nnls(atoms.T, unit)[0]
    ours = np.zeros(len(X))
    for atom in found.atoms:
        ours[atom.sample] = atom.coefficient
        assert atom.label == labels[atom.sample]
    np.testing.assert_allclose(ours, weights, atol=1e-9)
    whole = weights @ atoms
    shares = weights * (atoms @ whole) / (whole @ whole)
    np.testing.assert_allclose([a.share for a in found.atoms], shares[[a.sample for a in found.atoms]])
    for part in found.classes:
        assert part.share == pytest.approx(shares[labels == part.label].sum())
        assert part.residual == pytest.approx(
            np.linalg.norm(unit - (weights * (labels == part.label)) @ atoms)
        )
    assert found.converged
    assert found.gap < 1e-10
    assert {atom.sample for atom in found.atoms[:2]} == {4, 11}


def test_without_labels_there_is_one_class_and_its_residual_is_what_is_left(embeddings):
    X, labels, query = embeddings
    named, found = explain_by_examples(X, labels, query), explain_by_examples(X, None, query)
    assert [a.coefficient for a in found.atoms] == pytest.approx([a.coefficient for a in named.atoms])
    assert {a.label for a in found.atoms} == {None}
    (part,) = found.classes
    assert part.label is found.label is found.runner_up is found.verdict.answer is None
    assert part.share == pytest.approx(1)
    model = NRC(solver="exact").fit(X, labels)
    left = np.linalg.norm(query - model.reconstruct(query[None])[0]) / np.linalg.norm(query)
    assert part.residual == found.residuals[None] == pytest.approx(left)
    assert found.to_dict()["label"] is None


def test_tables_with_names_and_fewer_examples(embeddings):
    X, labels, query = embeddings
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(25)])
    found = explain_by_examples(
        frame, pd.Series(labels), pd.Series(query, index=frame.columns), max_examples=2
    )
    assert len(found.atoms) == 2 < found.atoms_used
    assert explain_by_examples(frame, None, frame.iloc[:1]).atoms[0].sample == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": ["a", "b"]}, "inconsistent numbers of samples"),
        ({"query": np.ones((2, 25))}, "One query can be explained at a time. Got 2"),
        ({"query": np.ones(7)}, "X has 7 features"),
        ({"query": np.full(25, np.nan)}, "NaN"),
        ({"X": np.zeros((40, 25))}, "All 40 training samples are zero vectors"),
    ],
)
def test_bad_input_is_one_clear_error(embeddings, change, words):
    arguments = dict(zip(("X", "labels", "query"), embeddings, strict=True)) | change
    with pytest.raises(ValueError, match=words):
        explain_by_examples(**arguments)
