"""The explanation of one digit by SoftNRC, as `Explanation.plot` draws it."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from residuum import SoftNRC

SIZE = (9.0, 3.6)


def draw(figure):
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, train_size=200, stratify=y, random_state=0)
    why = SoftNRC().fit(X_train, y_train).explain(X_test[0])
    why.plot(axes=figure.subplots(1, 2))
    best = why.atoms[0]
    return (
        f"Class residuals, smallest first: {why.label} before {why.runner_up} by {why.margin:.2f}; and "
        f"coefficients of training samples, the largest {best.coefficient:.2f} of a {best.label}."
    )
