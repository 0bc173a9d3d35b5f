"""Compiled code is kept where it can be, and no disk in the way stops a kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgqa_hpc import jit


@pytest.fixture(autouse=True)
def forget_the_folder():
    jit._cache_folder.cache_clear()
    yield
    jit._cache_folder.cache_clear()


def ship(folder: Path) -> Path:
    shipped = folder / f"kgqa-kernels-{jit._sources_digest()}" / "kernels_abc"
    shipped.mkdir(parents=True)
    (shipped / "f-1.py311.nbi").write_bytes(b"index")
    (shipped / "f-1.py311.1.nbc").write_bytes(b"code")
    return shipped


def test_the_users_own_cache_folder_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert jit._cache_folder().parent == tmp_path


def test_without_it_code_lies_in_the_package(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert jit._cache_folder().parent == Path(jit.__file__).parent / "__pycache__"


def test_code_shipped_in_a_read_only_package_is_used(monkeypatch, tmp_path):
    """What an earlier, unwritable folder holds is copied into the first writable one."""
    shipped = ship(tmp_path / "package")
    monkeypatch.setattr(jit, "_bases", lambda: [tmp_path / "package", tmp_path / "home"])
    monkeypatch.setattr(jit, "_is_writable", lambda folder: "home" in folder.parts)
    folder = jit._cache_folder()
    assert folder.parent == tmp_path / "home"
    assert sorted(os.listdir(folder / shipped.name)) == sorted(os.listdir(shipped))


def test_with_nothing_writable_a_folder_of_its_own_is_seeded(monkeypatch, tmp_path):
    shipped = ship(tmp_path / "package")
    monkeypatch.setattr(jit, "_bases", lambda: [tmp_path / "package"])
    monkeypatch.setattr(jit, "_is_writable", lambda folder: False)
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    folder = jit._cache_folder()
    assert folder.parent == tmp_path
    assert (folder / shipped.name / "f-1.py311.nbi").read_bytes() == b"index"


def test_changed_sources_never_meet_old_code(monkeypatch, tmp_path):
    before = jit._sources_digest()
    (tmp_path / "kernel.py").write_text("changed")
    monkeypatch.setattr(jit, "_SHARED_SOURCES", tmp_path)
    assert jit._sources_digest() != before


def run_python(code: str, **environment: str) -> str:
    everything = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=everything, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


CORE = """
import numpy as np
from kgqa_hpc.graphlets.kernels.count.triangles import two_core
print(two_core(np.array([0, 2, 4, 6, 6]), np.array([1, 2, 0, 2, 0, 1], np.int32)).tolist())
"""


def test_kernels_run_where_nothing_can_be_written():
    nowhere = """
from pathlib import Path
import kgqa_hpc.jit as jit
jit._PACKAGE = Path("/proc/nowhere")
def refuse(prefix): raise OSError("read-only")
jit.tempfile.mkdtemp = refuse
assert jit._cache_folder() is None
import numba.core.caching as caching
caching.InTreeCacheLocator.from_function = classmethod(lambda cls, *args: None)
"""
    gone = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "/proc/nowhere")
    assert "[True, True, True, False]" in run_python(nowhere + CORE, **gone)


def test_the_first_call_says_that_it_compiles_and_the_second_does_not(tmp_path):
    first, second = (run_python(CORE, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert "compiling the graphlet kernels" in first
    assert "compiling" not in second
    assert "[True, True, True, False]" in second


@pytest.mark.parametrize("left", [pytest.param(0, marks=pytest.mark.slow), 10])
def test_a_cache_file_that_was_cut_short_costs_a_compilation_only(tmp_path, left):
    run_python(CORE, NUMBA_CACHE_DIR=str(tmp_path))
    for file in tmp_path.rglob("*.nb[ic]"):
        file.write_bytes(file.read_bytes()[:left])
    assert "[True, True, True, False]" in run_python(CORE, NUMBA_CACHE_DIR=str(tmp_path))


def test_a_disk_that_is_full_costs_a_compilation_only(tmp_path):
    full = """
import numba.core.caching as caching
def refuse(self, name, data): raise OSError(28, "No space left on device")
caching.IndexDataCacheFile.save = refuse
"""
    out = run_python(full + CORE, NUMBA_CACHE_DIR=str(tmp_path))
    assert "[True, True, True, False]" in out
    assert "not cached" in out
