"""Tables 6 to 11: declarations, from a data set of photographs to a report, subsets, what is missing."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from residuum import CRC, NRC, NSC, SRC
from residuum.cli.main import main
from residuum.errors import DataError
from residuum.experiments.runner import FORMAT
from residuum.features import EXTRACTORS, BowSift
from residuum.paper import protocols, tables
from residuum.paper.availability import available
from residuum.paper.confusions import write_confusions
from residuum.paper.data import DATASETS, Counts
from residuum.paper.entries import Quick
from residuum.paper.photo_trials import PhotoTrials, spanned
from residuum.paper.running import cell_name, make_plan
from residuum.system.json_text import to_json

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("cv2")

FLOWERS = tables.TABLE6.row("flowers102-bow_sift_paper")
ADDED = ("bow_sift", "efficientnet_lite0")
CLASSES, EACH = 4, {"trnid": 5, "valid": 3, "tstid": 6}


def texture(rng, label):
    """A small photograph: waves whose direction depends on the class, and noise."""
    y, x = np.mgrid[:72, :64]
    angle = np.pi * label / CLASSES + rng.normal(scale=0.05)
    wave = 90 * np.sin((x * np.cos(angle) + y * np.sin(angle)) / 2.5 + rng.uniform(0, 6))
    grey = np.clip(128 + wave + rng.normal(scale=15, size=wave.shape), 0, 255)
    return Image.fromarray(np.dstack([grey, grey * 0.9, grey * 0.8]).astype(np.uint8))


def write_flowers(home: Path) -> Path:
    """The owner's layout: jpg/image_00001.jpg ..., imagelabels.mat and setid.mat with rows of numbers."""
    folder = home / "flowers102"
    (folder / "jpg").mkdir(parents=True)
    rng = np.random.default_rng(0)
    per_class = sum(EACH.values())
    labels = rng.permutation(np.repeat(np.arange(1, CLASSES + 1), per_class))
    parts: dict[str, list[int]] = {name: [] for name in EACH}
    for label in range(1, CLASSES + 1):
        numbers = iter(rng.permutation(np.flatnonzero(labels == label) + 1).tolist())
        for name, count in EACH.items():
            parts[name] += [next(numbers) for _ in range(count)]
    for number, label in enumerate(labels, 1):
        texture(rng, int(label)).save(folder / "jpg" / f"image_{number:05d}.jpg", quality=90)
    savemat(folder / "imagelabels.mat", {"labels": labels[None].astype(np.uint8)})
    sets = {name: np.array(values, dtype=np.uint16)[None] for name, values in parts.items()}
    savemat(folder / "setid.mat", sets)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Table 6 with tiny grids and without features of ours; Flowers with the counts of `write_flowers`."""
    one = {
        "softmax": {"Cs": (1.0,)},
        "SVM": {"Cs": (1.0,)},
        "NSC": {"l2s": (0.1,)},
        "SRC": {"l1s": (0.1,)},
        "CRC": {"l2s": (0.1,)},
        "CROC": {"l2s": (0.1,), "weights": (0.5,)},
        "ProCRC": {"gammas": (0.1,), "l2s": (0.1,)},
        "NRC": {"rhos": (1.0, 0.1), "max_iters": (5,)},
    }
    table = replace(
        tables.TABLE6,
        rows=tuple(row for row in tables.TABLE6.rows if row.features not in ADDED),
        grids={"published": one, "authors": one},
        quick=Quick(queries=8, validation=200),
    )
    monkeypatch.setitem(tables.EXPERIMENTS, "table6", table)
    parts = dict(zip(("train", "val", "test"), ((CLASSES * n,) for n in EACH.values())))
    counts = Counts(CLASSES, parts=parts)
    monkeypatch.setitem(DATASETS, "flowers102", replace(DATASETS["flowers102"], counts=counts))


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("template")
    write_flowers(home)
    return home


@pytest.fixture
def home(template, tmp_path) -> Path:
    """A data home that a test may damage; features computed by an earlier test are in its cache."""
    import shutil

    return Path(shutil.copytree(template, tmp_path / "home"))


def run(*args) -> int:
    return main(["reproduce", *map(str, args)])


# Declarations


def test_rows_name_what_exists():
    for row in tables.TABLE6.rows:
        assert row.dataset in DATASETS
        assert row.features in EXTRACTORS
        assert row.split in ("official", "random_rest")
        assert row.paper.keys() == ({*tables.PHOTO_COLUMNS} if row.part == "paper" else set())
    for name in protocols.PROTOCOLS:
        for method in protocols.methods_of(tables.TABLE6, name):
            protocols.make_search(method, protocols.grid(tables.TABLE6, name, method, 700))


def test_the_papers_numbers_are_as_printed():
    def value(method, row):
        return tables.TABLE6.row(row).paper.get(method)

    assert value("NRC", "flowers102-bow_sift_paper") == 54.4
    assert value("softmax", "stanford40-vgg19") == 77.2
    assert value("CROC", "cars-vgg16") == 90.3
    assert value("SRC", "cub200-bow_sift_paper") == 7.7
    assert value("SVM", "cub200-bow_sift_paper") is None
    assert {value("NRC", f"cub200-{features}") for features in ADDED} == {None}
    assert value("NRC", "cub200_subset-bow_sift_paper") is None
    quoted = {table.name: table.quoted for table in tables.QUOTED_TABLES}
    assert list(quoted) == ["table7", "table8", "table9", "table10", "table11"]
    assert quoted["table8"]["caltech256"]["SJFT"] == 83.8
    assert quoted["table11"]["aircraft"]["Symbiotic"] == 72.5
    for table in tables.QUOTED_TABLES:
        for dataset, systems in table.quoted.items():
            vgg = [row for row in table.rows if row.dataset == dataset and "vgg" in row.features]
            assert systems["NRC of the paper"] == vgg[0].paper["NRC"]
        assert {row.dataset for row in table.rows} == set(table.quoted)


def test_only_random_splits_have_several_trials():
    rows = tuple(tables.TABLE6.row(name) for name in ("caltech256-bow_sift_paper", "cub200-bow_sift_paper"))
    trials = {row.name: set() for row in rows}
    for cell in make_plan(tables.TABLE6, rows).cells():
        trials[cell.recipe["row"]].add(cell.recipe["trial"])
    assert trials == {"caltech256-bow_sift_paper": set(range(10)), "cub200-bow_sift_paper": {0}}


@pytest.mark.parametrize("features", ["bow_sift", "bow_sift_paper"])
def test_cells_tell_the_version_of_their_features(features):
    (cell, *_) = make_plan(tables.TABLE6, (tables.TABLE6.row(f"flowers102-{features}"),)).cells()
    assert cell.recipe["feature_version"] == BowSift.feature_version > 1


# From the owner's files to a report


def test_flowers_end_to_end(template, tmp_path, capsys):
    out = tmp_path / "run"
    assert run("table10", "--protocol", "published", "--data", template, "--out", out, "--confusions") == 0
    said = capsys.readouterr()
    assert "Left out vgg19" in said.err
    torch = importlib.util.find_spec("torch")
    assert ("download.pytorch.org/models/vgg19" if torch else "The package 'torch' is needed") in said.err
    ours, quoted = said.out.split("QUOTED")
    assert "Flowers 102, BOW-SIFT as published, paper" in ours
    assert "54.4" in ours
    assert "trnid and valid train together" in ours
    assert "BiCoS" not in ours
    assert "BiCoS" in quoted
    assert "nothing in this table was run here" in quoted
    cells = sorted((out / "cells/table6/flowers102-bow_sift_paper").iterdir())
    assert len(cells) == 8
    cell = json.loads(
        (out / "cells/table6/flowers102-bow_sift_paper/trial-000-published-NRC.json").read_text()
    )
    assert cell["n_train"] == CLASSES * 8
    trial = json.loads((out / "trials/table6/flowers102-bow_sift_paper-000.json").read_text())
    assert np.mean(np.array(cell["predictions"]) == trial["labels"]) > 0.8
    assert not {*trial["train"]} & {*trial["test"]}
    page = (out / "confusions-flowers102-bow_sift_paper.html").read_text()
    assert "NRC" in page
    assert "Table10" in (out / "report.md").read_text()
    assert "Quoted" in (out / "report.html").read_text()


def test_the_second_run_extracts_nothing(template, tmp_path, monkeypatch, capsys):
    args = ("table10", "--protocol", "published", "--quick", "--data", template)
    assert run(*args, "--out", tmp_path / "a") == 0

    def refuse(*_):
        raise AssertionError("features were computed again")

    monkeypatch.setattr(BowSift, "transform", refuse)
    monkeypatch.setattr(BowSift, "fit", refuse)
    assert run(*args, "--out", tmp_path / "b") == 0
    assert "QUICK RUN" in capsys.readouterr().out


def test_the_codebook_sees_training_images_only(template, monkeypatch, tmp_path):
    seen = []
    fit = BowSift.fit
    monkeypatch.setattr(BowSift, "fit", lambda self, X, y=None: seen.extend(X) or fit(self, X))
    trials = PhotoTrials((FLOWERS,), data_home=str(template), cache_dir=tmp_path / "cache")
    parts, paths = trials.split(FLOWERS, 0), trials.samples(FLOWERS).paths
    assert {Path(path) for path in seen} == {paths[i] for i in parts.train}


def test_a_damaged_image_is_left_out_and_named(home, tmp_path, capsys):
    samples = PhotoTrials((FLOWERS,), data_home=str(home)).samples(FLOWERS)
    bad_train, bad_test = samples.train_paths[3], samples.test_paths[2]
    bad_train.write_bytes(bad_train.read_bytes()[:300])
    bad_test.write_text("no image")
    out = tmp_path / "run"
    assert run("table10", "--protocol", "published", "--data", home, "--out", out) == 0
    said = capsys.readouterr().out
    assert "2 unusable images were left out" in said
    assert bad_test.name in said
    trial = json.loads((out / "trials/table6/flowers102-bow_sift_paper-000.json").read_text())
    used = {samples.paths[i] for i in trial["train"] + trial["test"]}
    assert used == {*samples.paths} - {bad_train, bad_test}
    assert len(trial["labels"]) == len(trial["test"]) == CLASSES * EACH["tstid"] - 1
    assert trial["labels"] == samples.labels[trial["test"]].tolist()


def test_confusions_of_the_exact_optimum_and_of_no_cell(template, tmp_path):
    plan = make_plan(tables.EXPERIMENTS["table6"], (FLOWERS,), protocols=("published",))
    homes = {"data_home": str(template), "cache_dir": tmp_path / "cache"}
    assert write_confusions(plan, FLOWERS, tmp_path, **homes) is None
    trials = PhotoTrials((FLOWERS,), **homes)
    data = trials.features(FLOWERS, 0)
    model = NRC(solver="exact").fit(data.train, data.train_labels)
    predictions = model.predict(data.test)
    missed = np.flatnonzero(predictions == data.test_labels)[:2]
    predictions[missed] = data.test_labels[missed] % CLASSES + 1
    parameters = {"estimator": "NRC", **model.get_params()}
    path = tmp_path / "cells" / f"{cell_name('table6', FLOWERS.name, 0, 'published', 'NRC')}.json"
    path.parent.mkdir(parents=True)
    content = {"format": FORMAT, "predictions": predictions, "parameters": parameters}
    path.write_text(to_json(content))
    page = write_confusions(plan, FLOWERS, tmp_path, **homes).read_text()
    wrong = np.count_nonzero(predictions != data.test_labels)
    assert f"{wrong} of {len(predictions)} test images are classified wrongly by NRC" in page
    assert "(protocol published, exact optimum, rule residual)" in " ".join(page.split())
    assert page.count("<figure") >= wrong


def test_a_random_split_of_photographs_follows_the_trial(template, tmp_path):
    row = replace(FLOWERS, per_class=7)
    trials = PhotoTrials((row,), data_home=str(template), cache_dir=tmp_path / "cache")
    labels = trials.samples(row).labels
    splits = [trials.split(row, trial) for trial in (0, 1)]
    for parts in splits:
        assert np.bincount(labels[parts.train])[1:].tolist() == [7] * CLASSES
    assert set(splits[0].train) != set(splits[1].train)


def test_without_any_usable_test_image_a_row_cannot_run(home, tmp_path):
    trials = PhotoTrials((FLOWERS,), data_home=str(home), cache_dir=tmp_path / "cache")
    for path in trials.samples(FLOWERS).test_paths:
        path.write_text("no image")
    with pytest.raises(DataError, match="no training image, or no test image, can be used"):
        trials.split(FLOWERS, 0)


# Subsets and what is missing


def test_a_subset_runs_only_when_told_so_and_is_labelled(home, tmp_path, capsys):
    for path in sorted((home / "flowers102/jpg").iterdir())[:5]:
        path.unlink()
    args = ("table10", "--protocol", "published", "--data", home, "--out", tmp_path / "run")
    assert run(*args) == 3
    said = capsys.readouterr()
    assert "--allow-subset" in said.err
    assert said.out == ""
    assert run(*args, "--allow-subset") == 0
    ours = capsys.readouterr().out.split("QUOTED")[0]
    assert "SUBSET of a data set: not comparable with the paper" in ours
    assert "Flowers 102, subset, BOW-SIFT as published, ours" in ours
    assert "54.4" not in ours
    assert "A subset: 51 images of 4 classes" in ours
    assert run(*args, "--allow-subset", "--json") == 0
    cells = json.loads(capsys.readouterr().out)["tables"][0]["cells"]
    assert {(cell["subset"], cell["paper"]) for cell in cells} == {(True, None)}


def test_another_subset_is_computed_anew(home, tmp_path):
    images = sorted((home / "flowers102/jpg").iterdir())
    args = ("table10", "--protocol", "published", "--data", home, "--out", tmp_path / "run", "--allow-subset")
    counts = []
    for path in images[:2]:
        path.unlink()
        assert run(*args) == 0
        trial = json.loads(
            (tmp_path / "run/trials/table6/flowers102_subset-bow_sift_paper-000.json").read_text()
        )
        counts.append(len(trial["train"]) + len(trial["test"]))
    assert counts == [len(images) - 1, len(images) - 2]


@pytest.mark.parametrize("name", ["table6", "table7", "table11"])
def test_nothing_to_run_is_exit_3(name, tmp_path, capsys):
    (tmp_path / "home").mkdir()
    assert run(name, "--data", tmp_path / "home", "--out", tmp_path / "run") == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("Error") == 1
    assert f"Nothing of {name} can run here" in said.err
    assert "residuum data status" in said.err
    assert not (tmp_path / "run").exists()


def test_missing_packages_are_named(template, monkeypatch):
    def no_torch():
        from residuum.system.packages import package

        return package("no_such_torch", "pip install 'residuum[deep]'")

    monkeypatch.setattr("residuum.paper.photo_trials.torch", no_torch)
    rows = [row for row in tables.TABLE6.rows if row.dataset == "flowers102"]
    listings, missing = available(tables.TABLE6, [row.name for row in rows], str(template))
    assert list(listings) == [FLOWERS.name, "flowers102-bow_sift"]
    assert "residuum[deep]" in missing["vgg19"]
    assert "residuum[deep]" in missing["efficientnet_lite0"]


# Pieces


@pytest.mark.parametrize("model", [NRC(), SRC(l1=0.05), CRC(), NSC()], ids=lambda m: type(m).__name__)
def test_span_coordinates_change_no_residual(model):
    rng = np.random.default_rng(0)
    train, test = rng.uniform(size=(12, 40)), rng.uniform(size=(7, 40))
    labels = np.arange(12) % 3
    short, short_test = spanned(train, test)
    assert short.shape == (12, 13)
    np.testing.assert_allclose(short_test @ short.T, test @ train.T, rtol=1e-12)
    whole = model.fit(train, labels).residuals(test)
    np.testing.assert_allclose(model.fit(short, labels).residuals(short_test), whole, rtol=1e-6)


def test_span_of_many_samples_is_left_alone():
    train, test = np.eye(5), np.ones((2, 5))
    assert spanned(train, test)[0] is train
