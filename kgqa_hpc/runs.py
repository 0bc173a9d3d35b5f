"""A run, opened: its folder with the configuration it was made with.

Looking at a run (status, explain, merge, report) needs no more than that. Working on it also asks that graph,
sampling, prompts and engines are still those of its fingerprint, which is the manifest's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.engines.config import OPERATIONAL
from kgqa_hpc.prompts.prompt import Prompt
from kgqa_hpc.steps.chain import run_prompts
from kgqa_hpc.store import config_digest as sections
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.run_folder import RunFolder


def fingerprint(config: RunConfig) -> dict[str, dict[str, Any]]:
    """The sections that must not change in a run, prompts by their sha256. Raises PromptError."""
    return _sections(config, run_prompts(config))


def create_run(folder: Path, config: RunConfig) -> RunFolder:
    """Make the folder of a run, with the text of every prompt it will use, or compare one that is there.

    Raises PromptError, FingerprintMismatch, InputError, DiskFull, StoreError.
    """
    prompts = run_prompts(config)
    run = RunFolder.create(folder, config.plain(), _sections(config, prompts))
    make_folder(run.prompts)
    for name, prompt in prompts.items():
        write_file(run.prompts / f"{name}.md", prompt.text.encode(), exclusive=True)
    return run


def open_run(folder: Path) -> tuple[RunFolder, RunConfig]:
    """The run and its configuration, for looking at it. Raises InputError when there is no run,
    ConfigError.
    """
    run = RunFolder.open(folder)
    return run, run_config(run)


def open_for_work(folder: Path) -> tuple[RunFolder, RunConfig]:
    """The same, for adding to it. Raises FingerprintMismatch naming what changed since it was made."""
    run, config = open_run(folder)
    run.check(fingerprint(config))
    return run, config


def run_config(run: RunFolder) -> RunConfig:
    """The configuration of a run. Raises ConfigError."""
    return parse_config(run.config(), str(run.config_file))


def _sections(config: RunConfig, prompts: dict[str, Prompt]) -> dict[str, dict[str, Any]]:
    files = KINDS.get(config.anchors.kind)().files(config.anchors)
    digests = {name: prompt.sha256 for name, prompt in prompts.items()}
    return sections.fingerprint(config.plain(), digests, OPERATIONAL, sections.contents(files))
