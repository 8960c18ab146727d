"""fit, predict, evaluate and compare on people's own data, from the command line."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from residuum import CRC, NRC, EigenfacePCA, KernelMap
from residuum.cli.main import main
from residuum.estimators import METHODS
from residuum.models.choosing import MethodChoice
from residuum.models.file import open_model


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Wine as CSV with text labels, whole and in two parts."""
    folder = tmp_path_factory.mktemp("tables")
    wine = load_wine()
    rows = [
        [*map(repr, x.tolist()), wine.target_names[k]] for x, k in zip(wine.data, wine.target, strict=True)
    ]
    head = [*wine.feature_names, "cultivar"]
    for name, part in (("wine", rows), ("train", rows[::2]), ("new", rows[1::2])):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([head, *part])
    return folder


@pytest.fixture(scope="module")
def model(tables):
    path = tables / "wine.residuum"
    assert main(["fit", str(tables / "train.csv"), "--probability", "--out", str(path)]) == 0
    return path


@pytest.fixture
def run(capsys):
    """Run the command; exit code, standard output and standard error."""

    def call(*args):
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


BAD_OPTIONS = {"--sharpness": "-1", "--pca": "0", "--with": "magic", "--seed": "-1"}


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_fit_says_what_it_did_and_saves_a_model(run, tables, tmp_path):
    out = tmp_path / "m.residuum"
    code, told, notes = run("fit", tables / "wine.csv", "--test-size", "0.3", "--out", out, "--json")
    assert code == 0
    summary = json.loads(told)
    assert summary["steps"] == ["StandardScaler", "KernelMap", "SoftNRC"]
    assert "taken for a table: the steps are standard scaling, rbf kernel of sharpness 0.2; --scale" in notes
    assert summary["samples"] + summary["held_out"]["samples"] == 178
    assert summary["held_out"]["accuracy"] > 0.9
    assert "'cultivar'" in notes
    saved = open_model(out)
    assert saved.about["input"]["columns"][0] == "alcohol"
    assert len(saved.about["samples"]) == summary["samples"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.residuum"]


def test_predict_goes_through_the_saved_steps(run, model, tables, tmp_path):
    out = tmp_path / "answers.csv"
    code, told, _ = run("predict", model, tables / "new.csv", "--out", out)
    assert (code, told) == (0, "")
    answers = rows_of(out)
    assert list(answers[0]) == ["name", "label", "margin", "runner_up", "residual", "probability"]
    truth = [row["cultivar"] for row in rows_of(tables / "new.csv")]
    assert np.mean([a["label"] == t for a, t in zip(answers, truth, strict=True)]) > 0.9
    estimator = open_model(model).estimator
    X = load_wine().data[1::2]
    assert [a["label"] for a in answers] == estimator.predict(X).tolist()
    residuals = np.sort(estimator[-1].residuals(estimator[:-1].transform(X)), axis=1)
    np.testing.assert_array_equal([float(a["residual"]) for a in answers], residuals[:, 0])
    np.testing.assert_array_equal([float(a["margin"]) for a in answers], residuals[:, 1] - residuals[:, 0])
    assert all(a["runner_up"] != a["label"] for a in answers)


def test_predict_in_another_order_of_columns_and_without_labels(run, model, tables, tmp_path):
    _, want, _ = run("predict", model, tables / "new.csv", "--json")
    rows = rows_of(tables / "new.csv")
    names = [name for name in reversed(rows[0]) if name != "cultivar"]
    path = tmp_path / "turned.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    code, told, notes = run("predict", model, path, "--json")
    assert code == 0
    assert json.loads(told)["answers"] == json.loads(want)["answers"]
    assert "another order" in notes
    path.write_text(path.read_text().replace("proline", "prolixity", 1))
    code, told, notes = run("predict", model, path)
    assert (code, told) == (3, "")
    assert "lacks 1 of the 13 columns that the model takes: 'proline'" in notes


def test_evaluate_counts_right(run, model, tables):
    code, told, _ = run("evaluate", model, tables / "new.csv", "--json")
    assert code == 0
    found = json.loads(told)
    X, y = load_wine().data[1::2], load_wine().target_names[load_wine().target[1::2]]
    said = open_model(model).estimator.predict(X)
    assert found["accuracy"] == pytest.approx(np.mean(said == y))
    counts = np.array(found["confusion"]["counts"])
    assert counts.trace() == np.count_nonzero(said == y)
    assert counts.sum() == len(y)
    first = found["classes"][0]
    assert first["recall"] == pytest.approx(np.mean(said[y == "class_0"] == "class_0"))
    assert first["precision"] == pytest.approx(np.mean(y[said == "class_0"] == "class_0"))
    assert 0 < found["probability"]["ece"] < 0.2
    code, told, _ = run("evaluate", model, tables / "new.csv")
    assert code == 0
    for word in ("Accuracy", "ECE", "Log-loss", "Confusion", "class_2"):
        assert word in told


def test_a_way_to_reject_needs_a_threshold(run, tables, tmp_path):
    code, _, told = run("fit", tables / "wine.csv", "--reject-by", "margin", "--out", tmp_path / "m.residuum")
    assert code == 2
    assert "--reject-threshold" in told
    assert not (tmp_path / "m.residuum").exists()


def test_rejection_of_a_class_the_model_never_saw(run, tables, tmp_path):
    rows = rows_of(tables / "train.csv")
    path, out = tmp_path / "two.csv", tmp_path / "two.residuum"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(row for row in rows if row["cultivar"] != "class_1")
    assert run("fit", path, "--reject-threshold", "0.3", "--method", "nrc", "--out", out)[0] == 0
    code, told, _ = run("evaluate", out, tables / "new.csv", "--json")
    assert code == 0
    found = json.loads(told)
    assert found["unknown_labels"] == ["class_1"]
    part = found["rejection"]
    assert 0 < part["rejected"] < found["samples"]
    assert [part["curve"][0][k] for k in ("false_accept", "false_reject")] == [1, 0]
    assert [part["curve"][-1][k] for k in ("false_accept", "false_reject")] == [0, 1]
    code, told, _ = run("predict", out, tables / "new.csv")
    answers = list(csv.DictReader(told.splitlines()))
    rejected = [a for a in answers if a["rejected"] == "true"]
    assert len(rejected) == part["rejected"]
    assert {a["label"] for a in rejected} == {"none of these"}
    assert {a["nearest"] for a in rejected} <= {"class_0", "class_2"}
    assert "False accept" in run("evaluate", out, tables / "new.csv")[1]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_round_trips(run, method, tables, tmp_path):
    out = tmp_path / "m.residuum"
    parts = (tables / "train.csv", "--test", tables / "new.csv")
    code, told, _ = run("fit", *parts, "--method", method, "--pca", "8", "--out", out, "--json")
    assert code == 0
    accuracy = json.loads(told)["held_out"]["accuracy"]
    assert accuracy > 0.5  # three classes
    code, told, _ = run("evaluate", out, tables / "new.csv", "--json")
    assert code == 0
    assert json.loads(told)["accuracy"] == accuracy


def test_selection_and_settings(run, tables, tmp_path):
    out = tmp_path / "m.residuum"
    code, told, _ = run(
        *("fit", tables / "wine.csv", "--method", "crc", "--select", "cv", "--set", "l2s=[0.001, 0.1]"),
        *("--scale", "standard", "--kernel", "none", "--out", out, "--json"),
    )
    assert code == 0
    summary = json.loads(told)
    assert summary["selection"]["n_candidates"] == 4  # two ridges by two rules
    assert summary["parameters"]["l2"] == summary["selection"]["parameters"]["l2"]
    assert open_model(out).about["selection"]["score"] == summary["selection"]["score"]
    code, told, _ = run(
        "fit", tables / "wine.csv", "--set", "neg_weight=inf", "--set", "l2=0.5", "--out", out
    )
    assert code == 0
    assert open_model(out).estimator[-1].get_params()["neg_weight"] == np.inf


def test_exact_nrc_warns_of_a_subtracted_mean(run, tables, tmp_path):
    raw = np.random.default_rng(0).random((60, 70)) + np.repeat(np.eye(3, 70), 20, axis=0)
    arguments = ("fit", tmp_path / "X.npz", "--method", "nrc", "--out", tmp_path / "m.residuum")
    for X, warned in ((raw, False), (raw - raw.mean(axis=0), True)):
        np.savez(tmp_path / "X.npz", X=X, y=np.repeat(["a", "b", "c"], 20))
        code, _, said = run(*arguments, "--set", "solver=exact")
        assert "A mean seems to be subtracted" not in run(*arguments)[2]
        assert (code in (0, 4), "A mean seems to be subtracted" in said) == (True, warned)


def test_the_method_is_chosen_on_folds_that_it_has_not_seen(run, tables, tmp_path):
    out = tmp_path / "m.residuum"
    code, told, _ = run("fit", tables / "wine.csv", "--method", "AUTO", "--out", out, "--json")
    assert code == 0
    summary = json.loads(told)
    choice = summary["choice"]
    means = {method: np.mean(scores) for method, scores in choice["folds"].items()}
    assert set(means) == set(METHODS)
    assert summary["method"] == choice["method"] == next(iter(means))
    assert means[choice["method"]] == max(means.values())
    assert choice["lead"] == pytest.approx(means[choice["method"]] - means[choice["runner_up"]])
    wine = load_wine()
    labels = wine.target_names[wine.target]
    steps = Pipeline([("s", StandardScaler()), ("k", KernelMap()), ("m", METHODS["NSC"]())])
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    np.testing.assert_allclose(choice["folds"]["NSC"], cross_val_score(steps, wine.data, labels, cv=folds))
    assert open_model(out).about["choice"] == choice
    code, told, _ = run("fit", tables / "wine.csv", "--method", "auto", "--out", out)
    assert f"The runner-up {choice['runner_up']} had" in told
    code, _, err = run("fit", tables / "wine.csv", "--method", "auto", "--set", "l2=1", "--out", out)
    assert (code, "leave it out, or name the method" in err) == (2, True)


def test_the_method_is_chosen_on_whole_groups_where_there_are_any(run, tmp_path):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 3)
    X = (rng.standard_normal((12, 6))[groups] + 0.3 * rng.standard_normal((36, 6))).round(4)
    y = np.where(groups % 2, "odd", "even")
    with (tmp_path / "g.csv").open("w", newline="") as file:
        rows = zip(X.tolist(), groups.tolist(), y.tolist(), strict=True)
        csv.writer(file).writerows([[*"abcdef", "g", "y"], *([*x, f"g{g}", k] for x, g, k in rows)])
    options = ("--label", "y", "--groups", "g", "--method", "auto", "--scale", "none", "--kernel", "none")
    code, told, _ = run("fit", tmp_path / "g.csv", *options, "--out", tmp_path / "m", "--json")
    assert code == 0
    folds = StratifiedGroupKFold(5)
    expected = cross_val_score(METHODS["NSC"](), X, y, groups=[f"g{g}" for g in groups], cv=folds)
    np.testing.assert_allclose(json.loads(told)["choice"]["folds"]["NSC"], expected)


def test_two_samples_of_a_class_are_too_few_to_choose_a_method(run, tmp_path):
    (tmp_path / "few.csv").write_text("a,b,label\n1,2,x\n2,1,x\n3,9,x\n4,7,y\n5,8,y\n")
    code, told, notes = run("fit", tmp_path / "few.csv", "--method", "auto", "--out", tmp_path / "m")
    assert (code, told) == (2, "")
    assert "--method auto needs three training samples of every class" in notes
    assert "The smallest class has 2: name a method instead." in notes


def test_confidence_is_reported_with_the_classifier_it_surrounds(run, tables, tmp_path):
    out = tmp_path / "m.residuum"
    where = ("fit", tables / "wine.csv", "--method", "NrC", "--out", out, "--json")
    summary = json.loads(run(*where, "--reject-threshold", "0.1", "--reject-by", "concentration")[1])
    assert (summary["method"], summary["steps"]) == ("NRC", ["StandardScaler", "KernelMap", "NRC"])
    confidence = {"probability": False, "reject_threshold": 0.1, "reject_by": "concentration"}
    assert confidence.items() <= summary["parameters"].items()
    assert NRC().get_params().items() <= summary["parameters"].items()
    assert open_model(out).about["method"] == "NRC"
    assert open_model(out).estimator[-1].temperature_ is None
    summary = json.loads(run(*where, "--probability", "--select", "cv")[1])
    assert summary["method"] == "NRC"
    assert summary["parameters"]["probability"] is True
    assert summary["selection"]["parameters"].items() <= summary["parameters"].items()
    assert open_model(out).estimator[-1].temperature_ > 0


@pytest.mark.parametrize("directions", [4, 12])
def test_selection_fits_the_steps_in_every_fold(run, tables, tmp_path, directions):
    code, told, _ = run(
        *("fit", tables / "wine.csv", "--method", "crc", "--select", "cv", "--set", "l2s=[0.001, 0.1, 1]"),
        *("--scale", "standard", "--kernel", "none", "--pca", str(directions), "--json"),
        *("--out", tmp_path / "m.residuum"),
    )
    assert code == 0
    wine = load_wine(as_frame=False)
    steps = Pipeline([("s", StandardScaler()), ("p", EigenfacePCA(directions)), ("m", CRC())])
    grid = {"m__l2": [0.001, 0.1, 1], "m__rule": ["residual", "scaled_residual"]}
    best = GridSearchCV(steps, grid).fit(wine.data, wine.target_names[wine.target]).best_score_
    assert json.loads(told)["selection"]["score"] == pytest.approx(best, abs=1e-12)


def test_compare_chooses_like_fit(run, tmp_path):
    """Groups stay together in its folds too, and scaling and directions are learned in each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 30))
    groups = np.repeat(np.arange(40), 4)
    rows = centres[groups] + 0.05 * rng.standard_normal((160, 30))
    table = [
        [*map(repr, r.tolist()), f"k{g % 2}", f"g{g}", "test" if g > 30 else "train"]
        for r, g in zip(rows, groups)
    ]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*(f"f{i}" for i in range(30)), "y", "g", "part"], *table])
    options = (
        "--label",
        "y",
        "--groups",
        "g",
        "--split",
        "part",
        "--select",
        "cv",
        "--scale",
        "standard",
        "--pca",
        "20",
        "--kernel",
        "none",
    )
    code, told, _ = run(
        "fit", tmp_path / "d.csv", *options, "--method", "crc", "--out", tmp_path / "m", "--json"
    )
    assert code == 0
    chosen = json.loads(told)["selection"]["parameters"]
    code, *_ = run("compare", tmp_path / "d.csv", *options, "--methods", "crc,svm", "--out", tmp_path / "run")
    assert code == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    found = {cell["method"]: cell["chosen"] for cell in results["cells"]}
    assert found["CRC"] == chosen
    assert list(found["SVM"]) == ["C"]


def test_compare_selects_with_few_samples_of_a_class(run, tables, tmp_path):
    code, _, error = run(
        *(
            "compare",
            tables / "wine.csv",
            "--train-per-class",
            "3",
            "--trials",
            "1",
            "--methods",
            "svm,softmax,nsc",
        ),
        *("--select", "cv", "--out", tmp_path / "run"),
    )
    assert code == 0, error


def test_evaluate_uses_the_test_part_of_a_split(run, tables, tmp_path):
    lines = (tables / "wine.csv").read_text().splitlines()
    parts = ["part", *("test" if i % 3 else "train" for i in range(len(lines) - 1))]
    (tmp_path / "s.csv").write_text(
        "\n".join(f"{part},{line}" for part, line in zip(parts, lines, strict=True))
    )
    out = tmp_path / "m.residuum"
    code, told, _ = run("fit", tmp_path / "s.csv", "--split", "part", "--out", out, "--json")
    assert code == 0
    held = json.loads(told)["held_out"]
    code, told, _ = run("evaluate", out, tmp_path / "s.csv", "--split", "part", "--json")
    assert (code, json.loads(told)["samples"]) == (0, held["samples"])
    assert json.loads(told)["accuracy"] == held["accuracy"]


@pytest.mark.parametrize(
    ("options", "heading"),
    [
        (["--method", "NSC"], "residual"),
        (["--method", "CROC", "--probability"], "score"),
        (["--method", "ProCRC", "--select", "cv", "--set", "rules=reconstruction"], "score"),
    ],
)
def test_only_residuals_are_called_so(run, tables, tmp_path, options, heading):
    assert run("fit", tables / "train.csv", *options, "--out", tmp_path / "m.residuum")[0] == 0
    columns = run("predict", tmp_path / "m.residuum", tables / "train.csv")[1].splitlines()[0].split(",")
    assert columns[4] == heading


def test_answers_are_not_written_under_the_name_of_another_format(run, model, tables, tmp_path):
    code, _, error = run("predict", model, tables / "new.csv", "--out", tmp_path / "p.parquet")
    assert code == 2
    assert "CSV or JSON" in error
    assert not (tmp_path / "p.parquet").exists()


def test_one_group_cannot_be_held_out(run, tmp_path, tables):
    lines = (tables / "wine.csv").read_text().splitlines()
    (tmp_path / "g.csv").write_text(
        "\n".join(f"{'g' if i == 0 else 'one'},{line}" for i, line in enumerate(lines))
    )
    code, _, error = run(
        "fit", tmp_path / "g.csv", "--groups", "g", "--select", "cv", "--out", tmp_path / "m"
    )
    assert code == 2
    assert "--groups" in error


def test_selection_where_a_fold_has_fewer_directions_than_asked_for(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[*map(repr, x.tolist()), f"k{i % 2}"] for i, x in enumerate(rng.random((20, 30)))]
    with (tmp_path / "few.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*(f"f{i}" for i in range(30)), "y"], *rows])
    out = tmp_path / "m.residuum"
    code, _, error = run("fit", tmp_path / "few.csv", "--select", "cv", "--pca", "18", "--out", out)
    assert (code, "--pca must be from 1 to 15: 16 training samples" in error) == (2, True)
    assert run("fit", tmp_path / "few.csv", "--select", "cv", "--pca", "15", "--out", out)[0] == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (
            ["--method", "magic"],
            2,
            "must be auto or one of NSC, SRC, CRC, CROC, ProCRC, NRC, SoftNRC, SimplexRC, CRNRC. Got",
        ),
        (["--set", "l3=1"], 2, "SoftNRC has class_weight, l2, n_jobs, neg_weight, rule, tol"),
        (["--set", "l2"], 2, "must look like NAME=VALUE"),
        (["--set", "l2=-1"], 2, "The 'l2' parameter of SoftNRC"),
        (["--set", "l2=1", "--set", "l2=2"], 2, "given twice"),
        (["--pca", "99"], 2, "--pca must be from 1 to 13"),
        (["--test-size", "1.5"], 2, "--test-size must be a share"),
        (["--label", "grape"], 2, "--label 'grape' is not a column"),
        (["--with", "bow_sift"], 2, "takes a folder of images"),
        (["--with", "scattering"], 2, "say --image-shape HEIGHTxWIDTH"),
        (["--image-shape", "big"], 2, "HEIGHTxWIDTH"),
        (["--image-shape", "5x5"], 2, "has 13 features"),
        (["--out", "no/such/place.residuum"], 2, "does not exist"),
        (["--split", "cultivar"], 3, "which must be train or test"),
    ],
)
def test_fit_refuses_in_one_line_and_writes_nothing(run, args, code, message, tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got, told, notes = run("fit", tables / "wine.csv", *args)
    assert (got, told) == (code, "")
    assert message in notes.splitlines()[-1]
    assert "Traceback" not in notes
    assert list(tmp_path.iterdir()) == []


def test_models_that_are_none(run, model, tables, tmp_path):
    pickle = tmp_path / "model.pkl"
    pickle.write_bytes(b"\x80\x04\x95\x00")
    for path in (pickle, tables / "new.csv", tmp_path / "nothing.residuum"):
        for command in ("predict", "evaluate"):
            code, told, notes = run(command, path, tables / "new.csv")
            assert (code, told) == (3, "")
            assert notes.startswith("Error: ")
            assert len(notes.splitlines()) == 1
    code, _, notes = run("evaluate", model, tables / "wine.csv", "--drop", "cultivar")
    assert code == 2
    assert "has no labels to compare with" in notes


def test_arrays_with_a_split_of_their_own_and_thumbnails(run, tmp_path):
    digits = load_digits()
    path, out = tmp_path / "digits.npz", tmp_path / "digits.residuum"
    train, test = np.arange(0, 400), np.arange(400, 600)
    np.savez(
        path,
        x_train=digits.images[train].astype(np.uint8),
        y_train=digits.target[train],
        x_test=digits.images[test].astype(np.uint8),
        y_test=digits.target[test],
    )
    code, told, _ = run("fit", path, "--out", out, "--json")
    assert code == 0
    held_out = json.loads(told)["held_out"]
    assert held_out["samples"] == 200
    saved = open_model(out)
    np.testing.assert_array_equal(saved.images, digits.images[train])
    code, told, _ = run("evaluate", out, path, "--json")
    assert json.loads(told)["accuracy"] == held_out["accuracy"] > 0.85
    code, told, _ = run("fit", path, "--with", "scattering", "--set", "l2=0.1", "--out", out, "--json")
    assert code == 0
    assert json.loads(told)["steps"] == ["Scattering2D", "SoftNRC"]
    assert run("predict", out, path)[0] == 0


def test_a_file_with_a_split_takes_no_other_test_samples(run, tmp_path):
    X, y = np.eye(4), [0, 1, 0, 1]
    np.savez(tmp_path / "parts.npz", x_train=X, y_train=y, x_test=X, y_test=y)
    np.savez(tmp_path / "test.npz", X=X, y=y)
    options = ("--test", tmp_path / "test.npz", "--out", tmp_path / "m")
    for command in ("fit", "compare"):
        code, told, notes = run(command, tmp_path / "parts.npz", *options)
        assert (code, told) == (2, "")
        assert "--test brings the held-out samples: leave --split and --test-size out." in notes


def test_answers_short_of_their_tolerance_are_complete_and_exit_code_4(run, tables, tmp_path):
    out = tmp_path / "m.residuum"
    settings = ("--method", "nrc", "--set", "step_tol=1e-12", "--set", "max_iter=3")
    assert run("fit", tables / "train.csv", *settings, "--out", out)[0] == 0
    code, told, notes = run("predict", out, tables / "new.csv")
    assert (code, len(told.splitlines())) == (4, 90)
    assert "Error: The results are complete, but: " in notes
    assert run("evaluate", out, tables / "new.csv")[0] == 4


def test_options_of_a_cluster_and_of_one_file_do_not_mix(run, model, tables):
    code, told, notes = run("predict", model, tables / "new.csv", "--memory", "1 GB")
    assert (code, told) == (2, "")
    assert "--memory is for --cluster and for models over shards" in notes
    code, told, notes = run("predict", model, tables / "new.csv", "--cluster", "local", "--json")
    assert (code, told) == (2, "")
    assert "--all-probabilities and --json are for answers in one file: leave --cluster out" in notes


def test_of_many_classes_the_most_frequent_confusions_are_listed(run, tmp_path):
    """Fifteen classes, one of which is taken for its neighbour in three samples of four."""
    X = np.repeat(np.eye(15), 4, axis=0)
    y = np.repeat([f"class {k:02d}" for k in range(15)], 4)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    X[1:4] = np.eye(15)[1]
    np.savez(tmp_path / "new.npz", X=X, y=y)
    out = tmp_path / "m.residuum"
    assert run("fit", tmp_path / "train.npz", "--method", "nsc", "--scale", "none", "--out", out)[0] == 0
    code, told, _ = run("evaluate", out, tmp_path / "new.npz")
    assert code == 0
    assert re.search(r"class 00 +class 01 +3\b", told)
    assert "Confusion: true class down" not in told


def test_a_folder_of_images(run, tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image", reason="needs the extra 'images': pillow")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "faces"
    digits = load_digits()
    for i in range(90):
        if digits.target[i] < 3:
            part = "test" if i > 60 else "train"
            place = folder / part / f"digit {digits.target[i]}"
            place.mkdir(parents=True, exist_ok=True)
            pixels = np.kron(digits.images[i] * 15, np.ones((3, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{i:03d}.png")
    (folder / "train" / "digit 0" / "broken.png").write_text("no image")
    out = tmp_path / "faces.residuum"
    code, told, notes = run("fit", folder, "--with", "pixels", "--image-shape", "8x8", "--out", out, "--json")
    assert code == 0
    assert "broken.png" in notes
    assert json.loads(told)["held_out"]["accuracy"] > 0.8
    assert open_model(out).images.shape[1:] == (8, 8)
    code, told, _ = run("predict", out, folder / "test")
    answers = list(csv.DictReader(told.splitlines()))
    assert answers[0]["name"] == "digit 0/065.png" or answers[0]["name"].startswith("digit 0/")
    assert np.mean([a["label"] == a["name"].split("/")[0] for a in answers]) > 0.8
    code, _, notes = run("predict", out, tmp_path / "cache.csv")
    assert code == 3
    code, told, _ = run(
        *("compare", folder, "--with", "pixels", "--image-shape", "8x8", "--methods", "crc", "--json"),
        *("--out", tmp_path / "run"),
    )
    assert code == 0
    assert json.loads(told)["settings"]["trials"] == 1


def test_compare_on_own_data(run, tables, tmp_path):
    where = ("compare", tables / "wine.csv", "--methods", "crc,nsc", "--trials", "2")
    code, told, notes = run(*where, "--json", "--out", tmp_path / "a")
    assert code == 0
    brief = json.loads(told)
    assert brief["settings"]["train_per_class"] == 24
    assert "24 training samples of each class; the smallest, 'class_2', has 48" in notes
    assert brief["summary"][0]["accuracy_mean"] > 0.85
    results = json.loads((tmp_path / "a" / "results.json").read_text())
    assert results["trials"][0]["labels"][0].startswith("class_")
    assert "--scale" not in results["data"]["arguments"]
    page = (tmp_path / "a" / "report.html").read_text()
    assert "wine.csv --methods" in page
    assert "wine.csv: 24 training samples per class, 106 queries" in page
    code, _, notes = run(*where, "--train-per-class", "48", "--out", tmp_path / "b")
    assert code == 2
    assert "must be from 1 to 47: the smallest class of wine.csv has 48 samples" in notes
    code, told, _ = run(*where, "--test-size", "0.5", "--scale", "none", "--json", "--out", tmp_path / "c")
    assert code == 0
    features = json.loads(told)["data"]["features"]
    assert features["candidates"] == {m: ["rbf kernel of sharpness 0.2"] for m in ("NSC", "CRC")}
    assert (features["count"], features["numbers"]) == (13, "columns")
    code, told, _ = run(*where[:4], "--test", tables / "new.csv", "--json", "--out", tmp_path / "d")
    assert json.loads(told)["settings"]["trials"] == 1


def test_compare_tells_what_it_was_given(run, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((24, 4)).round(3), np.arange(24) % 2
    np.savez(tmp_path / "d.npz", X=X, y=y)
    lines = [f"{','.join(map(str, x.tolist()))},g{i // 4},k{k}" for i, (x, k) in enumerate(zip(X, y))]
    (tmp_path / "d.csv").write_text("\n".join(lines))
    options = ("--methods", "nsc", "--trials", "1", "--embeddings")
    code, _, notes = run("compare", tmp_path / "d.npz", *options, "--out", tmp_path / "a")
    assert code == 0, notes
    about = json.loads((tmp_path / "a/results.json").read_text())["data"]
    assert about["features"]["numbers"] == "numbers of an array"
    assert about["arguments"].endswith("d.npz --methods nsc --trials 1 --embeddings")
    options = (*options, "--no-header", "--label", "5", "--groups", "4", "--out", tmp_path / "b")
    code, _, notes = run("compare", tmp_path / "d.csv", *options)
    assert code == 0, notes
    assert "0.3 of the samples are held out, whole groups; --test-size changes that" in notes
    assert " --no-header" in json.loads((tmp_path / "b/results.json").read_text())["data"]["arguments"]


def test_a_model_over_shards_is_a_folder(run, tmp_path):
    np.savez(tmp_path / "train.npz", X=np.eye(4), y=[0, 1, 0, 1])
    assert run("shard", tmp_path / "train.npz", "--out", tmp_path / "shards")[0] == 0
    (tmp_path / "m").write_text("mine")
    code, _, notes = run("fit", tmp_path / "shards", "--method", "nsc", "--out", tmp_path / "m")
    assert code == 2
    assert "--out must name the folder of a model over shards. Got the file" in notes
    assert (tmp_path / "m").read_text() == "mine"


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        *(
            (command, option, value)
            for command in ("fit", "compare")
            for option, value in BAD_OPTIONS.items()
        ),
        ("fit", "--method", "magic"),
        ("compare", "--methods", "magic"),
        ("compare", "--trials", "0"),
        ("compare", "--train-per-class", "0"),
    ],
)
def test_arguments_are_refused_before_the_data_are_read(run, tmp_path, command, option, value):
    code, told, notes = run(command, tmp_path / "absent.csv", option, value)
    assert (code, told) == (2, "")
    assert f"{option} must be" in notes
    assert "absent.csv" not in notes


def test_a_tie_of_methods_is_called_one():
    scores = {"NSC": np.array([0.5, 1.0]), "CRC": np.array([1.0, 1.0]), "NRC": np.array([1.0, 1.0])}
    assert str(MethodChoice(scores)).endswith(
        "The runner-up NRC had the same; the first in the list of methods wins."
    )
    scores["NRC"][0] = 0.9
    assert str(MethodChoice(scores)).endswith("NRC had 95.0 % and lost by 5.0 points, standard error 5.0.")


def test_one_class_is_refused_with_advice(run, tmp_path):
    (tmp_path / "one.csv").write_text("a,b,label\n1,2,x\n3,4,x\n")
    code, _, notes = run("fit", tmp_path / "one.csv", "--out", tmp_path / "m.residuum")
    assert code == 3
    assert "a classifier needs two classes or more" in notes
    assert "--label" in notes


def test_compare_refuses_clearly(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, notes = run("compare", "--label", "y")
    assert (code, "--label goes with DATA" in notes) == (2, True)
    lonely = tmp_path / "lonely.csv"
    lonely.write_text("a,b,label\n1,2,x\n3,4,x\n5,6,y\n")
    (tmp_path / "groups.csv").write_text("a,b,g,label\n1,2,p,x\n3,4,p,y\n5,6,q,x\n7,9,q,y\n")
    (tmp_path / "two.csv").write_text("a,b,label\n1,2,x\n3,4,x\n5,6,y\n7,9,y\n")
    code, _, notes = run("compare", lonely)
    assert code == 3
    assert "class 'y' has 1 sample" in notes
    (tmp_path / "one.csv").write_text("a,b,label\n1,2,x\n3,4,x\n5,6,x\n")
    np.savez("parts.npz", x_train=np.eye(4), y_train=[0, 1, 0, 1], x_test=np.eye(4), y_test=[0, 1, 0, 1])
    (tmp_path / "all.csv").write_text("a,b,part,label\n1,2,train,x\n3,4,train,y\n5,6,train,x\n")
    np.save("bare.npy", np.eye(4))
    for words, expected, told in (
        ("one.csv", 3, "All samples of one.csv are of class 'x'."),
        ("bare.npy", 3, "bare.npy has no labels: there is nothing to compare."),
        ("two.csv --select cv", 2, "needs two training samples of each class, to hold one out"),
        ("groups.csv --groups g --select cv --test-size 0.5", 2, "two groups of training samples"),
        ("one.csv --with bow_sift", 2, "--with bow_sift goes with a folder of images. Got one.csv."),
        ("one.csv --train-per-class 1 --test-size 0.5", 2, "both say how to split: leave one out"),
        ("parts.npz --trials 2", 2, "brings its held-out samples, so there is one trial"),
        ("parts.npz --train-per-class 1", 2, "leave --trials and --train-per-class out"),
        ("all.csv --split part", 3, "all.csv: the split leaves no test samples"),
    ):
        code, out, notes = run("compare", *words.split())
        assert (code, out) == (expected, "")
        assert told in notes
    assert not (tmp_path / "residuum-runs").exists()


def test_groups_stay_together(run, tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "iris.csv"
    rows = [f"{','.join(map(repr, x.tolist()))},plant {i % 10},{k}" for i, (x, k) in enumerate(zip(X, y))]
    path.write_text("\n".join(["a,b,c,d,plant,species", *rows]))
    options = ("--label", "species", "--groups", "plant", "--test-size", "0.3")
    out = tmp_path / "m.residuum"
    assert run("fit", path, *options, "--select", "cv", "--method", "crc", "--out", out)[0] == 0
    trained = {int(name) % 10 for name in open_model(out).about["samples"]}
    assert len(open_model(out).about["samples"]) == 15 * len(trained) == 105


SOLVE_UNTIL_INTERRUPTED = """
import sys
from residuum import SRC
from residuum.cli.main import main
answer = SRC.answer
def answer_again_and_again(classifier, X):
    print("solving", file=sys.stderr, flush=True)
    while True:
        answer(classifier, X)
SRC.answer = answer_again_and_again
sys.exit(main())
"""


def test_an_interrupt_among_the_held_out_samples_leaves_the_model(tables, tmp_path):
    args = ["fit", tables / "wine.csv", "--method", "src", "--test-size", "0.5", "--out", tmp_path / "m"]
    job = subprocess.Popen([sys.executable, "-c", SOLVE_UNTIL_INTERRUPTED, *args], stderr=subprocess.PIPE)
    while job.stderr.readline() != b"solving\n":
        assert job.poll() is None
    job.send_signal(signal.SIGINT)
    _, told = job.communicate()
    # Both happen: Python sometimes ends by the signal itself, and shells report either as 130.
    assert job.returncode in (130, -signal.SIGINT), told
    assert told.splitlines()[-1].startswith(b"Interrupted. The model is saved as")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert open_model(tmp_path / "m").about["method"] == "SRC"


def test_an_interrupt_while_the_model_is_written_leaves_nothing(run, tables, tmp_path, monkeypatch):
    written = []

    def interrupted(source, *_args, **_kwargs):
        written.append(Path(source).is_file())
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    code, _, told = run("fit", tables / "wine.csv", "--out", tmp_path / "m.residuum")
    assert (code, told.splitlines()[-1]) == (130, "Interrupted.")
    assert written == [True]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fit", "fit --test", "predict model", "predict data", "explain", "link"])
def test_an_input_is_never_overwritten(tables, model, run, tmp_path, command):
    train, new, fitted = (tmp_path / name for name in ("train.csv", "new.csv", "wine.residuum"))
    for source, copy in ((tables / "train.csv", train), (tables / "new.csv", new), (model, fitted)):
        copy.write_bytes(source.read_bytes())
    (tmp_path / "link.csv").symlink_to(new)
    before = {path: path.read_bytes() for path in (train, new, fitted)}
    arguments = {
        "fit": ("fit", train, "--out", train),
        "fit --test": ("fit", train, "--test", new, "--out", new),
        "predict model": ("predict", fitted, new, "--out", fitted),
        "predict data": ("predict", fitted, new, "--out", new),
        "explain": ("explain", fitted, new, "--row", 0, "--html", fitted),
        "link": ("predict", fitted, new, "--out", tmp_path / "link.csv"),
    }[command]
    code, _, err = run(*arguments)
    assert code == 2
    assert "would overwrite" in err
    assert {path: path.read_bytes() for path in before} == before


def test_a_pipe_or_device_is_not_replaced_by_a_file(tables, model, run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for arguments in (
        ("fit", tables / "train.csv", "--out", pipe),
        ("predict", model, tables / "new.csv", "--out", pipe),
        ("explain", model, tables / "new.csv", "--row", 0, "--html", pipe),
    ):
        code, _, err = run(*arguments)
        assert (code, "ordinary file" in err) == (2, True)
        assert pipe.is_fifo()


def test_a_link_is_written_through(tables, model, run, tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    link.symlink_to(real)
    assert run("predict", model, tables / "new.csv", "--out", link)[0] == 0
    assert link.is_symlink()
    assert len(rows_of(real)) == 89


@pytest.mark.parametrize("length", [250, 300])
def test_a_name_that_cannot_be_written_is_one_error_that_names_the_option(
    tables, model, run, tmp_path, length
):
    long = tmp_path / ("x" * length)  # 250 letters are a name, but leave no room for that of a part
    for option, arguments in (
        ("--out", ("predict", model, tables / "new.csv")),
        ("--html", ("explain", model, tables / "new.csv", "--row", 0)),
    ):
        code, _, err = run(*arguments, option, long)
        assert code == 2
        assert f"too long. Choose another place with {option}" in err
    assert list(tmp_path.iterdir()) == []


def test_features_that_never_vary_are_an_error_of_the_data(run, tmp_path):
    (tmp_path / "same.csv").write_text("a,b,label\n" + "1,2,x\n1,2,y\n" * 5)
    code, _, err = run("fit", tmp_path / "same.csv", "--out", tmp_path / "m.residuum")
    assert code == 3
    assert "All 10 training samples are the same" in err
    assert not (tmp_path / "m.residuum").exists()


def test_a_folder_that_is_no_model_is_called_so(tables, run):
    code, _, err = run("predict", tables, tables / "new.csv")
    assert code == 3
    assert "is not a model" in err


def test_one_sample_per_class_is_one_sample(run, tmp_path):
    (tmp_path / "few.csv").write_text("a,b,label\n1,5,x\n4,3,y\n")
    code, out, _ = run("fit", tmp_path / "few.csv", "--scale", "none", "--out", tmp_path / "m.residuum")
    assert (code, "2 classes (1 sample each)" in out) == (0, True)


def test_names_of_classes_are_plain_text_in_every_output(run, tmp_path, recwarn):
    wine = load_wine()
    classes = [r"$\frac$", "[/bold] US$", "名"]  # mathematics to matplotlib, markup to Rich, no glyph
    lines = [
        ",".join([*map(repr, x.tolist()), classes[k]]) for x, k in zip(wine.data, wine.target, strict=True)
    ]
    path, out = tmp_path / "odd.csv", tmp_path / "run"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, _, err = run("compare", path, "--trials", 1, "--methods", "nrc", "--out", out)
    assert (code, "Glyph" in err) == (0, False)
    assert not [w for w in recwarn if "Glyph" in str(w.message)]
    page = (out / "report.html").read_text(encoding="utf-8")
    model = tmp_path / "odd.residuum"
    assert run("fit", path, "--out", model)[0] == 0
    _, evaluated, _ = run("evaluate", model, path)
    _, explained, _ = run("explain", model, path, "--row", 0)
    for name in classes:
        assert all(name in text for text in (page, evaluated, explained))
