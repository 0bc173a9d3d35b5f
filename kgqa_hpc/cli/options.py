"""Values of options that are YAML: settings on the command line, sections in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.errors import InputError


def dataset_changes(pairs: Sequence[str], config: Path | None) -> dict[str, Any]:
    """The changes that --set KEY=VALUE and --config FILE make to `dataset:`; a value is YAML.

    Raises InputError; ConfigError when the file is no configuration.
    """
    changes: dict[str, Any] = {}
    if config is not None:
        from kgqa_hpc.config import plain_config
        from kgqa_hpc.config.dataset import DatasetConfig

        section = plain_config(config).get("dataset")
        if not isinstance(section, dict):
            raise InputError(
                f"{config}: has no section dataset:", "only that section can change in a merged run"
            )
        changes |= DatasetConfig.with_paths(section, config.resolve().parent)
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise InputError(f"--set {pair!r} is not KEY=VALUE", "as in --set split.by=nodes")
        try:
            changes[key.removeprefix("dataset.")] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InputError(f"--set {pair!r}: the value is no YAML", "put it into quotes") from None
    return changes


def engine_section(file: Path | None) -> Any:
    """The engine of a YAML file: the keys of `engine:`, or a whole configuration. Raises InputError."""
    from kgqa_hpc.store.yaml_file import load_yaml

    if file is None:
        return None
    try:
        data = load_yaml(file)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file", "name a YAML file with an engine") from None
    return data["engine"] if isinstance(data, dict) and "engine" in data else data
