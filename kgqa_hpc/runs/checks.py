"""What can be seen to be missing before a run is made: files, models, prompts, packages.

`problems` stop `kgqa init`, all of them at once, each with its key. `notes` are for the person: a run may well be made
on a machine that has no GPU and no engine, and be worked on by others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig, load_config, plain_config
from kgqa_hpc.errors import ConfigError, InputError, KgqaError, PromptError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.runs.chain import prompt_of, run_prompts
from kgqa_hpc.settings import Package, packages

PICTURES = Package("matplotlib", "kgqa_hpc[report]")


def load_ready(path: Path) -> RunConfig:
    """A configuration that is right and whose files are there.

    Raises ConfigError with every problem, one line each: what the file says wrong, and what it names that is missing.
    """
    try:
        config = load_config(path)
    except ConfigError as problem:
        more = [f"{path}: {line}" for line in missing(plain_config(path))]
        raise ConfigError("\n".join([problem.message, *more]), problem.cure) from None
    require_ready(config, str(path))
    return config


def require_ready(config: RunConfig, where: str) -> None:
    """Raises ConfigError with every problem, one line each."""
    if found := list(problems(config)):
        raise ConfigError("\n".join(f"{where}: {line}" for line in found), "mend them and repeat")


def missing(data: Mapping[str, Any]) -> Iterator[str]:
    """Files and models that plain data names by a path and that are not there; it may be wrong in other ways."""
    yield from _missing_files(data)
    yield from _missing_models(data)


def problems(config: RunConfig) -> Iterator[str]:
    """One sentence with its key for everything the configuration names and that is not there."""
    every = [config, *config.variant_configs().values()]
    yield from dict.fromkeys(line for one in every for line in missing(one.plain()))
    lost = list(dict.fromkeys(line for one in every for line in _unloadable(one)))
    yield from lost
    if not lost:
        try:
            run_prompts(config)
        except PromptError as problem:
            yield problem.message


def notes(config: RunConfig) -> list[str]:
    """What works elsewhere or later, and not here and now."""
    lines = missing_packages(config)
    if PICTURES.missing:
        lines.append("matplotlib is not installed here; figures are left out (extra report)")
    return lines


def missing_packages(config: RunConfig, *sections: str) -> list[str]:
    """One sentence with its key for each package that the configuration (or these sections of it) needs, and that is
    not installed here.
    """
    every = [config, *config.variant_configs().values()]
    needed = dict.fromkeys(each for one in every for each in packages(one))
    return [
        f"{'.'.join(map(str, key))}: the package {it.module} is not installed here: pip install '{it.install}'"
        for key, it in needed
        if it.missing and (not sections or key[0] in sections)
    ]


def require_packages(config: RunConfig, *sections: str) -> None:
    """Raises InputError when these sections need packages that are not installed here, before work begins."""
    if lines := missing_packages(config, *sections):
        raise InputError("\n".join(lines), "install them, or leave out what needs them")


def _missing_files(data: Mapping[str, Any]) -> Iterator[str]:
    graph, anchors = _section(data, "graph"), _section(data, "anchors")
    sections = [
        ("anchors", anchors, _paths_of(KINDS, anchors.get("kind", "graphlet"))),
        ("graph", graph, (*_paths_of(SOURCES, graph.get("source", "hpo")), "hydrate")),
    ]
    for name, section, keys in sections:
        for key in keys:
            value = section.get(key)
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str) and not Path(path).exists():
                    yield f"{name}.{key}: {path} does not exist"
    tests = _section(data, "dataset").get("decontaminate")
    for number, entry in enumerate(tests if isinstance(tests, list) else ()):
        path = entry.get("path") if isinstance(entry, dict) else entry
        if isinstance(path, str) and not Path(path).exists():
            yield f"dataset.decontaminate.{number}: {path} does not exist"


def _section(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _paths_of(registry: Registry, name: Any) -> tuple[str, ...]:
    """The keys of an entry that hold paths; none of an entry nobody knows, which is told elsewhere."""
    return registry.get(name).Settings.paths if isinstance(name, str) and name in registry else ()


def _missing_models(data: Mapping[str, Any]) -> Iterator[str]:
    """Models that are named by a path of this file system; names of hubs and servers are left to the engine."""
    passes = data.get("passes")
    places = [("engine", _section(data, "engine"))]
    for number, each in enumerate(passes if isinstance(passes, list) else ()):
        if isinstance(each, dict):
            places.append((f"passes.{number}.engine", _section(each, "engine")))
    for key, settings in places:
        model = settings.get("model")
        if isinstance(model, str) and model.startswith(("/", "~")) and not Path(model).expanduser().exists():
            yield f"{key}.model: {model} does not exist"


def _unloadable(config: RunConfig) -> Iterator[str]:
    """Each prompt that cannot be loaded, with the key of the step that names it."""
    for number, each in enumerate(config.passes):
        for position, step in enumerate(each.steps):
            if step.prompt is not None:
                try:
                    prompt_of(step, config.prompts.folder, config.prompts.domain)
                except KgqaError as problem:
                    yield f"passes.{number}.steps.{position}.prompt: {problem.message}"
