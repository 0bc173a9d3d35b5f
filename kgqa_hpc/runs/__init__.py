"""A run: opened with its configuration, its steps with their prompts, its anchors drawn, made larger."""

from kgqa_hpc.runs.open import (
    add_pass,
    change_dataset,
    create_run,
    fingerprint,
    kept_prompts,
    larger,
    open_for_import,
    open_for_work,
    open_run,
    run_config,
)

__all__ = [
    "add_pass",
    "change_dataset",
    "create_run",
    "fingerprint",
    "kept_prompts",
    "larger",
    "open_for_import",
    "open_for_work",
    "open_run",
    "run_config",
]
