"""Every cached kernel of the package is compiled ahead, for what it is called with. Found by inspection."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "kgqa_hpc").rglob("*.py"))
SHARED = ROOT / "kgqa_hpc" / "graphlets" / "kernels"


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
    if SHARED in path.parents:
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
