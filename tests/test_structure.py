"""The plan of the house holds: data flows one way, rooms stay small, no circles."""

import ast
import statistics
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.conftest import SLOW

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kgqa_hpc"
FILES = sorted(p for p in PACKAGE.rglob("*.py") if "_shipped" not in p.parts)

# The rooms from the lowest to the highest, and which of those below it each may know besides KNOWN_TO_ALL
# (docs/reference/architecture.md, "The rooms"). A file of the package's top level is a room of one.
MAY_KNOW = {
    "errors": set(),
    "intervals": set(),
    "columns": set(),
    "jit": set(),
    "text": set(),
    "drawing": set(),
    "registry": set(),
    "settings": set(),
    "terminal": set(),
    "threads": set(),
    "database": set(),
    "store": set(),
    "kg": {"store"},
    "graphlets": {"drawing", "kg"},
    "engines": {"store"},
    "prompts": {"engines", "store"},
    "anchors": {"graphlets", "kg", "store"},
    "compile_kernels": {"anchors", "graphlets", "kg"},
    "steps": {"anchors", "engines", "prompts"},
    "config": {"anchors", "engines", "kg", "prompts", "steps", "store"},
    "runs": {"anchors", "config", "engines", "kg", "prompts", "steps", "store"},
    "testing": {"anchors", "engines", "prompts", "steps"},
    "status": {"config", "engines", "runs", "store"},
    "cluster": {"status", "store"},
    "work": {"anchors", "cluster", "config", "engines", "runs", "status", "steps", "store"},
    "dataset": {"anchors", "config", "kg", "runs", "steps", "store"},
    "report": {"dataset", "drawing", "kg", "runs", "status", "store"},
    "doctor": {"anchors", "cluster", "dataset", "engines", "kg", "steps", "store"},
    "target": {"config", "dataset", "runs", "store", "work"},
    "stages": {"cluster", "config", "dataset", "graphlets", "kg", "report", "runs", "status"}
    | {"store", "target"},
    "settings_objects": {"anchors", "engines", "kg", "steps", "store"},
    "trials": {"anchors", "config", "dataset", "engines", "runs", "stages", "steps", "store", "work"},
    "run": {"config", "dataset", "runs", "settings_objects", "stages", "status", "store", "trials", "work"},
}
KNOWN_TO_ALL = {"columns", "database", "errors", "intervals", "jit", "registry"}
KNOWN_TO_ALL |= {"settings", "terminal", "text", "threads"}
TOP = {"cli", "__main__", "__init__"}  # they may know all rooms, and none knows them
PLUGINS = "plugins"  # may know the core and its cli/app.py; the core knows none of them, nor they each other


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree, the module first."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


KNOWN = {_module(path) for path in FILES}


@cache
def _imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("kgqa_hpc"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kgqa_hpc"):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(name if name in KNOWN else str(node.module) for name in inner)
    return frozenset(found - {"kgqa_hpc"})


@cache
def _arrows() -> set[tuple[str, str]]:
    """(room, room it knows) of every import between two rooms."""
    rooms = {(_room_of(path), module.split(".")[1]) for path in FILES for module in _imports(path)}
    return {(one, other) for one, other in rooms if one != other and one != PLUGINS and other != PLUGINS}


def _room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def test_a_room_knows_the_rooms_of_the_plan_and_no_other() -> None:
    assert {_room_of(path) for path in FILES} - TOP - {PLUGINS} <= MAY_KNOW.keys(), "a new room: plan it"
    drawn = {(one, other) for one, other in _arrows() if one not in TOP and other not in KNOWN_TO_ALL}
    allowed = {(one, other) for one, others in MAY_KNOW.items() for other in others}
    assert sorted(drawn - allowed) == [], "what nobody planned"
    assert sorted(allowed - drawn) == [], "what nobody draws"


def test_the_core_imports_no_plugin_and_a_plugin_no_other() -> None:
    for path in FILES:
        own = _plugin(_module(path))
        assert {name for name in map(_plugin, _imports(path)) if name} <= {own}, path
        if own:
            cli = {m for m in _imports(path) if m.startswith("kgqa_hpc.cli")}
            assert cli <= {"kgqa_hpc.cli.app"}, path


def _plugin(module: str) -> str:
    """The name of the plugin that a module belongs to; "" for the core."""
    parts = module.split(".")
    return ".".join(parts[2:3]) or PLUGINS if parts[1:2] == [PLUGINS] else ""


def test_rooms_stand_in_an_order_and_none_knows_one_above_it() -> None:
    places = {room: place for place, room in enumerate(MAY_KNOW)}
    known = {(one, other) for one, other in _arrows() if one not in TOP}
    assert sorted(f"{one} -> {other}" for one, other in known if places[other] > places[one]) == []


def test_there_is_no_circle_of_imports() -> None:
    graph = {module: _imports(path) - {module} for path in FILES for module in [_module(path)]}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_rooms_are_small() -> None:
    sizes = {p.relative_to(ROOT): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    too_large = {str(p): n for p, n in sizes.items() if n > 350}
    assert not too_large
    assert 90 <= statistics.median(sizes.values()) <= 230


def test_programs_around_the_package_are_small_too() -> None:
    places = [ROOT / name for name in ("tests", "tools", "containers", "slurm")]
    programs = [
        path
        for place in places
        for path in place.rglob("*")
        if path.suffix in {".py", ".sh", ".js", ".c"}
        or (path.is_file() and not path.suffix and path.read_bytes().startswith(b"#!"))
    ]
    assert ROOT / "tools" / "slurm_sandbox" in programs
    sizes = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in programs}
    assert {name: lines for name, lines in sizes.items() if lines > 350} == {}


def test_what_a_quick_check_leaves_out_is_there() -> None:
    for path, _, name in (beginning.partition("::") for beginning in SLOW.split()):
        if path.startswith("plugins/") and not (ROOT / "tests" / Path(path).parent).exists():
            continue  # its plugin is not there
        assert (ROOT / "tests" / path).exists(), path
        assert not name or f"def {name}" in (ROOT / "tests" / path).read_text(encoding="utf-8"), name


def test_functions_are_short() -> None:
    lengths = [
        node.end_lineno - node.lineno + 1
        for path in FILES
        for node in _nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    assert sorted(lengths)[int(len(lengths) * 0.95)] <= 30


def test_every_module_opens_with_what_it_is_about() -> None:
    silent = [_module(p) for p in FILES if not ast.get_docstring(_nodes(p)[0])]
    assert silent == []


HEAVY = """
ahocorasick_rs lxml tantivy torch lmdeploy numba pandas pyarrow h5py matplotlib scipy sacrebleu rouge_score pydantic
mpi4py submitit openai
"""


def test_help_imports_nothing_heavy() -> None:
    code = (
        f"import sys\nfrom kgqa_hpc import cli\nprint([m for m in {HEAVY.split()!r} if m in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
