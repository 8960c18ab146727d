"""ADMM on one digit: the objective above its optimum, and the gap that is proved, step by step."""

import numpy as np
from sklearn.datasets import load_digits

from residuum import NRC
from residuum.problem import dense

SIZE = (9.0, 3.4)


def draw(figure):
    X, y = load_digits(return_X_y=True)
    query = X[[1711]]
    unit = query[0] / np.linalg.norm(query)
    steps = np.unique(np.geomspace(1, 1000, 22).astype(int))

    def objective(model):
        return float(np.sum((unit - dense(model.encode(query))[0] @ model.dictionary_.atoms) ** 2))

    best = objective(NRC(solver="exact").fit(X[:500], y[:500]))
    above, gaps = [], []
    for count in steps:
        model = NRC(max_iter=int(count)).fit(X[:500], y[:500])
        above.append(objective(model) - best)
        gaps.append(model.solve(query).gap[0])
    axis = figure.subplots()
    axis.loglog(steps, gaps, "o-", color="#e07b1a", label="gap, proved")
    axis.loglog(steps, np.maximum(above, 1e-17), "s-", color="#4c8bd6", label="objective above the optimum")
    axis.axvline(5, color="#010203", linewidth=0.8, alpha=0.6)
    axis.text(5.2, 0.05, "the paper stops here", transform=axis.get_xaxis_transform())
    axis.set(xlabel="steps of ADMM", ylabel="relative to the query")
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(lambda value, _: f"{value:g}")
    axis.legend(frameon=False)
    at = list(steps).index(5)
    return (
        f"Two falling curves over {steps[-1]} steps. After five steps the objective is {above[at]:.1e} above "
        f"the optimum and the gap is {gaps[at]:.1e}; after {steps[-1]} {above[-1]:.1e} and {gaps[-1]:.1e}."
    )
