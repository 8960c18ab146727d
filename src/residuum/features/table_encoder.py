"""Columns of a table as features: gaps are filled in, and each category of a text column gets a column.

A cell becomes

    number x:  (x, [x is missing])
    text t:    ([t = c_1], ..., [t = c_k], [t is another text], [t is missing])

where ``[...]`` is 1 if that holds, else 0, and ``c_1, ..., c_k`` are the frequent texts of the column. The
median of the training samples takes the place of a missing number, their most frequent text that of a missing
text. Missing values have a feature where training had some, and other texts where it had enough of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from numbers import Number, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from residuum.plain_numbers import check_numbers
from residuum.system.threads import all_or_nothing

FloatArray = npt.NDArray[np.floating[Any]]
Cells = npt.NDArray[Any]

_NONE = np.array(None, dtype=object)
_FEWEST, _ENOUGH = 2, 5  # samples of a category in a small table, and in any other


class TableEncoder(TransformerMixin, BaseEstimator):
    """``x -> (x or median, [missing])`` for numbers, ``t -> ([t = c] for all categories c)`` for text.

    Missing are NaN, None and pandas' NA. Whether a column holds numbers or text is learned in `fit`; one that
    has no value at all makes no feature. So does text in which no category is frequent enough, such as names.

    Parameters
    ----------
    min_share : float, default=0.01
        Categories with a smaller share of the training samples, or with fewer than 5 of them (2 to 4 where
        there are 20 to 49 in all), get no column of their own. Together they get one if they are enough.
        Texts that training has not seen are treated like them.

    Attributes
    ----------
    is_text_ : ndarray of bool, shape (n_features_in_,)
        Which columns are text.
    medians_ : ndarray of shape (n_features_in_,)
        What fills the gaps of numbers; 0 for text.
    most_frequent_ : ndarray of str, shape (n_features_in_,)
        What fills the gaps of text; "" for numbers.
    categories_ : list of lists of str
        The categories of every column that have a feature of their own, sorted; none for numbers.
    has_others_, has_missing_ : ndarray of bool, shape (n_features_in_,)
        Which columns have a feature for all other texts, and one for missing values.
    n_features_in_ : int
        Number of columns seen in fit.
    feature_names_in_ : ndarray of str
        Column names seen in fit, if there were any.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder, sklearn.impute.SimpleImputer : The parts, for columns of one kind.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.features import TableEncoder
    >>> X = np.array([[1.5, "red"], [None, "blue"], [4.5, "red"], [2.5, "blue"]], dtype=object)
    >>> encoder = TableEncoder().fit(X)
    >>> encoder.get_feature_names_out().tolist()
    ['x0', 'x0=(missing)', 'x1=blue', 'x1=red']
    >>> encoder.transform(np.array([[None, "red"], [7.0, "green"]], dtype=object))
    array([[2.5, 1. , 0. , 1. ],
           [7. , 0. , 0. , 0. ]])
    """

    _parameter_constraints = {"min_share": [Interval(Real, 0, 1, closed="both")]}

    def __init__(self, *, min_share: float = 0.01) -> None:
        self.min_share = min_share

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: object = None) -> TableEncoder:
        """Learn medians and categories.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_columns)
            Training samples: numbers, or numbers and text by column.
        y : None
            Ignored.

        Returns
        -------
        TableEncoder
            The transformer itself.
        """
        X = self._checked(X, reset=True)
        n_rows, n_columns = X.shape
        self.is_text_ = np.zeros(n_columns, dtype=np.bool_)
        self.medians_ = np.zeros(n_columns)
        self.most_frequent_ = np.full(n_columns, "", dtype=object)
        self.categories_: list[list[str]] = [[] for _ in range(n_columns)]
        self.has_others_ = np.zeros(n_columns, dtype=np.bool_)
        self.has_missing_ = np.zeros(n_columns, dtype=np.bool_)
        needed = max(_FEWEST, min(_ENOUGH, n_rows // 10), self.min_share * n_rows)
        for j in range(n_columns):
            cells = self._column(X, j)
            missing = _missing(cells)
            known = cells[~missing]
            self.is_text_[j] = known.dtype == object or not len(known)
            self.has_missing_[j] = 0 < np.count_nonzero(missing) < n_rows
            if not self.is_text_[j]:
                self.medians_[j] = np.median(known)
            elif len(known):
                counts = Counter(known.tolist())
                self.most_frequent_[j] = min(counts, key=lambda text: (-counts[text], text))
                self.categories_[j] = sorted(text for text, count in counts.items() if count >= needed)
                rare = len(known) - sum(counts[text] for text in self.categories_[j])
                self.has_others_[j] = bool(self.categories_[j]) and rare >= needed
        if not self._n_features_out:
            raise ValueError(
                f"TableEncoder: none of the {n_columns} columns of X makes a feature: each is empty, or text "
                "that differs from row to row."
            )
        return self

    def transform(self, X: Any) -> FloatArray:
        """Features of samples.

        Parameters
        ----------
        X : array-like or table of shape (n_samples, n_columns)
            Samples with the columns of the training samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            X itself where nothing is to be changed.
        """
        check_is_fitted(self, "medians_")
        X = self._checked(X, reset=False)
        if X.dtype.kind == "f" and not self.is_text_.any() and not self.has_missing_.any():
            gaps = _missing(X)
            return np.where(gaps, self.medians_.astype(X.dtype), X) if gaps.any() else X
        made = np.zeros((len(X), self._n_features_out), dtype=np.float32 if X.dtype == "f" else np.float64)
        first = 0
        for j, width in enumerate(self._widths()):
            if width:
                self._encode(self._column(X, j), j, made[:, first : first + width])
                first += width
        return made

    def _encode(self, cells: Cells, j: int, made: FloatArray) -> None:
        """Fill in the features that column j makes."""
        missing = _missing(cells)
        if missing.all():
            cells = np.full(len(cells), self.most_frequent_[j] if self.is_text_[j] else np.nan, dtype=object)
            cells = cells if self.is_text_[j] else cells.astype(np.float64)
        if self.is_text_[j] != (cells.dtype == object):
            kinds = {False: "numbers", True: "text"}
            raise ValueError(
                f"The 'X' parameter of TableEncoder.transform: {self._name(j)} holds "
                f"{kinds[cells.dtype == object]} ({cells[~missing].tolist()[0]!r}), and in training it was "
                f"{kinds[bool(self.is_text_[j])]}."
            )
        if self.is_text_[j]:
            position = {text: i for i, text in enumerate(self.categories_[j])}
            others = len(position) if self.has_others_[j] else -1
            filled = np.where(missing, self.most_frequent_[j], cells)
            found = np.array([position.get(text, others) for text in filled.tolist()], dtype=np.intp)
            rows = np.flatnonzero(found >= 0)
            made[rows, found[rows]] = 1
        else:
            made[:, 0] = np.where(missing, self.medians_[j], cells)
        if self.has_missing_[j]:
            made[:, -1] = missing

    def _checked(self, X: Any, *, reset: bool) -> Cells:
        """Numbers, or objects where there is text."""
        X = check_numbers(X, "X", "TableEncoder")
        X = validate_data(self, X, dtype=None, ensure_all_finite=False, reset=reset)
        if X.dtype.kind in "biu":
            return X.astype(np.float64)
        if X.dtype.kind == "f":
            X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
            bad = np.argwhere(np.isinf(X))[:1].tolist()
            if bad:
                raise ValueError(
                    f"The 'X' parameter of TableEncoder: {self._name(bad[0][1])} holds infinity."
                )
            return X
        return X.astype(object) if X.dtype.kind == "U" else X

    def _column(self, X: Cells, j: int) -> Cells:
        """One column as floats, or as texts with None for missing values."""
        cells = X[:, j]
        if cells.dtype != object:
            return cells
        content = [None if _is_missing(cell) else cell for cell in cells.tolist()]
        kinds = {type(cell) for cell in content} - {type(None)}
        texts = {kind for kind in kinds if issubclass(kind, str)}
        others = kinds - texts
        strange = [
            k.__name__ for k in others if not issubclass(k, Number | np.bool_) or issubclass(k, complex)
        ]
        where = f"The 'X' parameter of TableEncoder: {self._name(j)}"
        if strange:
            raise TypeError(
                f"{where} holds a {min(strange)}. Every cell of this argument must be a string or a number."
            )
        if texts and others:
            number = next(cell for cell in content if cell is not None and not isinstance(cell, str))
            raise TypeError(
                f"{where} holds text and numbers ({number!r}). Make all of its cells text, or all numbers."
            )
        if texts:
            return np.array(content, dtype=object)
        numbers = np.array(content, dtype=np.float64)
        if np.isinf(numbers).any():
            raise ValueError(f"{where} holds infinity.")
        return numbers

    def _name(self, j: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return f"column {j}" if names is None else f"column {names[j]!r}"

    def _widths(self) -> Iterator[int]:
        """How many features each column makes."""
        for j, categories in enumerate(self.categories_):
            values = len(categories) + int(self.has_others_[j]) if self.is_text_[j] else 1
            yield values + int(self.has_missing_[j])

    @property
    def _n_features_out(self) -> int:
        return sum(self._widths())

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the features: ``age``, ``age=(missing)``, ``sex=male``, ``town=(other)``.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the columns; None takes those seen in fit, or x0, x1 and so on.

        Returns
        -------
        ndarray of str objects
        """
        check_is_fitted(self, "medians_")
        found: dict[str, None] = {}
        for j, name in enumerate(_check_feature_names_in(self, input_features)):
            made = [f"{name}={text}" for text in self.categories_[j]] if self.is_text_[j] else [str(name)]
            made += [f"{name}=(other)"] * int(self.has_others_[j])
            made += [f"{name}=(missing)"] * int(self.has_missing_[j])
            for each in made:
                while each in found:  # a category may be called "(missing)" too
                    each += "'"
                found[each] = None
        return np.array(list(found), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _missing(cells: Cells) -> npt.NDArray[np.bool_]:
    return np.equal(cells, _NONE).astype(np.bool_) if cells.dtype == object else np.isnan(cells)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN or pandas' NA, which is neither equal nor unequal to itself."""
    if cell is None or type(cell).__name__ == "NAType":
        return True
    return isinstance(cell, Number) and bool(cell != cell)
