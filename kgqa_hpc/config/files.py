"""Configuration files: reader, writer of the shipped examples (`kgqa init --example NAME FILE`), and JSON Schema.

The schema (`kgqa config --schema`) is built from the settings of all installed registry entries, including plugins. An
editor completes and explains keys with it; `kgqa init` checks more, such as files, prompts and the order of steps.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config.run_config import RunConfig, parse_config
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.prompts.folders import shipped_prompts
from kgqa_hpc.registry import Registry, did_you_mean, first_paragraph
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.yaml_file import load_yaml

FILE = "kgqa.schema.json"
LINE = f"# yaml-language-server: $schema={FILE}\n"
Schema = dict[str, Any]


def load_config(path: Path) -> RunConfig:
    """Read and check a configuration file. Relative paths are resolved against its folder.

    Raises ConfigError with every problem of the file, one line each.
    """
    return parse_config(plain_config(path), str(path), path.resolve().parent)


def plain_config(path: Path) -> dict[str, Any]:
    """The mapping in a configuration file; keys and values are not checked. Raises ConfigError."""
    try:
        data = load_yaml(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", f"kgqa init --example csv {path} writes one to edit"
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a configuration is a mapping of keys to values")
    return data


def examples() -> dict[str, Path]:
    """Paths of all shipped configurations and of an example prompt, by name (configs/ and configs/examples/)."""
    configs = shipped_prompts().parent / "configs"
    paths = {path.stem: path for folder in (configs, configs / "examples") for path in folder.glob("*.yaml")}
    paths["prompt"] = configs / "examples" / "prompt.md"
    return dict(sorted(paths.items()))


def write_example(name: str, file: Path) -> None:
    """Write the example to `file`; beside a configuration, also write the JSON Schema that it refers to.

    Raises InputError for an unknown name or an existing file.
    """
    by_name = examples()
    if name not in by_name:
        hint = did_you_mean(name, by_name)
        raise InputError(f"no example {name!r}{hint}", f"there are {', '.join(by_name)}")
    source = by_name[name]
    # The comments show commands with the file's name.
    content = source.read_bytes().replace(f" {source.name}".encode(), f" {file.name}".encode())
    if not write_file(file, content, exclusive=True):
        raise InputError(f"{file}: is there already", "give another name; nothing was written")
    if source.suffix == ".yaml":
        write_file(file.parent / FILE, json.dumps(json_schema(), indent=1).encode())


def write_plugin(name: str, folder: Path) -> list[Path]:
    """Write a plugin file, its test, a small graph and a configuration into `folder`; returns the files.

    Raises InputError for a name that is no Python identifier, or an existing file.
    """
    if not name.isidentifier():
        raise InputError(f"{name!r} is no name of a Python module", "letters, digits and underscores")
    drafts = sorted((shipped_prompts().parent / "configs" / "plugin").glob("*.*"))
    files = {folder / draft.name.replace("my_steps", name): draft for draft in drafts}
    if existing := [file for file in files if file.exists()]:
        raise InputError(f"{existing[0]}: is there already", "give another folder; nothing was written")
    make_folder(folder)
    for file, draft in files.items():
        content = draft.read_bytes().replace(b"my_steps", name.encode())
        write_file(file, content, exclusive=True)
    write_file(folder / FILE, json.dumps(json_schema(), indent=1).encode())
    return list(files)


def json_schema() -> Schema:
    """The schema of the whole file, draft 2020-12."""
    registries = (SOURCES, KINDS, ENGINES, STEPS)
    entries = [registry.get(name).Settings for registry in registries for name in registry.names()]
    models: list[type[BaseModel]] = list(dict.fromkeys([RunConfig, *entries]))
    references, document = models_json_schema([(model, "validation") for model in models], by_alias=True)
    parts = document["$defs"]
    keys = {model: references[model, "validation"]["$ref"].rpartition("/")[2] for model in models}

    def choice(registry: Registry, by: str, default: str | None = None) -> list[Schema]:
        """The schemas of all entries of the registry; the value of key `by` selects the schema."""
        options = []
        for name in registry.names():
            settings = parts[keys[registry.get(name).Settings]]
            about = first_paragraph(registry.get(name).__doc__) or name
            properties = {**settings.get("properties", {}), by: {"const": name, "description": about}}
            required = {*settings.get("required", ()), by} - {"as", by if name == default else "as"}
            options.append(
                {**settings, "title": name, "properties": properties, "required": sorted(required)}
            )
        return options

    whole = parts[keys[RunConfig]]
    whole.pop("required")
    step = {"anyOf": [*choice(STEPS, "use"), {"enum": STEPS.names()}]}
    engine = {"type": "object", "anyOf": choice(ENGINES, "kind")}
    whole["properties"] |= {
        "graph": {"type": "object", "anyOf": choice(SOURCES, "source", "hpo")},
        "anchors": {"type": "object", "anyOf": choice(KINDS, "kind", "graphlet")},
        "engine": engine,
    }
    parts["PassConfig"]["properties"] |= {"steps": {"type": "array", "items": step}, "engine": engine}
    for key in {keys[model] for model in entries} | {"GraphConfig"}:
        parts.pop(key, None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of kgqa",
        **whole,
        "$defs": parts,
    }
