"""Open a run folder only with the configuration and the prompts it was made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.engines.config import OPERATIONAL
from kgqa_hpc.steps.chain import step_prompt
from kgqa_hpc.store import config_digest as sections
from kgqa_hpc.store.run_folder import RunFolder


def fingerprint(config: RunConfig) -> dict[str, dict[str, Any]]:
    """The sections that must not change in a run, prompts by their sha256. Raises PromptError."""
    steps = [step for each in config.passes for step in each.steps]
    prompts = [step_prompt(config.prompts, step) for step in steps]
    digests = {prompt.name: prompt.sha256 for prompt in prompts}
    return sections.fingerprint(config.model_dump(mode="json"), digests, OPERATIONAL)


def open_run(folder: Path) -> tuple[RunFolder, RunConfig]:
    """The run and its configuration, checked against its manifest.

    Raises InputError when there is no run, FingerprintMismatch naming what changed since it was made.
    """
    run = RunFolder.open(folder)
    config = parse_config(run.config(), str(run.config_file))
    run.check(fingerprint(config))
    return run, config
