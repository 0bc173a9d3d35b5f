"""Fixtures for tests that start workers (tests/work/rig.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.work.rig import Nursery


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    """`kgqa run` processes, forked: for tests that need hundreds."""
    started = Nursery(tmp_path / "output.log")
    yield started
    started.end()
