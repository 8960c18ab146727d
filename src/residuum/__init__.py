"""Representation-based classification: the class whose samples leave the smallest residual wins."""

from residuum.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC

__version__ = "0.1.0.dev0"

__all__ = ["CRC", "CROC", "NRC", "NSC", "SRC", "ProCRC", "SoftNRC"]
