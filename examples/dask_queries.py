"""Queries in a Dask array
=======================

Queries are independent of each other, so any number of them can be answered block by block, here by Dask, on
one machine or a cluster. The answers do not depend on the blocks.

::

    pip install "dask[array]"
    python examples/dask_queries.py
"""

# %%
# A model, and queries as a Dask array of ten blocks that are made when they are needed.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import CRC

X, y = load_digits(return_X_y=True)
model = CRC().fit(X[:600], y[:600])
rng = np.random.default_rng(0)
chosen = da.from_array(rng.integers(600, len(y), 20_000), chunks=2000)
queries = chosen.map_blocks(lambda rows: X[rows], dtype=float, new_axis=1, chunks=(chosen.chunks[0], (64,)))
print(queries)

# %%
# One call of `answer` for each block gives labels and margins from one pass.


def labels_and_margins(block):
    """The label of every query of a block, and by how much it won."""
    answers = model.answer(block)
    return np.column_stack([answers.labels, answers.margins])


found = queries.map_blocks(labels_and_margins, dtype=float, chunks=(queries.chunks[0], (2,)))
labels, margins = found.compute(scheduler="threads").T
truth = y[chosen.compute()]
whole = model.predict(X[600:])
print(f"{100 * np.mean(labels == truth):.1f} % of {len(labels)} queries are right")
print("as in one call:", np.array_equal(labels, whole[chosen.compute() - 600]))

# %%
# A large margin is a safe answer.

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
limits = np.quantile(margins, np.linspace(0, 1, 11))
tenth = np.clip(np.searchsorted(limits, margins) - 1, 0, 9)
ax.bar(range(1, 11), [100 * np.mean((labels == truth)[tenth == k]) for k in range(10)])
ax.set(
    title="Right answers by margin", xlabel="tenth of the queries, smallest margin first", ylabel="per cent"
)
plt.show()
