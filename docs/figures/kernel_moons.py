"""What SoftNRC answers in the plane, with and without a kernel."""

import numpy as np
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from residuum import KernelMap, SoftNRC
from residuum.reports.plots import COLOURS

SIZE = (9.0, 3.4)


def draw(figure):
    X, y = make_moons(300, noise=0.2, random_state=0)
    queries, truth = make_moons(1000, noise=0.2, random_state=1)
    models = {
        "by direction alone": SoftNRC(),
        "RBF kernel": make_pipeline(StandardScaler(), KernelMap(), SoftNRC()),
    }
    across, up = np.meshgrid(np.linspace(-1.8, 2.8, 116), np.linspace(-1.3, 1.9, 80))
    said = []
    for axis, (name, model) in zip(figure.subplots(1, 2), models.items(), strict=True):
        model.fit(X, y)
        answers = model.predict(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
        axis.contourf(across, up, answers, levels=[-0.5, 0.5, 1.5], colors=COLOURS[:2], alpha=0.3)
        for k in (0, 1):
            axis.plot(*X[y == k].T, "o", ms=3, color=COLOURS[k])
        right = 100 * model.score(queries, truth)
        axis.set(xticks=[], yticks=[], title=f"{name}: {right:.1f} % right")
        said.append(f"{name} {right:.1f} % of 1,000 queries right")
    return "Two half moons with the answers of SoftNRC as areas: " + ", ".join(said) + "."
