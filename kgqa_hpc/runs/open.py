"""Functions that create a run, open it with its recorded configuration, and change that configuration.

Read-only commands (status, explain, merge, report) need only the configuration. Commands that add work also require
that graph, sampling, prompts and engines match the fingerprint in the manifest. A run keeps the text of every prompt
it uses, with all modules expanded, in RUN/prompts.
"""

import math
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.config.sections import DatasetConfig
from kgqa_hpc.engines import operational
from kgqa_hpc.errors import FingerprintMismatch, InputError, PromptError, StoppedEarly
from kgqa_hpc.kg.settings import edited, graph_files, recorded
from kgqa_hpc.prompts.files import Folders
from kgqa_hpc.prompts.prompt import Prompt, load_prompt
from kgqa_hpc.runs.chain import run_prompts
from kgqa_hpc.runs.trust import (
    effects,
    entries_section,
    load_plugins,
    only_entries_differ,
    require_agreed,
    require_entries,
    require_unchanged_plugins,
)
from kgqa_hpc.store import fingerprint as sections_of
from kgqa_hpc.store.atomic import exists, make_folder, write_file
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.fingerprint import Manifest
from kgqa_hpc.store.lease import Heartbeat, Leases
from kgqa_hpc.store.run_folder import CONFIGURATION, RunFolder
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import shell_word

EXPIRY = 20.0  # seconds without a heartbeat after which the lock of a dead process is free
PATIENCE = 2.0  # seconds of waiting for a lock before the user gets a note


@contextmanager
def alone(
    run: RunFolder,
    role: str = CONFIGURATION,
    expiry: float = EXPIRY,
    stopped: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Lock of a run: one process at a time changes its configuration, or decides about its target; the others wait.

    Two processes that write config.yaml, anchors and manifest at once would leave an unusable run.
    `stopped(seconds)` waits and returns whether this process must stop; then StoppedEarly is raised.
    """
    leases = Leases(run.leases(role), f"{socket.gethostname()}-{os.getpid()}", expiry)
    heartbeat = Heartbeat(expiry)
    name, pause, waited = role.strip("."), 0.2, 0.0
    try:
        while (lease := leases.claim(name)) is None:
            if stopped(pause):
                raise StoppedEarly("stopped early; everything finished is saved")
            if waited < PATIENCE <= waited + pause and (holder := leases.holder(name)):
                note(f"{holder.worker} is changing the {name} of {run.path}; waiting until it has ended")
            waited, pause = waited + pause, min(1.5 * pause, 15.0)
        heartbeat.start()
        heartbeat.keep(lease)
        try:
            yield
        finally:
            heartbeat.stop()
            lease.release()
    finally:
        leases.clock.close()


def fingerprint(
    config: RunConfig, folder: Path | None = None, prompts: Mapping[str, Prompt] | None = None
) -> dict[str, dict[str, Any]]:
    """The sections of a run's fingerprint; prompts and files that the run reads are represented by their sha256.

    Without `prompts`, they are loaded; `folder` is searched before the configuration's. Raises PromptError, InputError.
    """
    prompts = run_prompts(config, folder) if prompts is None else prompts
    drawn = [variant.anchors for variant in (config, *config.variant_configs().values())]
    files = dict.fromkeys(file for variant in drawn for file in KINDS.get(variant.kind)().files(variant))
    pass_contents = {entry.name: config.engine_of(entry.name).contents() for entry in config.passes}
    for entry in config.passes:
        for step in entry.steps:
            for key in (key for key in step.paths if getattr(step, key, None)):
                pass_contents[entry.name][f"{step.label}.{key}"] = sections_of.content(
                    Path(getattr(step, key))
                )
    digests = {name: prompt.sha256 for name, prompt in prompts.items()}
    sections = sections_of.fingerprint(
        config.plain(), digests, operational, sections_of.contents(files), pass_contents
    )
    return sections | entries_section(config)


def create_run(folder: Path, config: RunConfig, *, accept_code: bool = False) -> RunFolder:
    """Create a run folder with the text of every prompt it uses, or compare an existing folder with `config`.

    A run without answers takes over a changed configuration; an extended run keeps its added passes and larger sample.
    With `accept_code`, changed code of entries is accepted and recorded.

    Raises PromptError, FingerprintMismatch, InputError, DiskFull, StoreError.
    """
    run = RunFolder(folder)
    with alone(run) if exists(run.manifest_file) else nullcontext():
        written = {entry.name for entry in config.passes}
        config = _as_grown(run, config)
        added = [entry for entry in config.plain()["passes"] if entry["name"] not in written]
        prompts = run_prompts(config, only=written)
        if added:  # passes added later have their prompts in the run, and need earlier consent
            require_agreed(run, {"passes": added})
            prompts = run_prompts(config, run.prompts, {entry["name"] for entry in added}) | prompts
        sections, trusted = fingerprint(config, prompts=prompts), effects(config.plain())
        try:
            run = RunFolder.create(folder, config.plain(), sections, trusted)
        except FingerprintMismatch:
            if accept_code and only_entries_differ(run, sections):
                manifest = run.manifest()
                earlier = [*manifest.earlier, manifest.sections.get("entries", {}).get("values", {})]
                run.rewrite(replace(manifest, sections=sections, earlier=earlier))
            elif run.untouched():
                # Graph and sample of the old configuration move to quarantine when they are made again.
                shutil.rmtree(run.prompts, ignore_errors=True)
                run.rewrite(Manifest(sections, trusted), config.plain())
            else:
                raise
        for path in map(Path, config.plugins):
            make_folder(run.plugins)
            write_file(run.plugins / path.name, path.read_bytes())
        _keep_prompts(run, prompts)
        return run


def added_judges(folder: Path) -> set[str]:
    """Labels of the judges that the recorded passes of an existing run have; empty for a new or untouched run."""
    passes = _recorded(RunFolder(folder)).get("passes") or ()
    steps = [step for pass_data in passes for step in pass_data.get("steps") or ()]
    return {step["as"] for step in steps if step.get("use") == "judge"}


def _recorded(run: RunFolder) -> dict[str, Any]:
    """The recorded configuration of a run with work; empty for a new or untouched run."""
    if not exists(run.manifest_file) or not exists(run.config_file) or run.untouched():
        return {}
    return run.config()


def _as_grown(run: RunFolder, config: RunConfig) -> RunConfig:
    """The configuration plus the passes and the larger sample that `kgqa judge`, `kgqa extend` or a target added.

    With these additions the user's file stays valid. In a run that was never extended, a smaller number is a change.
    """
    from kgqa_hpc.store.sealed import read_header

    if not (recorded := _recorded(run)):
        return config
    written, passes = config.plain()["passes"], recorded.get("passes") or []
    same = [entry.get("name") for entry in passes[: len(written)]] == [entry["name"] for entry in written]
    added = passes[len(written) :] if same else []
    key, sampling = type(config.anchors).size, run.manifest().sections["sampling"]["values"]
    present = getattr(config.anchors, key, None)
    larger = sampling.get("kind") == config.anchors.kind and (sampling.get(key) or 0) > (present or math.inf)
    grown = larger and exists(run.anchors) and "grown" in read_header(run.anchors, "anchors")
    sizes = {name: sampling[name] for name in (key, "grown") if grown and name in sampling}
    if not added and not sizes:
        return config
    anchors = config.plain()["anchors"] | sizes
    return config.changed(str(run.config_file), passes=[*written, *added], anchors=anchors)


def open_run(folder: Path) -> tuple[RunFolder, RunConfig]:
    """Open a run for reading: its folder and its configuration.

    Raises InputError if there is no run, ConfigError if the configuration is invalid.
    """
    run = RunFolder.open(folder)
    return run, run_config(run)


def run_config(run: RunFolder) -> RunConfig:
    """Load the plugin files of a run and return its configuration. Raises ConfigError, FingerprintMismatch."""
    data = run.config()
    load_plugins(run, data)
    require_entries(run)
    return parse_config(data, str(run.config_file))


def open_for_work(folder: Path, *, import_again: bool = False) -> tuple[RunFolder, RunConfig]:
    """Open a run to add work: its folder and its configuration.

    With `import_again`, graph and sample of a run without answers move to quarantine if the graph files were edited.
    Raises FingerprintMismatch, which names the changed configuration keys, prompts or graph files.
    """
    run, config = open_run(folder)
    _require_same(run, config, import_again=import_again)
    return run, config


def kept_prompts(run: RunFolder) -> Path | None:
    """The folder with a run's copies of its prompts; None for a run converted by `tools/upgrade_v1.py`."""
    return run.prompts if run.prompts.is_dir() else None


def _require_same(run: RunFolder, config: RunConfig, *, import_again: bool = False) -> None:
    """Raises FingerprintMismatch if settings, prompts, code or graph files differ from those of the manifest."""
    copies = kept_prompts(run)
    prompts = run_prompts(config, copies)
    _require_whole_growth(run, config)
    run.check(fingerprint(config, prompts=prompts))
    require_unchanged_plugins(run, config)
    for prompt in prompts.values() if copies else ():
        _require_unchanged(run, config, prompt)
    files = [] if config.graph is None else list(edited(graph_files(config.graph), recorded(run)))
    if not files:
        return
    more = f" and {len(files) - 3:,} more files" if len(files) > 3 else ""
    names = f"{', '.join(map(str, files[:3]))}{more} {'was' if len(files) == 1 else 'were'} changed"
    if import_again and run.untouched():
        for path in filter(Path.exists, (run.anchors, run.kg, run.graph_files)):
            quarantine(run.quarantine, path, f"{names} after this was made")
        return
    cure = f"kgqa import {shell_word(run.path)} reads it anew"
    if not run.untouched():
        cure = "for the new graph use another run folder; or give the new file another name: this run has its own graph"
    raise FingerprintMismatch(f"{names} since {run.path} imported the graph", cure)


def _require_whole_growth(run: RunFolder, config: RunConfig) -> None:
    """Raises FingerprintMismatch if a growth of the run was stopped after config.yaml and before the manifest."""
    sections, size = run.manifest().sections, type(config.anchors).size
    before, after = sections["sampling"]["values"].get(size), getattr(config.anchors, size, None)
    for entry in config.passes:
        if entry.name not in sections["passes"]["values"] and [s.use for s in entry.steps] == ["judge"]:
            prompt = shell_word(entry.steps[0].prompt)
            command = f"kgqa judge {shell_word(run.path)} --prompt {prompt} --name {entry.name}"
            growth = f"pass {entry.name} was added"
            break
    else:
        if before is None or after is None or after <= before:
            return
        command = f"kgqa extend {shell_word(run.path)} --{size.replace('_', '-')} {after}"
        growth = f"{size} grew to {after:,}"
    raise FingerprintMismatch(
        f"{run.config_file}: {growth}, but the command that did it was stopped",
        f"repeat it with its other options: {command}",
    )


def _require_unchanged(run: RunFolder, config: RunConfig, copy: Prompt) -> None:
    """Raises FingerprintMismatch if the source of the run's prompt `copy` was edited.

    A deleted source is accepted. A source that is now invalid causes a note, and the run uses its own copy.
    """
    try:
        source = load_prompt(copy.name, config.prompts.folder, config.prompts.domain)
    except PromptError as problem:
        with suppress(PromptError):  # the folder or the domain was deleted too
            if copy.name in Folders.with_user(config.prompts.folder, config.prompts.domain).names():
                note(f"{problem.message}: no valid prompt any more; {run.path} goes on with its own copy")
        return
    if source.sha256 != copy.sha256:
        raise FingerprintMismatch(
            f"{run.path}: prompt {copy.name} was changed since this run was made:\n"
            f"  prompts.modules.{copy.name}: {copy.sha256} → {source.sha256}",
            f"undo the change, use another run folder, or go on with the run's own: prompts.folder: {run.prompts}",
        )


def _keep_prompts(run: RunFolder, prompts: Mapping[str, Prompt]) -> None:
    """Copy prompts into the run. Raises FingerprintMismatch if the run has a different prompt of that name."""
    for name, prompt in prompts.items():
        make_folder(run.prompts)
        path = run.prompts / f"{name}.md"
        written = write_file(path, prompt.text.encode(), exclusive=True)
        if not written and load_prompt(name, run.prompts).sha256 != prompt.sha256:
            raise FingerprintMismatch(f"{path}: is another prompt {name}", "give yours another name")


def add_pass(
    folder: Path, settings: Mapping[str, Any], prompt: Path | None = None, *, trust: bool = False
) -> tuple[RunFolder, RunConfig]:
    """Add one pass (plain data, as under `passes:`) to the end of a run; existing passes stay unchanged.

    `prompt` is the prompt file of a step of the pass; the run keeps a copy. The call is consent to the engine of the
    pass; the run's other engines need earlier consent, or `trust` (runs/trust.py). Adding the same pass again changes
    nothing; a pass without answers, such as of a wrong model, is replaced. Raises InputError for a different pass of
    that name, FingerprintMismatch, ConfigError, PromptError.
    """
    with alone(RunFolder.open(folder)):
        run, config = open_run(folder)
        name, passes = settings["name"], config.plain()["passes"]
        before = [pass_data for pass_data in passes if pass_data["name"] != name]
        if name not in run.manifest().sections["passes"]["values"]:
            # A process may have been killed between its writing of config.yaml and of the manifest.
            config, passes = config.changed(str(run.config_file), passes=before), before
        _require_same(run, config)
        require_agreed(run, config.plain(), trust=trust)
        refusal = InputError(f"{folder}: has another pass {name!r} already", "give it another --name")
        if name == passes[0]["name"]:  # the first pass writes the questions and cannot be replaced
            raise refusal
        labels = {step.label for entry in config.passes if entry.name != name for step in entry.steps}
        if repeated := labels & {step.get("as") for step in settings["steps"]}:
            raise InputError(
                f"{folder}: has a step {min(repeated)!r} already", "give the new judge another --name"
            )
        grown = config.changed("the new pass", passes=[*before, dict(settings)])
        if len(passes) > len(before) and grown.plain()["passes"][-1] not in passes:
            if any(run.results(name).glob("*")):
                raise refusal
            # Change only the manifest: if the process is killed here, the same call completes the growth.
            shorter = config.changed(str(run.config_file), passes=before)
            run.rewrite(replace(run.manifest(), sections=fingerprint(shorter, kept_prompts(run))))
        _keep_prompts(run, run_prompts(grown, prompt.parent if prompt else None, {name}))
        agreed = effects({"passes": grown.plain()["passes"][-1:]})
        run.grow(grown.plain(), fingerprint(grown, kept_prompts(run)), agreed)
        return run, grown


def change_dataset(folder: Path, changes: Mapping[str, Any]) -> RunConfig:
    """Change keys of the run's `dataset:` section ("split.by", or "split" with a mapping).

    Raises ConfigError if the changed section is invalid; then the run keeps the old one.
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
        changed = config.changed("dataset", dataset=DatasetConfig.with_paths(dataset, Path.cwd()))
        RunFolder.create(folder, changed.plain(), run.manifest().sections)
        return changed
