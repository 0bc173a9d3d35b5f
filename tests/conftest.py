"""For all tests: random tests are repeatable and have no deadline: a loaded machine is not a defect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "kgqa", deadline=None, print_blob=True, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kgqa")


@pytest.fixture
def set_aside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """set_aside(path): another process takes the file away between our look at the folder and our reading."""

    def arrange(path: Path) -> None:
        from kgqa_hpc.store import sealed  # not above: LMDeploy's environment has no HDF5

        read = sealed.read_sized

        def read_too_late(where: Path, limit: int = -1) -> tuple[bytes, int]:
            if where == path:
                path.unlink()
                monkeypatch.setattr(sealed, "read_sized", read)
            return read(where, limit)

        monkeypatch.setattr(sealed, "read_sized", read_too_late)

    return arrange
