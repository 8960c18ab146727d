"""The model file: arrays as .npy, the rest as JSON, and a SHA-256 for every byte; no pickle."""

from residuum.storage.model import SavedModel, load_model, open_model, save_model

__all__ = ["SavedModel", "load_model", "open_model", "save_model"]
