"""Beyond one machine: dictionaries in shards and many queries, by threads or on a Dask cluster.

``shard`` writes a dictionary in shards, ``Sharded`` classifies over it, ``answer`` answers sources of any
size. All of them are written against one method, `Runner.map`; `Local` and `Dask` have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from residuum.system.lazy import on_first_use

if TYPE_CHECKING:
    from residuum.scale.answering import answer
    from residuum.scale.classifier import Sharded, load_model
    from residuum.scale.runner import Dask, Local, Runner
    from residuum.scale.sharding import shard
    from residuum.scale.shards import Shards, open_shards

__all__ = ["Dask", "Local", "Runner", "Sharded", "Shards", "answer", "load_model", "open_shards", "shard"]

# Imported on first use: a worker that prices atoms needs neither scikit-learn nor its memory.
_MODULES = {
    "residuum.scale.answering": "answer",
    "residuum.scale.classifier": "Sharded load_model",
    "residuum.scale.runner": "Dask Local Runner",
    "residuum.scale.sharding": "shard",
    "residuum.scale.shards": "Shards open_shards",
}
__getattr__, __dir__ = on_first_use(__name__, _MODULES)
