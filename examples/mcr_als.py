"""Multivariate curve resolution with pyMCR
========================================

An image of mixtures D is split into concentrations C and spectra S, D = C S', by solving for one while the
other is fixed. pyMCR's own regressor NNLS calls SciPy for one pixel after the other. `ManyNNLS` solves for
all of them in one call and is handed to pyMCR in the same place; the answers are the same.

::

    pip install pyMCR
    python examples/mcr_als.py
"""

# %%
# The regressor for pyMCR.

import time

import matplotlib.pyplot as plt
import numpy as np
from pymcr.constraints import ConstraintNorm
from pymcr.mcr import McrAR
from pymcr.regressors import NNLS, LinearRegression

from residuum import nnls


class ManyNNLS(LinearRegression):
    """Minimise ||b - Ax||^2 subject to x >= 0, for each column b of B."""

    def fit(self, A, B):
        """Solve for `X_`; `residual_` has the norms, as that of pyMCR's NNLS."""
        solution = nnls(A, B, dense=True, n_jobs=1)
        self.X_, self.residual_ = solution.x, solution.residual_norm


# %%
# An image of five components, and a poor guess of their spectra.

rng = np.random.default_rng(0)
PIXELS, BANDS, COMPONENTS = 2500, 150, 5
at = np.linspace(0, 1, BANDS)
centres = rng.uniform(0.1, 0.9, (2, COMPONENTS, 1))
spectra = np.exp(-0.5 * ((at - centres) / 0.06) ** 2).sum(axis=0)  # (components, bands)
concentrations = rng.dirichlet(np.full(COMPONENTS, 0.5), PIXELS)
image = concentrations @ spectra
image = np.maximum(image + 0.01 * rng.normal(size=image.shape), 0)
guess = np.maximum(spectra + 0.2 * rng.random(spectra.shape), 0)


def resolve(regressor):
    """Resolve the image; the result and the seconds of the processor."""
    start = time.process_time()
    # Every step is taken, so that both regressors take equally many.
    model = McrAR(
        c_regr=regressor(),
        st_regr=regressor(),
        c_constraints=[ConstraintNorm()],
        st_constraints=[],
        max_iter=20,
        tol_increase=None,
        tol_err_change=None,
        tol_n_increase=None,
        tol_n_above_min=None,
    )
    model.fit(image, ST=guess)
    return model, time.process_time() - start


# %%
# The same steps with both regressors.

nnls(spectra.T, image[:2].T)  # compiles at the very first use
ours, our_time = resolve(ManyNNLS)
theirs, their_time = resolve(NNLS)
difference = max(abs(ours.C_opt_ - theirs.C_opt_).max(), abs(ours.ST_opt_ - theirs.ST_opt_).max())
print(f"{PIXELS} pixels, {BANDS} bands, {COMPONENTS} components, {ours.n_iter} iterations")
print(f"error of the concentrations: {np.sqrt(np.mean((ours.C_opt_ - concentrations) ** 2)):.4f}")
print(f"largest difference from pyMCR's NNLS: {difference:.0e}")
print(f"processor time: {our_time:.2f} s, with pyMCR's NNLS {their_time:.2f} s, ", end="")
print(f"ratio {their_time / our_time:.1f}")

# %%
# The spectra that were found.

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for k, (true, found) in enumerate(zip(spectra, ours.ST_opt_, strict=True)):
    ax.plot(at, true, color=f"C{k}", linewidth=4, alpha=0.3)
    ax.plot(at, found, color=f"C{k}")
ax.set(title="Spectra, true (wide) and found (thin)", xlabel="band")
plt.show()
