"""Explanations: as JSON, as tables, as a page, and by the command."""

import json
import math
import re
import shutil
import subprocess
import threading
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from residuum import (
    CRC,
    CRCCV,
    CROC,
    NRC,
    NSC,
    SRC,
    ConfidentClassifier,
    EigenfacePCA,
    ProCRC,
    SoftNRC,
    open_model,
    save_model,
)
from residuum.cli.main import main
from residuum.explain.compared import FEATURES, SAMPLES, compare_features
from residuum.explain.page import SHOWN, _shortened, explanation_page
from residuum.explain.rows import ExplainedRow, explain_row, find_row
from residuum.explain.text import atom_table, class_table
from residuum.features import KernelMap
from residuum.inputs import OwnData
from residuum.reports.numbers import four_digits
from residuum.reports.thumbnails import stretched, to_pixels

CLASSIFIERS = [NSC(), SRC(), CRC(), CROC(), ProCRC(), NRC(), SoftNRC()]
HOSTILE = (
    '</script><script>alert(1)</script><img src="http://x.invalid/a.png" onerror=alert(2)>&amp;"\'\x00\u202e'
)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300], X[900:960], y[900:960]


def class_parts(fitted, query):
    """``X_k c_k`` for every class."""
    codes = getattr(fitted, "estimator_", fitted).encode(query[None])
    code = (codes.toarray() if sp.issparse(codes) else codes)[0]
    dictionary = fitted.dictionary_
    return [code[block] @ dictionary.atoms[block] for block in dictionary.blocks]


class Page(HTMLParser):
    """What a reader of the page, human or machine, gets to see."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.numbers, self.embedded, self._open = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self._open.append((tag, attributes))
        if tag in ("meta", "link", "img", "rect", "line"):
            self._open.pop()

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "data":
            self.numbers.append((attributes["value"], data))
        if tag == "script":
            assert attributes == {"type": "application/json", "id": "explanation"}
            self.embedded += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def numbers_of(value):
    """Every number of the JSON."""
    if isinstance(value, dict):
        return [n for entry in value.values() for n in numbers_of(entry)]
    if isinstance(value, list):
        return [n for entry in value for n in numbers_of(entry)]
    return [value] if isinstance(value, int | float) or value in ("inf", "-inf") else []


# JSON


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda c: type(c).__name__)
def test_to_dict_is_json_and_adds_up(classifier, digits):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(classifier, reject_threshold=0.1).fit(X, y)
    content = fitted.explain(Q[0]).to_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["answer"] == fitted.predict(Q[:1])[0]
    residuals, p = fitted.residuals(Q[:1])[0], fitted.predict_proba(Q[:1])[0]
    for part in content["classes"]:
        assert part["residual"] == pytest.approx(residuals[part["label"]])
        assert part["probability"] == pytest.approx(p[part["label"]])
    found = [part["residual"] for part in content["classes"]]
    assert found == sorted(found)
    assert sum(part["share"] for part in content["classes"]) == pytest.approx(1, abs=1e-6)
    parts = class_parts(fitted, Q[0])
    for part in content["classes"]:
        assert part["norm"] == pytest.approx(np.linalg.norm(parts[part["label"]]), abs=1e-12)
        own = sum(atom["share"] for atom in content["atoms"] if atom["label"] == part["label"])
        assert part["share"] == pytest.approx(own, abs=1e-9)
    assert content["confidence"] == pytest.approx(fitted.confidence(Q[:1])[0])
    assert content["margin"] == pytest.approx(found[1] - found[0])
    assert content["atoms_used"] == len(content["atoms"])
    fitted.set_params(probability=False)
    assert fitted.explain(Q[0]).to_dict()["classes"][0]["probability"] is None


@pytest.mark.parametrize(
    ("classifier", "stopping", "words"),
    [
        (NRC(), "steps", "5 steps, as published"),
        (NRC(max_iter=7), "steps", "7 steps, as asked for"),
        (NRC(step_tol=1e-3, max_iter=400), "tolerance", "iterations, tolerance met"),
        (NRC(step_tol=1e-12, max_iter=3), "tolerance", "3 iterations, tolerance missed"),
        (NRC(solver="exact"), "tolerance", "iterations, tolerance met"),
        (SoftNRC(), "tolerance", "iterations, tolerance met"),
        (CRC(), "direct", "solved directly"),
    ],
    ids=str,
)
def test_only_a_tolerance_can_be_met(digits, classifier, stopping, words):
    X, y, Q, _ = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        why = classifier.fit(X, y).explain(Q[0])
    certificate = why.to_dict()["certificate"]
    assert certificate["stopping"] == why.stopping == stopping
    text = "\n".join(atom_table(why.to_dict()).notes)
    page = explanation_page(ExplainedRow(why))
    for shown in (text, page):
        assert words in shown
        assert ("olerance" in shown) == (stopping == "tolerance")
        assert f"{certificate['violation']:.4g}" in shown


def test_infinite_residuals_become_text(digits):
    X, y, Q, _ = digits
    content = SRC(rule="scaled_residual", l1=0.2).fit(X, y).explain(Q[0]).to_dict()
    assert content["classes"][-1]["residual"] == "inf"
    assert float(content["classes"][-1]["residual"]) == math.inf
    single = NRC().fit(X[:5], [1] * 5).explain(Q[0]).to_dict()
    assert (single["margin"], single["runner_up"]) == ("inf", None)


@pytest.mark.parametrize(
    "labels",
    [np.array([3, 5], dtype=np.uint8), np.array([1.0, 2.0]), np.array([True, False]), np.array(["a", "b"])],
    ids=["uint8", "float", "bool", "text"],
)
def test_labels_of_numpy_types(labels):
    content = NRC().fit(np.eye(2), labels).explain([1.0, 0.2]).to_dict()
    assert json.loads(json.dumps(content))["label"] == labels[0]


def test_named_columns_are_held_to_their_names():
    wine = load_wine(as_frame=True)
    table, labels = wine.data, wine.target
    for model in (CRC().fit(table, labels), CRCCV(l2s=[0.01, 0.1]).fit(table, labels)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            told = model.explain(table.iloc[[5]])
            assert model.explain(table.iloc[5]).label == told.label == model.predict(table.iloc[[5]])[0]
        with pytest.raises(ValueError, match="feature names"):
            model.explain(table[table.columns[::-1]].iloc[[5]])


def test_rejected_and_named(digits):
    X, y, Q, _ = digits
    why = ConfidentClassifier(NRC(), reject_threshold=10.0).fit(X, y).explain(Q[0], max_atoms=3)
    content = why.named([f"file {i}" for i in range(len(X))]).to_dict()
    assert (content["answer"], content["rejected"]) == (-1, True)
    assert content["label"] == NRC().fit(X, y).predict(Q[:1])[0]
    assert [atom["name"] for atom in content["atoms"]] == [f"file {a['sample']}" for a in content["atoms"]]
    assert len(content["atoms"]) == 3 < content["atoms_used"]
    assert why.named(None) is why


# Pictures


def as_data(X, y, shape):
    names = np.array([f"row-{i}" for i in range(len(X))])
    return OwnData("somewhere.npz", "array", X, y, names, image_shape=shape)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [Normalizer()],
        [MinMaxScaler()],
        [StandardScaler(), PCA(60)],
        [EigenfacePCA()],
        [EigenfacePCA(center=True, normalize=False)],
        [Normalizer("l1"), EigenfacePCA(center=True)],
    ],
    ids=str,
)
def test_class_parts_in_the_space_of_pixels(tmp_path, digits, steps):
    """A training sample of full rank features is its own reconstruction: its class gives back its picture."""
    X, y, _, _ = digits
    fitted = make_pipeline(*steps, NRC(solver="exact")).fit(X, y)
    model = open_model(save_model(fitted, tmp_path / "m.residuum"))
    found = explain_row(model, model.estimator, as_data(X, y, (8, 8)), 7, max_atoms=5)
    assert found.explanation.label == y[7]
    np.testing.assert_array_equal(found.query_image, stretched(X[7], (8, 8)))
    difference = found.class_images[y[7]].astype(int) - found.query_image
    assert np.abs(difference).max() <= 2
    drawn = {part.label for part in found.explanation.classes if part.norm > 1e-3}
    assert set(found.class_images) == drawn
    for image in found.class_images.values():  # however small a part, it can be seen
        assert (image.min(), image.max()) == (0, 255)


def test_a_step_without_inverse_is_said(tmp_path, digits):
    from residuum import Scattering2D

    X, y, _, _ = digits
    X = np.kron(X[:40].reshape(-1, 8, 8), np.ones((1, 2, 2))).reshape(40, -1)
    fitted = make_pipeline(Scattering2D(J=2, image_shape=(16, 16)), NRC()).fit(X, y[:40])
    model = open_model(save_model(fitted, tmp_path / "m.residuum"))
    found = explain_row(model, model.estimator, as_data(X, y[:40], (16, 16)), 0, max_atoms=5)
    assert found.class_images is None
    assert "Scattering2D cannot be turned back into pixels" in " ".join(found.notes)


def test_class_parts_of_samples_with_weights(tmp_path, digits):
    X, y, _, _ = digits
    model = SoftNRC(l2=1e-6, neg_weight=np.inf).fit(X, y, np.arange(1.0, 301))
    opened = open_model(save_model(model, tmp_path / "m.residuum"))
    found = explain_row(opened, opened.estimator, as_data(X, y, (8, 8)), 7, max_atoms=5)
    assert np.abs(found.class_images[y[7]].astype(int) - found.query_image).max() <= 2


def test_parts_in_the_space_of_a_kernel_are_not_drawn(tmp_path, digits):
    X, y, _, _ = digits
    fitted = make_pipeline(KernelMap(), NRC()).fit(X, y)
    model = open_model(save_model(fitted, tmp_path / "m.residuum"))
    found = explain_row(model, model.estimator, as_data(X, y, (8, 8)), 0, max_atoms=5)
    assert found.class_images is None
    assert "KernelMap cannot be turned back into pixels" in " ".join(found.notes)


# Features of a table


@pytest.mark.parametrize("max_landmarks", [None, 60], ids=["exact", "landmarks"])
@pytest.mark.parametrize("model", [SoftNRC(), SoftNRC(class_weight="balanced"), CRC()], ids=str)
def test_the_values_of_training_rows_are_those_of_the_table(tmp_path, model, max_landmarks):
    wine = load_wine()
    X, y, names = wine.data, wine.target_names[wine.target], np.arange(1000, 1178).astype(str)
    steps = [StandardScaler(), KernelMap(max_landmarks=max_landmarks)]
    fitted = make_pipeline(*steps, model).fit(X[::2], y[::2])
    about = {"samples": names[::2].tolist()}
    opened = open_model(save_model(fitted, tmp_path / "m.residuum", about=about))
    data = OwnData("wine.csv", "table", X, y, names, columns=tuple(wine.feature_names))
    found = explain_row(opened, opened.estimator, data, 71, max_atoms=9)
    compared, atoms = found.comparison, found.explanation.atoms
    assert compared.exact
    assert not found.notes
    assert compared.samples == [atom.sample for atom in atoms[:SAMPLES]]
    assert (compared.n_features, len(compared.features)) == (13, FEATURES)
    rows = {name: f for f, name in enumerate(wine.feature_names)}
    for feature in compared.features:
        f = rows[feature.name]
        assert feature.query == X[71, f]
        shown = [value.value for value in feature.samples]
        np.testing.assert_allclose(shown, [X[::2][s, f] for s in compared.samples], rtol=1e-6)
        # The names of the rows are those of the file, whatever part of it was trained on.
        np.testing.assert_allclose(shown, [X[int(a.name) - 1000, f] for a in atoms[:SAMPLES]], rtol=1e-6)
        nearer = abs(feature.rival.away) - abs(feature.winner.away)
        assert feature.telling == pytest.approx(nearer)
    telling = [feature.telling for feature in compared.features]
    assert telling == sorted(telling, reverse=True)
    text = explanation_page(found)
    assert f"row <bdi>{atoms[0].name}</bdi>" in text
    assert f'<th scope="row"><bdi>{compared.features[0].name}</bdi></th>' in text


def test_the_most_telling_feature_comes_first():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.repeat(["a", "b"], 30)
    X[:, 2] += np.where(y == "a", -4, 4)
    steps = [StandardScaler().fit(X)]
    steps.append(KernelMap().fit(steps[0].transform(X)))
    model = SoftNRC(neg_weight=0.0).fit(steps[1].fit_transform(steps[0].transform(X)), y)
    inputs = [X[:1]]
    for step in steps:
        inputs.append(step.transform(inputs[-1]))
    compared = compare_features(model.explain(inputs[-1]), model.dictionary_, steps, inputs, None)
    assert compared.features[0].name == "feature 2"
    assert compared.rival == "b"
    assert compared.features[0].telling > 1
    mean = compared.features[0].rival
    assert mean.value > 1
    assert mean.away == pytest.approx((mean.value - X[0, 2]) / X[:, 2].std(), rel=0.01)


def test_without_a_kernel_values_are_at_the_length_of_the_query(tmp_path):
    X, y = load_wine(return_X_y=True)
    fitted = make_pipeline(MinMaxScaler(), NRC(solver="exact")).fit(X, y)
    model = open_model(save_model(fitted, tmp_path / "m.residuum"))
    data = OwnData("wine.csv", "table", X, y, np.arange(len(X)).astype(str))
    found = explain_row(model, model.estimator, data, 3, max_atoms=5)
    assert not found.comparison.exact
    assert "not its length" in " ".join(found.notes)
    # The query is a training row itself, so its own length is right.
    assert found.explanation.atoms[0].sample == 3
    for feature in found.comparison.features:
        assert feature.samples[0].value == pytest.approx(feature.query)


def test_features_that_cannot_be_taken_back_are_not_compared(tmp_path, digits):
    X, y, _, _ = digits
    steps = make_pipeline(StandardScaler(), KernelMap("cosine", max_landmarks=50), NRC()).fit(X, y)
    model = open_model(save_model(steps, tmp_path / "m.residuum"))
    found = explain_row(model, model.estimator, as_data(X, y, None), 0, max_atoms=5)
    assert found.comparison is None
    assert "Features that tell most" not in explanation_page(found)


def test_an_explanation_where_there_is_little_to_explain():
    """A query of zeros uses no sample, and of a single class there is no runner-up."""
    X, y = np.eye(4), ["a", "a", "b", "b"]
    model = CRC().fit(X, y)
    with pytest.warns(UserWarning, match="zero vectors"):
        nothing = model.explain(np.zeros(4))
    assert compare_features(nothing, model.dictionary_, [], [np.zeros((1, 4))], tuple("pqrs")) is None
    model.forget(samples=[0, 1])
    assert class_table(model.explain(X[0]).to_dict(), "Why").notes == ("b is the only class.",)


@pytest.mark.parametrize(
    ("threshold", "verdict"), [(10.0, "below, so rejected"), (0.0, "not below, so accepted")]
)
def test_tables_tell_the_threshold(digits, threshold, verdict):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(NRC(), reject_threshold=threshold, reject_by="margin").fit(X, y)
    content = fitted.explain(Q[0]).to_dict()
    told = class_table(content, "Why").notes[-1]
    confidence = four_digits(content["confidence"])
    assert f"Confidence by margin {confidence}, threshold {threshold:g}: {verdict}." in told


def test_find_row():
    named = as_data(np.eye(3), None, None)
    assert find_row(named, "row-2") == 2
    assert find_row(named, "1") == 1
    # Names that are numbers, one of which was left out: "1" must not silently mean the second row.
    numbered = OwnData("t.csv", "table", np.eye(2), None, np.array(["0", "2"]))
    assert find_row(numbered, "2") == 1
    twice = OwnData("t.csv", "table", np.eye(2), None, np.array(["a", "a"]))
    for data, row, message in [
        (named, "3", "has 3, by name 'row-0' to 'row-2', or by number 0 to 2. Got '3'"),
        (named, "-1", "Got '-1'"),
        (named, "x", "Got 'x'"),
        (numbered, "1", "Got '1'"),
        (twice, "a", "name of 2 rows"),
    ]:
        with pytest.raises(ValueError, match=message):
            find_row(data, row)


# The page


@pytest.fixture(scope="module")
def digit_page(digits):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(CRC(), reject_threshold=0.01).fit(X, y)
    why = fitted.explain(Q[3], max_atoms=12).named([f"d{i}.png" for i in range(len(X))])
    parts = np.linalg.norm(Q[3]) * np.array(class_parts(fitted, Q[3]))
    row = ExplainedRow(
        why,
        query_image=to_pixels(Q[3], (8, 8), low=0, high=16),
        atom_images=to_pixels(X, (300, 8, 8), low=0, high=16),
        class_images={k: to_pixels(part, (8, 8), low=0, high=16) for k, part in enumerate(parts)},
    )
    return why, explanation_page(row, title="Why row 3")


def many_classes():
    rng = np.random.default_rng(0)
    labels = np.array([f"species {i:03d} {HOSTILE if i % 40 == 0 else ''}" for i in range(130)])
    X = rng.random((260, 30))
    fitted = ConfidentClassifier(SRC(rule="scaled_residual")).fit(X, np.repeat(labels, 2))
    row = ExplainedRow(fitted.explain(X[0] + 0.1).named([HOSTILE] * 260))
    return explanation_page(row, title=HOSTILE, notes=[HOSTILE])


def test_page_holds_the_numbers_of_the_json(digit_page):
    why, text = digit_page
    page = Page(text)
    content = why.to_dict()
    assert json.loads(page.embedded) == content
    allowed = {str(n) if isinstance(n, str) else json.dumps(n) for n in numbers_of(content)}
    assert {value for value, _ in page.numbers} <= allowed
    for value, shown in page.numbers:
        assert shown == (value if "." not in value and "e" not in value else f"{float(value):.4g}")
    for part in content["classes"]:
        for name in ("residual", "norm", "share", "probability"):
            assert json.dumps(part[name]) in {value for value, _ in page.numbers}
    for atom in content["atoms"]:
        assert json.dumps(atom["coefficient"]) in {value for value, _ in page.numbers}


def test_page_reads_aloud(digit_page):
    _, text = digit_page
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("main")) == len(page.all("h1")) == 1
    assert all(image.get("alt") for image in page.all("img"))
    assert len(page.all("img")) == 1 + 4 + 10 + 12  # query, nearest parts, all parts, training samples
    for svg in page.all("svg"):
        assert svg["role"] == "img"
        identifiers = {a.get("id") for _, a in page.tags}
        assert set(svg["aria-labelledby"].split()) <= identifiers
    assert len(page.all("caption")) == len(page.all("table")) == 2
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(identifiers) == len(set(identifiers))


def test_page_asks_nothing_and_runs_nothing(digit_page):
    _, text = digit_page
    page = Page(text)
    policy = next(m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert "default-src 'none'" in policy
    for _, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:")
    assert "url(" not in text
    assert "@import" not in text


def test_hostile_texts_stay_texts():
    text = many_classes()
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= {
        *("html", "head", "meta", "title", "link", "style", "body", "main", "h1", "h2", "p", "strong", "bdi"),
        *(
            "section",
            "dl",
            "dt",
            "dd",
            "data",
            "figure",
            "div",
            "svg",
            "desc",
            "line",
            "rect",
            "text",
            "span",
        ),
        *("table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "script", "span"),
    }
    assert len(page.all("script")) == 1
    assert json.loads(page.embedded)["atoms"][0]["name"] == HOSTILE
    assert "\x00" not in text
    assert "\u202e" not in text
    surrogate = NRC().fit(np.eye(2), ["a", "b"]).explain([1, 0]).named(["\udcff.png", "b.png"])
    assert "\\udcff.png" in explanation_page(ExplainedRow(surrogate)).encode("utf-8").decode()


def test_the_colour_of_a_class_is_the_same_everywhere(digit_page):
    why, text = digit_page
    colours = {part.label: f"k{k}" if k < 5 else "kx" for k, part in enumerate(why.classes)}
    rects = [tag["class"].split()[-1] for tag in Page(text).all("rect")]
    expected = [colours[part.label] for part in why.classes] + [colours[atom.label] for atom in why.atoms]
    assert rects == expected
    cards = [tag["class"] for tag in Page(text).all("li") if tag.get("class")]
    assert cards == [colours[part.label] for part in why.classes[:4]] + expected[10:]
    assert text.count('<span class="role k0">answer') == text.count('<span class="role k1">runner-up') == 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        ([f"a long prefix of {k} and a long suffix" for k in "xy"], ["…x…", "…y…"]),
        (["z" * 40], ["z" * 14 + "…" + "z" * 10]),
        (["same name of more than 26 letters"] * 2, ["…", "…"]),
    ],
)
def test_shortened_names(names, expected):
    assert _shortened(names) == expected


def test_bars_of_image_files_have_their_names_and_the_numbers_before_the_bars():
    X = np.eye(3) + 0.1
    why = CRC().fit(X, ["tern", "tern", "gull"]).explain([1.0, 0.5, 0.2])
    why = why.named(["tern/Arctic_Tern_0141.jpg", "tern/Arctic_Tern_0007.jpg", "gull/Ivory_Gull_0012.jpg"])
    drawing = explanation_page(ExplainedRow(why)).split('aria-labelledby="atoms-title')[1].split("</svg>")[0]
    texts = re.findall(r'<text x="([0-9.]+)"[^>]*>([^<]*)</text>', drawing)
    starts = [float(x) for x in re.findall(r'<rect [^>]* x="([0-9.]+)"', drawing)]
    assert {text for _, text in texts[::2]} == {
        "Arctic_Tern_0141.jpg",
        "Arctic_Tern_0007.jpg",
        "Ivory_Gull_0012.jpg",
    }
    assert {text for _, text in texts[1::2]} == {four_digits(atom.coefficient) for atom in why.atoms}
    assert max(float(x) for x, _ in texts) <= min(starts)


def test_page_of_many_classes_folds_them_away():
    page = Page(many_classes())
    assert len(page.all("details")) == 1
    assert len(page.all("svg")) == 2
    rows = [cell for cell in page.all("th") if cell.get("scope") == "row"]
    atoms = len(json.loads(page.embedded)["atoms"])
    assert len(rows) == 130 + min(SHOWN, atoms)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_texts_and_bars(scheme):
    """WCAG 2: at least 4.5 for text on both grounds, 3 for bars."""
    text = explanation_page(ExplainedRow(NRC().fit(np.eye(2), [0, 1]).explain([1.0, 0.5])))
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    blocks = re.findall(r"(@media[^{]*dark\)\s*\{\s*)?:root \{(.*?)\}", style, re.S)
    colours = {}
    for dark, block in blocks:
        if scheme == "dark" or not dark:
            colours.update(re.findall(r"--(\w+): (#\w{6})", block))

    def luminance(colour):
        channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    def contrast(a, b):
        high, low = sorted((luminance(colours[a]), luminance(colours[b])), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for ground in ("ground", "band"):
        assert min(contrast(name, ground) for name in ("ink", "soft", "accent")) >= 4.5
        assert min(contrast(name, ground) for name in ("k0", "k1", "k2", "k3", "k4", "kx")) >= 3


# A real browser


@pytest.fixture(scope="module")
def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on the path to open the page with")
    return found


def browse(chromium, folder, text):
    """Open the page; what the page asked for, the console, and the document as it stands in the browser."""
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            # The browser has business of its own; what a page asks for says what it is for.
            if "Sec-Fetch-Dest" in self.headers or "Referer" in self.headers:
                asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode("utf-8"))

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"127.0.0.1:{server.server_port}"
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
        # Every other address comes here too, and is seen.
        command += [f"--user-data-dir={folder / 'profile'}", f"--host-resolver-rules=MAP * {here}"]
        command += ["--disable-background-networking", "--disable-component-update", "--dump-dom"]
        run = subprocess.run(
            [*command, f"http://{here}/why.html"], capture_output=True, timeout=120, check=True
        )
        server.shutdown()
    console = [line for line in run.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    return asked, console, run.stdout.decode("utf-8")


@pytest.mark.parametrize("make", ["digits", "many"])
def test_browser_reports_no_error_and_the_same_numbers(chromium, tmp_path, digit_page, make):
    text = digit_page[1] if make == "digits" else many_classes()
    asked, console, document = browse(chromium, tmp_path, text)
    assert asked == ["/why.html"]
    assert console == []
    before, after = Page(text), Page(document)
    assert after.numbers == before.numbers
    assert json.loads(after.embedded) == json.loads(before.embedded)


def test_browser_would_report_an_error(chromium, tmp_path):
    """The test above can fail: requests are seen, and those against the policy are on the console."""
    page = explanation_page(ExplainedRow(NRC().fit(np.eye(2), [0, 1]).explain([1.0, 0.5])))
    page = page.replace("</main>", '<img src="http://x.invalid/a.png"></main>')
    asked, console, _ = browse(chromium, tmp_path / "closed", page)
    assert asked == ["/why.html"]
    assert "Content Security Policy" in console[0]
    without_policy = page.replace("Content-Security-Policy", "x")
    asked, _, _ = browse(chromium, tmp_path / "open", without_policy)
    assert asked == ["/why.html", "/a.png"]


# The command


@pytest.fixture(scope="module")
def files(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("explain")
    X, y, Q, truth = digits
    fitted = make_pipeline(EigenfacePCA(40), ConfidentClassifier(SoftNRC())).fit(X, y)
    about = {"input": {"kind": "array", "image_shape": [8, 8]}, "samples": [f"s{i}" for i in range(len(X))]}
    save_model(fitted, folder / "m.residuum", about=about, images=to_pixels(X, (300, 8, 8), low=0, high=16))
    np.savez(folder / "q.npz", X=Q, y=truth)
    return folder, fitted


def test_command_prints_what_explain_says(files, digits, capsys):
    folder, fitted = files
    _, _, Q, truth = digits
    arguments = ["explain", str(folder / "m.residuum"), str(folder / "q.npz"), "--row", "3"]
    assert main([*arguments, "--json", "--html", str(folder / "why.html"), "--atoms", "4"]) == 0
    told = json.loads(capsys.readouterr().out)
    why = fitted[-1].explain(fitted[0].transform(Q[3:4]), max_atoms=4)
    expected = why.named([f"s{i}" for i in range(300)]).to_dict()
    assert {name: told[name] for name in expected} == expected
    assert (told["row"], told["true_label"]) == (3, int(truth[3]))
    page = Page((folder / "why.html").read_text(encoding="utf-8"))
    assert json.loads(page.embedded) == expected
    assert len(page.all("img")) == 1 + 4 + 10 + 4
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert f"Why row 3 of q.npz: {why.label}" in shown
    assert f"{why.atoms[0].coefficient:.4g}" in shown
    assert f"{why.classes[0].probability:.4g}" in shown
    assert f"the class is {truth[3]}" in shown


def test_command_says_when_a_code_is_not_finished_and_pictures_are_of_others(tmp_path, digits, capsys):
    X, y, Q, _ = digits
    model = NRC(step_tol=1e-12, max_iter=3).fit(X[:30], y[:30])
    pictures = to_pixels(X[:30], (30, 8, 8), low=0, high=16)
    model.partial_fit(X[30:40], y[30:40])
    saved = open_model(save_model(model, tmp_path / "m.residuum"))
    found = explain_row(
        replace(saved, images=pictures), saved.estimator, as_data(Q, None, None), 0, max_atoms=3
    )
    assert "The pictures in the model are of other training samples, so none is shown." in found.notes
    assert found.atom_images is None
    np.savez(tmp_path / "q.npz", X=Q)
    assert main(["explain", str(tmp_path / "m.residuum"), str(tmp_path / "q.npz"), "--row", "0"]) == 4
    told = capsys.readouterr()
    assert "tolerance missed" in " ".join(told.out.split())
    assert "The results are complete, but: the code of this row missed the tolerance" in told.err


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"--row": "60"}, 2, "--row must be a row of"),
        ({"--row": "nobody"}, 2, "Got 'nobody' instead"),
        ({"--atoms": "0"}, 2, "--atoms"),
        ({"--html": "no/such/folder/why.html"}, 2, "does not exist"),
        ({"model": "q.npz"}, None, "q.npz"),
        ({"model": "absent.residuum"}, None, "absent.residuum"),
        ({"data": "absent.csv"}, 3, "absent.csv does not exist"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_command_says_what_is_wrong_in_one_line(files, capsys, monkeypatch, change, code, message):
    folder, _ = files
    monkeypatch.chdir(folder)
    given = {"model": "m.residuum", "data": "q.npz", "--row": "3", **change}
    options = [text for name, value in given.items() if name.startswith("--") for text in (name, value)]
    found = main(["explain", given["model"], given["data"], *options])
    streams = capsys.readouterr()
    assert found == code or (code is None and found in (2, 3))
    assert message in streams.err
    assert streams.err.count("Error") == 1
    assert "Traceback" not in streams.err
    assert not streams.out
