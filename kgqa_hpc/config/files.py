"""Reader of configuration files, and writer of the shipped examples (`kgqa init --example NAME FILE`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kgqa_hpc.config.run_config import RunConfig, parse_config
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.prompts.folders import shipped_prompts
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.yaml_file import load_yaml


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
    content = source.read_bytes().replace(
        f" {source.name}".encode(), f" {file.name}".encode()
    )  # the comments show commands with the file's name
    if not write_file(file, content, exclusive=True):
        raise InputError(f"{file}: is there already", "give another name; nothing was written")
    if by_name[name].suffix == ".yaml":
        from kgqa_hpc.config.json_schema import FILE, json_schema

        write_file(file.parent / FILE, json.dumps(json_schema(), indent=1).encode())


def write_plugin(name: str, folder: Path) -> list[Path]:
    """Write a plugin file, its test, a small graph and a configuration into `folder`; returns the files.

    Raises InputError for a name that is no Python identifier, or an existing file.
    """
    if not name.isidentifier():
        raise InputError(f"{name!r} is no name of a Python module", "letters, digits and underscores")
    drafts = sorted((shipped_prompts().parent / "configs" / "plugin").iterdir())
    texts = {
        path.name.replace("my_steps", name): path.read_text(encoding="utf-8")
        for path in drafts
        if path.is_file()
    }
    if existing := [folder / file for file in texts if (folder / file).exists()]:
        raise InputError(f"{existing[0]}: is there already", "give another folder; nothing was written")
    make_folder(folder)
    for file, text in texts.items():
        write_file(folder / file, text.replace("my_steps", name).encode(), exclusive=True)
    return [folder / file for file in texts]
