"""Functions that create a run, open it with its recorded configuration, and extend it.

Read-only commands (status, explain, merge, report) need only the configuration. Commands that add work also require
that graph, sampling, prompts and engines match the fingerprint in the manifest. A run keeps the text of every prompt
it uses, with all modules expanded, in RUN/prompts.
"""

from collections.abc import Collection, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.engines.registry import OPERATIONAL
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
from kgqa_hpc.runs.growth import as_grown
from kgqa_hpc.runs.trust import effects, require_agreed
from kgqa_hpc.store import fingerprint as sections
from kgqa_hpc.store.atomic import exists, make_folder, write_file
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import note


def fingerprint(config: RunConfig, prompts: Path | None = None) -> dict[str, dict[str, Any]]:
    """The sections of a run's fingerprint, which must not change; prompts are represented by their sha256.

    The folder `prompts` is searched before the configuration's. Raises PromptError.
    """
    return _sections(config, run_prompts(config, prompts))


def create_run(folder: Path, config: RunConfig, *, accept_code: bool = False) -> RunFolder:
    """Create a run folder with the text of every prompt it uses, or compare an existing folder with `config`.

    A run without answers takes over a changed configuration; an extended run keeps its added passes and larger sample.
    With `accept_code`, changed code of entries is accepted and recorded.

    Raises PromptError, FingerprintMismatch, InputError, DiskFull, StoreError.
    """
    present = exists(RunFolder(folder).manifest_file)
    with alone(RunFolder(folder)) if present else nullcontext():
        return _created(folder, config, accept_code=accept_code)


def _created(folder: Path, config: RunConfig, *, accept_code: bool) -> RunFolder:
    written = {pass_config.name for pass_config in config.passes}
    agreed = effects(config.plain())
    config = as_grown(folder, config)
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
    """Dangerous settings with consent: those `agreed` by writing the configuration, and those of passes added later.

    Raises InputError if nobody has agreed to the settings of an added pass.
    """
    added = {key: value for key, value in effects(config.plain()).items() if key not in agreed}
    if added:
        every = config.plain()["passes"]
        passes = [entry for entry in every if any(entry["name"] in key for key in added)]
        require_agreed(RunFolder.open(folder), {"passes": passes})
    return {**agreed, **added}


def _prompts(folder: Path, config: RunConfig, written: Collection[str]) -> dict[str, Prompt]:
    """The prompts of a configuration; for passes that were added to the run, the run's own copies."""
    if all(pass_config.name in written for pass_config in config.passes):
        return run_prompts(config)
    own_prompts = RunFolder(folder).prompts
    names = [name for pass_config in config.passes if (name := pass_config.name) in written]
    added = run_prompts(config, own_prompts)
    return added | {key: p for name in names for key, p in run_prompts(config, only=name).items()}


def open_run(folder: Path) -> tuple[RunFolder, RunConfig]:
    """Open a run for reading: its folder and its configuration.

    Raises InputError if there is no run, ConfigError if the configuration is invalid.
    """
    run = RunFolder.open(folder)
    return run, run_config(run)


def open_for_work(folder: Path) -> tuple[RunFolder, RunConfig]:
    """Open a run to add work: its folder and its configuration.

    Raises FingerprintMismatch, which names the changed configuration keys, prompts or graph files.
    """
    run, config = open_run(folder)
    _require_same(run, config)
    if files := edited(run, config.graph):
        raise _edited(run, files)
    return run, config


def open_for_import(folder: Path) -> tuple[RunFolder, RunConfig]:
    """Open a run to import its graph: its folder and its configuration.

    If the graph files were edited and the run has no answers yet, the imported graph and sample move to quarantine.
    Raises FingerprintMismatch if the run has answers.
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


def _require_same(run: RunFolder, config: RunConfig) -> None:
    """Raises FingerprintMismatch if the fingerprint of the configuration is not the manifest's."""
    copies = kept_prompts(run)
    prompts = run_prompts(config, copies)
    _require_whole_growth(run, config)
    run.check(_sections(config, prompts))
    require_unchanged_plugins(run, config)
    for prompt in prompts.values() if copies else ():
        _require_unchanged(run, config, prompt)


def _require_whole_growth(run: RunFolder, config: RunConfig) -> None:
    """Raises FingerprintMismatch if a growth of the run was stopped after config.yaml and before the manifest."""
    sections = run.manifest().sections
    new = [entry for entry in config.passes if entry.name not in sections["passes"]["values"]]
    added = [entry for entry in new if [step.use for step in entry.steps] == ["judge"]]
    size = type(config.anchors).size
    before, after = sections["sampling"]["values"].get(size), getattr(config.anchors, size, None)
    if added:
        name, prompt = added[0].name, added[0].steps[0].prompt
        command, growth = f"kgqa judge {run.path} --prompt {prompt} --name {name}", f"pass {name} was added"
    elif before is not None and after is not None and after > before:
        command, growth = (
            f"kgqa extend {run.path} --{size.replace('_', '-')} {after}",
            f"{size} grew to {after:,}",
        )
    else:
        return
    raise FingerprintMismatch(
        f"{run.config_file}: {growth}, but the command that did it was stopped",
        f"repeat it with its other options: {command}",
    )


def run_config(run: RunFolder) -> RunConfig:
    """Load the plugin files of a run and return its configuration. Raises ConfigError, FingerprintMismatch."""
    data = run.config()
    load_plugins(run, data)
    require_entries(run)
    return parse_config(data, str(run.config_file))


def kept_prompts(run: RunFolder) -> Path | None:
    """The folder with a run's copies of its prompts; None for a run converted by `tools/upgrade_v1.py`."""
    return run.prompts if run.prompts.is_dir() else None


def add_pass(
    folder: Path, settings: Mapping[str, Any], prompt: Path | None = None, *, trust: bool = False
) -> tuple[RunFolder, RunConfig]:
    """Add one pass (plain data, as under `passes:`) to the end of a run; existing passes stay unchanged.

    `prompt` is the prompt file of a step of the pass; the run keeps a copy. The call is consent to the engine of the
    pass; the run's other engines need earlier consent, or `trust` (runs/trust.py). Adding the same pass again changes
    nothing. Raises InputError for a different pass of that name, FingerprintMismatch, ConfigError, PromptError.
    """
    with alone(RunFolder.open(folder)):
        run, config = open_run(folder)
        passes = config.plain()["passes"]
        before = [pass_data for pass_data in passes if pass_data["name"] != settings["name"]]
        if settings["name"] not in run.manifest().sections["passes"]["values"]:
            # A process may have been killed between its writing of config.yaml and of the manifest.
            config = config.changed(str(run.config_file), passes=before)
        _require_same(run, config)
        if files := edited(run, config.graph):
            raise _edited(run, files)
        require_agreed(run, config.plain(), trust=trust)
        present = [entry for entry in config.passes if entry.name != settings["name"]]
        labels = {step.label for entry in present for step in entry.steps}
        if repeated := labels & {step.get("as") for step in settings["steps"]}:
            raise InputError(
                f"{folder}: has a step {min(repeated)!r} already", "give the new judge another --name"
            )
        grown = config.changed("the new pass", passes=[*before, dict(settings)])
        same = [pass_data for pass_data in config.plain()["passes"] if pass_data["name"] == settings["name"]]
        if same and same[0] != grown.plain()["passes"][-1]:
            raise InputError(
                f"{folder}: has another pass {settings['name']!r} already", "give it another --name"
            )
        prompts = run_prompts(grown, prompt.parent if prompt else None, only=settings["name"])
        for new_prompt in prompts.values():
            _keep(run, new_prompt)
        agreed = effects({"passes": [{"name": settings["name"], "engine": settings.get("engine")}]})
        run.grow(grown.plain(), fingerprint(grown, kept_prompts(run)), agreed)
        return run, grown


def larger(config: RunConfig, size: int) -> RunConfig:
    """The configuration with a larger sample, which will contain the present one.

    Raises InputError for a size that is not larger, or a kind without a size.
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
        changed = config.changed("dataset", dataset=dataset)
        RunFolder.create(folder, changed.plain(), run.manifest().sections)
        return changed


def _keep(run: RunFolder, prompt: Prompt) -> None:
    """Copy a prompt into the run. Raises FingerprintMismatch if the run has a different prompt of that name."""
    make_folder(run.prompts)
    path = run.prompts / f"{prompt.name}.md"
    if write_file(path, prompt.text.encode(), exclusive=True):
        return
    if load_prompt(prompt.name, run.prompts).sha256 != prompt.sha256:
        raise FingerprintMismatch(f"{path}: is another prompt {prompt.name}", "give yours another name")


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


def _edited(run: RunFolder, files: list[Path]) -> FingerprintMismatch:
    if run.untouched():
        cure = f"kgqa import {run.path} reads it anew"
    else:
        cure = "for the new graph use another run folder; or give the new file another name: this run has its own graph"
    return FingerprintMismatch(f"{_names(files)} changed since {run.path} imported the graph", cure)


def _names(files: list[Path]) -> str:
    verb = "was" if len(files) == 1 else "were"
    more = f" and {len(files) - 3:,} more files" if len(files) > 3 else ""
    return f"{', '.join(map(str, files[:3]))}{more} {verb}"


def _sections(config: RunConfig, prompts: dict[str, Prompt]) -> dict[str, dict[str, Any]]:
    drawn = [variant.anchors for variant in (config, *config.variant_configs().values())]
    files = dict.fromkeys(file for variant in drawn for file in KINDS.get(variant.kind)().files(variant))
    digests = {name: prompt.sha256 for name, prompt in prompts.items()}
    made_sections = sections.fingerprint(
        config.plain(), digests, OPERATIONAL, sections.contents(files), _pass_contents(config)
    )
    return made_sections | entries_section(config)


def _pass_contents(config: RunConfig) -> dict[str, dict[str, str]]:
    """Digests of the files that a pass's engine and steps read, by pass name. Raises InputError."""
    digests_by_pass: dict[str, dict[str, str]] = {}
    for pass_config in config.passes:
        digests_by_pass[pass_config.name] = config.engine_of(pass_config.name).contents()
        for step in pass_config.steps:
            for key, path in ((key, Path(path)) for key in step.paths if (path := getattr(step, key, None))):
                digest = sections.contents([path])[path.name]
                digests_by_pass[pass_config.name][f"{step.label}.{key}"] = digest
    return digests_by_pass
