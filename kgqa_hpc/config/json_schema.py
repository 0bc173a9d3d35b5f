"""The JSON Schema of a configuration, for editors (`kgqa config --schema`).

It is built from the settings of all installed registry entries, including plugins. An editor completes and explains
keys with it; `kgqa init` checks more, such as files, prompts and the order of steps.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config.run_config import RunConfig
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.steps import STEPS

FILE = "kgqa.schema.json"
LINE = f"# yaml-language-server: $schema={FILE}\n"
Schema = dict[str, Any]


def json_schema() -> Schema:
    """The schema of the whole file, draft 2020-12."""
    entries = {
        (by, name): registry.get(name).Settings
        for by, registry in (("source", SOURCES), ("kind", KINDS), ("kind ", ENGINES), ("use", STEPS))
        for name in registry.names()
    }
    models: list[type[BaseModel]] = list(dict.fromkeys([RunConfig, *entries.values()]))
    references, document = models_json_schema([(model, "validation") for model in models], by_alias=True)
    parts = document["$defs"]
    whole = _part(parts, references[RunConfig, "validation"])
    whole.pop("required")
    keys = whole["properties"]
    keys["graph"] = _choice(SOURCES, "source", parts, references, default="hpo")
    keys["anchors"] = _choice(KINDS, "kind", parts, references, default="graphlet")
    keys["engine"] = _choice(ENGINES, "kind", parts, references)
    step = _choice(STEPS, "use", parts, references)
    step["anyOf"].append({"enum": STEPS.names()})
    one_pass = parts["PassConfig"]
    one_pass["properties"] |= {"steps": {"type": "array", "items": step}, "engine": keys["engine"]}
    for model in entries.values():
        parts.pop(references[model, "validation"]["$ref"].rpartition("/")[2], None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of kgqa",
        **whole,
        "$defs": parts,
    }


def _part(parts: Schema, reference: Schema) -> Schema:
    part: Schema = parts[reference["$ref"].rpartition("/")[2]]
    return part


def _choice(
    registry: Registry, by: str, parts: Schema, references: Any, *, default: str | None = None
) -> Schema:
    """The union of the schemas of all entries of the registry; the value of key `by` selects the schema."""
    options = []
    for name in registry.names():
        model = registry.get(name).Settings
        settings = _part(parts, references[model, "validation"])
        about = (registry.get(name).__doc__ or name).strip().split("\n")[0]
        properties = {**settings.get("properties", {}), by: {"const": name, "description": about}}
        required = {*settings.get("required", ()), by} - {"as", by if name == default else "as"}
        options.append({**settings, "title": name, "properties": properties, "required": sorted(required)})
    return {"type": "object", "anyOf": options} if by != "use" else {"anyOf": options}
