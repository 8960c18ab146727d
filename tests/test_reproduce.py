"""The paper's tables and figures: declarations, protocols, run folders, reports, and the commands."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.stats import ttest_rel

from residuum import CRC, CRCCV, NRC, NRCCV, NSC, NSCCV, SRC, SRCCV
from residuum.cli.main import main
from residuum.cli.reproduce import NAMES
from residuum.errors import DataFormatError, DataNotFoundError, ResiduumError, UsageError
from residuum.experiments import runner
from residuum.experiments.runner import CELLS, SETTINGS, read_cell, run_job
from residuum.paper import extras, protocols, running, tables
from residuum.paper.accuracy import accuracy_table, honest_table
from residuum.paper.data import DATASETS
from residuum.paper.entries import Quick
from residuum.paper.extras import speed_table
from residuum.paper.outcomes import MCNEMAR, T_TEST, Outcome, read_folders
from residuum.paper.report import Contents, read_contents, results_page, sections
from residuum.paper.running import accuracy_job, cell_name, make_plan
from residuum.paper.trials import FEATURES, SPLITS, ArrayTrials, TrialData
from residuum.paper.verdict import verdict
from residuum.reports.plots import convergence_figure
from residuum.system.files import write_text
from residuum.system.json_text import to_json
from residuum.system.processes import run_in_processes

ARRAYS = [e for e in tables.EXPERIMENTS.values() if e.kind == "accuracy" and e.data == "arrays"]


@pytest.fixture(scope="session")
def ar_home(tmp_path_factory) -> Path:
    """A data home with a synthetic AR_DAT.mat of the exact shape of the public file."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    faces = rng.uniform(40, 220, size=(100, 2580))
    train = np.repeat(np.arange(1, 101), 7)
    test = np.delete(np.repeat(np.arange(1, 101), 7), 76 * 7)  # subject 77 lacks one image

    def images(labels):
        noisy = faces[labels - 1] + rng.normal(scale=60, size=(len(labels), 2580))
        return np.clip(noisy, 0, 255).astype(np.uint8).T

    savemat(
        home / "AR_DAT.mat",
        {
            "NewTrain_DAT": images(train),
            "NewTest_DAT": images(test),
            "trainlabels": train[None].astype(np.uint8),
            "testlabels": test[None].astype(np.uint8),
        },
    )
    return home


@pytest.fixture(scope="module")
def small_table1():
    """Table 1 with tiny grids, so that the command is what takes the time."""
    cv = {
        "NSC": {"l2s": (0.1,)},
        "SVM": {"Cs": (1.0,)},
        "SRC": {"l1s": (0.3,)},
        "CRC": {"l2s": (0.01,)},
        "CROC": {"l2s": (0.01,), "weights": (0.5,)},
        "ProCRC": {"gammas": (0.1,), "l2s": (0.01,)},
        "NRC": {"rhos": (1.0, 0.1), "max_iters": (5,)},
    }
    grids = {"published": cv, "authors": cv}
    table = replace(tables.TABLE1, grids=grids, validation=100, quick=Quick(rows=(54,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tables.EXPERIMENTS, "table1", table)
        yield table


@pytest.fixture(scope="module")
def finished(ar_home, small_table1, tmp_path_factory) -> Path:
    """Folder of a finished quick run of Table 1 under authors."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert run(["table1", "--quick", "--protocol", "authors", "--data", ar_home, "--out", out]) == 0
    return out


@pytest.fixture
def copy(finished, tmp_path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def run(args):
    return main(["reproduce", *map(str, args)])


def cell(folder, protocol, method) -> Path:
    """The file of a cell of Table 1 at d = 54."""
    return folder / CELLS / f"{cell_name('table1', 54, 0, protocol, method)}.json"


def run_plan(plan, folder, home, cache_dir=None, **options) -> int:
    """Run a plan and return how many cells were computed."""
    return run_job(accuracy_job(plan, folder, data_home=str(home), cache_dir=cache_dir), folder, **options)


# Declarations


@pytest.mark.parametrize("table", ARRAYS, ids=lambda t: t.name)
def test_a_table_names_what_exists(table):
    for row in table.rows:
        assert row.dataset in DATASETS
        assert row.split in SPLITS
        assert row.features in FEATURES
        assert list(row.paper) == list(protocols.PUBLISHED)
    assert set(table.grids) <= set(protocols.PROTOCOLS)
    for name in protocols.PROTOCOLS:
        for method in protocols.PROTOCOLS[name].grids:
            protocols.make_search(method, protocols.grid(table, name, method, 700))


def test_the_papers_numbers_are_as_printed():
    assert tables.TABLE1.row(54).paper["NRC"] == 86.0
    assert tables.TABLE2.row(300).paper["CROC"] == 98.2
    assert tables.TABLE3.row(300).paper["SRC"] == 94.8
    assert tables.TABLE4.row(600).paper["NRC"] == 99.0
    assert "SoftNRC" not in tables.TABLE3.row(50).paper
    assert tuple(tables.EXPERIMENTS) == NAMES
    assert list(tables.TABLE5.paper.values()) == [0.03, 0.04, 0.03, 0.43, 0.07, 0.22, 0.07, 0.15]


def test_published_nrc_is_the_published_one():
    for table in ARRAYS:
        grid = protocols.grid(table, "published", "NRC", 700)
        assert grid["max_iters"] == (5,)
        assert grid["rules"] == ("residual",)
        assert grid["exact"] is False


# Selection on given test samples


@pytest.fixture(scope="module")
def blobs() -> TrialData:
    rng = np.random.default_rng(1)
    centres = rng.uniform(size=(4, 20))
    labels = np.arange(60) % 4
    samples = centres[labels] + rng.normal(scale=0.25, size=(60, 20))
    return TrialData(samples[:32], labels[:32], samples[32:], labels[32:])


@pytest.mark.parametrize(
    ("search", "plain"),
    [
        (NRCCV(rhos=[0.1, 1.0], max_iters=[1, 5]), NRC),
        (SRCCV(l1s=[0.1, 0.01]), SRC),
        (CRCCV(l2s=[0.1, 0.01]), CRC),
        (NSCCV(l2s=[1.0, 0.1], rules=("residual", "relative_residual")), NSC),
    ],
    ids=["NRC", "SRC", "CRC", "NSC"],
)
def test_predict_grid_vs_one_by_one(search, plain, blobs, monkeypatch):
    monkeypatch.setattr("residuum.selection.base._BLOCK_ENTRIES", 32 * 5)  # several blocks of queries
    candidates, labels = search.predict_grid(blobs.train, blobs.train_labels, blobs.test)
    assert len(candidates) == len(labels)
    for candidate, found in zip(candidates, labels, strict=True):
        expected = plain(**candidate).fit(blobs.train, blobs.train_labels).predict(blobs.test)
        np.testing.assert_array_equal(found, expected)


def test_authors_takes_the_best_on_test_and_cv_does_not_see_it(blobs):
    grid = {"l2s": (100.0, 1.0, 0.01), "rules": ("residual",)}
    chosen = protocols.run_method("CRC", grid, blobs, on_test=True, validation=None)
    accuracies = [
        np.mean(
            CRC(l2=l2, rule="residual").fit(blobs.train, blobs.train_labels).predict(blobs.test)
            == blobs.test_labels
        )
        for l2 in grid["l2s"]
    ]
    assert chosen.selection_score == max(accuracies)
    assert np.mean(np.array(chosen.predictions) == blobs.test_labels) == max(accuracies)
    honest = protocols.run_method("CRC", grid, blobs, on_test=False, validation=None)
    shuffled = replace(blobs, test_labels=np.roll(blobs.test_labels, 1))
    again = protocols.run_method("CRC", grid, shuffled, on_test=False, validation=None)
    assert honest == again


def test_folds_thin_only_what_is_validated():
    labels = np.repeat(np.arange(10), 50)
    for train, test in protocols.folds(labels, 100):
        assert len(train) == 400
        assert np.bincount(labels[test], minlength=10).tolist() == [2] * 10
        assert not set(train) & set(test)
    assert len(protocols.folds(np.repeat([0, 1], 3), None)) == 3


# Splits


def test_rows_of_a_trial_are_nested_and_features_follow(data_home):
    n50, n100 = tables.TABLE3.rows[:2]
    trials = ArrayTrials((n50, n100), queries=30, data_home=str(data_home))
    small, large = trials.split(n50, 1), trials.split(n100, 1)
    assert set(small.train) < set(large.train)
    assert set(small.train) != set(trials.split(n50, 0).train)
    assert np.bincount(trials.samples.labels[small.train]).tolist() == [50] * 10
    assert small.train.max() < 7291 <= small.test.min()
    first = trials.features(n50, 1)
    alone = ArrayTrials((n50,), queries=30, data_home=str(data_home)).features(n50, 1)
    np.testing.assert_array_equal(first.train, alone.train)
    np.testing.assert_array_equal(first.test, alone.test)
    np.testing.assert_array_equal(first.train_labels, trials.samples.labels[small.train])
    np.testing.assert_allclose(np.linalg.norm(first.train, axis=1), 1)


def test_signed_pixels_run_from_minus_one_to_one():
    images = np.array([[[0.0, 0.25], [0.5, 1.0]]])
    assert FEATURES["signed_pixels"](images, None).tolist() == [[-1.0, -0.5, 0.0, 1.0]]
    assert {row.features for row in tables.TABLE3.rows} == {"signed_pixels"}


def test_the_zero_image_of_yale_b_breaks_nothing(data_home):
    row = tables.TABLE2.row(84)
    trials = ArrayTrials((row,), data_home=str(data_home))
    zero = int(np.flatnonzero(trials.samples.images.reshape(2432, -1).max(axis=1) == 0)[0])
    splits = [trials.split(row, t) for t in range(8)]
    in_train = next(t for t, parts in enumerate(splits) if zero in parts.train)
    in_test = next(t for t, parts in enumerate(splits) if zero in parts.test)
    for trial in (in_train, in_test):
        data = trials.features(row, trial)
        for method, grid in (
            ("CRC", {"l2s": (0.01,)}),
            ("NRC", {"rhos": (0.1,), "max_iters": (5,)}),
        ):
            found = protocols.run_method(method, grid, data, on_test=True, validation=None)
            assert len(found.predictions) == 38 * 32
            assert found.selection_score > 0.85


# Runs


def test_table1_from_a_file_of_the_exact_shape(ar_home, copy, capsys):
    out = copy
    code = run(["table1", "--quick", "--protocol", "authors", "--data", ar_home, "--out", out])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert "d = 54, paper" in printed.out
    assert "86.0" in printed.out
    assert "ON THE TEST SAMPLES" in printed.out
    assert "QUICK" in printed.out
    found = json.loads((out / "cells/table1/54/trial-000-authors-NRC.json").read_text())
    assert len(found["predictions"]) == 699
    assert found["n_train"] == 700
    assert found["n_features"] == 54
    assert {"seed", "grid", "chosen_on"} <= set(found["recipe"])
    assert {"rho", "max_iter", "rule", "solver"} <= set(found["parameters"])
    assert found["machine"]["packages"]["numpy"] == np.__version__
    assert (out / "report.html").read_text().count("<table>") >= 2


def test_protocols_are_never_mixed(ar_home, copy, capsys):
    out = copy
    assert run(["table1", "--quick", "--protocol", "published", "--data", ar_home, "--out", out]) == 0
    capsys.readouterr()
    outcomes = read_folders([out])
    assert [o.protocol for o in outcomes] == ["published", "authors"]
    for outcome in outcomes:
        for method in outcome.methods:
            recipe = read_cell(cell(out, outcome.protocol, method))["recipe"]
            assert recipe["protocol"] == outcome.protocol
            assert recipe["chosen_on"] == (
                "test samples" if outcome.protocol == "authors" else "training samples"
            )
    page = results_page(read_contents([out]))
    assert page.count("(published)") >= 1
    assert page.count("(authors)") >= 1


def test_cells_are_recomputable_from_raw_predictions(ar_home, small_table1, copy, capsys):
    out = copy
    assert run(["table1", "--quick", "--protocol", "authors", "--data", ar_home, "--out", out, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    labels = json.loads((out / "trials/table1/54-000.json").read_text())["labels"]
    (table,) = printed["tables"]
    for row in table["cells"]:
        found = read_cell(cell(out, "authors", row["method"]))
        hits = [p == label for p, label in zip(found["predictions"], labels, strict=True)]
        assert row["ours"] == pytest.approx(100 * sum(hits) / len(hits), abs=1e-12)
    # and the parameters give these predictions again
    found = read_cell(cell(out, "authors", "NRC"))
    row = small_table1.row(54)
    data = ArrayTrials((row,), data_home=str(ar_home)).features(row, 0)
    parameters = {k: v for k, v in found["parameters"].items() if k != "estimator"}
    again = NRC(**parameters).fit(data.train, data.train_labels).predict(data.test)
    assert again.tolist() == found["predictions"]


def test_a_second_run_keeps_what_is_there_and_fresh_does_not(ar_home, copy, capsys):
    out = copy
    command = ["table1", "--quick", "--protocol", "authors", "--data", ar_home, "--out", out]
    path = cell(out, "authors", "CRC")
    damaged = cell(out, "authors", "NSC")
    before, times = path.read_bytes(), path.stat().st_mtime_ns
    damaged.write_text(damaged.read_text()[:100])
    assert run(command) == 0
    assert path.stat().st_mtime_ns == times
    assert read_cell(damaged) is not None
    assert run([*command, "--fresh"]) == 0
    assert path.stat().st_mtime_ns != times
    keep = ("predictions", "parameters", "recipe")
    old, new = json.loads(before), json.loads(path.read_text())
    assert {k: old[k] for k in keep} == {k: new[k] for k in keep}
    capsys.readouterr()


def test_other_grids_do_not_reuse_a_cell(ar_home, small_table1, copy):
    plan = quick_plan(small_table1)
    folder = copy
    assert run_plan(plan, folder, ar_home) == 0
    other = replace(
        small_table1, grids={"authors": {**small_table1.grids["authors"], "CRC": {"l2s": (0.5,)}}}
    )
    assert run_plan(replace(plan, table=other), folder, ar_home) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_resumes(workers, ar_home, tmp_path):
    """A real process, a real Ctrl-C: exit 130, whole files only, no process left, and a rest to compute."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "residuum", "reproduce", "table1", "--protocol", "authors"]
    command += ["--data", str(ar_home), "--out", str(out), "--n-jobs", str(workers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in a terminal goes to all processes of the session
    )
    while not list(out.glob("cells/table1/*/*.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()  # returns when the last process that holds the pipes has ended
    assert process.returncode == 130, said
    cells = list(out.glob("cells/table1/*/*.json"))
    assert f"{len(cells)} of 21 results are kept in {out}" in said
    assert "Traceback" not in said
    assert cells
    assert all(read_cell(path) for path in cells)
    assert not list(out.rglob("*.part"))
    stamps = {path: path.stat().st_mtime_ns for path in cells}
    plan = make_plan(tables.TABLE1, tables.TABLE1.rows[:1], protocols=("authors",))
    run_plan(replace(plan, methods=("NSC", "CRC", "CROC")), out, ar_home)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert {path.name for path in out.glob("cells/table1/54/*.json")} >= {
        f"trial-000-authors-{method}.json" for method in ("NSC", "CRC", "CROC")
    }


def quick_plan(table, **options):
    """The plan of ``--quick --protocol authors``."""
    return make_plan(table, table.rows, quick=True, **{"protocols": ("authors",), **options})


@pytest.fixture
def two_rows(small_table1):
    """Two small pieces of work of Table 1."""
    return replace(quick_plan(small_table1), methods=("NSC", "CRC"), rows=small_table1.rows[:2])


def test_two_processes_vs_one(ar_home, two_rows, tmp_path):
    kept = ("recipe", "predictions", "parameters", "candidates", "selection_score")
    cells = []
    for n_jobs in (1, 2):
        steps = []
        folder = _folder(tmp_path / str(n_jobs))
        run_plan(
            two_rows, folder, ar_home, n_jobs=n_jobs, on_step=lambda *step, steps=steps: steps.append(step)
        )
        paths = sorted(folder.glob("cells/*/*/*.json"))
        cells.append({path.name + path.parent.name: read_cell(path) for path in paths})
        assert len(list(folder.glob("trials/*/*.json"))) == 2
        assert not list(folder.rglob("*.part"))
        assert steps[-1] == ("report", 4, 4)
        assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert [{k: found[k] for k in kept} for found in cells[0].values()] == [
        {k: found[k] for k in kept} for found in cells[1].values()
    ]
    assert run_plan(two_rows, folder, ar_home, n_jobs=2) == 0


def test_slow_features_are_computed_before_the_processes_start(data_home, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        runner, "run_in_processes", lambda *args, **kwargs: made.append(list(cache.rglob("*.npy")))
    )
    cache = tmp_path / "cache"
    rows = tuple(replace(tables.TABLE4.rows[0], name=n, per_class=n, dimension=5) for n in (2, 3))
    plan = replace(quick_plan(tables.TABLE4), methods=("CRC",), queries=20, rows=rows)
    run_plan(plan, _folder(tmp_path), data_home, cache_dir=cache, n_jobs=2)
    assert len(made[0]) == 2


def test_little_memory_means_one_process(ar_home, two_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "free_memory", lambda: running.PROCESS_BYTES)
    assert accuracy_job(two_rows, tmp_path).most_workers == 1


def test_an_error_in_a_process_is_the_error_of_the_run(ar_home, two_rows, tmp_path):
    wrong = replace(two_rows, table=replace(two_rows.table, grids={"authors": {"CRC": {"l2s": (-1.0,)}}}))
    with pytest.raises(ValueError, match="l2"):
        run_plan(wrong, _folder(tmp_path), ar_home, n_jobs=2)
    with pytest.raises(DataNotFoundError, match="AR"):
        run_plan(two_rows, _folder(tmp_path / "other"), tmp_path, n_jobs=2)


def test_a_process_that_dies_ends_the_run():
    with pytest.raises(ResiduumError, match="A worker process ended before its work was done"):
        run_in_processes(_fall, ["stand", "fall", "wait"], workers=2, threads=1)


@pytest.mark.parametrize(("piece", "error"), [("gzip", EOFError), ("data", DataFormatError)])
def test_an_error_of_the_work_keeps_its_type(piece, error):
    with pytest.raises(error, match="a damaged file"):
        run_in_processes(_fall, [piece], workers=1, threads=1)


class _Interrupted(list):
    """Pieces in whose midst Ctrl-C arrives, when processes have been started."""

    def __iter__(self):
        yield from super().__iter__()
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_processes_start_is_obeyed_by_this_one_alone():
    with pytest.raises(KeyboardInterrupt):
        run_in_processes(_fall, _Interrupted(["wait"]), workers=1, threads=1)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _fall(piece):
    if piece == "fall":
        os._exit(7)
    if piece == "gzip":
        raise EOFError("a damaged file")
    if piece == "data":
        raise DataFormatError("a damaged file")
    if piece == "wait":
        signal.pause()  # until it is ended


def test_same_question_is_asked_once(ar_home, small_table1, tmp_path, monkeypatch):
    asked = []
    run_method = protocols.run_method

    def count(method, *args, **kwargs):
        asked.append(method)
        return run_method(method, *args, **kwargs)

    monkeypatch.setattr(running, "run_method", count)
    grids = {"published": small_table1.grids["published"], "best": small_table1.grids["published"]}
    plan = quick_plan(replace(small_table1, grids=grids), protocols=("published", "best"))
    assert run_plan(replace(plan, methods=("NSC", "CROC")), _folder(tmp_path), ar_home) == 4
    assert asked == ["NSC", "CROC"]


def _folder(tmp_path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(parents=True)
    write_text(folder / SETTINGS, to_json({"command": "reproduce"}))
    return folder


# Real data, very small


@pytest.mark.parametrize("name", ["table2", "table3"])
def test_real_data_quick(name, data_home, tmp_path):
    table = tables.EXPERIMENTS[name]
    plan = replace(
        quick_plan(table, trials=2, protocols=("published", "authors")),
        methods=("CRC", "NRC"),
        rows=table.rows[:1],
        queries=200,
    )
    folder, row = _folder(tmp_path), table.rows[0].name
    run_plan(plan, folder, data_home)
    for outcome in read_folders([folder]):
        assert outcome.trials == 2
        for method in ("CRC", "NRC"):
            assert abs(outcome.difference(row, method)) < 6
        ours = [outcome.accuracies(row, m) for m in ("NRC", "CRC")]
        expected = ttest_rel(*ours).pvalue
        assert outcome.p_value(row, "CRC") == pytest.approx(expected, nan_ok=True)


def test_figure1_and_its_report(data_home, tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["figure1", "--data", data_home, "--out", out]) == 0
    shown = json.loads((out / "cells/figure1.json").read_text())["illustration"]
    assert len(shown["atom_labels"]) == 9
    assert len(set(shown["atom_labels"])) == 3
    assert shown["label"] == shown["atom_labels"][0]
    assert min(shown["codes"]["NRC"]) >= 0
    assert "<svg" in (out / "report.html").read_text()
    capsys.readouterr()


def test_table5_times_every_method_on_the_same_queries(ar_home, tmp_path, capsys, monkeypatch):
    few = {name: extras.TIMED[name] for name in ("CRC", "NRC", "NRC, exact")}
    monkeypatch.setattr(extras, "TIMED", few)
    entry = replace(tables.TABLE5, setting="table1", row=54, quick_queries=30)
    monkeypatch.setitem(tables.EXPERIMENTS, "table5", entry)
    out = tmp_path / "run"
    assert run(["table5", "--quick", "--data", ar_home, "--out", out]) == 0
    told = capsys.readouterr().out
    assert "QUICK RUN: fewer queries than the paper." in " ".join(told.split())
    assert "700 training samples, 54 features, 30 queries; ratio: CRC = 1." in " ".join(told.split())
    found = read_cell(out / "cells/table5.json")
    assert list(found["cells"]) == list(few)
    (row,) = (row for row in speed_table(found).rows if row[0] == "CRC")
    assert (row[1], row[2], row[4], row[6]) == ("0.07", "1.00", "1.00", "1.00")
    data = ArrayTrials((tables.TABLE1.row(54),), queries=30, data_home=str(ar_home)).features(
        tables.TABLE1.row(54), 0
    )
    answers = NRC(rho=1.0).fit(data.train, data.train_labels).predict(data.test).tolist()
    assert found["cells"]["NRC"]["predictions"] == answers
    for cell in found["cells"].values():
        assert len(cell["seconds"]) == len(cell["single_seconds"]) == extras.ROUNDS


def test_figure2_in_words(ar_home, tmp_path, capsys, monkeypatch):
    entry = replace(tables.FIGURE2, setting="table1", row=54, quick_row=54, classes=3, per_class=5)
    monkeypatch.setitem(tables.EXPERIMENTS, "figure2", entry)
    out = tmp_path / "run"
    assert run(["figure2", "--quick", "--data", ar_home, "--out", out]) == 0
    extra = read_cell(out / "cells/figure2.json")
    shown = extra["illustration"]
    words = extras.figure_words(extra)
    (name, curve), *_ = shown["curves"].items()
    first = f"After {len(curve)} steps of ADMM, rho = {shown['rho']:g}: max |{name}| {curve[-1]:.1e}, "
    assert words.startswith(first)
    after = f"after the {shown['published_steps']} steps of the published NRC: "
    assert f"{after}{curve[shown['published_steps'] - 1]:.1e}, " in words
    assert words in (out / "report.md").read_text()


def test_of_all_what_cannot_run_is_left_out_by_name(ar_home, small_table1, tmp_path, capsys):
    out = tmp_path / "run"
    assert run(["all", "--quick", "--protocol", "authors", "--data", ar_home, "--out", out, "--json"]) == 0
    told = capsys.readouterr()
    assert {table["table"] for table in json.loads(told.out)["tables"]} == {"table1"}
    for name in ("table2", "table5", "figure1", "figure2"):
        assert re.search(rf"^Left out .*\({name}\): ", told.err, re.MULTILINE)


# Reports


def test_a_row_that_is_not_there_is_named():
    with pytest.raises(UsageError, match=r"table1 has no row 55\."):
        tables.TABLE1.row(55)


def test_cells_that_do_not_fit_each_other_are_named(copy):
    path = cell(copy, "authors", "NRC")
    good = json.loads(path.read_text())

    def with_recipe(**changes):
        return {**good, "recipe": {**good["recipe"], **changes}}

    path.write_text(json.dumps({**good, "predictions": good["predictions"][1:]}))
    with pytest.raises(DataFormatError, match=r"NRC \(table1, row 54, trial 0\) has 698 predictions for 699"):
        read_folders([copy])
    path.write_text(json.dumps(with_recipe(quick=False)))
    with pytest.raises(UsageError, match=r"hold quick and whole results of table1\. Pass one kind only"):
        read_folders([copy])
    for unread in (json.dumps(with_recipe(table="table99")), "{"):  # of another version, or damaged
        path.write_text(unread)
        (outcome,) = read_folders([copy])
        assert "NRC" not in outcome.methods
        assert "CRC" in outcome.methods


def test_mcnemar_for_one_trial(finished):
    (outcome,) = read_folders([finished])
    right = np.ones(20, dtype=bool)
    only_ours, only_theirs = right.copy(), right.copy()
    only_theirs[:7] = only_ours[7:9] = False
    told = replace(outcome, hits={(54, "NRC"): {0: only_ours}, (54, "NSC"): {0: only_theirs}})
    # Of 9 samples that one of the two gets right, 7 are NRC's: 2 (36 + 9 + 1) / 2^9.
    assert told.p_value(54, "NSC") == pytest.approx(92 / 512)
    assert replace(told, hits={**told.hits, (54, "NSC"): {0: only_ours}}).p_value(54, "NSC") == 1
    assert "McNemar" in outcome.test_name
    table = accuracy_table(outcome)
    paper, our_row, gap = table.rows[0], table.rows[1], table.rows[2]
    j = table.columns.index("NRC")
    assert float(paper[j]) == 86.0
    shown = float(gap[j].replace("−", "-"))
    assert shown == pytest.approx(outcome.mean(54, "NRC") - 86.0, abs=0.051)
    assert float(our_row[j]) == pytest.approx(outcome.mean(54, "NRC"), abs=0.051)
    told = " ".join(verdict([outcome]))
    far = sum(abs(outcome.difference(54, m)) > 1 for m in outcome.methods)
    assert f"{7 - far} of 7 cells" in told


def test_the_answer_in_short_counts_rows_of_the_honest_protocol(finished):
    (outcome,) = read_folders([finished])
    right = {"SRC": 7, "CRC": 9, "CROC": 5, "ProCRC": 9, "NRC": 9}  # of ten queries
    hits = {(54, m): {0: np.arange(10) < count} for m, count in right.items()}
    honest = replace(outcome, protocol="best", methods=tuple(right), hits=hits)
    (short,) = (line for line in verdict([honest]) if line.startswith("In short"))
    assert "of the 1 rows of table1, collaborative in 1, non-negative in 1" in short
    assert "at most 20.0 points apart" in short
    assert "In 1 of the 1 rows the lead over the next family is within chance (p >= 0.05" in short
    # A linear classifier that is best of all is said to be, and with ten samples more it is no chance.
    hits |= {(54, m): {0: np.arange(40) < count} for m, count in {**right, "SVM": 30, "NSC": 8}.items()}
    linear = replace(honest, methods=(*right, "SVM", "NSC"), hits=hits)
    (short,) = (line for line in verdict([linear]) if line.startswith("In short"))
    assert "of the 1 rows of table1, linear in 1 (" in short
    assert "In 0 of the 1 rows the lead" in short
    assert not any(line.startswith("In short") for line in verdict([outcome]))


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["table99"], "table1"),
        (["table2", "--protocol", "mine"], "published"),
        (["table2", "--trials", "0"], "trials"),
        (["table2", "--seed", "-1"], "seed"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(args, word, tmp_path, capsys):
    assert run([*args, "--out", tmp_path / "run"]) == 2
    told = capsys.readouterr().err
    assert word in told
    assert len(told.splitlines()) == 1


def test_missing_data_is_exit_3(tmp_path, capsys):
    assert run(["table1", "--data", tmp_path, "--out", tmp_path / "run"]) == 3
    assert "residuum data status ar" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_results_needs_a_run_folder(tmp_path):
    with pytest.raises(UsageError, match="not a run folder"):
        read_folders([tmp_path])


def test_results_page_from_the_command(finished, tmp_path, capsys):
    folder = finished
    page = tmp_path / "docs" / "results.md"
    assert main(["results", str(folder), "--out", str(page)]) == 0
    text = page.read_text()
    assert "## The answer" in text
    assert "d = 54, difference" in text
    assert str(tmp_path) not in text
    assert not math.isnan(read_folders([folder])[0].mean(54, "NRC"))
    capsys.readouterr()


def test_results_page_goes_to_standard_output_too(finished, capsys):
    assert main(["results", str(finished)]) == 0
    assert capsys.readouterr().out == results_page(read_contents([finished])) + "\n"


def _outcome(protocol, rights, rows=(84,)):
    """An outcome of Table 2 with so many of 1,000 test samples right, in each of two trials of every row."""
    hits = {
        (row, m): {t: np.arange(1000) < right for t in (0, 1)} for m, right in rights.items() for row in rows
    }
    return Outcome(tables.TABLE2, protocol, rows, tuple(rights), hits, False, {})


def test_the_test_is_named_by_the_number_of_trials():
    several = _outcome("best", {"NRC": 940, "CRC": 930})
    assert several.test_name == T_TEST
    single = replace(several, hits={**several.hits, (84, "CRC"): {0: np.ones(1000, dtype=bool)}})
    assert single.test_name == f"{T_TEST}, for a single trial the {MCNEMAR}"


def test_several_rows_of_a_table_are_drawn_over_their_axis():
    rows = tuple(row.name for row in tables.TABLE2.rows[:2])
    outcome = _outcome("published", {"NRC": 940, "SoftNRC": 955}, rows)
    drawn = [section.figure() for section in sections(Contents([outcome], {})) if section.figure is not None]
    assert len(drawn) == 1
    axis = f"at {tables.TABLE2.axis} = {rows[0]}, {rows[1]}. NRC: 94.0, 94.0; SoftNRC: 95.5, 95.5."
    assert f"Accuracy in per cent {axis}" in drawn[0]
    assert drawn[0].count("stroke-dasharray") == 1 + drawn[0].count("never")  # the paper has NRC alone
    (alone,) = sections(Contents([_outcome("published", {"NRC": 940})], {}))
    assert alone.figure is None


@pytest.mark.parametrize(("soft", "said"), [(956, "at or above"), (955, "table2 d = 84 (\u22120.1)")])
def test_honest_choices_stand_beside_the_papers_nrc(soft, said):
    published = _outcome("published", {"NRC": 940, "CRC": 930, "SRC": 920, "ProCRC": 910})
    table = honest_table([published, _outcome("best", {"NRC": 950, "SoftNRC": soft})])
    numbers = ("95.6", "94.0 ± 0.0", "95.0 ± 0.0", f"{soft / 10:.1f} ± 0.0", "93.0 ± 0.0", "92.0 ± 0.0")
    assert table.rows[0][1:7] == numbers
    assert said in table.notes[-1]


def test_no_honest_table_without_our_own_searches():
    row = tables.TABLE6.row("flowers102-bow_sift").name  # features of ours: the paper has no number
    hits = {(row, "NRC"): {0: np.ones(4, dtype=bool)}}
    assert honest_table([Outcome(tables.TABLE6, "best", (row,), ("NRC",), hits, False, {})]) is None
    assert honest_table([_outcome("published", {"NRC": 940})]) is None


def test_no_tick_of_a_figure_is_left_as_mathematics():
    curve = [10.0**-k for k in range(1, 7)]
    drawn = convergence_figure({"curves": dict.fromkeys(("c - z", "c", "z"), curve), "published_steps": 5})
    assert "$" not in drawn
    assert ">0.001<" in drawn
