"""Kernels: compiled ahead, kept where they can be, never stopped by a disk; and the cores they may use."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgqa_hpc import jit, threads

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "kgqa_hpc").rglob("*.py"))


@pytest.fixture(autouse=True)
def forget_the_folder():
    jit._cache_folder.cache_clear()
    yield
    jit._cache_folder.cache_clear()


@pytest.fixture
def shipped(monkeypatch, tmp_path):
    """Compiled code in a package that is read-only, as its caller says; the user's cache folder is `home`."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    shipped = tmp_path / "package" / "__pycache__" / jit._cache_folder().name / "kernels_abc"
    jit._cache_folder.cache_clear()
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(jit, "_PACKAGE", tmp_path / "package")
    shipped.mkdir(parents=True)
    (shipped / "f-1.py311.nbi").write_bytes(b"index")
    (shipped / "f-1.py311.1.nbc").write_bytes(b"code")
    return shipped


def test_the_users_own_cache_folder_comes_first_and_else_code_lies_in_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert jit._cache_folder().parent == tmp_path
    jit._cache_folder.cache_clear()
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert jit._cache_folder().parent == Path(jit.__file__).parent / "__pycache__"


def test_code_shipped_in_a_read_only_package_is_used(monkeypatch, tmp_path, shipped):
    """What an earlier, unwritable folder holds is copied into the first writable one."""
    monkeypatch.setattr(jit, "_is_writable", lambda folder: "home" in folder.parts)
    folder = jit._cache_folder()
    assert folder.parent == tmp_path / "home"
    assert sorted(os.listdir(folder / shipped.name)) == sorted(os.listdir(shipped))


def test_with_nothing_writable_a_folder_of_its_own_is_seeded(monkeypatch, tmp_path, shipped):
    monkeypatch.setattr(jit, "_is_writable", lambda folder: False)
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    folder = jit._cache_folder()
    assert folder.parent == tmp_path
    assert (folder / shipped.name / "f-1.py311.nbi").read_bytes() == b"index"


def test_changed_sources_never_meet_old_code(monkeypatch, tmp_path):
    before = jit._cache_folder()
    jit._cache_folder.cache_clear()
    (tmp_path / "kernel.py").write_text("changed")
    monkeypatch.setattr(jit, "_SHARED_SOURCES", tmp_path)
    assert jit._cache_folder() != before


def run_python(code: str, **environment: str) -> str:
    everything = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=everything, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


KERNEL = """
import numpy as np
from kgqa_hpc.graphlets.kernels.triangles import by_degree
print(by_degree(np.array([0, 2, 4, 6, 6]))[2].tolist())
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
    assert "[0, 2, 4, 6, 6]" in run_python(nowhere + KERNEL, **gone)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache folder after one call, and what that call printed."""
    folder = tmp_path_factory.mktemp("compiled")
    return folder, run_python(KERNEL, NUMBA_CACHE_DIR=str(folder))


def test_the_first_call_says_that_it_compiles_and_the_second_does_not(compiled):
    folder, first = compiled
    second = run_python(KERNEL, NUMBA_CACHE_DIR=str(folder))
    assert "compiling the graphlet kernels" in first
    assert "compiling" not in second
    assert "[0, 2, 4, 6, 6]" in second


@pytest.mark.parametrize("left", [pytest.param(0, marks=pytest.mark.slow), 10])
def test_a_cache_file_that_was_cut_short_costs_a_compilation_only(compiled, tmp_path, left):
    shutil.copytree(compiled[0], tmp_path, dirs_exist_ok=True)
    for file in tmp_path.rglob("*.nb[ic]"):
        file.write_bytes(file.read_bytes()[:left])
    assert "[0, 2, 4, 6, 6]" in run_python(KERNEL, NUMBA_CACHE_DIR=str(tmp_path))


def test_a_disk_that_is_full_costs_a_compilation_only(tmp_path):
    full = """
import numba.core.caching as caching
def refuse(self, name, data): raise OSError(28, "No space left on device")
caching.IndexDataCacheFile.save = refuse
"""
    out = run_python(full + KERNEL, NUMBA_CACHE_DIR=str(tmp_path))
    assert "[0, 2, 4, 6, 6]" in out
    assert "not cached" in out


def decorated(path: Path, name: str) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if f"@{name}" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and name in map(ast.unparse, node.decorator_list):
            yield node.name


def kernels() -> list[str]:
    """All functions with `@kernel`, as module:function."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES}
    return [f"{names[path]}:{function}" for path in FILES for function in decorated(path, "kernel")]


PROGRAM = """
import importlib, inspect, json, sys
from numba.core import event

class Listener(event.Listener):
    compiled = []
    def on_start(self, event): self.compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass

from kgqa_hpc.compile_kernels import compile_kernels
compile_kernels()
def signatures(name):
    module, _, function = name.partition(":")
    kernel = getattr(importlib.import_module(module), function)
    return len(inspect.getclosurevars(kernel).nonlocals["compiled"].signatures)
bare = [name for name in json.loads(sys.argv[1]) if not signatures(name)]
event.register("numba:compile", Listener())
exec(open(sys.argv[2]).read())
print(json.dumps({"bare": bare, "compiled": Listener.compiled}))
"""


def test_numba_is_called_in_one_place_only() -> None:
    """Else a kernel could be cached where no image and no compile-ahead knows of it."""
    importing = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        if "numba" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if (isinstance(node, ast.Import) and any(a.name.split(".")[0] == "numba" for a in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba")
    }
    assert importing == {"kgqa_hpc/jit.py"}


@pytest.mark.parametrize("path", [p for p in FILES if any(decorated(p, "kernel"))], ids=lambda p: p.stem)
def test_a_kernel_uses_helpers_that_its_cached_code_is_checked_against(path: Path) -> None:
    """numba compares the kernel's own file; the files of graphlets/kernels count in the cache's name."""
    if jit._SHARED_SOURCES in path.parents:
        return
    helpers = {name for other in FILES if other != path for name in decorated(other, "helper")}
    imported = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not helpers & imported


@pytest.mark.slow
def test_after_compiling_ahead_nothing_is_left_to_compile() -> None:
    """No kernel without machine code, and none that real work calls with other types."""
    found = kernels()
    assert len(found) > 20
    assert any(name.startswith("kgqa_hpc.kg.") for name in found)
    ways = ROOT / "tests" / "every_kernel.py"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(found), ways], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"bare": [], "compiled": []}


def test_a_quota_of_the_cgroup_bounds_the_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(threads, "_QUOTA_V1", (tmp_path / "quota", tmp_path / "period"))
    assert threads.usable_cores() == 64
    (tmp_path / "period").write_text("100000\n")
    for older, expected in (("-1\n", 64), ("400000\n", 4)):
        (tmp_path / "quota").write_text(older)
        assert threads.usable_cores() == expected
    for text, expected in (("200000 100000", 2), ("50000 100000", 1)):
        (tmp_path / "cpu.max").write_text(text)
        assert threads.usable_cores() == expected
    (tmp_path / "quota").unlink()
    for text in ("max 100000", "nonsense"):
        (tmp_path / "cpu.max").write_text(text)
        assert threads.usable_cores() == 64
