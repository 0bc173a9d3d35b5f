"""Checks before work: missing files, models, prompts, packages and servers; and a configuration that a run refused.

`problems` stop `kgqa init`, which reports all of them with their keys. `notes` only inform the user: a run may be
created on a machine without a GPU or an engine, and processed on others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from os.path import exists, expanduser
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.columns import COMMON_NAMES
from kgqa_hpc.config import RunConfig, plain_config
from kgqa_hpc.config.run_config import GUIDE, REFUSED, check_config
from kgqa_hpc.config.sections import DatasetConfig
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.engines.model_files import find_model, is_whole, model_parts, staged_path
from kgqa_hpc.errors import ConfigError, InputError, KgqaError, PromptError, StoreError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import Registry, did_you_mean
from kgqa_hpc.runs.chain import kind_of, prompts_of, run_prompts
from kgqa_hpc.settings import Package, packages
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store import atomic
from kgqa_hpc.store.canonical import read_document, write_document
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.plain_text import shell_word

PICTURES = Package("matplotlib", "kgqa_hpc[report]")


def load_ready(path: Path, added_judges: Collection[str] = ()) -> RunConfig:
    """Load a configuration, and check it and the files it names.

    `dataset:` may name the `added_judges`, which the run has besides those of the file.

    Raises ConfigError with every problem, one line each: wrong keys and values, and missing files.
    """
    data, base = plain_config(path), path.resolve().parent
    config, lines = check_config(data, base, added_judges)
    if config is None or lines:
        further = [*_prompt_problems([config]), *dict(_column_problems(config))] if config else []
        if any(line.startswith("anchors") for line in lines):  # the kind's columns are unknown
            further = [line for line in further if not line.startswith("dataset.")]
        lines += [*missing(data, base), *further]
        raise ConfigError("\n".join(f"{path}: {line}" for line in lines), GUIDE)
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
    for name, registry, by, default in (
        ("anchors", KINDS, "kind", "graphlet"),
        ("graph", SOURCES, "source", "hpo"),
    ):
        section, keys = _resolved(data.get(name), registry, by, default, base)
        for key in (*keys, "hydrate") if keys and name == "graph" else keys:
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
        if isinstance(model, str) and model.startswith(("/", "~")) and not exists(expanduser(model)):
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
    return model.with_paths(section, base), model.paths


def problems(config: RunConfig) -> Iterator[tuple[str, str]]:
    """(sentence that begins with its key, cure or "") for each missing or unusable file and prompt."""
    every = [config, *config.variant_configs().values()]
    for line in dict.fromkeys(line for variant in every for line in missing(variant.plain(), Path())):
        yield line, ""
    unloadable = _prompt_problems(every)
    yield from unloadable.items()
    if not unloadable:
        try:
            run_prompts(config)
        except PromptError as problem:
            yield problem.message, problem.cure
    yield from _column_problems(config)


def _prompt_problems(configs: Sequence[RunConfig]) -> dict[str, str]:
    """For each prompt that cannot be loaded: a sentence that begins with its key, mapped to the cure or ""."""
    unloadable: dict[str, str] = {}
    for config in configs:
        for number, pass_config in enumerate(config.passes):
            for position, step in enumerate(pass_config.steps):
                try:
                    if step.use != REFUSED:
                        prompts_of(step, config.prompts.folder, config.prompts.domain)
                except KgqaError as problem:
                    unloadable[f"passes.{number}.steps.{position}.prompt: {problem.message}"] = problem.cure
    return unloadable


def _column_problems(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Settings of `dataset:` that name a column which no record will have; merge would fail after all requests."""
    if any(step.use == REFUSED for step in config.steps):
        return
    declared = [kind_of(config).columns, *(STEPS.get(step.use).columns_for(step) for step in config.steps)]
    names = {column.name for column in chain(*declared)}
    decided_later = {"accepted", "reason", "split"}
    names |= {"variant", "thoughts", *COMMON_NAMES} - decided_later
    split, debias, order = config.dataset.split, config.dataset.debias, config.dataset.order
    settings = [("split.by", split.by.removesuffix("_cluster"))] if split else []
    settings += [("debias.columns", column) for column in debias.columns] if debias else []
    settings += [("order", order)] if order else []
    for key, column in settings:
        if (name := column.split(".")[0]) not in names:
            words = f"records of kind {config.anchors.kind} have no column {name}"
            yield (
                f"dataset.{key}: {words}{did_you_mean(name, names)}",
                f"their columns: {', '.join(sorted(names))}",
            )


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


def require_servers(engines: Iterable[Any]) -> None:
    """Request one token from the server of each engine, so that a wrong address or key is reported before long work.

    Raises EngineConfigError.
    """
    for engine in {repr(engine): engine for engine in engines}.values():
        if ask_once := getattr(ENGINES.get(engine.kind), "ask_once", None):
            ask_once(engine)


def model_copies(config: RunConfig) -> Iterator[tuple[str, str, str]]:
    """(source, folder of the copy, name in it) of each model file to copy to every node's disk, for `sbcast`.

    These are the files of the models that the run's engines stage, except those that this node has already. Raises
    EngineConfigError.
    """
    staging = [engine for engine in config.engines if getattr(engine, "stage_to", None)]
    models = {(engine.model, getattr(engine, "revision", None), engine.stage_to) for engine in staging}
    for model, revision, target in sorted(models, key=str):
        folder = find_model(model, revision)
        copy, parts = staged_path(folder, target), model_parts(folder)
        if not is_whole(copy, parts):
            yield from ((str(folder / name), str(copy), name) for name in sorted(parts))


@contextmanager
def noting_refusal(folder: Path, source: str) -> Iterator[None]:
    """Note in an existing run that it refused the configuration `source` within the block: RUN/refused.json.

    The user wanted other settings than the run has. A later `kgqa merge` would still use the recorded ones, so it ends
    with exit 2 until the user gives new settings or asks for the recorded ones. docs/reference/format.md, section 4.
    """
    run = RunFolder(folder)
    try:
        yield
    except InputError as problem:
        if atomic.exists(run.manifest_file):
            content = {"format": "kgqa-refused", "version": 1, "config": source, "problem": problem.message}
            with suppress(StoreError):  # a user who cannot write to the run cannot merge it either
                write_document(run.refused, content)
        raise


def accept_recorded(run: RunFolder) -> None:
    """Delete the note of a refused configuration: the recorded settings are those that the user wants."""
    with atomic.disk_errors(run.refused):
        run.refused.unlink(missing_ok=True)


def require_no_refusal(run: RunFolder) -> None:
    """Raises InputError if the last configuration given for this run was refused. Raises CorruptFile."""
    if not atomic.exists(run.refused):
        return
    refusal = read_document(run.refused, "refused")
    config, merge = refusal["config"], f"kgqa merge {shell_word(run.path)}"
    file = (
        f"its dataset: section alone: {merge} --config {shell_word(config)}; "
        if Path(config).is_file()
        else ""
    )
    lines = [f"nothing merged, because this run refused {config}:", *refusal["problem"].splitlines()]
    cure = f"{file}the run's recorded settings: {merge} --as-recorded"
    raise InputError(f"{run.path}: " + "\n  ".join(lines), cure)
