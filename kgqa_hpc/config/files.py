"""Configuration files: one read with its paths resolved, and starting ones (`kgqa init --example NAME FILE`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.config.run_config import RunConfig, parse_config
from kgqa_hpc.config.variants import anchors_with_paths, with_paths
from kgqa_hpc.engines import config as engines
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.kg.settings import resolve_paths
from kgqa_hpc.plugin_files import load_plugin_file
from kgqa_hpc.prompts.folders import shipped_prompts
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.settings import resolved
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import write_file
from kgqa_hpc.store.yaml_file import load_yaml


def load_config(path: Path) -> RunConfig:
    """Read and check a configuration file. Relative paths are resolved against its folder.

    Raises ConfigError with every problem of the file, one line each.
    """
    return parse_config(plain_config(path), str(path))


def plain_config(path: Path) -> dict[str, Any]:
    """What a configuration file says, unchecked but for its form, with its paths resolved. Raises ConfigError."""
    try:
        data = load_yaml(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", f"kgqa init --example csv {path} writes one to edit"
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a configuration is a mapping of keys to values")
    return absolute_paths(data, path.resolve().parent)


def absolute_paths(data: dict[str, Any], base: Path) -> dict[str, Any]:
    """Plain data of a configuration with the files that it names resolved against `base`; its plugins are loaded."""
    data = with_paths(data, base)
    if isinstance(data.get("plugins"), list):
        data = resolved(data, ("plugins",), base)
        for path in data["plugins"]:
            if isinstance(path, str):
                load_plugin_file(Path(path))
    if "prompts" in data:
        data["prompts"] = resolved(data["prompts"], ("folder",), base)
    if isinstance(data.get("anchors"), dict):
        data["anchors"] = anchors_with_paths(data["anchors"], base)
    if isinstance(data.get("graph"), dict):
        data["graph"] = resolve_paths(data["graph"], base)
    if isinstance(data.get("engine"), dict):
        data["engine"] = engines.with_paths(data["engine"], base)
    if isinstance(data.get("dataset"), dict) and isinstance(data["dataset"].get("decontaminate"), list):
        tests = [
            resolved(one if isinstance(one, dict) else {"path": one}, ("path",), base)
            for one in data["dataset"]["decontaminate"]
        ]
        data["dataset"] = {**data["dataset"], "decontaminate": tests}
    if isinstance(data.get("passes"), list):
        data["passes"] = [_resolve_pass(each, base) for each in data["passes"]]
    return data


def _resolve_pass(each: Any, base: Path) -> Any:
    """The engine and the steps of one pass, as plain data, with their paths resolved."""
    if not isinstance(each, dict):
        return each
    each = dict(each)
    if isinstance(each.get("engine"), dict):
        each["engine"] = engines.with_paths(each["engine"], base)
    if isinstance(each.get("steps"), list):
        each["steps"] = [
            resolved(step, STEPS.get(step["use"]).Settings.paths, base)
            if isinstance(step, dict) and step.get("use") in STEPS
            else step
            for step in each["steps"]
        ]
    return each


def examples() -> dict[str, Path]:
    """All of them by name: configs/examples, and those of configs/ that are used as they stand."""
    configs = shipped_prompts().parent / "configs"
    found = {path.stem: path for folder in (configs, configs / "examples") for path in folder.glob("*.yaml")}
    return dict(sorted(found.items()))


def write_example(name: str, file: Path) -> None:
    """Write the example to `file`. Raises InputError for an unknown name, or a file that is there already."""
    known = examples()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InputError(f"no example {name!r}{hint}", f"there are {', '.join(known)}")
    if not write_file(file, known[name].read_bytes(), exclusive=True):
        raise InputError(f"{file}: is there already", "give another name; nothing was written")
