"""tools/chaos_preload.py, and its preloaded library, compiled once."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.by_path import load

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def chaos() -> ModuleType:
    """tools/chaos_preload.py."""
    return load(ROOT / "tools" / "chaos_preload.py")


@pytest.fixture(scope="session")
def library(chaos: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a file system stumble and a clock wrong."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    return Path(chaos.compile_preload(tmp_path_factory.mktemp("preload")))
