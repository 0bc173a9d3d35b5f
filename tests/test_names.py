"""Variables, fields and arguments say what they hold: nouns of the field instead of `found`, `each`, `place`."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "kgqa_hpc"

WORDS = """
one each found told known here own left wanted made way place places said some rest other others first what where
how shown given kept taken met wish
"""
VAGUE = frozenset(WORDS.split())

# Names that something else gives: keys of the configuration (`anchors.first`, `anchors.where`), clauses of GASL,
# the member of an error.
GIVEN = {
    "anchors/hub.py": {"first"},
    "anchors/records.py": {"where"},
    "errors.py": {"place"},
    "plugins/gasl/commands.py": {"found", "left", "other", "place", "what", "where"},
    "plugins/gasl/words.py": {"first", "place", "rest"},
}

# Rooms and plugins that still have vague names. Strike each that is clean; add none.
UNCLEAN = """
cli config dataset engines plugins/evaluation plugins/literature plugins/reasoning prompts registry runs
stages steps target
"""


def _vague_names(path: Path) -> list[str]:
    """Each vague name that a file gives to a variable, a field or an argument, with its line."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [(node.arg, node.lineno) for node in nodes if isinstance(node, ast.arg)]
    names += [(n.id, n.lineno) for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    file = path.relative_to(PACKAGE).as_posix()
    refused = VAGUE - GIVEN.get(file, set())
    return [f"{file}:{line} {name}" for name, line in names if name in refused]


def _room(path: Path) -> str:
    """`store` of store/lease.py, `plugins/gasl` of a file of that plugin, `run` of run.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "/".join(parts[:2]) if parts[0] == "plugins" else parts[0]


def test_names_say_what_they_hold() -> None:
    vague: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        vague.setdefault(_room(path), []).extend(_vague_names(path))
    refused = {room: names for room, names in vague.items() if names and room not in UNCLEAN.split()}
    assert refused == {}
