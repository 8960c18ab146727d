"""A new classifier is its class and one line in METHODS; everything else finds it there."""

import csv
import json

import pytest
from sklearn.datasets import load_wine

from residuum import load_model, save_model
from residuum.cli.main import main
from residuum.estimators import METHODS
from residuum.estimators.base import POSITIVE, RepresentationClassifier
from residuum.experiments.baselines import BASELINES
from residuum.experiments.comparison import choose_methods
from residuum.explorer.opening import explore_digits
from residuum.problem import CodingProblem
from residuum.solvers import ClosedForm


class BlendedCRC(RepresentationClassifier):
    """``min_c ||y - Xc||^2 + l2*||c||^2``; the residual plus a share of the reconstruction rule decides."""

    _parameter_constraints = {"l2": [POSITIVE], "blend": [POSITIVE]}

    def __init__(self, *, l2=0.01, blend=0.5):
        self.l2 = l2
        self.blend = blend

    def _make_solver(self, dictionary):
        return ClosedForm(CodingProblem(l2=self.l2), dictionary)

    def _class_scores(self, parts):
        return parts.residuals() + self.blend * parts.disagreements()


@pytest.fixture
def added(monkeypatch):
    """The one line."""
    monkeypatch.setitem(METHODS, "BlendedCRC", BlendedCRC)


@pytest.fixture
def wine(tmp_path):
    data = load_wine()
    path = tmp_path / "wine.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*x, k] for x, k in zip(data.data, data.target_names[data.target]))
    return path


def test_fit_offers_it_and_predict_answers_with_it(added, wine, tmp_path, capsys):
    model = tmp_path / "wine.residuum"
    assert main(["fit", str(wine), "--method", "unknown"]) == 2
    assert "CRNRC, BlendedCRC." in capsys.readouterr().err
    options = ["--method", "blendedcrc", "--set", "blend=0.25", "--probability", "--test-size", "0.5"]
    assert main(["fit", str(wine), *options, "--out", str(model), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["method"] == "BlendedCRC"
    assert summary["parameters"]["blend"] == 0.25
    assert summary["held_out"]["accuracy"] > 0.8
    assert main(["predict", str(model), str(wine)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 179


def test_without_a_search_its_parameters_are_not_chosen(added, wine, capsys):
    assert main(["fit", str(wine), "--method", "blendedcrc", "--select", "cv"]) == 2
    said = capsys.readouterr().err
    assert "--select cv cannot choose the parameters of BlendedCRC yet. Use --set NAME=VALUE." in said


def test_compare_offers_it_beside_the_others(added, wine, tmp_path, capsys):
    assert choose_methods(None) == (*BASELINES, *METHODS)
    assert "BlendedCRC" in choose_methods(None)
    options = ["--methods", "crc,blendedcrc", "--trials", "1", "--json", "--out", str(tmp_path / "run")]
    assert main(["compare", str(wine), *options]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert [row["method"] for row in summary] == ["CRC", "BlendedCRC"]


def test_a_model_file_holds_it(added, tmp_path):
    X, y = load_wine(return_X_y=True)
    model = BlendedCRC(blend=0.75).fit(X, y)
    opened = load_model(save_model(model, tmp_path / "wine.residuum"))
    assert type(opened) is BlendedCRC
    assert opened.blend == 0.75
    assert (opened.residuals(X) == model.residuals(X)).all()


def test_the_explorer_offers_it(added):
    digits = explore_digits()
    found = digits.explain(digits.query(5), digits.controls.checked({"method": "BlendedCRC"}))
    atoms = digits.coder.dictionary
    assert "BlendedCRC" in {each["name"] for each in digits.controls.described()["methods"]}
    assert sum(map(abs, found["code"])) > 0
    assert len(found["code"]) == atoms.n_atoms


def test_without_the_line_it_is_unknown(wine, tmp_path, capsys):
    assert main(["fit", str(wine), "--method", "BlendedCRC", "--out", str(tmp_path / "m")]) == 2
    assert "--method must be auto or one of NSC, SRC" in capsys.readouterr().err
    assert "BlendedCRC" not in choose_methods(None)
