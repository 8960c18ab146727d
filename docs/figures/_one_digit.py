"""One digit over ten samples of each class, coded with growing parameters: what the three pictures share."""

import numpy as np
from sklearn.datasets import load_digits

from residuum.problem import dense
from residuum.reports.plots import COLOURS, draw_code

SIZE = (7.6, 5.0)


def draw_codes(figure, models):
    """A panel for the code of each named model; returns what they show in words."""
    X, y = load_digits(return_X_y=True)
    train = np.concatenate([np.flatnonzero(y == k)[:10] for k in range(10)])
    query, said = X[[1711]], []
    axes = figure.subplots(2, len(models) // 2)
    for axis, (name, model) in zip(axes.flat, models.items(), strict=True):
        model.fit(X[train], y[train])
        code = dense(model.encode(query))[0]
        draw_code(axis, code, model.classes_[model.dictionary_.atom_class])
        used, negative = np.count_nonzero(code), np.count_nonzero(code < 0)
        answer = model.predict(query)[0]
        axis.set_title(f"{name}: answer {answer}\n{used} used, {negative} negative", loc="left")
        axis.set(ylabel="", xticks=[10 * k + 4.5 for k in range(10)], xticklabels=[str(k) for k in range(10)])
        axis.tick_params(axis="x", length=0, labelsize=8)
        for k, text in enumerate(axis.get_xticklabels()):
            text.set_color(COLOURS[k])
        said.append(f"{name}: {used} of 100 coefficients used, {negative} negative")
    return f"Codes of a handwritten {y[1711]} over 100 digits. " + "; ".join(said) + "."
