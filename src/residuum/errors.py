"""Every error that residuum raises on purpose; each carries the exit code of the command line.

==== =========================================================
code meaning
==== =========================================================
0    success
1    any other failure, such as a full disk
2    wrong usage: an unknown name, a bad option
3    data: missing, damaged, not downloadable, not as expected
4    done, but some code missed the tolerance it was asked for
130  interrupted
==== =========================================================
"""

from __future__ import annotations


class ResiduumError(Exception):
    """Base of all errors of residuum that a user can act on."""

    exit_code = 1


class UsageError(ResiduumError, ValueError):
    """An argument has a value that is not allowed."""

    exit_code = 2


class DataError(ResiduumError):
    """A data set cannot be used as it is."""

    exit_code = 3


class DataNotFoundError(DataError, FileNotFoundError):
    """A data set is not in the data home."""


class DataFormatError(DataError, ValueError):
    """A file is truncated, damaged, or not of the format it claims."""


class ArchiveError(DataFormatError):
    """An archive is damaged, or holds something that must not be extracted."""


class ModelFileError(DataFormatError):
    """A model file is damaged, altered, of an unknown version, or not a model file at all."""


class DownloadError(DataError, OSError):
    """A file could not be downloaded from any of its addresses."""


class WriteError(ResiduumError, OSError):
    """A disk is full or fails; built like any OSError, from number, reason and file."""

    def __str__(self) -> str:
        return (
            f"{self.filename} cannot be written: {self.strerror}. What was there before is as it was. Free "
            "some space, or choose another place."
        )


class NotConvergedError(ResiduumError):
    """The work is done and kept, but a solver stopped short of its tolerance."""

    exit_code = 4


class InterruptedRunError(ResiduumError):
    """The user interrupted; the message says what was kept."""

    exit_code = 130
