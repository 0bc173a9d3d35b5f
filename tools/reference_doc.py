#!/usr/bin/env python3
"""Write docs/reference/commands.md and record.md from the code: python tools/reference_doc.py

The commands follow from the argument parser, the fields of a record from the columns that datasets, kinds and steps
declare. tests/test_docs.py compares.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.family import DIFFICULTY
from kgqa_hpc.cli import app
from kgqa_hpc.columns import Column, Type
from kgqa_hpc.dataset.columns import COMMON, DECIDED, GATHERED, SPLIT
from kgqa_hpc.steps import STEPS

SHARED = 2  # an option or field of so many entries, with the same words, is described once
REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = """# Commands

You know the command and look for an option. `tools/reference_doc.py` writes this page, and `kgqa VERB --help`
prints the same words. A **run** is one folder. Results go to stdout, progress and messages to stderr. Every verb
may be repeated: finished parts are kept, missing parts are done.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | bad input: the message says what, where and the cure |
| 75 | work on items stopped early (signal, time limit, budget): run the same command again |
| 130 | interrupted (Ctrl-C) in any other work: the same command does it anew |

Defaults stand in brackets. Options of `kgqa` (or `python -m kgqa_hpc`) stand before the verb, as in
`kgqa -q all CONFIG RUN`:
"""
RECORD = """# Fields of a record

You read the files of a [dataset](../guide/dataset.md) and want to know a field; its card lists those it has.
`texts` is a list of texts. `tools/reference_doc.py` writes this page.

A step that an item never reached is `null`. Values of different types in a field of `verdicts` are JSON text;
`json_text` in `accounting.json` names such fields.

## All records
"""
PROVENANCE = """
Members of `verdicts` are the labels of the judges, each with the fields of its prompt's schema. Members of
`provenance`:

- `run`, `seed`, `source`: fingerprint of the run, its seed, the source of its evidence
- `excluded_edge_types`: those of `graph.exclude_edge_types`
- `anchor`: `id`, `kind` and `weight`: 1 unless its group was drawn unevenly
- `prompt`: prompt of each step: `name`, `sha256`
- `engine`: `name`, `version`, `model`, `digest`, `quantisation`; of servers `server`, `structured`, `omitted`
- `parameters`: `temperature` and `seed` of each step's last request
- `tokens`: `prompt`, `completion`, `cached` of all requests; a repeated run may change `cached`
- `attempts`: number of requests of each step
"""


def commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """Every command of a group by its words: "status", "index build"."""
    found: dict[str, Any] = {}
    for name in sorted(group.list_commands(None)):  # those of plugins, too
        command = group.get_command(None, name)
        inner = hasattr(command, "commands")
        found |= commands(command, f"{prefix}{name} ") if inner else {f"{prefix}{name}": command}
    return found


def commands_page() -> str:
    """Text of commands.md."""
    top = typer.main.get_command(app)
    found = commands(top)
    rows = {words: _options(command.params) for words, command in found.items()}
    uses = Counter(row for own in rows.values() for row in own)
    shared = [row for row in uses if uses[row] >= SHARED]
    usual = {row: [words for words in found if row not in rows[words]] for row in shared}
    usual = {row: without for row, without in usual.items() if len(without) < len(found) / 2}
    general = [
        (
            option,
            f"{text} All verbs but {', '.join(usual[option, text])}." if (option, text) in usual else text,
        )
        for option, text in shared
    ]
    lines = [
        COMMANDS,
        *_lines(_options(top.params)),
        "",
        "Options of several commands:",
        "",
        *_lines(general),
    ]
    for words, command in found.items():
        names = [p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"]
        common = ", ".join(row[0] for row in rows[words] if row in shared and row not in usual)
        lines += ["", f"## {' '.join([words, *names])}", ""]
        lines += [f"{command.help} Takes {common}." if common else command.help, ""]
        lines += _lines(row for row in rows[words] if row not in shared)
    return "\n".join(lines).rstrip().replace("\n\n\n", "\n\n") + "\n"


def _lines(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"- {option}: {text}" for option, text in rows]


def _options(parameters: Iterable[Any]) -> list[tuple[str, str]]:
    """The options by their names, each with its default in brackets, and their help."""
    rows = []
    for option in (p for p in parameters if p.param_type_name == "option" and p.name != "help"):
        names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
        text = " ".join((option.help or "").split())
        default = getattr(option.default, "value", option.default)
        if default not in (None, False, (), []) and not callable(default):
            names += f" (`{default}`)"
        rows.append((names, text))
    return rows


def record_page() -> str:
    """Text of record.md."""
    by_name = {"features": "What was measured of the pair, by name."}
    gathered = [c._replace(description=by_name.get(c.name, c.description)) for c in GATHERED]
    common = [*COMMON, *gathered, *DECIDED, SPLIT]
    lines = [RECORD, *_fields(common), PROVENANCE]
    entries = {
        f"{title} `{name}`": getattr(registry.get(name), "columns", ())
        for title, registry in (("Kind", KINDS), ("Step", STEPS))
        for name in registry.names()
        if registry.origin(name) == "kgqa_hpc"
    }
    uses = Counter(row for columns in entries.values() for row in _fields(columns))
    difficulty = _fields(DIFFICULTY)
    shared = [row for row in uses if uses[row] >= SHARED and row not in difficulty]
    lines += ["## Difficulty", "", *difficulty, "", "## Fields of several kinds or steps", "", *shared, ""]
    for title, columns in entries.items():
        rows = [row for row in _fields(columns) if row not in difficulty]
        also = [row.split(" ")[1] for row in rows if row in shared]
        also += ["the fields of [difficulty](#difficulty)"] if len(rows) < len(columns) else []
        lines += [f"## {title}", ""] if columns else []
        lines += [f"Has {', '.join(also)}.", ""] if also else []
        lines += [*own, ""] if (own := [row for row in rows if row not in shared]) else []
    return "\n".join(lines).rstrip() + "\n"


def _fields(columns: Iterable[Column]) -> list[str]:
    return [f"- `{column.name}` ({_type(column)}): {column.description}" for column in columns]


def _type(column: Column) -> str:
    return "mapping" if column.name in ("verdicts", "features", "provenance") else _words(column.type)


def _words(kind: Type) -> str:
    if isinstance(kind, list):
        return f"{_words(kind[0])}s" if isinstance(kind[0], str) else f"list of {_words(kind[0])}"
    if isinstance(kind, dict):
        return "{" + ", ".join(kind) + "}"
    return str({"string": "text", "int64": "integer", "double": "number", "bool": "boolean"}[kind])


if __name__ == "__main__":
    (REFERENCE / "commands.md").write_text(commands_page(), encoding="utf-8")
    (REFERENCE / "record.md").write_text(record_page(), encoding="utf-8")
