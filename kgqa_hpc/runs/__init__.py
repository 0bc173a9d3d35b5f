"""Operations on a run: create, open, check, build its steps, sample its anchors, extend it."""

from kgqa_hpc.runs.open import (
    add_pass,
    added_judges,
    change_dataset,
    create_run,
    fingerprint,
    kept_prompts,
    open_for_work,
    open_run,
    run_config,
)

__all__ = ["add_pass", "added_judges", "change_dataset", "create_run", "fingerprint", "kept_prompts"]
__all__ += ["open_for_work", "open_run", "run_config"]
