"""The plan of the house holds: data flows one way, rooms stay small, no circles."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kgqa_hpc"
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "_shipped" not in p.parts)

# Which rooms a room may know (docs/architecture.md, "The way the data takes"). errors is known to all.
MAY_KNOW = {
    "bounded_json": set(),
    "columns": set(),
    "plain_text": set(),
    "settings": set(),
    "cores": set(),
    "jit": set(),
    "compile_kernels": {"anchors", "graphlets", "kg"},
    "durations": set(),
    "graph_layout": set(),
    "web_page": set(),
    "yaml_file": {"store"},
    "registry": set(),
    "progress": set(),
    "terminal": set(),
    "text_form": set(),
    "validation": set(),
    "errors": set(),
    "store": {"yaml_file"},
    "graphlets": {"graph_layout", "store"},
    "prompts": {"steps", "store", "yaml_file"},
    "kg": {"store", "yaml_file"},
    "documents": {"store"},
    "anchors": {"documents", "gasl", "graphlets", "kg", "prompts", "store"},
    "engines": {"documents", "store"},
    "steps": {"anchors", "config", "documents", "engines", "gasl", "prompts"},
    "variants": {"anchors", "engines", "steps"},
    "config": {"anchors", "dataset", "engines", "kg", "steps", "variants", "yaml_file"},
    "examples": {"prompts", "store"},
    "checks": {"anchors", "config", "kg", "prompts", "steps"},
    "runs": {"anchors", "config", "engines", "kg", "prompts", "steps", "store"},
    "cluster": {"config", "status", "store"},
    "status": {"anchors", "config", "engines", "prompts", "runs", "steps", "store"},
    "work": {"anchors", "cluster", "config", "engines", "prompts", "runs", "status", "steps", "store"},
    "dataset": {"anchors", "config", "kg", "prompts", "runs", "steps", "store"},
    "evaluate": {"config", "dataset", "runs", "steps", "store", "variants", "web_page"},
    "gasl": {"engines", "kg", "store", "yaml_file"},
    "report": {"dataset", "evaluate", "graph_layout", "kg", "runs", "status", "store", "web_page"},
    "bench": {"anchors", "config", "engines", "steps", "store", "work"},
    "doctor": {"anchors", "cluster", "config", "dataset", "engines", "kg", "steps"},
}
KNOWN_TO_ALL = {
    "bounded_json",
    "columns",
    "cores",
    "durations",
    "errors",
    "jit",
    "plain_text",
    "progress",
    "registry",
    "settings",
    "terminal",
    "text_form",
    "validation",
}
TOP = {"cli", "stages", "replay", "sampling", "target", "trials", "notebook", "__main__", "__init__"}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> set[str]:
    known = {_module(p) for p in FILES}
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("kgqa_hpc"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kgqa_hpc"):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(name if name in known else str(node.module) for name in inner)
    return found - {"kgqa_hpc"}


def _room(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=_module)
def test_a_room_knows_only_what_stands_before_it(path: Path) -> None:
    room = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if room in TOP:
        return
    assert room in MAY_KNOW, f"{room} is a new room: give it a place in the plan"
    strangers = {m for m in _imports(path) if _room(m) not in {room, *KNOWN_TO_ALL, *MAY_KNOW[room]}}
    assert not strangers, f"{_module(path)} must not know {sorted(strangers)}"


def test_there_is_no_circle_of_imports() -> None:
    graph = {_module(path): _imports(path) for path in FILES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail, module])
        if module in done:
            return
        for other in sorted(graph.get(module, ())):
            if other != module:
                visit(other, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_rooms_are_small() -> None:
    sizes = {p.relative_to(ROOT): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    too_large = {str(p): n for p, n in sizes.items() if n > 350}
    assert not too_large
    assert 90 <= statistics.median(sizes.values()) <= 180


def test_functions_are_short() -> None:
    lengths = [
        node.end_lineno - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    assert sorted(lengths)[int(len(lengths) * 0.95)] <= 30


def test_every_module_opens_with_what_it_is_about() -> None:
    silent = [_module(p) for p in FILES if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))]
    assert silent == []


HEAVY = (
    "ahocorasick_rs",
    "lxml",
    "tantivy",
    "torch",
    "lmdeploy",
    "numba",
    "pandas",
    "pyarrow",
    "h5py",
    "matplotlib",
    "scipy",
    "sacrebleu",
    "rouge_score",
    "pydantic",
    "mpi4py",
    "submitit",
    "openai",
)


def test_help_imports_nothing_heavy() -> None:
    code = f"import sys\nfrom kgqa_hpc import cli\nprint([m for m in {HEAVY!r} if m in sys.modules])\n"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
