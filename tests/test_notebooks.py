"""What a notebook shows: short texts, a small table, and pictures after scikit-learn's displays."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from residuum import (
    CRC,
    CRCCV,
    CROC,
    NRC,
    SRC,
    CodeDisplay,
    ConfidentClassifier,
    ResidualDisplay,
    SoftNRC,
    nnls,
)
from residuum.estimators.explanation import IN_SHORT
from residuum.features import KernelMap
from residuum.problem import Solution

HOSTILE = "</td><script>alert(1)</script>\u202e$x^2$"


@pytest.fixture(autouse=True)
def no_windows():
    import matplotlib.pyplot as plt

    with mpl.rc_context({"backend": "Agg"}):
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:150], y[:150], X[900:]


def test_a_solution_sums_itself_up(digits):
    X, y, Q = digits
    solution = NRC(solver="exact").fit(X, y).solve(Q[:20])
    found = re.fullmatch(
        r"Solution\(20 queries, 150 atoms, mean support (\S+), worst violation (\S+), worst gap (\S+), "
        r"20 of 20 converged\)",
        repr(solution),
    )
    support, violation, gap = map(float, found.groups())
    assert support == pytest.approx(solution.codes.nnz / 20, rel=1e-3)
    assert violation == pytest.approx(solution.violation.max(), rel=0.06)
    assert gap == pytest.approx(solution.gap.max(), rel=0.06)
    one = repr(NRC().fit(X, y).solve(Q[:1], certify=False))
    assert "(1 query, " in one
    assert "violation and gap not measured, 1 of 1 converged" in one
    assert "(1 query, 3 atoms, mean support 1, " in repr(nnls(np.eye(3), np.array([1.0, -1.0, 0.0])))
    none = np.empty(0)
    empty = Solution(sp.csr_array((0, 3)), none.astype(int), none, none, none.astype(bool))
    assert repr(empty) == "Solution(no queries, 3 atoms)"


def test_an_explanation_is_short(digits):
    X, y, Q = digits
    why = SoftNRC().fit(X, y).explain(Q[0])
    assert repr(why) == (
        f"Explanation(label={why.label}, runner_up={why.runner_up}, margin={why.margin:.4g}, "
        f"method='SoftNRC', atoms_used=150, converged=True)"
    )
    rejecting = ConfidentClassifier(NRC(), probability=False, reject_threshold=9.0).fit(X, y)
    assert repr(rejecting.explain(Q[0])).startswith(f"Explanation(answer=-1, label={why.label}")


class Seen(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("model", [CROC(), SRC(rule="scaled_residual", l1=0.3), NRC()], ids=str)
def test_html_of_an_explanation(digits, model):
    X, y, Q = digits
    labels = np.array([f"{k} {HOSTILE}" for k in range(10)])[y]
    why = model.fit(X, labels).explain(Q[0]).named([HOSTILE] * len(X))
    page = Seen(why._repr_html_())
    assert {tag for tag, _ in page.tags} <= {
        *("div", "table", "thead", "tbody", "tr", "th", "td", "b", "bdi", "span")
    }
    for _, attributes in page.tags:
        assert set(attributes) <= {"style"}
        assert "url" not in attributes.get("style", "")
    assert "\u202e" not in page.text
    assert f"{why.margin:.4g}" in page.text
    assert page.text.count("alert(1)") == 2 + IN_SHORT + 2 * min(IN_SHORT, why.atoms_used)
    assert ("∞" in page.text) == any(np.isinf(part.residual) for part in why.classes[:IN_SHORT])


def test_html_of_a_rejected_query_and_of_a_single_class(digits):
    X, y, Q = digits
    rejecting = ConfidentClassifier(NRC(), probability=False, reject_threshold=9.0).fit(X, y)
    assert "is below 9; nearest is" in Seen(rejecting.explain(Q[0])._repr_html_()).text
    single = Seen(NRC().fit(X[:5], [1] * 5).explain(Q[0])._repr_html_()).text
    assert "ahead of" not in single


def test_plot_returns_two_axes(digits):
    X, y, Q = digits
    why = CRC().fit(X, [f"${k}$ class" for k in y]).explain(Q[0])
    left, right = why.plot(max_classes=4, max_atoms=6)
    assert [text.get_text() for text in left.get_yticklabels()] == [part.label for part in why.classes[:4]]
    np.testing.assert_allclose(
        [bar.get_width() for bar in left.patches], [p.residual for p in why.classes[:4]]
    )
    np.testing.assert_allclose([b.get_width() for b in right.patches], [a.coefficient for a in why.atoms[:6]])
    # The bars of a class have one colour on both sides.
    colours = {part.label: bar.get_facecolor() for part, bar in zip(why.classes, left.patches)}
    for atom, bar in zip(why.atoms, right.patches):
        assert bar.get_facecolor() == colours.get(atom.label, bar.get_facecolor())
    left.figure.canvas.draw()  # a dollar sign must not be read as mathematics
    import matplotlib.pyplot as plt

    given = plt.subplots(1, 2)[1]
    assert why.plot(given) is given


@pytest.mark.parametrize("model", [CRC(), SoftNRC(), SRC(), CRCCV(), ConfidentClassifier(NRC())], ids=str)
def test_displays_from_estimator(digits, model):
    import matplotlib.pyplot as plt

    X, y, Q = digits
    model.fit(X, y)
    why = model.explain(Q[0])
    display = ResidualDisplay.from_estimator(model, Q[0])
    assert display.figure_ is display.ax_.figure
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], [p.residual for p in why.classes])
    axes = plt.subplots()[1]
    assert ResidualDisplay(display.residuals, classes=display.classes).plot(axes, max_classes=3).ax_ is axes
    assert len(axes.patches) == 3
    assert "7 more classes" in axes.get_xlabel()
    code = CodeDisplay.from_estimator(model, Q[:1], ax=plt.subplots()[1])
    assert len(code.code) == 150
    assert {a.sample for a in why.atoms} == set(code_samples(model, code.code))
    assert f"{np.count_nonzero(code.code)} of 150 training samples" in code.ax_.get_title(loc="left")
    assert code.figure_ is code.ax_.figure


def code_samples(model, code):
    coder = getattr(model, "estimator_", getattr(model, "best_estimator_", model))
    return coder.dictionary_.samples[np.flatnonzero(code)]


def test_displays_of_a_pipeline_with_named_columns_and_weights():
    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    model = make_pipeline(StandardScaler(), KernelMap(), SoftNRC(class_weight={"setosa": 4.0})).fit(
        iris.data, names
    )
    query = iris.data.iloc[70]
    assert ResidualDisplay.from_estimator(model, query).ax_.get_xlabel() == "residual"
    display = CodeDisplay.from_estimator(model, query)
    why = model[-1].explain(model[:-1].transform(iris.data.iloc[[70]]))
    assert np.abs(display.code).max() == pytest.approx(abs(why.atoms[0].coefficient))
    assert display.labels[np.abs(display.code).argmax()] == why.atoms[0].label


def test_names_of_many_classes_keep_their_distance():
    rng = np.random.default_rng(0)
    labels = np.repeat([f"class number {k:02d}" for k in range(40)], 5)
    display = CodeDisplay(rng.normal(size=200), labels=labels).plot()
    places = np.sort(display.ax_.get_xticks())
    assert 3 < len(places) <= 12
    assert np.diff(places).min() > 0.03 * 200
    assert "more classes" in display.ax_.get_xlabel()


def test_the_score_of_a_rule_has_its_name(digits):
    X, y, Q = digits
    for model, name in [
        (CRC(rule="reconstruction"), "distance from the whole reconstruction"),
        (CRC(), "scaled residual"),
        (CROC(), "score of CROC"),
    ]:
        assert ResidualDisplay.from_estimator(model.fit(X, y), Q[0]).ax_.get_xlabel() == name


def test_matplotlib_is_loaded_by_drawing_alone():
    code = (
        "import sys, numpy as np; from residuum import NRC, CodeDisplay; m = NRC().fit(np.eye(3), [0, 0, 1]);"
        "w = m.explain(np.ones(3)); repr(w); w._repr_html_(); assert 'matplotlib' not in sys.modules;"
        "CodeDisplay(np.ones(3), labels=[0, 0, 1]).plot(); assert 'matplotlib' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "MPLBACKEND": "Agg"})


@pytest.mark.parametrize("model", [NRC(), CRCCV(), ConfidentClassifier(), KernelMap()], ids=str)
def test_sparse_input_is_refused_with_a_reason(model):
    X = np.eye(6)
    with pytest.raises(TypeError, match=r"must be a dense array.*sparse.*X.toarray\(\)"):
        model.fit(sp.csr_array(X), [0, 0, 0, 1, 1, 1])
    assert not model.__sklearn_tags__().input_tags.sparse
