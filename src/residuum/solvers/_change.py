from residuum.dictionary import Change

MAX_CHANGES = 200
__all__ = ["MAX_CHANGES", "Change"]
