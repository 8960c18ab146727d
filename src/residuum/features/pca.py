"""Eigenfaces: V from the singular value decomposition X - mean = U S V', features z = V'x / ||V'x||."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted, validate_data

from residuum.features._parameters import check_integers, refuse
from residuum.plain_numbers import check_numbers
from residuum.system.threads import all_or_nothing

FloatArray = npt.NDArray[np.floating[Any]]

# Directions from a Gram matrix are off by about eps * (s_1 / s_k)^2, from the data itself by eps * s_1 / s_k.
# Up to this ratio of eigenvalues the Gram matrix loses nothing that matters, and it is several times faster.
_GRAM_LIMIT = 1e-5


class EigenfacePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal directions of the centred data, applied to the data as they are, then unit l2 norm.

    With the training mean m and the singular value decomposition X - m = U S V', a sample x becomes
    V'x / ||V'x||.

    The mean is used to find the directions but not subtracted from what is projected. Centred features point
    in all directions around the origin: with many more samples than features the cone of the atoms is then
    all of the space, non-negative codes reproduce every query exactly from samples of any class, and the
    residuals say nothing. Uncentred projections of images keep a common direction, the cone stays narrow, and
    a query outside it leaves a residual that tells the classes apart.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of directions, at most the rank of the centred training data. None keeps all of them.
    center : bool, default=False
        Whether to subtract the mean before projecting.
    normalize : bool, default=True
        Whether to scale every projection to unit l2 norm. Zero rows stay zero.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal directions, largest variance first; the entry of largest magnitude in each is positive.
    mean_ : ndarray of shape (n_features_in_,)
        Training mean.
    singular_values_ : ndarray of shape (n_components_,)
        Singular values of the centred training data.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Share of the total variance along each direction.
    n_components_ : int
        Number of directions kept.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of str
        Column names seen in fit, if there were any.

    See Also
    --------
    sklearn.decomposition.PCA : Projects centred data and does not normalise.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.features import EigenfacePCA
    >>> X = np.random.default_rng(0).random((20, 50))
    >>> features = EigenfacePCA(n_components=5).fit_transform(X)
    >>> features.shape
    (20, 5)
    >>> bool(np.allclose(np.linalg.norm(features, axis=1), 1))
    True
    """

    def __init__(
        self, n_components: int | None = None, *, center: bool = False, normalize: bool = True
    ) -> None:
        self.n_components = n_components
        self.center = center
        self.normalize = normalize

    @all_or_nothing
    def fit(self, X: Any, y: object = None) -> EigenfacePCA:
        """Find the directions.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Training samples.
        y : None
            Ignored.

        Returns
        -------
        EigenfacePCA
            The transformer itself.
        """
        X = check_numbers(X, "X", type(self).__name__)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        dtype = X.dtype
        limit = min(X.shape[0] - 1, X.shape[1])
        self._check_parameters(limit)
        # Squares of values near the ends of the floating point range would overflow or vanish.
        exponent = int(np.frexp(np.abs(X).max())[1])
        centred = np.ldexp(X.astype(np.float64, copy=False), -exponent)
        mean = centred.mean(axis=0)
        centred -= mean
        values, directions = _principal_directions(centred, self.n_components or limit)
        # Rounding of the mean alone leaves singular values of this size in constant data.
        noise = max(X.shape) * np.finfo(np.float64).eps * max(values[0], np.abs(mean).max())
        rank = int(np.count_nonzero(values > noise))
        if rank == 0:
            raise ValueError(
                f"EigenfacePCA needs samples that differ, but all {len(X)} rows of X are equal. "
                "Check how the samples were loaded."
            )
        if self.n_components is not None and self.n_components > rank:
            refuse(self, "n_components", f"None or at most the rank of the centred data, {rank}")
        total = np.einsum("ij,ij->", centred, centred)
        self.components_ = directions[:rank].astype(dtype)
        self.mean_ = np.ldexp(mean, exponent).astype(dtype)
        self.singular_values_ = np.ldexp(values[:rank], exponent).astype(dtype)
        self.explained_variance_ratio_ = (values[:rank] ** 2 / total).astype(dtype)
        self.n_components_ = rank
        return self

    def _check_parameters(self, most: int = 2**53) -> None:
        if self.n_components is not None:
            check_integers(self, n_components=(1, most))

    def transform(self, X: Any) -> FloatArray:
        """Project samples and scale them to unit norm.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Features.
        """
        check_is_fitted(self, "components_")
        X = check_numbers(X, "X", type(self).__name__)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        directions = self.components_.astype(X.dtype, copy=False)
        largest = np.abs(X).max(axis=1, keepdims=True)
        if self.center:
            largest = np.maximum(largest, np.abs(self.mean_).max().astype(X.dtype))
        exponent = np.frexp(largest)[1] + 1  # +1: the difference of two values of this size stays below 1
        scaled = np.ldexp(X, -exponent)
        if self.center:
            scaled -= np.ldexp(self.mean_.astype(X.dtype, copy=False), -exponent)
        projected = scaled @ directions.T
        if not self.normalize:
            return np.ldexp(projected, exponent)
        norm = np.linalg.norm(projected, axis=1, keepdims=True)
        norm[norm == 0] = 1
        projected /= norm
        return projected

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _principal_directions(centred: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Return the k largest singular values and right singular vectors (rows), signs fixed."""
    wide = centred.shape[1] > centred.shape[0]
    gram = centred @ centred.T if wide else centred.T @ centred
    if not gram.any():
        return np.zeros(k), np.eye(k, centred.shape[1])
    last = len(gram) - 1
    squares, vectors = scipy.linalg.eigh(gram, subset_by_index=[last - k + 1, last], check_finite=False)
    squares, vectors = squares[::-1], vectors[:, ::-1]
    if squares[-1] < _GRAM_LIMIT * squares[0]:
        _, values, directions = scipy.linalg.svd(centred, full_matrices=False, check_finite=False)
        values, directions = values[:k], directions[:k]
    else:
        values, directions = np.sqrt(squares), vectors.T
        if wide:
            # The product is orthogonal only up to the accuracy of the smallest eigenvalue; QR makes it so.
            directions = np.linalg.qr(centred.T @ (vectors / values))[0].T
    return values, svd_flip(None, directions, u_based_decision=False)[1]
