"""The only list of methods: to add one, add its class here."""

from __future__ import annotations

from residuum.estimators.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC

METHODS: dict[str, type] = {method.__name__: method for method in (NSC, SRC, CRC, CROC, ProCRC, NRC, SoftNRC)}
