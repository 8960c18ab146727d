"""Coordinates of samples in the space of a kernel: ``z(x)'z(x_i) = k(x, x_i)`` for all training samples x_i.

With the Gram matrix of the training samples ``K = U diag(s) U'`` and ``k(x) = (k(x, x_1), ..., k(x, x_n))``,

    z(x) = (diag(s)^{-1/2} U' k(x),  sqrt(k(x, x) - ||diag(s)^{-1/2} U' k(x)||^2)).

The last coordinate is what a sample has outside the span of the training samples, where all of them are
zero. So ``||z(x)||^2 = k(x, x)``, and a classifier that codes z(x) over the z(x_i) solves its problem in the
space of the kernel: the same codes and the same class residuals as from the Gram matrix alone.

Above `max_landmarks` training samples K is too large to decompose. Then so many of them are chosen as
landmarks (k-means++), and z(x) are the coordinates of the projection onto their span (Nystroem's method).
`error_` says what that leaves out.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics.pairwise import cosine_similarity, polynomial_kernel, rbf_kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from residuum.plain_numbers import check_numbers
from residuum.system.threads import all_or_nothing

FloatArray = npt.NDArray[np.floating[Any]]

_BLOCK_ENTRIES = 2**20  # of the kernel between samples and landmarks, at a time
_FEWEST, _MOST = 64, 2000  # landmarks, where nothing else is asked for
_COORDINATES = 2**24  # of all training samples, where that leaves enough landmarks


class KernelMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """``z(x)'z(x_i) = k(x, x_i)``: kernel NRC, CRC, SRC and the others are the plain ones after this step.

    Classifiers by representation divide samples by their norm. For pictures that takes out the light. For
    tables it throws information away, and a kernel keeps it: every sample has the norm ``sqrt(k(x, x))``,
    which is 1 for the RBF kernel, and the angle between two samples tells their distance.

    Parameters
    ----------
    kernel : {"rbf", "poly", "cosine", "precomputed"}, default="rbf"
        ``exp(-gamma ||x - x'||^2)``, ``(gamma x'x' + coef0)^degree``, or the cosine of the angle. With
        "precomputed", X holds the kernel: in `fit` between all training samples, in `transform` between
        samples (rows) and training samples (columns); k(x, x) is then taken for 1, so the kernel has to be
        normalised.
    gamma : float or None, default=None
        Of the rbf and poly kernels; None takes it from `sharpness`.
    sharpness : float, default=0.2
        ``gamma = sharpness / (sum of the variances of the features)``, where gamma is None. The kernel of two
        training samples at the mean squared distance is then ``exp(-2 sharpness)``, whatever the number and
        the scale of the features.
    degree : int, default=3
        Of the poly kernel.
    coef0 : float, default=1.0
        Of the poly kernel.
    max_landmarks : int or None, default=None
        With more training samples than these, so many of them become landmarks. None is 2000, or fewer where
        the coordinates of all training samples would be more than 2^24 numbers.
    random_state : int, RandomState instance or None, default=0
        For the choice of the landmarks.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks, n_features_in_)
        Training samples that span the coordinates; all of them up to `max_landmarks`.
    projection_ : ndarray of shape (n_landmarks, rank)
        ``U diag(s)^{-1/2}``.
    exact_ : bool
        Whether all training samples are landmarks; only then there is a coordinate outside their span.
    error_ : float
        Mean share of ``k(x, x)`` of the training samples that lies outside the span of the landmarks.
    gamma_ : float
        The gamma in use.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Column names seen in fit, if there were any.

    See Also
    --------
    sklearn.kernel_approximation.Nystroem : Coordinates over a random subset of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from residuum.features import KernelMap
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> Z = KernelMap(gamma=0.5).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, rbf_kernel(X, gamma=0.5)))
    True
    """

    _parameter_constraints = {
        "kernel": [StrOptions({"rbf", "poly", "cosine", "precomputed"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "sharpness": [Interval(Real, 0, None, closed="neither")],
        "max_landmarks": [Interval(Integral, 2, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        gamma: float | None = None,
        sharpness: float = 0.2,
        degree: int = 3,
        coef0: float = 1.0,
        max_landmarks: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.sharpness = sharpness
        self.degree = degree
        self.coef0 = coef0
        self.max_landmarks = max_landmarks
        self.random_state = random_state

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: object = None) -> KernelMap:
        """Decompose the kernel between the training samples, or between landmarks among them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
            Training samples, or the kernel between them.
        y : None
            Ignored.

        Returns
        -------
        KernelMap
            The transformer itself.
        """
        self._decompose(X)
        return self

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: object = None) -> FloatArray:
        """Fit, and the coordinates of the training samples as ``U diag(s)^{1/2}``, orthogonal to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
            Training samples, or the kernel between them.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, rank + 1), or (n_samples, rank) with landmarks
            What `transform` gives for them, up to rounding.
        """
        return self._decompose(X)

    def _decompose(self, X: Any) -> FloatArray:
        """Learn everything from the training samples, and return their coordinates."""
        X = validate_data(self, check_numbers(X, "X", "KernelMap"), dtype=[np.float64, np.float32])
        gamma = self.sharpness / _spread(X) if self.gamma is None else float(self.gamma)
        if self.kernel == "precomputed":
            chosen, gram = np.arange(len(X)), _checked_kernel(X)
        else:
            chosen = self._chosen(X)
            gram = self._kernel(X[chosen], X[chosen], gamma)
        values, vectors = scipy.linalg.eigh(gram.astype(np.float64), check_finite=False)
        if not values[-1] > 0:
            raise ValueError(f"KernelMap: the {self.kernel} kernel is zero for all training samples.")
        kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        self.gamma_ = gamma
        self.landmarks_ = X[chosen]
        self.exact_ = len(chosen) == len(X)
        self.projection_ = (vectors / np.sqrt(values)).astype(X.dtype)
        self.error_ = 0.0
        if self.exact_:
            inside = (vectors * np.sqrt(values)).astype(X.dtype, copy=False)
            return np.column_stack([inside, np.zeros(len(inside), dtype=inside.dtype)])
        inside, outside = self._inside(X)
        own = self._own(X)
        self.error_ = float(np.mean(outside / np.where(own > 0, own, 1)))
        return inside

    def _chosen(self, X: FloatArray) -> npt.NDArray[np.intp]:
        """Positions of the landmarks, in the order of the samples."""
        most = self.max_landmarks or max(_FEWEST, min(_MOST, _COORDINATES // len(X)))
        if len(X) <= most:
            return np.arange(len(X))
        _, chosen = kmeans_plusplus(X, most, random_state=check_random_state(self.random_state))
        return np.unique(chosen)

    def _kernel(self, X: FloatArray, landmarks: FloatArray, gamma: float) -> FloatArray:
        if self.kernel == "rbf":
            return rbf_kernel(X, landmarks, gamma=gamma)
        if self.kernel == "poly":
            return polynomial_kernel(X, landmarks, degree=self.degree, gamma=gamma, coef0=self.coef0)
        return cosine_similarity(X, landmarks)

    def _own(self, X: FloatArray) -> FloatArray:
        """``k(x, x)`` of every sample, shape (n_samples,)."""
        if self.kernel == "poly":
            own: FloatArray = self.gamma_ * np.sum(X**2, axis=1) + self.coef0
            return np.power(own, self.degree)
        if self.kernel == "cosine":
            return np.asarray(X.any(axis=1), dtype=X.dtype)
        return np.ones(len(X), dtype=X.dtype)

    def _inside(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coordinates within the span of the landmarks, and what is left of ``k(x, x)`` outside it."""
        inside = np.empty((len(X), self.projection_.shape[1]), dtype=X.dtype)
        step = max(1, _BLOCK_ENTRIES // len(self.landmarks_))
        for first in range(0, len(X), step):
            some = slice(first, first + step)
            products = (
                X[some]
                if self.kernel == "precomputed"
                else self._kernel(X[some], self.landmarks_, self.gamma_)
            )
            inside[some] = products @ self.projection_
        return inside, np.maximum(self._own(X) - np.einsum("ij,ij->i", inside, inside), 0)

    def transform(self, X: Any) -> FloatArray:
        """Coordinates of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) if precomputed
            Samples, or the kernel between them and the training samples.

        Returns
        -------
        ndarray of shape (n_samples, rank + 1), or (n_samples, rank) with landmarks
            Coordinates, the one outside the span of the training samples last.
        """
        check_is_fitted(self, "projection_")
        X = check_numbers(X, "X", "KernelMap")
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        inside, outside = self._inside(X)
        if not self.exact_:
            return inside
        # Below this, rounding of the two terms hides their difference.
        outside[outside < self._own(X) * 10 * len(self.landmarks_) * np.finfo(X.dtype).eps] = 0
        return np.column_stack([inside, np.sqrt(outside)])

    def inverse_transform(self, X: Any) -> FloatArray:
        """Samples from their coordinates, whatever the length of these.

        Where all training samples are landmarks it is the training sample in the same direction. From the
        coordinates over landmarks the RBF kernel tells the distances from all of them, up to one number u:
        ``-log(z(x)'z(l_i)) / gamma = ||l_i||^2 - 2 l_i'x + u``, which is solved for x by least squares.

        Parameters
        ----------
        X : array-like of shape (n_samples, rank + 1), or (n_samples, rank) with landmarks
            Coordinates of training samples; with landmarks and the RBF kernel, of any samples. A sum of
            coordinates is not the image of any sample.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The samples.
        """
        check_is_fitted(self, "projection_")
        if self.kernel == "precomputed" or not (self.exact_ or self.kernel == "rbf"):
            raise ValueError(
                f"KernelMap with kernel={self.kernel!r} cannot turn coordinates back into samples: that "
                "needs all training samples as landmarks, or the RBF kernel."
            )
        inside, _ = self._inside(self.landmarks_)  # (n_landmarks, rank)
        products = check_array(X, dtype=np.float64)[:, : inside.shape[1]] @ inside.T
        if self.exact_:
            norms = np.sqrt(np.einsum("ij,ij->i", inside, inside))
            return self.landmarks_[(products / np.where(norms > 0, norms, 1)).argmax(axis=1)]
        columns = np.column_stack([-2 * self.landmarks_, np.ones(len(self.landmarks_))])
        squares = np.einsum("ij,ij->i", self.landmarks_, self.landmarks_)
        found = np.empty((len(products), self.landmarks_.shape[1]))
        for i, row in enumerate(products):
            near = np.flatnonzero(row > 1e-6 * row.max())  # of the others rounding leaves no distance
            right = -np.log(row[near]) / self.gamma_ - squares[near]
            weights = row[near] / row.max()  # by which rounding matters less
            found[i] = np.linalg.lstsq(weights[:, None] * columns[near], weights * right, rcond=None)[0][:-1]
        return found

    @property
    def _n_features_out(self) -> int:
        return self.projection_.shape[1] + int(self.exact_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _spread(X: FloatArray) -> float:
    """The sum of the variances of the features, or 1 where all samples are the same."""
    spread = float(np.var(X, axis=0, dtype=np.float64).sum())
    return spread if spread > 0 and np.isfinite(spread) else 1.0


def _checked_kernel(K: FloatArray) -> FloatArray:
    """The kernel between all training samples, if it is one."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            "The 'X' parameter of KernelMap.fit with kernel='precomputed' must be square, the kernel between "
            f"all training samples. Got shape {K.shape}."
        )
    slack = 100 * np.finfo(K.dtype).eps * len(K)
    if np.abs(K - K.T).max() > slack * np.abs(K).max() or np.abs(np.diagonal(K) - 1).max() > slack:
        raise ValueError(
            "The 'X' parameter of KernelMap.fit with kernel='precomputed' must be symmetric with ones on its "
            "diagonal. Divide k(x, x') by sqrt(k(x, x) k(x', x'))."
        )
    return K
