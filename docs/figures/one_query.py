"""One digit coded over six samples of each class by SoftNRC, and what each class leaves of it."""

from sklearn.datasets import load_digits

from residuum import SoftNRC
from residuum.reports.plots import COLOURS, INK, draw_code, draw_ranked_bars

SIZE = (9.0, 3.4)


def draw(figure):
    digits = load_digits()
    train = [i for k in range(10) for i in (digits.target == k).nonzero()[0][:6]]
    query = 1711
    model = SoftNRC().fit(digits.data[train], digits.target[train])
    code, residuals = model.encode(digits.data[[query]])[0], model.residuals(digits.data[[query]])[0]
    labels = model.classes_[model.dictionary_.atom_class]
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.9, 3.2, 1.6))
    left.imshow(digits.images[query], cmap="Greys")
    left.set(xticks=[], yticks=[], title="the query")
    draw_code(middle, code, labels)
    middle.set_title("its code over 60 training samples", loc="left")
    middle.set_xticks([6 * k + 2.5 for k in range(10)], [str(k) for k in range(10)])
    middle.tick_params(axis="x", length=0)
    for k, text in enumerate(middle.get_xticklabels()):
        text.set(color=COLOURS[k], fontweight="bold")
    order = residuals.argsort()[:5]
    bars = draw_ranked_bars(right, [str(model.classes_[k]) for k in order], residuals[order], range(5))
    for bar, k in zip(bars, order):  # the colours of the classes, as in the middle
        bar.set_color(COLOURS[k])
    right.set_title("residual of a class", loc="left")
    right.tick_params(axis="y", colors=INK)
    names = ", ".join(f"class {model.classes_[k]} leaves {residuals[k]:.2f}" for k in order[:3])
    return f"A handwritten {digits.target[query]}, its coefficients over 60 samples, and residuals: {names}."
