"""tools/chaos.py as a module, and its preloaded library, compiled once."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def chaos() -> ModuleType:
    """tools/chaos.py."""
    spec = importlib.util.spec_from_file_location("kgqa_chaos", ROOT / "tools" / "chaos.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def library(chaos: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes a file system stumble and a clock wrong."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    return Path(chaos.compile_preload(tmp_path_factory.mktemp("preload")))
