"""Another model's answer, explained by examples
=============================================

A neural network is trained on the digits that come with scikit-learn. The activations of its hidden layer
are its embeddings. Every query is written as a sum of training samples with non-negative weights: their
classes tell what the network has seen in it, and the certificate tells that no better weights exist.

::

    python examples/explain_by_examples.py
"""

# %%
# A network, and its embeddings.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from residuum import NRC, explain_by_examples

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)
network = MLPClassifier((64,), max_iter=60, early_stopping=True, random_state=0).fit(X_train, y_train)


def embed(images):
    """Activations of the hidden layer."""
    return np.maximum(images @ network.coefs_[0] + network.intercepts_[0], 0)


# %%
# One wrong answer.

answers = network.predict(X_test)
wrong = np.flatnonzero(answers != y_test)
print(f"The network is right on {100 * np.mean(answers == y_test):.1f} % of {len(y_test)} queries.")

query = wrong[0]
found = explain_by_examples(embed(X_train), y_train, embed(X_test[query]), max_examples=5)
print(f"\nQuery {query} is a {y_test[query]}; the network says {answers[query]}. It is made of")
for example in found.atoms:
    print(f"  {100 * example.share:5.1f} %  training sample {example.sample}, a {example.label}")
print(f"and {found.atoms_used - len(found.atoms)} more. By class:")
for part in sorted(found.classes, key=lambda part: -part.share)[:3]:
    print(f"  {100 * part.share:5.1f} %  {part.label}")
print(f"Certificate: no weights are better by more than {found.gap:.0e} of the query's squared norm.")

# %%
# Where the examples of its own answer have a small share, the answer should be looked at. To explain
# many queries, the examples are prepared once: explain_by_examples is NRC(solver="exact") for one query.

model = NRC(solver="exact").fit(embed(X_train), y_train)
shares = np.empty(300)
for i, embedded in enumerate(embed(X_test[:300])):
    shares[i] = {part.label: part.share for part in model.explain(embedded).classes}[answers[i]]
right = answers[:300] == y_test[:300]
print(f"\nShare of the answered class: {shares[right].mean():.2f} where the network is right,")
print(f"{shares[~right].mean():.2f} where it is wrong ({np.count_nonzero(~right)} of 300 queries).")

# %%
# A small share is a warning.

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, chosen in {"right": right, "wrong": ~right}.items():
    ax.hist(
        shares[chosen], bins=np.linspace(0, 1, 26), alpha=0.6, density=True, label=f"the network is {name}"
    )
ax.set(title="Share of the answered class among the examples", xlabel="share", ylabel="density")
ax.legend()
plt.show()
