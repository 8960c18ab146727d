"""KernelMap: its coordinates reproduce the kernel, and classifiers on them are the kernel methods."""

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import nnls
from sklearn.metrics.pairwise import cosine_similarity, polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from residuum import CRC, NRC, SRC
from residuum.features import KernelMap

KERNELS = {
    "rbf": lambda a, b: rbf_kernel(a, b, gamma=0.3),
    "poly": lambda a, b: polynomial_kernel(a, b, degree=2, gamma=0.3, coef0=0.5),
    "cosine": cosine_similarity,
}


def samples(n=40, n_features=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, n_features))


def made(kernel, **options):
    return KernelMap(kernel, gamma=0.3, degree=2, coef0=0.5, **options)


@parametrize_with_checks([KernelMap(), KernelMap("poly"), KernelMap(max_landmarks=5)])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", KERNELS)
def test_products_of_coordinates_are_the_kernel(kernel):
    X, new = samples(), samples(15, seed=1)
    step = made(kernel).fit(X)
    coordinates, others = step.transform(X), step.transform(new)
    np.testing.assert_allclose(coordinates @ coordinates.T, KERNELS[kernel](X, X), atol=1e-10)
    np.testing.assert_allclose(others @ coordinates.T, KERNELS[kernel](new, X), atol=1e-10)
    own = np.array([KERNELS[kernel](x[None], x[None])[0, 0] for x in new])
    np.testing.assert_allclose(np.sum(others**2, axis=1), own, rtol=1e-10)
    assert (coordinates[:, -1] == 0).all()


@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine"])
def test_training_samples_come_back_from_the_direction_of_their_coordinates(kernel):
    X = samples()
    step = made(kernel).fit(X)
    lengths = np.random.default_rng(0).uniform(0.1, 10, (40, 1))
    np.testing.assert_array_equal(step.inverse_transform(lengths * step.transform(X)), X)


def test_any_sample_comes_back_from_rbf_coordinates_over_landmarks():
    X, new = samples(200), samples(30, seed=1)
    step = KernelMap(gamma=0.1, max_landmarks=50).fit(X)
    assert not step.exact_
    lengths = np.random.default_rng(0).uniform(0.1, 10, (30, 1))
    np.testing.assert_allclose(step.inverse_transform(lengths * step.transform(new)), new, atol=1e-6)
    for other in (KernelMap("poly", max_landmarks=50).fit(X), KernelMap("precomputed").fit(np.eye(3))):
        with pytest.raises(ValueError, match="cannot turn coordinates back into samples"):
            other.inverse_transform(np.ones((1, 3)))


def test_a_precomputed_kernel_gives_the_same_coordinates():
    X, new = samples(), samples(15, seed=1)
    plain = made("rbf").fit(X)
    step = KernelMap("precomputed").fit(rbf_kernel(X, X, gamma=0.3))
    # Eigenvectors are unique up to sign here, as no two eigenvalues are equal.
    np.testing.assert_allclose(
        np.abs(step.transform(rbf_kernel(new, X, gamma=0.3))), np.abs(plain.transform(new)), atol=1e-8
    )


@pytest.mark.parametrize("kernel", [np.ones((3, 4)), [[1.0, 0.5], [0.2, 1.0]], [[2.0, 0.1], [0.1, 1.0]]])
def test_what_is_no_normalised_kernel_is_refused(kernel):
    with pytest.raises(ValueError, match=r"The 'X' parameter of KernelMap\.fit with kernel='precomputed'"):
        KernelMap("precomputed").fit(kernel)


def gram_case():
    """Kernel between training samples, between queries and them, and labels."""
    X, new, labels = samples(40), samples(10, seed=1), np.arange(40) % 4
    return X, new, labels, rbf_kernel(X, X, gamma=0.3), rbf_kernel(new, X, gamma=0.3)


def class_residuals(K, k, codes, labels):
    """``sqrt(k(x, x) - 2 c_k'k_k + c_k'K_kk c_k)``, from the kernel alone."""
    found = np.empty((len(k), 4))
    for j in range(4):
        own = codes * (labels == j)
        found[:, j] = 1 - 2 * np.sum(own * k, axis=1) + np.einsum("qi,ij,qj->q", own, K, own)
    return np.sqrt(found)


def by_sample(classifier, codes):
    """Codes in the order of the training samples."""
    codes = codes.toarray() if hasattr(codes, "toarray") else codes
    ordered = np.empty_like(codes)
    ordered[:, classifier.dictionary_.samples] = codes
    return ordered


def crc(K, k):
    return np.linalg.solve(K + 0.1 * np.eye(len(K)), k.T).T


def nrc(K, k):
    factor = np.linalg.cholesky(K + 1e-13 * np.eye(len(K)))
    right = scipy.linalg.solve_triangular(factor, k.T, lower=True)
    return np.array([nnls(factor.T, column)[0] for column in right.T])


def src(K, k):
    """Coordinate descent on ``c'Kc - 2c'k + l1 ||c||_1``, written out."""
    codes = np.zeros_like(k)
    for code, right in zip(codes, k):
        for _ in range(3000):
            for j in range(len(K)):
                rest = right[j] - K[j] @ code + K[j, j] * code[j]
                code[j] = np.sign(rest) * max(abs(rest) - 0.05, 0) / K[j, j]
    return codes


@pytest.mark.parametrize(
    ("classifier", "oracle"),
    [(CRC(l2=0.1, rule="residual"), crc), (NRC(solver="exact"), nrc), (SRC(l1=0.1), src)],
    ids=["CRC", "NRC", "SRC"],
)
def test_kernel_classifiers_vs_the_kernelised_formulas(classifier, oracle):
    X, new, labels, K, k = gram_case()
    model = make_pipeline(KernelMap(gamma=0.3), classifier).fit(X, labels)
    coordinates = model[:-1].transform(new)
    codes = oracle(K, k)
    np.testing.assert_allclose(by_sample(model[-1], model[-1].encode(coordinates)), codes, atol=1e-6)
    np.testing.assert_allclose(
        model[-1].residuals(coordinates), class_residuals(K, k, codes, labels), atol=1e-6
    )


def test_landmarks_are_nystroem_and_say_what_they_leave_out():
    X, new = samples(200), samples(15, seed=1)
    steps = {m: KernelMap(gamma=0.05, max_landmarks=m).fit(X) for m in (10, 50, 150)}
    errors = [step.error_ for step in steps.values()]
    assert 0 < errors[2] < errors[1] < errors[0] < 1
    step = steps[50]
    m, z, others = step.landmarks_, step.transform(X), step.transform(new)
    K = rbf_kernel(m, gamma=0.05)
    nystroem = rbf_kernel(new, m, gamma=0.05) @ np.linalg.pinv(K, rcond=1e-14) @ rbf_kernel(m, X, gamma=0.05)
    np.testing.assert_allclose(others @ z.T, nystroem, atol=1e-6)
    assert step.error_ == pytest.approx(np.mean(1 - np.sum(z**2, axis=1)), abs=1e-6)
    assert KernelMap(gamma=0.05).fit(X).error_ == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_duplicates_constants_and_one_sample(dtype):
    X = np.repeat(samples(5), 3, axis=0).astype(dtype)
    X[:, 2] = 7
    z = KernelMap(gamma=0.3).fit_transform(X)
    assert z.dtype == dtype
    assert z.shape[1] <= 6 if dtype == np.float64 else np.isfinite(z).all()
    np.testing.assert_allclose(z @ z.T, rbf_kernel(X, gamma=0.3), atol=1e-3 if dtype == np.float32 else 1e-10)
    np.testing.assert_allclose(KernelMap().fit_transform(X[:1]) ** 2, [[1, 0]], atol=1e-6)


def test_samples_without_a_direction_have_no_cosines():
    with pytest.raises(ValueError, match="KernelMap: the cosine kernel is zero for all training samples"):
        KernelMap("cosine").fit(np.zeros((4, 3)))


def test_columns_keep_their_names_out_of_the_way():
    step = KernelMap(gamma=0.3).fit(samples(8))
    assert list(step.get_feature_names_out())[:2] == ["kernelmap0", "kernelmap1"]
    assert len(step.get_feature_names_out()) == step.transform(samples(3)).shape[1]
