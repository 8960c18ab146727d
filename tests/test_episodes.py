"""Episodes: what is drawn, what is measured, the run folder and the command."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.preprocessing import normalize

from residuum import NRC
from residuum.cli import main as cli
from residuum.errors import InterruptedRunError
from residuum.experiments import episodes
from residuum.experiments.compared_data import Data
from residuum.experiments.episode_methods import CONTENDERS, OTHERS, OURS
from residuum.experiments.episode_report import interval, tables, verdicts
from residuum.experiments.runner import CELLS, open_folder

FEW = ("NRC exact", "CRC", "1-NN", "SimpleShot")


@pytest.fixture(scope="module")
def data():
    """The first 400 digits; class 9 has fewer than 30 samples left, so it is never drawn with 30."""
    X, y = load_digits(return_X_y=True)
    keep = np.concatenate([np.arange(400)[y[:400] != 9], np.flatnonzero(y == 9)[:20]])
    return Data("digits", X[keep], y[keep])


@pytest.fixture(scope="module")
def settings():
    return episodes.Settings(FEW, (1, 4), ways=3, queries=5, unknown=2, episodes=6, seed=7)


@pytest.fixture(scope="module")
def embeddings(data, settings):
    return episodes.Embeddings(data, settings)


@pytest.fixture(scope="module")
def results(data, settings, tmp_path_factory):
    folder = open_folder("episodes", str(tmp_path_factory.mktemp("runs") / "run"), {})
    return episodes.run(settings, data, folder, {})


def test_an_episode_has_its_classes_shots_and_queries(data, embeddings):
    for number in range(20):
        episode = embeddings.draw(number, 4)
        train, queries = data.labels[episode.train], data.labels[episode.queries]
        known = train.reshape(3, 4)[:, 0]
        assert (train.reshape(3, 4) == known[:, None]).all()
        assert len(set(known)) == 3
        np.testing.assert_array_equal(episode.train_classes, np.repeat([0, 1, 2], 4))
        np.testing.assert_array_equal(queries[:15], np.repeat(known, 5))
        np.testing.assert_array_equal(known[episode.query_classes], queries[:15])
        assert len(set(queries[15:])) == 2
        assert not set(queries[15:]) & set(known)
        assert set(episode.outside) == set(range(10)) - set(known) - set(queries[15:])
        assert len({*episode.train, *episode.queries}) == 12 + 25  # nobody is asked about a training sample


def test_all_numbers_of_shots_are_asked_the_same_and_episodes_differ(data, settings, embeddings):
    one, four = embeddings.draw(3, 1), embeddings.draw(3, 4)
    np.testing.assert_array_equal(one.queries, four.queries)
    assert set(one.train) < set(four.train)
    assert set(embeddings.draw(4, 4).queries) != set(four.queries)
    other = episodes.Embeddings(data, replace(settings, seed=8))
    assert set(other.draw(3, 4).queries) != set(four.queries)
    longer = episodes.Embeddings(data, replace(settings, episodes=99, methods=("CRC",)))
    np.testing.assert_array_equal(longer.draw(3, 4).queries, four.queries)


def test_small_classes_are_never_drawn(data, settings):
    embeddings = episodes.Embeddings(data, replace(settings, shots=(25,)))
    assert not any((data.labels[embeddings.draw(i, 25).queries] == 9).any() for i in range(30))
    assert 9 in embeddings.draw(0, 25).outside


@pytest.mark.parametrize("centre", ["none", "train", "others"])
def test_samples_are_centred_by_what_is_said_and_by_nothing_else(data, embeddings, centre):
    episode = embeddings.draw(0, 4)
    outside = np.isin(data.labels, episode.outside)
    mean = {"none": 0, "train": data.samples[episode.train].mean(axis=0)}
    mean["others"] = data.samples[outside].mean(axis=0)
    train, queries = embeddings.unit_samples(episode, centre)
    samples = normalize(data.samples[episode.train] - mean[centre])
    asked = normalize(data.samples[episode.queries] - mean[centre])
    np.testing.assert_allclose(train @ train.T, samples @ samples.T, atol=1e-12)
    np.testing.assert_allclose(train @ queries.T, samples @ asked.T, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1)
    assert train.shape == (12, 13)  # of 64 features
    poisoned = data.samples.copy()
    poisoned[episode.queries] = 1e6
    others = episodes.Embeddings(replace(data, samples=poisoned), embeddings.settings)
    np.testing.assert_array_equal(others.unit_samples(episode, centre)[0], train)


@pytest.mark.parametrize("n_levels", [3, 1000])
def test_auroc_and_false_positives_vs_scikit_learn(n_levels):
    rng = np.random.default_rng(0)
    known = rng.integers(n_levels, size=40) + n_levels // 4
    unknown = rng.integers(n_levels, size=30) + 0.0
    truth = np.repeat([1, 0], [40, 30])
    scores = np.concatenate([known, unknown])
    assert episodes.auroc(known, unknown) == pytest.approx(roc_auc_score(truth, scores))
    accepting = [t for t in scores if np.mean(known >= t) >= 0.95]
    assert episodes.false_positive_rate(known, unknown) == min(np.mean(unknown >= t) for t in accepting)
    assert episodes.auroc(np.array([np.inf, 0]), np.array([-np.inf])) == 1


def test_measures_equal_the_classifier_by_hand(data, embeddings):
    episode = embeddings.draw(2, 4)
    train, queries = data.samples[episode.train], data.samples[episode.queries]
    residuals = NRC(solver="exact").fit(train, episode.train_classes).residuals(queries)
    every = episodes.measure_all(embeddings, episode)
    found = every["NRC exact"]
    assert found["accuracy"] == np.mean(residuals[:15].argmin(axis=1) == episode.query_classes)
    truth, two = np.repeat([1, 0], [15, 10]), np.sort(residuals, axis=1)
    assert found["auroc"] == pytest.approx(roc_auc_score(truth, -two[:, 0]))
    assert found["margin_auroc"] == pytest.approx(roc_auc_score(truth, two[:, 1] - two[:, 0]))
    mean = data.samples[np.isin(data.labels, episode.outside)].mean(axis=0)
    simple = NearestCentroid().fit(normalize(train - mean), episode.train_classes)
    right = simple.predict(normalize(queries - mean))[:15] == episode.query_classes
    assert every["SimpleShot"]["accuracy"] == right.mean()


@pytest.mark.parametrize(("name", "reference"), [("nearest centroid", NearestCentroid()), ("1-NN", None)])
def test_simple_methods_vs_scikit_learn(embeddings, name, reference):
    episode = embeddings.draw(1, 4)
    train, queries = embeddings.unit_samples(episode, "none")
    expected = (reference or KNeighborsClassifier(1)).fit(train, episode.train_classes).predict(queries)
    scores = CONTENDERS[name](train, episode.train_classes, queries)
    np.testing.assert_array_equal(scores.values.argmax(axis=1), expected)


@pytest.mark.parametrize("method", CONTENDERS)
@pytest.mark.parametrize("ways", [2, 3])
def test_every_method_has_a_score_for_every_class_and_finds_its_training_samples(data, method, ways):
    settings = episodes.Settings((method,), (4,), ways=ways, queries=3, unknown=1, episodes=2)
    embeddings = episodes.Embeddings(data, settings)
    episode = embeddings.draw(0, 4)
    train, _ = embeddings.unit_samples(episode, "none")
    scores = CONTENDERS[method](train, episode.train_classes, train)
    assert scores.values.shape == (4 * ways, ways)
    assert np.mean(scores.values.argmax(axis=1) == episode.train_classes) > 0.9


def test_summary_is_mean_and_interval_of_the_episodes(data, results, embeddings):
    assert interval([1.0, 2.0, 3.0, 6.0]) == pytest.approx((3.0, 1.96 * np.std([1, 2, 3, 6], ddof=1) / 2))
    for row in results["summary"]:
        values = results["episodes"][str(row["shots"])][row["method"]]
        assert (row["accuracy"], row["accuracy_interval"]) == pytest.approx(interval(values["accuracy"]))
        assert len(values["fpr"]) == 6
    by_hand = [episodes.measure_all(embeddings, embeddings.draw(i, 4)) for i in range(6)]
    for method in FEW:
        assert results["episodes"]["4"][method]["accuracy"] == [each[method]["accuracy"] for each in by_hand]


def test_verdict_is_the_paired_difference_of_the_best(results):
    line = verdicts(results)[0]
    assert line.startswith("Accuracy: ")
    methods = results["episodes"]["4"]
    ours, other = (
        max((m for m in FEW if m in group), key=lambda m: np.mean(methods[m]["accuracy"]))
        for group in (OURS, OTHERS)
    )
    gains = 100 * np.subtract(methods[ours]["accuracy"], methods[other]["accuracy"])
    half = 1.96 * gains.std(ddof=1) / np.sqrt(6)
    chance = ", within chance" if abs(gains.mean()) <= half else ""
    text = f"{gains.mean():+.1f} ± {half:.1f}".replace("-", "−")
    assert f"4 shots {ours} {text} against {other}{chance}." in line


def test_tables_mark_the_best_and_leave_open_set_out_without_unknown_classes(
    data, settings, results, tmp_path
):
    accuracy, auroc, fpr, _ = tables(results)
    for table, name, best in ((accuracy, "accuracy", max), (auroc, "auroc", max), (fpr, "fpr", min)):
        for column, shots in enumerate((1, 4), start=1):
            rows = [row for row in results["summary"] if row["shots"] == shots]
            wanted = best(row[name] for row in rows)
            assert {i for i, j in table.best if j == column} == {
                i for i, row in enumerate(rows) if row[name] == wanted
            }
    closed = replace(settings, unknown=0, episodes=2, methods=("CRC",))
    only = tables(episodes.run(closed, data, open_folder("episodes", str(tmp_path / "closed"), {}), {}))
    assert [table.title for table in only] == [accuracy.title]


def test_an_interrupted_run_goes_on_and_ends_with_the_same(data, settings, results, tmp_path, monkeypatch):
    monkeypatch.setattr(episodes, "BLOCK", 2)
    folder = open_folder("episodes", str(tmp_path / "run"), {})
    steps = []

    def stop(text, done, total):
        steps.append((done, total))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="4 of 6 results are kept"):
        episodes.run(settings, data, folder, {}, on_step=stop)
    kept = {path: path.stat().st_mtime_ns for path in (folder / CELLS).rglob("*.json")}
    assert len(kept) == 4
    seen = []
    again = episodes.run(settings, data, folder, {}, on_step=lambda text, done, total: seen.append(done))
    assert seen[0] == 4
    assert again["episodes"] == results["episodes"]
    assert not (folder / CELLS).exists()


def test_processes_change_nothing(data, settings, results, tmp_path):
    folder = open_folder("episodes", str(tmp_path / "run"), {})
    several = episodes.run(replace(settings, methods=("CRC",)), data, folder, {}, n_jobs=2)
    assert several["episodes"]["1"]["CRC"] == results["episodes"]["1"]["CRC"]


@pytest.fixture
def run(tmp_path, data, monkeypatch, capsys):
    """Run the command in this process on a file of digits: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    np.savez("digits.npz", X=data.samples, y=data.labels)
    np.savez(
        "spoilt.npz", X=np.where(np.arange(len(data.labels))[:, None] == 5, 0, data.samples), y=data.labels
    )
    np.save("features.npy", data.samples)
    (tmp_path / "images" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "images" / "cat" / "one.png")

    def command(*args):
        return cli.main(["episodes", *args]), *capsys.readouterr()

    return command


def test_command_prints_tables_or_json_and_continues_a_run(run):
    args = ("digits.npz", "--shots", "2,1", "--ways", "3", "--queries", "3", "--episodes", "3")
    args += ("--methods", "crc,simpleshot,nearest CENTROID", "--n-jobs", "1", "--out", "run")
    code, out, error = run(*args)
    assert code == 0, error
    assert len([line for line in out.splitlines() if line.startswith(" CRC ")]) == 4
    assert "3 episodes of 3 known and 3 unknown classes, 3 queries each" in out
    assert "Wrote results.json and table.md to run" in error
    code, out, error = run(*args, "--json")
    assert code == 0, error
    found = json.loads(out)
    assert [row["shots"] for row in found["summary"]] == [1] * 3 + [2] * 3
    assert found["settings"]["methods"] == ["CRC", "nearest centroid", "SimpleShot"]
    assert "episodes" not in found
    assert found["verdicts"][0].startswith("Accuracy: 1 shot CRC ")
    code, _, error = run(*args, "--seed", "1")
    assert code == 2
    assert "other settings (seed: 0 there, 1 here)" in error
    results = json.loads(Path("run/results.json").read_text())
    results["summary"][0]["unconverged"] = 2
    Path("run/results.json").write_text(json.dumps(results))
    code, out, error = run(*args)
    assert code == 4
    assert "Queries that missed the tolerance of their solver: CRC 2." in " ".join(out.split())
    assert "Some queries missed the tolerance of their solver; the results are written." in error


def test_few_features_are_left_as_they_are():
    train, queries = np.eye(5)[:4], np.ones((2, 5))
    assert episodes.in_few_dimensions(train, queries)[0] is train


def test_command_takes_what_the_classes_allow_and_says_so(run, tmp_path):
    args = ("digits.npz", "--shots", "1", "--queries", "20", "--episodes", "2", "--n-jobs", "1")
    code, out, error = run(*args, "--ways", "9", "--json", "--out", "nine")
    assert code == 0, error
    assert "1 of 10 classes have fewer than 21 samples and are never drawn" in error
    found = json.loads(out)
    assert found["settings"]["unknown"] == 0
    assert "SimpleShot" in found["settings"]["methods"]
    args = (
        "digits.npz",
        "--shots",
        "1",
        "--queries",
        "5",
        "--episodes",
        "2",
        "--ways",
        "10",
        "--n-jobs",
        "1",
    )
    code, out, error = run(*args, "--json")
    assert code == 0, error
    assert "SimpleShot is left out" in error
    assert "SimpleShot" not in json.loads(out)["settings"]["methods"]
    for option in (["--methods", "simpleshot"], ["--centre", "others"]):
        code, _, error = run(*args, *option)
        assert code == 2
        assert "take all 10 classes of digits.npz" in error
    shutil.rmtree(tmp_path / "residuum-runs")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (
            ["digits.npz", "--shots", "0,5"],
            2,
            "--shots must be whole numbers from 1 on, such as 1,5,10. Got '0,5'",
        ),
        (["digits.npz", "--shots", "few"], 2, "Got 'few'"),
        (["digits.npz", "--ways", "1"], 2, "--ways must be 2 or more. Got 1."),
        (["digits.npz", "--unknown", "-1"], 2, "--unknown must be 0 or more. Got -1."),
        (["digits.npz", "--queries", "0"], 2, "--queries must be 1 or more"),
        (["digits.npz", "--episodes", "1"], 2, "--episodes must be 2 or more"),
        (["digits.npz", "--seed", "-1"], 2, "--seed must be 0 or more"),
        (["digits.npz", "--methods", "magic"], 2, "SimpleShot. Got magic."),
        (["digits.npz", "--n-jobs", "0"], 2, "n_jobs must be -1"),
        (["digits.npz", "--ways", "11"], 3, "needs 11 classes (--ways and --unknown) of at least 25 samples"),
        (["digits.npz", "--shots", "100"], 3, "Of its 10 classes, 0 have so many; the largest has"),
        (["digits.npz", "--ways", "6", "--unknown", "5"], 3, "an episode needs 11 classes"),
        (["spoilt.npz"], 3, "row 5 is all zeros"),
        (["features.npy"], 3, "features.npy has no labels"),
        (["images"], 2, "images is a folder of images. Turn them into embeddings first: residuum features"),
        (["missing.npz"], 3, "missing.npz does not exist"),
    ],
)
def test_bad_input_is_one_line_and_its_exit_code(run, tmp_path, args, code, words):
    found, out, error = run(*args)
    assert (found, out) == (code, "")
    assert error.startswith("Error: ")
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "residuum-runs").exists()


@pytest.mark.parametrize("method", CONTENDERS)
def test_answers_are_those_of_all_features(data, settings, method):
    """Fewer features that keep the inner products change no score; logistic regression stops early."""
    embeddings = episodes.Embeddings(data, settings)
    episode = embeddings.draw(0, 4)
    train, queries = (normalize(data.samples[rows]) for rows in (episode.train, episode.queries))
    few = episodes.in_few_dimensions(train, queries)
    assert few[0].shape[1] < train.shape[1]
    small = CONTENDERS[method](few[0], episode.train_classes, few[1])
    whole = CONTENDERS[method](train, episode.train_classes, queries)
    np.testing.assert_allclose(small.values, whole.values, atol=0.02 if method == "logistic" else 1e-8)
