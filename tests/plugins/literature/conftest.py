"""Rows of a dataset, without a run."""

from tests.dataset.conftest import rows_of

__all__ = ["rows_of"]
