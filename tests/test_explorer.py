"""What the page shows, as plain data: equal to the library's own explanations, without HTTP."""

import base64
import io
import json
import math
from copy import copy
from dataclasses import replace

import numpy as np
import photo_model
import pytest
from explorer_server import forty_classes, hostile_names, served
from ugly_images import png_header

from residuum import CRC, ConfidentClassifier, SoftNRC, save_model
from residuum.dictionary import Dictionary
from residuum.errors import ResiduumError, UsageError
from residuum.estimators import METHODS
from residuum.explorer import opening, removal
from residuum.explorer.asking import asked_query
from residuum.explorer.coding import Coder
from residuum.explorer.opening import (
    THRESHOLD,
    explore_data,
    explore_digits,
    explore_estimator,
    explore_model,
    held_out_of,
)
from residuum.explorer.pictures import InkFrame, difference
from residuum.explorer.queries import HeldOut
from residuum.explorer.removal import _Search, smallest_set
from residuum.explorer.session import SHOWN, About, Removed
from residuum.inputs import OwnData
from residuum.models.file import open_model


@pytest.fixture(scope="module")
def digits():
    return explore_digits()


def train_of(exploration):
    """Unit training samples with their labels, in the order of their numbers."""
    dictionary = exploration.coder.dictionary
    order = np.argsort(dictionary.samples)
    return dictionary.atoms[order], exploration.coder.classes[dictionary.atom_class[order]]


def library(exploration, settings, samples=None):
    """The classifier of the library with these settings, fitted to the same samples."""
    X, y = train_of(exploration)
    if samples is not None:
        X, y = X[samples], y[samples]
    return METHODS[settings.method](**settings.parameters).fit(X, y)


ASKED = [
    {"method": "NSC", "parameters": {"l2": 0.1}},
    {"method": "SRC", "parameters": {"l1": 0.05}},
    {"method": "SRC", "parameters": {"l1": 0.02, "positive": True}},
    {"method": "CRC", "parameters": {"l2": 0.03, "rule": "residual"}},
    {"method": "CROC", "parameters": {"weight": 0.3}},
    {"method": "ProCRC", "parameters": {"gamma": 0.5}},
    {"method": "NRC", "parameters": {"rho": 0.7, "max_iter": 9}},
    {"method": "NRC", "parameters": {"solver": "exact", "rule": "scaled_residual"}},
    {"method": "SoftNRC", "parameters": {"l2": 0.02, "neg_weight": 30.0}},
    {"method": "SoftNRC", "parameters": {"neg_weight": 0.0, "rule": "reconstruction"}},
    {"method": "SoftNRC", "parameters": {"neg_weight": "inf"}},
    {"method": "SimplexRC", "parameters": {"l2": 0.0}},
    {"method": "CRNRC", "parameters": {"gamma": 3.0}},
    {"method": "SimplexRC", "parameters": {"l2": 0.3, "rule": "reconstruction"}},
]


@pytest.mark.parametrize(
    "asked", ASKED, ids=lambda asked: f"{asked['method']}-{list(asked['parameters'])[-1]}"
)
def test_every_setting_says_what_the_library_says(digits, asked):
    settings = digits.controls.checked(asked)
    query = digits.query(5)
    found = digits.explain(query, settings)
    expected = library(digits, settings).explain(query.inputs[-1])
    assert digits.classes[found["winner"]] == expected.label
    assert digits.classes[found["runner_up"]] == expected.runner_up
    assert found["margin"] == pytest.approx(expected.margin, rel=1e-6, abs=1e-9)
    for part in expected.classes:
        told = found["classes"][digits.class_of[part.label]]
        assert float(told["residual"]) == pytest.approx(part.residual, rel=1e-6)
        assert told["share"] == pytest.approx(part.share, rel=1e-4, abs=1e-6)
    code = np.zeros(digits.coder.dictionary.n_atoms)
    for atom in expected.atoms:
        code[digits.position[atom.sample]] = atom.coefficient
    np.testing.assert_allclose(found["code"], code, rtol=1e-5, atol=1e-6)
    assert found["atoms"][0]["coefficient"] == pytest.approx(expected.atoms[0].coefficient, rel=1e-6)
    json.dumps(found, allow_nan=False)


def test_the_own_settings_are_those_of_the_model_with_probability_and_threshold(digits):
    settings, query = digits.controls.start, digits.query(5)
    X, y = train_of(digits)
    model = ConfidentClassifier(SoftNRC(), reject_threshold=THRESHOLD).fit(X, y)
    found, expected = digits.explain(query, settings), model.explain(query.inputs[-1])
    assert found["calibrated"]
    told = [part["probability"] for part in found["classes"]]
    by_label = {part.label: part.probability for part in expected.classes}
    np.testing.assert_allclose(told, [by_label[label] for label in digits.classes], rtol=1e-5)
    assert found["threshold"] == THRESHOLD
    other = digits.explain(query, digits.controls.checked({"parameters": {"l2": 0.02}}))
    assert not other["calibrated"], "probabilities hold for the settings they were calibrated for"


def test_a_threshold_above_the_margin_rejects(digits):
    query = digits.query(5)
    margin = digits.explain(query, digits.controls.start)["margin"]
    for threshold, rejected in ((margin + 0.01, True), (margin - 0.01, False)):
        settings = digits.controls.checked({"threshold": threshold})
        assert digits.explain(query, settings)["rejected"] is rejected


def test_no_parameter_factors_the_dictionary_again(digits, monkeypatch):
    first = ({"method": "SRC"}, {"method": "SimplexRC", "parameters": {"l2": 0.1}})
    for asked in first:
        digits.explain(digits.query(0), digits.controls.checked(asked))
    monkeypatch.setattr(Dictionary, "normal", property(lambda self: pytest.fail("summed again")))
    monkeypatch.setattr(Dictionary, "rotation", lambda self: pytest.fail("decomposed again"))
    monkeypatch.setattr(
        "residuum.solvers.active_set.atoms._build_gram", lambda atoms: pytest.fail("multiplied again")
    )
    for asked in ASKED:
        if asked == {"method": "SimplexRC", "parameters": {"l2": 0.0}}:
            continue  # the one ridge with atoms of another height
        settings = digits.controls.checked(asked)
        digits.explain(digits.query(1), settings)


def test_methods_with_class_terms_may_come_first(digits):
    """What CRNRC prepares holds its weights, and must not serve the others."""
    coder = Coder(digits.coder._inner, digits.controls.start)
    asked = (
        {"method": "CRNRC", "parameters": {"gamma": 2.0}},
        {"method": "NRC", "parameters": {"solver": "exact"}},
    )
    query = digits.query(1)
    for settings in map(digits.controls.checked, asked):
        model, turn = coder.classifier(settings)
        expected = library(digits, settings)
        np.testing.assert_allclose(
            model.residuals(turn(query.inputs[-1])), expected.residuals(query.inputs[-1]), rtol=1e-9
        )


def test_one_gram_matrix_of_crnrc_is_kept(digits):
    coder = Coder(digits.coder._inner, digits.controls.start)
    for gamma in (0.5, 1.0, 2.0):
        coder.classifier(digits.controls.checked({"method": "CRNRC", "parameters": {"gamma": gamma}}))
        coder.classifier(digits.controls.checked({"method": "NRC", "parameters": {"solver": "exact"}}))
    kept = [model.solver_ for model, _ in coder._found.values()]
    assert sum(bool(solver.problem.classwise) for solver in kept) == 1
    assert len(kept) == 2


def test_without_samples_and_classes_it_is_a_fit_without_them(digits):
    settings, query = digits.controls.start, digits.query(5)
    whole = digits.explain(query, settings)
    gone = sorted(atom["sample"] for atom in whole["atoms"][:3])
    lost = whole["runner_up"]
    removed = Removed.checked({"samples": gone, "classes": [lost]}, digits)
    found = digits.explain(query, settings, removed)
    _, y = train_of(digits)
    kept = np.setdiff1d(np.flatnonzero(y != digits.classes[lost]), gone)
    expected = library(digits, settings, kept).explain(query.inputs[-1])
    assert digits.classes[found["winner"]] == expected.label
    assert found["margin"] == pytest.approx(expected.margin, rel=1e-6)
    assert found["classes"][lost] is None
    assert all(found["code"][digits.position[sample]] == 0 for sample in gone)


def close_call(exploration, settings):
    answers = exploration.confusion(settings)
    return int(np.argmin(answers["margin"]))


@pytest.mark.parametrize("method", ["SRC", "NRC", "SoftNRC"])
def test_the_smallest_set_changes_the_answer_and_none_of_it_can_stay(digits, method):
    exact = {"solver": "exact"} if method == "NRC" else {}
    settings = digits.controls.checked({"method": method, "parameters": exact})
    query = digits.query(close_call(digits, settings))
    before = digits.explanation(query, settings)
    found = smallest_set(digits, query, settings)
    after = digits.explanation(query, settings, Removed(found.samples))
    assert after.label != before.label
    assert digits.class_of[after.label] == found.answer
    for sample in found.samples if len(found.samples) > 1 else ():
        others = tuple(each for each in found.samples if each != sample)
        assert digits.explanation(query, settings, Removed(others)).label == before.label
    assert 1 <= found.at_least <= len(found.samples)


def small_exploration(seed):
    """Few enough samples that every set of two can be tried."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(size=(14, 6)), np.arange(14) % 3
    held_out = HeldOut(rng.uniform(size=(4, 6)), np.zeros(4, dtype=int), list("abcd"))
    names = [str(i) for i in range(14)]
    return explore_estimator(
        SoftNRC().fit(X, y), About("small", "a table"), held_out, names=names, pictures=None
    )


# (method, seed, query): the greedy set is reduced (NRC 18), a single sample or a pair beats it (SRC 1, CRC 1,
# CRC 38), or three or more are needed.
SMALL = [("SRC", 1, 0), ("CRC", 1, 0), ("CRC", 38, 1), ("NRC", 18, 0), ("SoftNRC", 11, 0), ("SoftNRC", 16, 0)]


@pytest.mark.parametrize(("method", "seed", "number"), SMALL)
def test_bounds_on_the_smallest_set_hold_against_every_pair(method, seed, number):
    small = small_exploration(seed)
    settings, query = small.controls.checked({"method": method}), small.query(number)
    winner = small.explanation(query, settings).label
    everyone = range(14)

    def changes(*samples):
        return small.explanation(query, settings, Removed(samples)).label != winner

    found = smallest_set(small, query, settings)
    assert changes(*found.samples)
    for sample in found.samples if len(found.samples) > 1 else ():
        assert not changes(*(each for each in found.samples if each != sample)), "it could have stayed"
    singles = any(changes(i) for i in everyone)
    pairs = any(changes(i, j) for i in everyone for j in range(i))
    size = 1 if singles else 2 if pairs else 3
    assert found.at_least <= size <= len(found.samples)
    if size < 3:
        assert found.exact


def test_for_a_given_number_of_steps_every_sample_can_matter():
    small = small_exploration(0)
    for method, everyone in (("NRC", True), ("SRC", False)):
        settings, query = small.controls.checked({"method": method}), small.query(0)
        search = _Search(small, query, settings, Removed((3,)), lambda: True)
        explanation = search.without(())
        expected = 13 if everyone else explanation.atoms_used
        assert explanation.atoms_used < 13
        assert len(search.candidates(explanation)) == expected


def test_a_search_that_is_ended_keeps_its_bounds_honest(digits):
    settings = digits.controls.start
    found = smallest_set(digits, digits.query(5), settings, goes_on=lambda: False)
    assert found.ended_early
    assert found.samples is None
    assert found.at_least == 1


def test_confusion_is_what_predict_says(digits):
    settings = digits.controls.checked({"method": "CRC"})
    found = digits.confusion(settings)
    model = library(digits, settings)
    predicted = model.predict(digits.held_out.features)
    assert [digits.classes[k] for k in found["answered"]] == predicted.tolist()
    np.testing.assert_allclose(
        found["margin"], model.answer(digits.held_out.features).margins, rtol=1e-6, atol=1e-9
    )
    right = (predicted == digits.held_out.truth) & ~np.array(found["rejected"])
    assert found["correct"] == np.count_nonzero(right)
    assert any(found["close"]), "some calls are close"
    nearly = digits.confusion(digits.controls.checked({"method": "CRC", "threshold": 0.5}))
    assert sum(nearly["rejected"]) > sum(found["rejected"])
    assert nearly["correct"] < found["correct"]


def test_none_of_these_is_right_for_a_foreign_class_alone(digits):
    nothing = digits.controls.checked({"threshold": 10})
    foreign = np.full_like(digits.held_out.truth, -1)
    assert digits.confusion(nothing)["correct"] == 0
    elsewhere = copy(digits)
    elsewhere.held_out = replace(digits.held_out, truth=foreign)
    found = elsewhere.confusion(nothing)
    assert found["correct"] == sum(found["rejected"]) == len(foreign)


def test_a_model_codes_its_own_samples_over_the_others(tmp_path):
    rng = np.random.default_rng(3)
    X, y = rng.uniform(size=(30, 5)), np.repeat(["a", "b", "c"], 10)
    path = save_model(
        SoftNRC().fit(X, y), tmp_path / "m.residuum", about={"samples": [f"row {i}" for i in range(30)]}
    )
    opened = explore_model(open_model(path), "m.residuum")
    query = opened.query(12)
    found = opened.explain(query, opened.controls.start)
    kept = np.setdiff1d(np.arange(30), [query.own_sample])
    expected = SoftNRC().fit(X[kept], y[kept]).explain(X[query.own_sample])
    assert found["query"]["own"]
    assert opened.classes[found["winner"]] == expected.label
    assert found["margin"] == pytest.approx(expected.margin, rel=1e-6)
    assert all(atom["sample"] != query.own_sample for atom in found["atoms"])
    answered = opened.confusion(opened.controls.start)["answered"]
    assert answered[12] == found["winner"]


def test_pictures_are_the_query_its_reconstruction_and_what_is_left(digits):
    found = digits.explain(digits.query(0), digits.controls.start)
    assert set(found["pictures"]) == {"query", "reconstruction", "difference", "winner", "runner_up"}
    assert all(address.startswith("data:image/png;base64,") for address in found["pictures"].values())
    pixels = difference(np.array([0.0, 1.0, -1.0, 0.1]), (2, 2), span=1.0)
    assert pixels[0, 0, 3] == 0
    assert pixels[0, 1, 3] == pixels[1, 0, 3] == 255
    assert tuple(pixels[0, 1, :3]) != tuple(pixels[1, 0, :3])


def test_tables_and_embeddings_get_features_instead_of_pictures():
    people = forty_classes()
    found = people.explain(people.query(0), people.controls.start)
    assert found["pictures"] is None
    assert len(found["comparison"]["features"]) == 12
    first = found["comparison"]["features"][0]
    assert first["query"] in people.held_out.features[0]
    assert people.summary()["brings"] == {"drawing": False, "picture": False, "row": True}
    assert len(found["atoms"]) == SHOWN


def test_a_drawing_is_put_where_the_training_ink_lies(digits):
    stroke = np.zeros((100, 100))
    stroke[20:40, 10:14] = 1.0  # a small bar in a corner
    placed = digits.frame.placed(stroke).reshape(8, 8)
    rows, columns = np.nonzero(placed > 0.1)
    assert np.ptp(rows) >= 6, "it is as tall as the digits are"
    assert 2 <= columns.mean() <= 5, "and in the middle"
    with pytest.raises(UsageError, match="empty"):
        digits.frame.placed(np.zeros((20, 20)))
    assert not InkFrame.suits(np.full((5, 8, 8), 200, dtype=np.uint8), (8, 8)), "photographs are not drawn"


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "KNN"},
        {"parameters": {"l2": 1e9}},
        {"parameters": {"l2": "much"}},
        {"parameters": {"l2": math.nan}},
        {"parameters": {"l2": True}},
        {"method": "NRC", "parameters": {"max_iter": 2.5}},
        {"method": "SRC", "parameters": {"l1": 1e-5}},
        {"parameters": {"rule": "guess"}},
        {"parameters": {"tol": 1}},
        {"parameters": []},
        {"threshold": -1},
        [],
    ],
)
def test_settings_outside_their_ranges_are_refused_in_one_sentence(digits, asked):
    with pytest.raises(UsageError) as caught:
        digits.controls.checked(asked)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "asked", [{"samples": [10**9]}, {"classes": list(range(10))}, {"samples": [True]}, {"samples": 3}, []]
)
def test_removing_what_is_not_there_is_refused(digits, asked):
    with pytest.raises(UsageError):
        Removed.checked(asked, digits)


def test_own_pictures_of_a_model_with_eigenfaces_are_drawn(tmp_path):
    from sklearn.pipeline import make_pipeline

    from residuum.features import EigenfacePCA

    rng = np.random.default_rng(4)
    pictures = rng.integers(0, 256, size=(24, 6, 6), dtype=np.uint8)
    X, y = pictures.reshape(24, -1).astype(float), np.repeat(["a", "b"], 12)
    model = make_pipeline(EigenfacePCA(n_components=8), SoftNRC()).fit(X, y)
    about = {"input": {"image_shape": [6, 6]}}
    for images, drawn in ((pictures, True), (255 - pictures, False)):
        path = save_model(model, tmp_path / "m.residuum", about=about, images=images)
        opened = explore_model(open_model(path), "m.residuum")
        found = opened.explain(opened.query(3), opened.controls.start)
        assert (found["pictures"] is not None) is drawn, (
            "pictures that are not the raw features are not drawn"
        )
        assert bool(found["notes"]) is not drawn


# ----------------------------------------------------------------------------- what people bring and open


def in_base64(content):
    return base64.b64encode(content).decode()


def as_png(pixels):
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return in_base64(stream.getvalue())


BLANK = np.full((9, 9), 200, dtype=np.uint8)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"row": "  "}, "Paste one row of values, with commas"),
        ({"row": "1,2" + ",0" * 62 + "\n" + "3,4" + ",0" * 62}, "explained at a time. Got 2: paste one"),
        ({"drawing": {"width": 8.0, "height": 8, "ink": ""}}, "needs its width, its height and its ink"),
        ({"drawing": {"width": 8, "height": 8, "ink": 7}}, "must be sent in base64"),
        ({"picture": as_png(BLANK)}, "nothing that stands out from its ground"),
        ({"picture": in_base64(png_header(5000, 5000))}, "may have 20000000 pixels. Got 5000 x 5000"),
    ],
)
def test_what_cannot_be_a_query_is_refused_with_what_to_do(digits, asked, said):
    with pytest.raises(ResiduumError, match=said):
        asked_query(digits, asked)


def test_numbers_are_not_asked_for_as_pictures():
    people = forty_classes()
    for asked, said in (
        ({"drawing": {"width": 8, "height": 8, "ink": ""}}, "cannot be drawn by hand"),
        ({"picture": as_png(BLANK)}, "takes numbers, not pictures"),
    ):
        with pytest.raises(UsageError, match=said):
            asked_query(people, asked)
    with pytest.raises(UsageError, match=r"has 24 values here\. Got 1"):
        people.brought([1.0])
    with pytest.raises(UsageError, match="must be finite numbers"):
        people.brought([np.nan] * 24)


@pytest.mark.parametrize("kind", ["row", "values"])
def test_the_numbers_of_a_sample_are_answered_like_the_sample(digits, kind):
    for exploration in (digits, forty_classes()):
        numbers = exploration.held_out.features[7].tolist()
        asked = numbers if kind == "values" else ";".join(map(str, numbers))
        found = asked_query(exploration, {kind: asked})
        told, expected = (
            exploration.explain(query, exploration.controls.start)
            for query in (found.query, exploration.query(7))
        )
        assert told["code"] == expected["code"]
        assert told["pictures"] == expected["pictures"]
        assert (found.query.picture is None) == (exploration.about.shape is None)
        assert (found.values is None) == (kind == "row"), "the page keeps the row itself"


def test_values_too_large_for_sums_are_answered_like_smaller_ones(digits):
    """Classifiers bring every query to unit length before they add up anything."""
    told = []
    for value in (1e308, 1.0):
        query = asked_query(digits, {"values": [0.0, value] * 32}).query
        told.append(digits.explain(query, digits.controls.start))
    assert told[0]["code"] == told[1]["code"]
    assert told[0]["pictures"] is None
    assert told[0]["notes"] == ["The values of the query are too large for its parts to be drawn."]


def test_a_picture_of_the_right_size_is_taken_as_it_is():
    """Its ground is not black, so nobody could say what its ink is."""
    exploration = hostile_names()
    pixels = exploration.held_out.pictures[1]
    found = asked_query(exploration, {"picture": as_png(pixels)})
    assert found.values.tolist() == pixels.ravel().tolist()
    answered = exploration.explain(found.query, exploration.controls.start)
    assert answered["winner"] == exploration.held_out.truth[1]


def test_pictures_over_the_network_are_png_or_not_there(digits):
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn", reason="needs the extra 'explorer'")
    with served(digits) as url:
        base, token = url.split("/?token=")
        with httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}) as http:
            content = http.get("/api/pictures/train/1").content
            for path in ("train/first", "train/500", "train/1" + "0" * 20, "test/1"):
                answer = http.get(f"/api/pictures/{path}")
                assert answer.status_code == 404
                assert answer.json() == {"error": "There is no such picture."}
    from PIL import Image

    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(content))), digits.pictures[1])


def test_a_model_that_takes_files_is_explored_by_files():
    shots, labels, fitted = photo_model.photographs()
    train = OwnData(
        "photos",
        "images",
        fitted[0].transform(shots),
        np.array(labels),
        np.array(list("abcdef")),
        paths=tuple(shots),
    )
    opened = explore_data(train, train.rows(slice(0, 0)), fitted, "visual words")
    assert opened.summary()["brings"] == {"drawing": False, "picture": True, "row": False}
    with pytest.raises(UsageError, match="takes pictures, not rows of numbers"):
        asked_query(opened, {"row": "1,2,3"})
    found = asked_query(opened, {"picture": as_png(shots[3])})
    answered = opened.explain(found.query, opened.controls.start)
    assert opened.classes[answered["winner"]] == labels[3]
    assert answered["atoms"][0]["name"] == "d", "the same photograph carries it"
    assert opened.explain(opened.query(3), opened.controls.start)["atoms"][0]["name"] != "d"


def test_pixels_that_people_bring_are_as_bright_as_the_training_pixels():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 17, size=(12, 64)).astype(float)
    numbers = np.arange(12)
    train = OwnData("p.npz", "array", pixels, numbers % 3, numbers.astype(str), image_shape=(8, 8))
    opened = explore_data(train, train.rows(slice(0, 0)), SoftNRC().fit(pixels, numbers % 3), "as they are")
    white = np.full((8, 8), 255, dtype=np.uint8)
    assert set(asked_query(opened, {"picture": as_png(white)}).values) == {16.0}
    assert opened.summary()["held_out"]["own"], "nothing was held out"


def saved_rows(tmp_path, model, **others):
    """A model of 30 rows of three classes in a file, opened."""
    rng = np.random.default_rng(3)
    X, y = rng.uniform(size=(30, 16)), np.repeat(["a", "b", "c"], 10)
    return X, open_model(save_model(model.fit(X, y), tmp_path / "m.residuum", **others))


def test_a_model_is_explored_with_new_rows_whose_class_it_need_not_know(tmp_path):
    X, saved = saved_rows(tmp_path, CRC())
    rows = OwnData("new.csv", "table", X[[0, 12, 5]], np.array(["a", "z", "b"]), np.array(list("xyz")))
    opened = explore_model(saved, "m.residuum", rows)
    assert opened.held_out.truth.tolist() == [0, -1, 1]
    assert not opened.summary()["held_out"]["own"]
    settings = opened.controls.start
    assert settings.parameters["l2"] == saved.estimator.solver_.problem.l2, "None is as large as the data say"
    found, expected = opened.explain(opened.query(2), settings), saved.estimator.explain(X[5])
    assert opened.classes[found["winner"]] == expected.label
    assert found["margin"] == pytest.approx(expected.margin, rel=1e-6)
    assert opened.explain(opened.query(1), settings)["query"]["truth"] == -1


def test_samples_enrolled_since_have_numbers_for_names_and_no_pictures(tmp_path):
    shown = np.zeros((30, 4, 4), dtype=np.uint8)
    about = {"samples": [f"row {i}" for i in range(30)]}
    X, saved = saved_rows(tmp_path, SoftNRC(), about=about, images=shown)
    before = explore_model(saved, "m").summary()
    assert before["pictures"]["train"]
    assert before["names"][-1] == "row 29"
    saved.estimator.partial_fit(X[:1] + 1, ["c"])
    after = explore_model(saved, "m").summary()
    assert not after["pictures"]["train"]
    assert after["names"][-1] == "30"


def test_one_class_alone_is_nothing_to_explore():
    model = SoftNRC().fit(np.eye(3), ["a"] * 3)
    with pytest.raises(UsageError, match="only one class"):
        explore_estimator(
            model,
            About("one", "a table"),
            HeldOut(np.eye(3), np.zeros(3), list("abc")),
            names=[],
            pictures=None,
        )


def test_of_very_many_samples_some_of_every_class_are_taken():
    labels = np.array(["rare"] * 3 + ["many"] * 7000)
    data = OwnData("t.csv", "table", np.arange(14006.0).reshape(-1, 2), labels, np.arange(7003).astype(str))
    fewer = opening.fewer_samples(data)
    assert np.unique(fewer.labels, return_counts=True)[1].tolist() == [3000, 3]
    assert fewer.notes == ("3003 of 7003 samples are explored, evenly from every class",)
    assert opening.fewer_samples(fewer) is fewer
    held_out = held_out_of(data, np.array(["many", "rare"]))
    assert np.unique(held_out.truth, return_counts=True)[1].tolist() == [500, 3]
    assert held_out.names == [str(int(first) // 2) for first, _ in held_out.features]


def test_a_drawing_that_is_taller_than_wide_pictures_is_cut():
    pictures = np.zeros((4, 8, 16), dtype=np.uint8)
    pictures[:, 3:5, 1:15] = 255
    placed = InkFrame(pictures).placed(np.ones((40, 4))).reshape(8, 16)
    assert (placed[:, 7:9] > 0.5).all(), "the bar goes through the whole height"
    assert (placed[:, [0, 4, 11, 15]] == 0).all()
    assert not InkFrame.suits(np.zeros((5, 8, 8), dtype=np.uint8), (8, 8)), "nothing was ever drawn there"
    assert not InkFrame.suits(pictures, (16, 8)), "these are other pictures"


def test_the_difference_of_colours_is_their_mean():
    values = np.array([[[1.0, 0, 0.5], [0, 0, 0]], [[-3, 0, 0], [0.3, -0.3, 0]]])
    np.testing.assert_array_equal(
        difference(values.ravel(), (2, 2, 3), span=3.0), difference(values.mean(axis=2), (2, 2), span=3.0)
    )


# ------------------------------------------------------------------------------ searches that come to an end


@pytest.mark.parametrize(
    ("most", "ends_after", "at_least"),
    [(600, 10**6, 3), (600, 30, 2), (600, 12, 1), (100, 10**6, 2), (20, 10**6, 2), (2, 10**6, 1)],
)
def test_bounds_are_no_better_than_what_was_tried(most, ends_after, at_least, monkeypatch):
    """Three samples are needed: all singles and pairs must be tried to know."""
    monkeypatch.setattr(removal, "MOST_SOLVES", most)
    small = small_exploration(16)
    settings, query, asked = small.controls.start, small.query(0), iter(range(ends_after))
    winner = small.explanation(query, settings).label
    found = smallest_set(small, query, settings, goes_on=lambda: next(asked, None) is not None)
    assert small.explanation(query, settings, Removed(found.samples)).label != winner
    assert found.at_least == at_least
    assert found.exact == (at_least == 3)
    assert found.ended_early == (ends_after < 100)


def test_of_many_carriers_many_are_removed_at_a_time():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(90, 6)) * 0.05 + 1, rng.uniform(size=(4, 6))])
    held_out = HeldOut(np.ones((1, 6)), np.zeros(1, dtype=int), ["q"])
    model = CRC(l2=0.1).fit(X, ["many"] * 90 + ["few"] * 4)
    names = [str(i) for i in range(94)]
    opened = explore_estimator(model, About("t", "a table"), held_out, names=names, pictures=None)
    settings, query = opened.controls.start, opened.query(0)
    search = _Search(opened, query, settings, Removed(), lambda: True)
    gone = removal._greedy(search, search.without(()))
    assert opened.explanation(query, settings, Removed(gone)).label == "few"
    assert len(gone) > 60
    assert search.solves < 20


def test_the_last_confusions_are_kept_and_all_can_be_had_again(digits):
    asked = [
        digits.controls.checked({"method": "CRC", "parameters": {"l2": l2}})
        for l2 in (0.01, 0.02, 0.05, 0.1, 1)
    ]
    first = [digits.confusion(settings) for settings in asked]
    assert len(digits._answers) == 4
    assert digits._answered(asked[-1]) is digits._answered(asked[-1])
    assert [digits.confusion(settings) for settings in asked] == first
