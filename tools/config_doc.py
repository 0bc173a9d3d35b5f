#!/usr/bin/env python3
"""Write docs/config.md from the settings themselves: python tools/config_doc.py > docs/config.md

Every key is a pydantic field with its type, default and one sentence; sections that name an entry (a source, a kind, a
step, an engine) have one table for each entry that is shipped. tests/test_config_doc.py compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import PassConfig, PromptConfig, RunConfig, RuntimeConfig
from kgqa_hpc.config.dataset import DatasetConfig, Target
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS

HEAD = """# Configuration

One YAML file, checked completely before anything starts: unknown keys are refused with the nearest known one, and all
errors are told at once. `kgqa init --example NAME FILE` writes one to start from; `configs/` has more. Relative paths
start where the file lies.

This page is written by `tools/config_doc.py` from the settings themselves. A package that adds a source, a kind of
anchor, a step or an engine brings its own keys.

Durations are seconds, or `90s`, `15m`, `2h`, `2d`, `HH:MM:SS`, `D-HH:MM:SS`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    yield from _section("The file", RunConfig, "Its sections, each below.")
    yield from _section(
        "graph", GraphConfig, "Common keys of all sources; what they mean: [sources.md](sources.md)."
    )
    yield from _entries("graph", "source", SOURCES, GraphConfig)
    yield "## anchors\n\nWhat a question is grounded in; `kind` says how it is drawn.\n"
    yield from _entries("anchors", "kind", KINDS, None)
    yield from _section("prompts", PromptConfig, "See [prompts.md](prompts.md).")
    yield from _section(
        "passes", PassConfig, "A list; default: one pass `main` with the steps `generate` and `judge`."
    )
    yield from _section(
        "passes[].steps", StepSettings, "A list of entries, or of bare names of steps. Common keys:"
    )
    yield from _entries("step", "use", STEPS, StepSettings)
    yield "## engine\n\nSee [engines.md](engines.md).\n"
    yield from _entries("engine", "kind", ENGINES, None)
    yield from _section("runtime", RuntimeConfig, "Nothing here changes what the dataset holds.")
    yield from _section(
        "dataset", DatasetConfig, "May be changed later: `kgqa init` and `kgqa merge` apply it."
    )
    yield from _section("target", Target, "What it does: [dataset.md](dataset.md#so-many-accepted-records).")


def _section(title: str, model: type[BaseModel], text: str) -> Iterator[str]:
    yield f"## {title}\n\n{text}\n"
    yield from _table(model, set())
    yield ""


def _entries(section: str, by: str, registry: Registry, common: type[BaseModel] | None) -> Iterator[str]:
    for name in registry.names():
        if registry.origin(name) != "kgqa_hpc":
            continue
        entry = registry.get(name)
        yield f"### {section}: {{{by}: {name}}}\n"
        if text := (entry.__doc__ or "").strip().split("\n")[0]:
            yield f"{text}\n"
        rows = list(_table(entry.Settings, {by, *(common.model_fields if common else ())}))
        yield from rows if len(rows) > 2 else ["No keys of its own."]
        yield ""


def _table(model: type[BaseModel], left_out: set[str]) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    yield from _rows(model, left_out, "")


def _rows(model: type[BaseModel], left_out: set[str], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if name in left_out:
            continue
        key = f"{prefix}{field.alias or name}"
        text = (field.description or "").replace("|", "\\|")
        yield f"| `{key}` | {_type(field)} | {_default(field)} | {text} |"
        inner = _inner(field.annotation)
        if inner is not None and prefix.count(".") < 2 and model is not RunConfig:
            yield from _rows(inner, set(), f"{key}.")


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_inner(each) for each in get_args(annotation))
    return next((each for each in found if each is not None and each is not StepSettings), None)


def _type(field: FieldInfo) -> str:
    return _name(field.annotation).replace("|", "\\|")


def _name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is list:
        return f"list of {_name(arguments[0])}"
    if origin is dict:
        return f"mapping to {_name(arguments[1])}"
    if str(origin) == "typing.Literal":
        return ", ".join(f"`{each}`" for each in arguments)
    if hasattr(annotation, "__metadata__"):
        return _name(arguments[0])
    if origin is Union or type(annotation).__name__ == "UnionType":
        return " or ".join(dict.fromkeys(_name(each) for each in arguments if each is not type(None)))
    words = {"str": "text", "int": "number", "float": "number", "bool": "true, false", "Any": "any"}
    known = getattr(annotation, "__name__", re.sub(r"^.*\.", "", str(annotation)))
    return words.get(known, "section")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel):
        return ""
    plain = sorted(value) if isinstance(value, set | frozenset) else value
    text = value if isinstance(value, str) else json.dumps(plain, default=str)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    print(page(), end="")
