"""Configuration files: reader, writer of the shipped examples (`kgqa init --example NAME FILE`), JSON Schema, keys.

The schema (`kgqa config --schema`) is built from the settings of all installed registry entries, including plugins. An
editor completes and explains keys with it; `kgqa init` checks more, such as files, prompts and the order of steps.
`keys_of` gives the table of keys in docs/reference/config.md and `kgqa list KIND NAME`.
"""

import json
import re
from collections.abc import Collection, Iterator
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticUndefined

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config.run_config import RunConfig, parse_config
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.registry import Registry, did_you_mean, first_paragraph
from kgqa_hpc.settings import StepSettings, models_in
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.yaml_file import load_yaml
from kgqa_hpc.text.plain_text import shell_word

SCHEMA_FILE = "kgqa.schema.json"
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
            f"{path}: no such file", f"kgqa init --example csv {shell_word(path)} writes one to edit"
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
    """Write the example to `file`; beside a configuration, also its tables and the JSON Schema that it refers to.

    Raises InputError for an unknown name or an existing file.
    """
    by_name = examples()
    if name not in by_name:
        hint = did_you_mean(name, by_name)
        raise InputError(f"no example {name!r}{hint}", f"there are {', '.join(by_name)}")
    source = by_name[name]
    # The comments show commands with the file's name; paths begin at its folder, not at configs/.
    content = re.sub(rf" (configs/)?{source.name}", f" {file.name}", source.read_text("utf-8"))
    content = content.replace("../runs/", "runs/")
    make_folder(file.parent)
    if not write_file(file, content.encode(), exclusive=True):
        raise InputError(f"{file}: is there already", "give another name; nothing was written")
    if source.suffix == ".yaml":
        write_file(file.parent / SCHEMA_FILE, json.dumps(json_schema(), indent=1).encode())
        for table in sorted(source.with_suffix("").glob("*.csv")):
            make_folder(file.parent / source.stem)
            write_file(file.parent / source.stem / table.name, table.read_bytes(), exclusive=True)


def write_plugin(name: str, folder: Path) -> list[Path]:
    """Write a plugin file, its test, a small graph and a configuration into `folder`; returns the files.

    Raises InputError for a name that is no Python identifier, or an existing file.
    """
    if not name.isidentifier() or iskeyword(name):
        raise InputError(f"{name!r} is no name of a Python module", "letters, digits and underscores")
    drafts = sorted((shipped_prompts().parent / "configs" / "plugin").glob("*.*"))
    files = {folder / draft.name.replace("my_steps", name): draft for draft in drafts}
    if existing := [file for file in files if file.exists()]:
        raise InputError(f"{existing[0]}: is there already", "give another folder; nothing was written")
    make_folder(folder)
    for file, draft in files.items():
        content = draft.read_bytes().replace(b"my_steps", name.encode())
        write_file(file, content, exclusive=True)
    write_file(folder / SCHEMA_FILE, json.dumps(json_schema(), indent=1).encode())
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
    engines, unset = choice(ENGINES, "kind"), {"type": "null"}
    whole["properties"] |= {
        "graph": {"anyOf": [*choice(SOURCES, "source", "hpo"), unset]},
        "anchors": {"anyOf": choice(KINDS, "kind", "graphlet")},
        "engine": {"anyOf": engines},
    }
    of_pass = {"steps": {"type": "array", "items": step}, "engine": {"anyOf": [*engines, unset]}}
    parts["PassConfig"]["properties"] |= of_pass
    for key in {keys[model] for model in entries} | {"GraphConfig"}:
        parts.pop(key, None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of kgqa",
        **whole,
        "$defs": parts,
    }


class Key(NamedTuple):
    """One key of a configuration; nested keys have dots."""

    key: str
    type: str
    default: str
    meaning: str


def keys_of(
    model: type[BaseModel], left_out: Collection[str] = (), prefix: str = "", *, nested: bool = True
) -> Iterator[Key]:
    """The keys of a model and, if `nested`, of the models within it."""
    for name, field in model.model_fields.items():
        if name in left_out:
            continue
        key = f"{prefix}{field.alias or name}"
        yield Key(key, _name(field.annotation), _default(field), field.description or "")
        inner = [model for model in models_in(field.annotation) if model is not StepSettings]
        if inner and prefix.count(".") < 2 and nested:
            yield from keys_of(inner[0], (), f"{key}.")


def _name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is list:
        return f"list of {_name(arguments[0])}"
    if origin is dict:
        return f"mapping to {_name(arguments[1])}"
    if str(origin) == "typing.Literal":
        return ", ".join(f"`{argument}`" for argument in arguments)
    if hasattr(annotation, "__metadata__"):
        return _name(arguments[0])
    if origin is Union or type(annotation).__name__ == "UnionType":
        return " or ".join(
            dict.fromkeys(_name(argument) for argument in arguments if argument is not type(None))
        )
    words = {"str": "text", "int": "number", "float": "number", "bool": "true, false", "Any": "any"}
    plain_name = getattr(annotation, "__name__", re.sub(r"^.*\.", "", str(annotation)))
    return words.get(plain_name, "section")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "" if "default:" in (field.description or "") else "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel):
        return ""
    plain = sorted(value) if isinstance(value, set | frozenset) else value
    text = value if isinstance(value, str) else json.dumps(plain, default=str)
    return f"`{text}`" if text else ""
