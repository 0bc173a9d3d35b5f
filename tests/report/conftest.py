"""The same small runs as in tests/dataset."""

from tests.dataset.conftest import make_merged, make_run

__all__ = ["make_merged", "make_run"]
