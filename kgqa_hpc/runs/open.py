"""A run, opened: its folder with the configuration it was made with; and how a run grows.

Looking at a run (status, explain, merge, report) needs no more than that. Working on it also asks that graph,
sampling, prompts and engines are still those of its fingerprint, which is the manifest's. A run keeps the text of
every prompt it uses, all modules written out, in RUN/prompts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.engines.config import OPERATIONAL
from kgqa_hpc.errors import FingerprintMismatch, InputError, PromptError
from kgqa_hpc.kg.input_files import edited
from kgqa_hpc.prompts.folders import Folders
from kgqa_hpc.prompts.prompt import Prompt, load_prompt
from kgqa_hpc.runs.alone import alone
from kgqa_hpc.runs.chain import run_prompts
from kgqa_hpc.runs.entries import (
    entries_section,
    keep_plugins,
    load_plugins,
    only_entries_differ,
    require_entries,
    require_unchanged_plugins,
)
from kgqa_hpc.runs.trust import effects, require_agreed
from kgqa_hpc.store import fingerprint as sections
from kgqa_hpc.store.atomic import exists, make_folder, write_file
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note


def fingerprint(config: RunConfig, prompts: Path | None = None) -> dict[str, dict[str, Any]]:
    """The sections that must not change in a run, prompts by their sha256; `prompts` is searched for them
    before the configuration's folder. Raises PromptError.
    """
    return _sections(config, run_prompts(config, prompts))


def create_run(folder: Path, config: RunConfig, *, accept_code: bool = False) -> RunFolder:
    """Make the folder of a run, with the text of every prompt it will use, or compare one that is there.
    With `accept_code` it takes over entries whose code has changed, and records that.

    One in which nothing was answered yet takes over another configuration; one that has grown keeps what was added.

    Raises PromptError, FingerprintMismatch, InputError, DiskFull, StoreError.
    """
    present = exists(RunFolder(folder).manifest_file)
    with alone(RunFolder(folder)) if present else nullcontext():
        return _created(folder, config, accept_code=accept_code)


def _created(folder: Path, config: RunConfig, *, accept_code: bool) -> RunFolder:
    written = {pass_config.name for pass_config in config.passes}
    agreed = effects(config.plain())
    config = _as_grown(folder, config)
    trusted = _agreed_growth(folder, config, agreed)
    prompts = _prompts(folder, config, written)
    sections = _sections(config, prompts)
    try:
        run = RunFolder.create(folder, config.plain(), sections, trusted)
    except FingerprintMismatch:
        run = RunFolder.open(folder)
        if accept_code and only_entries_differ(run, sections):
            run.accept_entries(sections)
        elif run.untouched():
            run.remake(config.plain(), sections, trusted)
        else:
            raise
    keep_plugins(run, config)
    for prompt in prompts.values():
        _keep(run, prompt)
    return run


def _agreed_growth(folder: Path, config: RunConfig, agreed: dict[str, Any]) -> dict[str, Any]:
    """The dangerous settings that the maker of a configuration agrees to: those `agreed` by writing it, and those of
    passes that the run in `folder` has added, when they were agreed to before. Raises InputError.
    """
    added = {key: value for key, value in effects(config.plain()).items() if key not in agreed}
    if added:
        passes = [
            pass_data
            for pass_data in config.plain()["passes"]
            if any(pass_data["name"] in key for key in added)
        ]
        require_agreed(RunFolder.open(folder), {"passes": passes})
    return {**agreed, **added}


def _prompts(folder: Path, config: RunConfig, written: Collection[str]) -> dict[str, Prompt]:
    """The prompts of a configuration; those of passes that the run itself has added are the run's own copies."""
    if all(pass_config.name in written for pass_config in config.passes):
        return run_prompts(config)
    own_prompts = RunFolder(folder).prompts
    names = [name for pass_config in config.passes if (name := pass_config.name) in written]
    added = run_prompts(config, own_prompts)
    return added | {key: p for name in names for key, p in run_prompts(config, only=name).items()}


def open_run(folder: Path) -> tuple[RunFolder, RunConfig]:
    """The run and its configuration, for looking at it.

    Raises InputError when there is no run, ConfigError.
    """
    run = RunFolder.open(folder)
    return run, run_config(run)


def open_for_work(folder: Path) -> tuple[RunFolder, RunConfig]:
    """The same, for adding to it.

    Raises FingerprintMismatch naming what changed since it was made: configuration, prompts, graph files.
    """
    run, config = open_run(folder)
    _require_unchanged_files(run, _require_same(run, config))
    return run, config


def open_for_import(folder: Path) -> tuple[RunFolder, RunConfig]:
    """The same, for reading the graph: while nothing was answered yet, one whose files were edited is read anew,
    and a graph and a sample that were made from the old files are set aside.
    """
    run, config = open_run(folder)
    _require_same(run, config)
    if files := edited(run, config.graph):
        if not run.untouched():
            raise _edited(run, files)
        for path in (run.anchors, run.kg, run.graph_files):
            if path.exists():
                quarantine(run.quarantine, path, f"{_names(files)} changed after this was made")
    return run, config


def _require_unchanged_files(run: RunFolder, config: RunConfig) -> None:
    if files := edited(run, config.graph):
        raise _edited(run, files)


def _require_same(run: RunFolder, config: RunConfig) -> RunConfig:
    """The configuration, whose fingerprint is the manifest's. Raises FingerprintMismatch."""
    copies = kept_prompts(run)
    prompts = run_prompts(config, copies)
    run.check(_sections(config, prompts))
    require_unchanged_plugins(run, config)
    for prompt in prompts.values() if copies else ():
        _require_unchanged(run, config, prompt)
    return config


def run_config(run: RunFolder) -> RunConfig:
    """The configuration of a run, with the entries of its own files. Raises ConfigError, FingerprintMismatch."""
    data = run.config()
    load_plugins(run, data)
    require_entries(run)
    return parse_config(data, str(run.config_file))


def kept_prompts(run: RunFolder) -> Path | None:
    """The folder in which a run keeps its prompts; None for one that `tools/upgrade_v1.py` converted."""
    return run.prompts if run.prompts.is_dir() else None


def add_pass(
    folder: Path, settings: Mapping[str, Any], prompt: Path | None = None, *, trust: bool = False
) -> tuple[RunFolder, RunConfig]:
    """Add one pass (plain data, as under `passes:`) to the end of a run; nothing that is there changes.

    `prompt` is a file that a step of the pass names, and that the run then keeps. The caller agrees to the engine
    of the pass; the run's own must have been agreed to, or is with `trust` (runs/trust.py). The same pass twice is
    the same as once. Raises InputError for another pass of that name, FingerprintMismatch, ConfigError, PromptError.
    """
    with alone(RunFolder.open(folder)):
        run, config = open_run(folder)
        passes = config.plain()["passes"]
        before = [pass_data for pass_data in passes if pass_data["name"] != settings["name"]]
        if settings["name"] not in run.manifest().sections["passes"]["values"]:
            # A process may have been killed after it wrote config.yaml, before the manifest
            config = config.changed(str(run.config_file), passes=before)
        _require_unchanged_files(run, _require_same(run, config))
        require_agreed(run, config.plain(), trust=trust)
        grown = config.changed("the new pass", passes=[*before, dict(settings)])
        same = [pass_data for pass_data in config.plain()["passes"] if pass_data["name"] == settings["name"]]
        if same and same[0] != grown.plain()["passes"][-1]:
            raise InputError(
                f"{folder}: has another pass {settings['name']!r} already", "give it another --name"
            )
        for new_prompt in run_prompts(
            grown, prompt.parent if prompt else None, only=settings["name"]
        ).values():
            _keep(run, new_prompt)
        agreed = effects({"passes": [{"name": settings["name"], "engine": settings.get("engine")}]})
        run.grow(grown.plain(), fingerprint(grown, kept_prompts(run)), agreed)
        return run, grown


def larger(config: RunConfig, size: int) -> RunConfig:
    """The configuration with a larger sample that contains the one there is.

    Raises InputError for a size that is not larger, or a kind without one.
    """
    anchors = config.plain()["anchors"]
    key = type(config.anchors).size
    if key not in anchors:
        raise InputError(f"anchors of kind {config.anchors.kind} have no {key}", "make a new run")
    if anchors[key] is None or size <= anchors[key]:
        raise InputError(f"anchors.{key} is {anchors[key]} already, not below {size}", "ask for more")
    if "grown" in anchors:
        anchors["grown"] = [*(anchors["grown"] or ()), anchors[key]]
    return config.changed("the larger sample", anchors={**anchors, key: size})


def change_dataset(folder: Path, changes: Mapping[str, Any]) -> RunConfig:
    """Change keys of the run's `dataset:` section ("split.by", or "split" with a mapping).

    Raises ConfigError when the section would be wrong; then the run keeps the old one.
    """
    with alone(RunFolder.open(folder)):
        run, config = open_run(folder)
        dataset = config.plain()["dataset"]
        for key, value in changes.items():
            *outer, last = key.removeprefix("dataset.").split(".")
            section = dataset
            for name in outer:
                section[name] = dict(section.get(name) or {})
                section = section[name]
            section[last] = value
        changed = config.changed("dataset", dataset=dataset)
        RunFolder.create(folder, changed.plain(), run.manifest().sections)
        return changed


def _as_grown(folder: Path, config: RunConfig) -> RunConfig:
    """The configuration with what `kgqa judge`, `kgqa extend` and a target added to the run in `folder`: passes behind
    its own, and a larger sample. So the user's file stays valid for the run.
    """
    run = RunFolder(folder)
    if not run.manifest_file.exists() or not run.config_file.exists() or run.untouched():
        return config
    data, recorded = config.plain(), run.config()
    added = _added_passes(data["passes"], recorded.get("passes") or [])
    sizes = _grown_size(config, run.manifest().sections["sampling"]["values"])
    if not added and not sizes:
        return config
    return config.changed(
        str(run.config_file), passes=[*data["passes"], *added], anchors={**data["anchors"], **sizes}
    )


def _added_passes(written: list[Any], recorded: list[Any]) -> list[Any]:
    """The recorded passes that stand behind those of the configuration."""
    names = [pass_data["name"] for pass_data in written]
    same = [pass_data.get("name") for pass_data in recorded[: len(written)]] == names
    return recorded[len(written) :] if same else []


def _grown_size(config: RunConfig, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded number of anchors where it is larger than the configuration's, with the sizes before it."""
    key = type(config.anchors).size
    present = getattr(config.anchors, key, None)
    if sampling.get("kind") != config.anchors.kind or present is None or (sampling.get(key) or 0) <= present:
        return {}
    return {name: sampling[name] for name in (key, "grown") if name in sampling}


def _keep(run: RunFolder, prompt: Prompt) -> None:
    """Write a prompt beside the run. Raises FingerprintMismatch when it keeps another one of that name."""
    make_folder(run.prompts)
    path = run.prompts / f"{prompt.name}.md"
    if write_file(path, prompt.text.encode(), exclusive=True):
        return
    if load_prompt(prompt.name, run.prompts).sha256 != prompt.sha256:
        raise FingerprintMismatch(f"{path}: is another prompt {prompt.name}", "give yours another name")


def _require_unchanged(run: RunFolder, config: RunConfig, copy: Prompt) -> None:
    """Raises FingerprintMismatch when the prompt's source was edited.

    One that is gone does not matter; one that is no valid prompt any more is told, and the run has its own copy.
    """
    try:
        source = load_prompt(copy.name, config.prompts.folder, config.prompts.domain)
    except PromptError as problem:
        with suppress(PromptError):  # the folder or the domain is gone too
            if copy.name in Folders.with_user(config.prompts.folder, config.prompts.domain).names():
                note(f"{problem.message}: no valid prompt any more; {run.path} goes on with its own copy")
        return
    if source.sha256 != copy.sha256:
        raise FingerprintMismatch(
            f"{run.path}: prompt {copy.name} was changed since this run was made:\n"
            f"  prompts.modules.{copy.name}: {copy.sha256} → {source.sha256}",
            f"undo the change, use another run folder, or go on with the run's own: prompts.folder: {run.prompts}",
        )


def _edited(run: RunFolder, files: list[Path]) -> FingerprintMismatch:
    if run.untouched():
        cure = f"kgqa import {run.path} reads it anew"
    else:
        cure = "for the new graph use another run folder; or give the new file another name: this run has its own graph"
    return FingerprintMismatch(f"{_names(files)} changed since {run.path} imported the graph", cure)


def _names(files: list[Path]) -> str:
    more = (
        f" and {len(files) - 3:,} more files were"
        if len(files) > 3
        else " was"
        if len(files) == 1
        else " were"
    )
    return ", ".join(map(str, files[:3])) + more


def _sections(config: RunConfig, prompts: dict[str, Prompt]) -> dict[str, dict[str, Any]]:
    drawn = [variant.anchors for variant in (config, *config.variant_configs().values())]
    files = dict.fromkeys(file for variant in drawn for file in KINDS.get(variant.kind)().files(variant))
    digests = {name: prompt.sha256 for name, prompt in prompts.items()}
    made_sections = sections.fingerprint(
        config.plain(), digests, OPERATIONAL, sections.contents(files), _pass_contents(config)
    )
    return made_sections | entries_section(config)


def _pass_contents(config: RunConfig) -> dict[str, dict[str, str]]:
    """Per pass the digests of the files that its engine and its steps read. Raises InputError."""
    digests_by_pass: dict[str, dict[str, str]] = {}
    for pass_config in config.passes:
        digests_by_pass[pass_config.name] = config.engine_of(pass_config.name).contents()
        for step in pass_config.steps:
            named = {key: Path(path) for key in step.paths if (path := getattr(step, key, None))}
            digests = {key: sections.contents([path])[path.name] for key, path in named.items()}
            digests_by_pass[pass_config.name] |= {
                f"{step.label}.{key}": digest for key, digest in digests.items()
            }
    return digests_by_pass
