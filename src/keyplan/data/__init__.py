"""Rows for any model: deterministic, streamed, and shaped by the statistics the model states."""

from keyplan.data.dataset import Dataset, generate

__all__ = ["Dataset", "generate"]
