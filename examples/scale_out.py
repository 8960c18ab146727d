"""Training samples in shards
==========================

More training samples than memory holds: they are written to a folder of shards, and each pass over them takes
one shard at a time. `Local` does that with the threads of this process; `Dask` would send the same work to a
cluster, with the same answers to the last bit.

::

    pip install "residuum[scale]"
    python examples/scale_out.py
"""

# %%
# Made data: ten classes, each with non-negative mixtures of parts of its own, written in shards.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from residuum import NRC, scale

rng = np.random.default_rng(0)
parts = rng.exponential(size=(10, 8, 60)) * (rng.random((10, 8, 60)) < 0.3)


def mixtures(n_samples):
    """Samples and labels."""
    labels = np.arange(n_samples) % 10
    samples = np.einsum("ip,ipf->if", rng.exponential(size=(n_samples, 8)), parts[labels])
    return samples + 0.3 * rng.random(samples.shape), labels


folder = Path(tempfile.mkdtemp()) / "shards"
X, y = mixtures(3000)
scale.shard(X, y, folder, part_bytes=120_000)
files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")

# %%
# Fit and predict as ever. The model knows the folder, not the samples.

model = scale.Sharded(NRC(solver="exact"), runner=scale.Local(memory=250_000)).fit(folder)
queries, truth = mixtures(50)
print(f"{100 * np.mean(model.predict(queries) == truth):.0f} % of {len(truth)} queries are right")

# %%
# The certificate holds over the atoms of all shards: no code over all 3,000 samples is better than this
# one by more than the gap. And it is the code of a model in memory.

solution = model.solve(queries)
alone = NRC(solver="exact").fit(X.astype(np.float32), y)
print(f"largest gap {solution.gap.max():.0e}, {solution.converged.sum()} of {len(truth)} converged")
print("labels as in memory:", np.array_equal(model.predict(queries), alone.predict(queries)))

# %%
# Few samples take part in a query.

codes = solution.codes if isinstance(solution.codes, np.ndarray) else solution.codes.toarray()
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.hist((codes > 0).sum(axis=1), bins=range(0, 40, 2))
ax.set(title="How many of 3,000 samples carry a query", xlabel="samples", ylabel="queries")
plt.show()
