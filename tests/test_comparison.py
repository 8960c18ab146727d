"""The comparison: splits, cells, results.json, table and report."""

import json
import re
import statistics
from dataclasses import asdict
from io import StringIO

import numpy as np
import pytest

from residuum import CRC
from residuum.errors import InterruptedRunError, UsageError
from residuum.experiments import comparison
from residuum.experiments.baselines import compared
from residuum.experiments.compared_data import Data, bundled_digits, random_split, random_splits
from residuum.experiments.report import comparison_table, report_page
from residuum.experiments.runner import CELLS, SETTINGS, Cell, Job, open_folder, run_job
from residuum.reports.table import Table, markdown, print_table
from residuum.system.files import write_text
from residuum.system.json_text import to_json
from residuum.system.machine import machine_facts
from residuum.system.threads import limit_threads, thread_count

METHODS = ("SVM", "CRC", "NRC")


@pytest.fixture(scope="module")
def data():
    """Four classes of the digits, so that every test is quick."""
    whole = bundled_digits()
    few = np.flatnonzero(whole.labels < 4)[:200]
    labels = whole.labels[few]
    trials = random_splits(labels, trials=2, train_per_class=8, seed=3, name="some digits")
    return Data("some digits", whole.samples[few], labels, whole.image_shape, trials)


@pytest.fixture(scope="module")
def settings():
    return comparison.Settings(METHODS, trials=2, train_per_class=8, seed=3)


@pytest.fixture(scope="module")
def folder(data, settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    return open_folder("compare", str(out), asdict(settings))


@pytest.fixture(scope="module")
def results(data, settings, folder):
    return comparison.run(settings, data, folder, machine_facts())


def test_split_is_per_class_disjoint_and_depends_on_seed_and_trial(data):
    def parts(seed, trial):
        return random_split(data.labels, train_per_class=8, seed=seed, trial=trial)

    first = parts(0, 0)
    assert np.bincount(data.labels[first.train]).tolist() == [8] * 4
    assert sorted([*first.train, *first.test]) == list(range(len(data.labels)))
    np.testing.assert_array_equal(first.train, parts(0, 0).train)
    assert set(first.train) != set(parts(0, 1).train)
    assert set(first.train) != set(parts(1, 0).train)


def test_results_hold_what_the_accuracy_is_made_of(results, data, folder):
    assert results == json.loads((folder / comparison.RESULTS).read_text())
    assert not (folder / CELLS).exists()
    for row in results["summary"]:
        cells = [cell for cell in results["cells"] if cell["method"] == row["method"]]
        accuracies = []
        for cell in cells:
            trial = results["trials"][cell["trial"]]
            np.testing.assert_array_equal(data.labels[trial["test"]], trial["labels"])
            accuracies.append(np.mean(np.array(cell["predictions"]) == trial["labels"]))
        assert row["accuracy_mean"] == pytest.approx(np.mean(accuracies), abs=1e-15)
        assert row["accuracy_std"] == pytest.approx(np.std(accuracies, ddof=1), abs=1e-15)
        assert row["predict_ms_per_query"] > 0


def test_cells_equal_the_classifier_by_hand(results, data):
    trial = results["trials"][1]
    classifier = CRC().fit(data.samples[trial["train"]], data.labels[trial["train"]])
    queries = data.samples[trial["test"]]
    (cell,) = [c for c in results["cells"] if c["method"] == "CRC" and c["trial"] == 1]
    assert cell["predictions"] == classifier.predict(queries).tolist()
    assert cell["support"] == [32] * len(queries)
    solution = classifier.solve(queries)
    np.testing.assert_allclose(cell["violation"], solution.violation, rtol=5e-3)
    np.testing.assert_allclose(cell["gap"], solution.gap, rtol=5e-3)


def test_results_name_machine_versions_parameters_and_seeds(results):
    assert results["machine"]["packages"]["numpy"] == np.__version__
    assert results["machine"]["cpu"]
    assert any(pool["user_api"] == "blas" for pool in results["machine"]["thread_pools"])
    assert results["parameters"]["NRC"]["estimator"] == "NRC"
    assert results["parameters"]["NRC"]["max_iter"] == 5
    assert results["parameters"]["SVM"]["C"] == 10
    assert [trial["seed"] for trial in results["trials"]] == [[3, 0], [3, 1]]


def test_certificates_are_blank_without_codes_and_honest_for_nrc(results):
    rows = {row["method"]: row for row in results["summary"]}
    assert rows["SVM"]["worst_gap"] is rows["SVM"]["worst_violation"] is rows["SVM"]["support"] is None
    assert rows["CRC"]["worst_violation"] < 1e-10
    gaps = [gap for cell in results["cells"] if cell["method"] == "NRC" for gap in cell["gap"]]
    assert rows["NRC"]["worst_gap"] == max(gaps) > 1e-3
    supports = [n for cell in results["cells"] if cell["method"] == "NRC" for n in cell["support"]]
    assert rows["NRC"]["support"] == pytest.approx(statistics.fmean(supports))


def test_table_rounds_and_marks_the_best(results):
    table = comparison_table(results)
    means = [row["accuracy_mean"] for row in results["summary"]]
    assert {i for i, _ in table.best} == set(np.flatnonzero(np.equal(means, max(means))).tolist())
    assert all(re.fullmatch(r"\d+\.\d ± \d+\.\d", row[1]) for row in table.rows)
    text = markdown(table)
    best = table.rows[min(table.best)[0]]
    assert f"| {best[0]} | **{best[1]}** |" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1


def test_table_says_which_methods_were_tuned(results, data):
    (note,) = [note for note in comparison_table(results).notes if "tuned" in note]
    assert "SVM (C=10)" in note
    assert "NSC" not in note  # not in this run
    for method, values in comparison.TUNED.items():
        used = comparison.parameters(comparison.Settings((method,), 1, 5, 0), data)[method]
        assert {**used, **values} == used


def test_report_asks_nothing_of_the_network_and_has_all_figures(results, data):
    page = report_page(results, comparison_table(results), data)
    page, n_images = re.subn(r'src="data:image/png;base64,[^"]+"', "", page)
    errors = results["worst_errors"]["errors"]
    assert errors
    assert n_images == 1 + sum(1 + len(error["atoms"]) for error in errors)
    assert page.count('<section class="case">') == len(errors)
    assert not re.search(r"https?:|//\w|<script|@import|url\((?!#)|src=", page)
    assert set(re.findall(r'href="([^"#][^"]*)"', page)) == {"data:,"}
    labels = re.findall(r'<svg[^>]*aria-label="([^"]+)"', page)
    assert len(labels) == page.count("<svg") == 3
    assert any(f"Confusion matrix of {results['lead']['best']}" in label for label in labels)
    assert re.search(r'<img [^>]*alt="The query, an image of class \d"', page)
    assert any("Coefficients of one query" in label for label in labels)
    assert any("iterates of ADMM over 100 steps" in label for label in labels)
    assert "prefers-color-scheme: dark" in page
    assert "#010203" not in page
    identifiers = re.findall(r'\sid="([^"]+)"', page)
    shared = {name for name in identifiers if identifiers.count(name) > 1}
    assert not set(re.findall(r'(?:href="|url\()#([\w-]+)', page)) & shared


def test_report_escapes_names(results):
    evil = {**results, "data": {**results["data"], "name": "<b>&"}}
    page = report_page(evil, comparison_table(evil))
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_finished_cells_are_not_measured_again(data, settings, tmp_path, monkeypatch):
    folder = open_folder("compare", str(tmp_path / "run"), asdict(settings))
    steps = []

    def stop_at_the_fourth(text, done, total):
        steps.append(text)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=f"3 of 6 results are kept in {folder}"):
        comparison.run(settings, data, folder, {}, on_step=stop_at_the_fourth)
    kept = sorted((folder / CELLS).iterdir())
    assert [path.name for path in kept] == [f"trial-000-{m}.json" for m in sorted(METHODS)]
    kept[0].write_text("{")  # a damaged cell counts as missing
    (folder / CELLS / ".trial-001-NRC.json.1.part").write_text("{")  # of a process that was killed

    measured = []
    real = comparison.measure

    def count(method, data, parts, **rest):
        measured.extend([method] if len(parts.test) > 4 else [])  # not the queries that warm up
        return real(method, data, parts, **rest)

    monkeypatch.setattr(comparison, "measure", count)
    folder = open_folder("compare", str(folder), asdict(settings))
    results = comparison.run(settings, data, folder, machine_facts())
    assert measured == ["CRC", "SVM", "CRC", "NRC"]
    assert len(results["cells"]) == 6
    assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("count", [1, 3])
def test_work_that_gives_another_number_of_results_is_an_error(count, tmp_path):
    cells = [Cell(name, name, {}) for name in "ab"]
    with pytest.raises(ValueError, match=r"argument 2 is (shorter|longer) than argument 1"):
        run_job(Job(cells, lambda cells, say: iter([{}] * count)), tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trials": 0}, "--trials must be from 1 to 1000. Got 0"),
        ({"train_per_class": 0}, "--train-per-class must be from 1 to"),
        ({"train_per_class": 500}, "Got 500"),
        ({"seed": -1}, "--seed must be from 0"),
    ],
)
def test_bad_settings_are_named(data, change, words):
    wanted = {"trials": 2, "train_per_class": 8, "seed": 3, **change}
    with pytest.raises(UsageError, match=re.escape(words)):
        random_splits(data.labels, **wanted, name="some digits")


def test_methods_in_any_case_and_in_the_order_of_the_list():
    assert comparison.choose_methods("softnrc, nsc,SVM,nsc") == ("SVM", "NSC", "SoftNRC")
    assert comparison.choose_methods(None) == tuple(compared())
    for wrong in ("NRC,magic", "", " , "):
        with pytest.raises(UsageError, match="SVM, softmax, kNN, boosting, NSC, SRC, CRC"):
            comparison.choose_methods(wrong)


def test_run_folder_refuses_what_is_not_its_own(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        open_folder("compare", str(tmp_path / "full"), {})
    with pytest.raises(UsageError, match="is a file"):
        open_folder("compare", str(tmp_path / "file"), {})
    open_folder("compare", str(tmp_path / "run"), {"trials": 1})
    assert open_folder("compare", str(tmp_path / "run"), {"trials": 1}) == tmp_path / "run"
    with pytest.raises(UsageError, match="trials: 1 there, 2 here"):
        open_folder("compare", str(tmp_path / "run"), {"trials": 2})
    (tmp_path / "run" / SETTINGS).write_text("{")
    with pytest.raises(UsageError, match="other settings"):
        open_folder("compare", str(tmp_path / "run"), {"trials": 1})


def test_default_run_folders_never_collide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {open_folder("compare", None, {}) for _ in range(5)}
    assert len(folders) == 5
    assert all(re.fullmatch(r"residuum-runs/compare-\d{8}-\d{6}(-\d+)?", f.as_posix()) for f in folders)


def test_write_atomic_leaves_the_old_file_and_no_other_when_it_fails(tmp_path):
    path = tmp_path / "results.json"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \udc80")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_has_no_nan_and_keeps_lists_on_one_line():
    value = {"a": [1.5, float("nan")], "b": np.array([[1, 2], [3, 4]]), "c": {"d": float("inf")}, "e": []}
    text = to_json({**value, "f": b"caf\xe9"})
    plain = {"a": [1.5, None], "b": [[1, 2], [3, 4]], "c": {"d": "inf"}, "e": [], "f": "caf\\xe9"}
    assert json.loads(text) == plain
    assert '"a": [1.5, null]' in text


class Terminal(StringIO):
    """A terminal that keeps what is written to it."""

    encoding = "utf-8"

    def isatty(self):
        return True


def test_an_empty_cell_takes_no_line_where_rows_do_not_fit(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    rows = (("NRC", "97.4 ± 0.3", ""), ("CRC", "97.1 ± 0.4", "1.9e+00"))
    print_table(Table("numbers", ("Method", "Accuracy %", "Gap"), rows), terminal)
    plain = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue())
    assert (plain.count("Accuracy %:"), plain.count("Gap:")) == (2, 1)


TABLE = Table(
    "numbers", ("Method", "Accuracy %", "Gap"), (("NRC", "97.4 ± 0.3", "1.9e+00"),), frozenset({(0, 1)})
)


@pytest.mark.parametrize("columns", [20, 24, 80, 200])
def test_no_terminal_width_cuts_a_number(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    print_table(TABLE, terminal)
    written = terminal.getvalue()
    assert "\x1b[1m" in written
    for line in (plain := re.sub(r"\x1b\[[\d;]*m", "", written)).splitlines():
        assert len(line.rstrip()) <= columns
    for text in TABLE.rows[0]:
        assert text in plain


def test_streams_that_are_no_terminal_get_plain_text(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    stream = StringIO()
    print_table(TABLE, stream)
    assert "\x1b" not in stream.getvalue()
    assert any(re.search(r"NRC +97\.4 ± 0\.3 +1\.9e\+00", line) for line in stream.getvalue().splitlines())


def test_a_stream_without_the_sign_gets_letters():
    class Ascii(StringIO):
        encoding = "ascii"

    stream = Ascii()
    print_table(TABLE, stream)
    assert "97.4 +/- 0.3" in stream.getvalue()
    assert stream.getvalue().isascii()


def test_limit_threads_reaches_blas_and_is_undone():
    before = machine_facts()
    with limit_threads(1):
        inside = machine_facts()
        assert thread_count(None) == 1
    assert {pool["num_threads"] for pool in inside["thread_pools"]} == {1}
    assert inside["numba_threads"] == 1
    assert machine_facts() == before
    for wrong in (0, -2, 10**9):
        with pytest.raises(UsageError, match="n_jobs must be -1"), limit_threads(wrong):
            pass
