#!/usr/bin/env python3
"""Write docs/reference/config.md from the settings themselves: python tools/config_doc.py > docs/reference/config.md

Every key is a pydantic field with its type, default and one sentence; sections that name an entry (a source,
a kind, a step, an engine) have one list for each entry that is shipped. tests/test_docs.py compares.
"""

import re
from collections import Counter
from collections.abc import Iterator

from pydantic import BaseModel

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import PassConfig, PromptConfig, RunConfig, RuntimeConfig
from kgqa_hpc.config.files import keys_of
from kgqa_hpc.config.sections import DatasetConfig, Target
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry, first_paragraph
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS

SHARED = 2  # a key of so many entries, with the same words, is described once
LONG = 60  # characters of a list of keys that is not written twice
HEAD = """# Configuration

You write a configuration and look for a key. It is one YAML file, checked completely before anything starts:
unknown keys are refused with the nearest known key, and all errors are printed at once. `kgqa init --example
NAME FILE` writes one to start from; `configs/` has more. Relative paths start in the folder of the file.
Durations are seconds, or `90s`, `15m`, `2h`, `2d`, `HH:MM:SS`, `D-HH:MM:SS`.

Behind each key stands (type; default); of several values the first is the default. A key without a type takes
text, what its default is, or the keys that follow it; `texts` is a list of texts. `tools/config_doc.py` writes
this page; `kgqa list REGISTRY [NAME]` describes the installed entries, also of other packages.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    yield from _section("The file", RunConfig, "")
    yield from _section(
        "graph", GraphConfig, "[Sources](../guide/sources.md) explains them. Keys of all sources:"
    )
    yield from _entries("graph", "source", SOURCES, GraphConfig)
    yield "## anchors\n\nWhat a question is grounded in; `kind` says how it is drawn.\n"
    yield from _entries("anchors", "kind", KINDS, None)
    yield from _section("prompts", PromptConfig, "See [prompts](../guide/prompts.md).")
    yield from _section(
        "passes", PassConfig, "A list; default: one pass `main` with the steps `generate` and `judge`."
    )
    yield from _section(
        "passes[].steps", StepSettings, "A list of entries, or of bare names of steps. Keys of all steps:"
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
    yield f"## {title}\n"
    if text:
        yield f"{text}\n"
    yield from _rows(model, set())
    yield ""


def _entries(section: str, by: str, registry: Registry, common: type[BaseModel] | None) -> Iterator[str]:
    """Lists of the keys of a registry's shipped entries; keys of several entries stand in a list in front."""
    left_out = {by, *(common.model_fields if common else ())}
    names = [name for name in registry.names() if registry.origin(name) == "kgqa_hpc"]
    rows = {name: _rows(registry.get(name).Settings, left_out) for name in names}
    uses = Counter(row for own in rows.values() for row in own)
    general = [row for row in uses if len(names) > SHARED and uses[row] == len(names)]
    shared = [row for row in uses if uses[row] >= SHARED and row not in general]
    for title, keys in (("all", general), ("several", shared)):
        if keys:
            yield f"### {section}: keys of {title} entries\n"
            yield from keys
            yield ""
    takes: dict[str, str] = {}
    about = {name: first_paragraph(registry.get(name).__doc__) for name in names}
    for name in names:
        if not rows[name]:
            continue
        yield f"### {by}: {name}\n"
        keys = [row.split("`")[1] for row in rows[name] if row in shared]
        also = ", ".join(f"`{key}`" for key in keys if "." not in key)
        words = f"the same shared keys as `{takes[also]}`" if len(also) > LONG and also in takes else also
        takes.setdefault(also, name)
        yield about[name] + (f" Takes {words}.\n" if also else "\n")
        if own := [row for row in rows[name] if row not in shared and row not in general]:
            yield from own
            yield ""
    if plain := [name for name in names if not rows[name]]:
        yield f"Without keys of their own: `{by}: {'`, `'.join(plain)}`.\n"


def _rows(model: type[BaseModel], left_out: set[str]) -> list[str]:
    """A line for each key, with type and default in brackets as the head of the page says."""
    lines = []
    for key, kind, default, text in keys_of(model, left_out, nested=model is not RunConfig):
        values = kind.removeprefix("list of ").split(", ")
        if default in values:
            kind, default = ", ".join([default, *(value for value in values if value != default)]), ""
        elif len(values) > 1 and default.replace('"', "`") == f"`[{', '.join(values)}]`":
            default = "all"
        elif len(values) > 1 and not default and "default:" not in text:
            default = "unset"
        plain = kind in ("text", "section") or (kind in ("number", "true, false") and default.startswith("`"))
        words = re.sub(r"list of (text|number|section)", r"\1s", kind)
        words = re.sub(r"mapping to (list of any|mapping to any|any)( or mapping to any)?", "mapping", words)
        facts = "; ".join(
            filter(None, ("" if plain else words, "" if default in ("`[]`", "`{}`") else default))
        )
        lines.append(f"- `{key}`{facts and f' ({facts})'}: {text}")
    return lines


if __name__ == "__main__":
    print(page(), end="")
