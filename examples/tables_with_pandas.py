"""A pandas table, a pipeline and a kernel
=======================================

Columns of different kinds and scales need three steps in front of a classifier by representation: numbers
for text, equal scales, and a kernel, because the classifier sees only directions. All are steps of a
scikit-learn pipeline.

::

    python examples/tables_with_pandas.py
"""

# %%
# A table with a column of text and some gaps.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from residuum import KernelMap, SoftNRC

wine = load_wine(as_frame=True)
rng = np.random.default_rng(0)
table = wine.data[["alcohol", "malic_acid", "ash", "hue", "proline"]].copy()
table["colour"] = pd.cut(wine.data["color_intensity"], 3, labels=["pale", "middle", "deep"]).astype(str)
table.loc[rng.choice(len(table), 20, replace=False), "ash"] = np.nan
labels = wine.target.map(dict(enumerate(["Barolo", "Grignolino", "Barbera"])))
print(table.head(3))

# %%
# The steps, and the same without the kernel.

columns = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["alcohol", "malic_acid", "ash", "hue", "proline"]),
    (OneHotEncoder(), ["colour"]),
)
model = make_pipeline(columns, KernelMap(), SoftNRC())
directions = make_pipeline(columns, SoftNRC())
for name, each in {"with a kernel": model, "directions alone": directions}.items():
    print(f"{name:17} {100 * cross_val_score(each, table, labels).mean():.1f} % in five folds")

# %%
# Which wines are taken for which?

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ConfusionMatrixDisplay.from_predictions(labels, cross_val_predict(model, table, labels), ax=ax, cmap="Blues")
ax.set_title("Wines in five folds")
plt.show()
