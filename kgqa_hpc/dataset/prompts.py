"""The prompt modules of a run, copied beside its dataset: who reads a record can read what was asked."""

from __future__ import annotations

import shutil
from pathlib import Path

from kgqa_hpc.store.run_folder import RunFolder


def write_prompts(run: RunFolder, target: Path) -> None:
    """Copy RUN/prompts to `target`; nothing for a run of version 1, which kept none."""
    kept = run.prompts
    if kept.is_dir():
        target.mkdir()
        for path in sorted(kept.rglob("*")):
            if path.is_file() and not path.is_symlink():
                copy = target / path.relative_to(kept)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
