"""Checks before a run is created: missing files, models, prompts and packages.

`problems` stop `kgqa init`, which reports all of them with their keys. `notes` only inform the user: a run may be
created on a machine without a GPU or an engine, and processed on others.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig, parse_config, plain_config
from kgqa_hpc.config.dataset import DatasetConfig
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError, InputError, KgqaError, PromptError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry
from kgqa_hpc.runs.chain import prompts_of, run_prompts
from kgqa_hpc.settings import Package, packages

PICTURES = Package("matplotlib", "kgqa_hpc[report]")


def load_ready(path: Path, added_judges: Collection[str] = ()) -> RunConfig:
    """Load a configuration, and check it and the files it names.

    `dataset:` may name the `added_judges`, which the run has besides those of the file.

    Raises ConfigError with every problem, one line each: wrong keys and values, and missing files.
    """
    data, base = plain_config(path), path.resolve().parent
    try:
        config = parse_config(data, str(path), base, added_judges)
    except ConfigError as problem:
        more = [f"{path}: {line}" for line in missing(data, base)]
        raise ConfigError("\n".join([problem.message, *more]), problem.cure) from None
    require_ready(config, str(path))
    return config


def require_ready(config: RunConfig, location: str) -> None:
    """Raises ConfigError with every problem, one line each."""
    if mistakes := list(problems(config)):
        lines = "\n".join(f"{location}: {line}" for line, _ in mistakes)
        cure = mistakes[0][1] if len(mistakes) == 1 else ""
        raise ConfigError(lines, cure or "mend them and repeat")


def missing(data: Mapping[str, Any], base: Path) -> Iterator[str]:
    """One sentence for each missing file or model path in plain configuration data, which need not be valid."""
    anchors = _resolved(data.get("anchors"), KINDS, "kind", "graphlet", base)
    graph = _resolved(data.get("graph"), SOURCES, "source", "hpo", base)
    for name, (section, keys) in {"anchors": anchors, "graph": graph}.items():
        for key in keys:
            value = section.get(key)
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str) and not Path(path).exists():
                    yield f"{name}.{key}: {path} does not exist"
    dataset = data.get("dataset")
    resolved = DatasetConfig.with_paths(dataset, base) if isinstance(dataset, dict) else {}
    tests = resolved.get("decontaminate")
    for number, entry in enumerate(tests if isinstance(tests, list) else ()):
        if isinstance(entry.get("path"), str) and not Path(entry["path"]).exists():
            yield f"dataset.decontaminate.{number}: {entry['path']} does not exist"
    passes = data.get("passes")
    engines = {"engine": data.get("engine")}
    for number, pass_data in enumerate(passes if isinstance(passes, list) else ()):
        engines[f"passes.{number}.engine"] = pass_data.get("engine") if isinstance(pass_data, dict) else None
    for name, engine in engines.items():  # only paths: the engine checks model names of hubs and servers
        model = _resolved(engine, ENGINES, "kind", None, base)[0].get("model")
        if isinstance(model, str) and model.startswith(("/", "~")) and not Path(model).expanduser().exists():
            yield f"{name}.model: {model} does not exist"


def _resolved(
    section: Any, registry: Registry, by: str, default: str | None, base: Path
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A section with its paths resolved, and the keys that hold paths; no keys for an unknown registry entry."""
    section = section if isinstance(section, dict) else {}
    name = section.get(by, default)
    if not isinstance(name, str) or name not in registry:
        return section, ()
    model = registry.get(name).Settings
    return model.with_paths(section, base), (*model.paths, "hydrate") if by == "source" else model.paths


def problems(config: RunConfig) -> Iterator[tuple[str, str]]:
    """(sentence that begins with its key, cure or "") for each missing or unusable file and prompt."""
    every = [config, *config.variant_configs().values()]
    for line in dict.fromkeys(line for variant in every for line in missing(variant.plain(), Path())):
        yield line, ""
    unloadable: dict[tuple[str, str], None] = {}
    for variant in every:
        for number, pass_config in enumerate(variant.passes):
            for position, step in enumerate(pass_config.steps):
                try:
                    prompts_of(step, variant.prompts.folder, variant.prompts.domain)
                except KgqaError as problem:
                    key = f"passes.{number}.steps.{position}.prompt"
                    unloadable[f"{key}: {problem.message}", problem.cure] = None
    yield from unloadable
    if not unloadable:
        try:
            run_prompts(config)
        except PromptError as problem:
            yield problem.message, problem.cure


def notes(config: RunConfig) -> list[str]:
    """Notes on missing optional packages: the run can be created, but not everything works on this machine."""
    lines = missing_packages(config)
    if PICTURES.missing:
        lines.append("matplotlib is not installed here; figures are left out (extra report)")
    return lines


def missing_packages(config: RunConfig, *sections: str) -> list[str]:
    """One sentence, beginning with its key, for each required package that is not installed here.

    `sections` limits the check to these sections of the configuration.
    """
    every = [config, *config.variant_configs().values()]
    needed = dict.fromkeys(package for variant in every for package in packages(variant))
    return [
        f"{'.'.join(map(str, key))}: the package {it.module} is not installed here: pip install '{it.install}'"
        for key, it in needed
        if it.missing and (not sections or key[0] in sections)
    ]


def require_packages(config: RunConfig, *sections: str) -> None:
    """Raises InputError if packages that these sections need are not installed here."""
    if lines := missing_packages(config, *sections):
        raise InputError("\n".join(lines), "install them, or leave out what needs them")


def require_servers(config: RunConfig) -> None:
    """Request one token from the server of each pass, so that a wrong address or key is reported before long work.

    Raises EngineConfigError.
    """
    settings = {repr(engine): engine for engine in (config.engine_of(part.name) for part in config.passes)}
    for engine in settings.values():
        ask_once = getattr(ENGINES.get(engine.kind), "ask_once", None)
        if ask_once is not None:
            ask_once(engine)
