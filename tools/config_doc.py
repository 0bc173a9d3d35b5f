#!/usr/bin/env python3
"""Write docs/reference/config.md from the settings themselves: python tools/config_doc.py > docs/reference/config.md

Every key is a pydantic field with its type, default and one sentence; sections that name an entry (a source,
a kind, a step, an engine) have one table for each entry that is shipped. tests/test_docs.py compares.
"""

from collections import Counter
from collections.abc import Iterator

from pydantic import BaseModel

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import PassConfig, PromptConfig, RunConfig, RuntimeConfig
from kgqa_hpc.config.dataset import DatasetConfig, Target
from kgqa_hpc.config.files import keys_of
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry, first_paragraph
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS

SHARED = 2  # a key of so many entries, with the same words, is described once
HEAD = """# Configuration

You write a configuration and look for a key. It is one YAML file, checked completely before anything starts:
unknown keys are refused with the nearest known key, and all errors are printed at once. `kgqa init --example
NAME FILE` writes a file to start from; `configs/` has more. Relative paths start in the folder of the file.

This page is written by `tools/config_doc.py` from the settings themselves. A package that adds a source, a
kind of anchor, a step or an engine brings its own keys.

Durations are seconds, or `90s`, `15m`, `2h`, `2d`, `HH:MM:SS`, `D-HH:MM:SS`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    yield from _section("The file", RunConfig, "Its sections, each below.")
    yield from _section(
        "graph", GraphConfig, "Common keys of all sources; what they mean: [sources](../guide/sources.md)."
    )
    yield from _entries("graph", "source", SOURCES, GraphConfig)
    yield "## anchors\n\nWhat a question is grounded in; `kind` says how it is drawn.\n"
    yield from _entries("anchors", "kind", KINDS, None)
    yield from _section("prompts", PromptConfig, "See [prompts](../guide/prompts.md).")
    yield from _section(
        "passes", PassConfig, "A list; default: one pass `main` with the steps `generate` and `judge`."
    )
    yield from _section(
        "passes[].steps", StepSettings, "A list of entries, or of bare names of steps. Common keys:"
    )
    yield from _entries("step", "use", STEPS, StepSettings)
    yield "## engine\n\nSee [engines](../guide/engines.md).\n"
    yield from _entries("engine", "kind", ENGINES, None)
    yield from _section("runtime", RuntimeConfig, "Nothing here changes what the dataset holds.")
    yield from _section(
        "dataset", DatasetConfig, "May be changed later: `kgqa init` and `kgqa merge` apply it."
    )
    yield from _section(
        "target", Target, "What it does: [dataset](../guide/dataset.md#so-many-accepted-records)."
    )


def _section(title: str, model: type[BaseModel], text: str) -> Iterator[str]:
    yield f"## {title}\n\n{text}\n"
    yield from _table(model, set())
    yield ""


def _entries(section: str, by: str, registry: Registry, common: type[BaseModel] | None) -> Iterator[str]:
    """Tables of the shipped entries of a registry; rows that several entries have stand in a table in front."""
    left_out = {by, *(common.model_fields if common else ())}
    names = [name for name in registry.names() if registry.origin(name) == "kgqa_hpc"]
    rows = {name: _rows(registry.get(name).Settings, left_out) for name in names}
    uses = Counter(row for own in rows.values() for row in own)
    shared = [row for row in uses if uses[row] >= SHARED]
    if shared:
        yield f"### {section}: keys of several entries\n"
        yield from _lines_of(shared)
        yield ""
    about = {name: first_paragraph(registry.get(name).__doc__) for name in names}
    for name in names:
        if not rows[name]:
            continue
        yield f"### {section}: {{{by}: {name}}}\n"
        yield f"{about[name]}\n"
        also = [row.split(" ")[1] for row in rows[name] if row in shared and "." not in row.split("`")[1]]
        if also:
            yield f"Takes {', '.join(also)}.\n"
        if own := [row for row in rows[name] if row not in shared]:
            yield from _lines_of(own)
            yield ""
    if plain := [name for name in names if not rows[name]]:
        yield f"### {section}: entries without keys of their own\n"
        yield from (f"- `{by}: {name}`: {about[name]}" for name in plain)
        yield ""


def _table(model: type[BaseModel], left_out: set[str]) -> Iterator[str]:
    yield from _lines_of(_rows(model, left_out))


def _lines_of(rows: list[str]) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    yield from rows


def _rows(model: type[BaseModel], left_out: set[str]) -> list[str]:
    rows = []
    for row in keys_of(model, left_out, nested=model is not RunConfig):
        cells = (f"`{row.key}`", row.type.replace("|", "\\|"), row.default, row.meaning.replace("|", "\\|"))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    print(page(), end="")
