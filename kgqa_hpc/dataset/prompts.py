"""The prompt modules of a run, copied beside its dataset: who reads a record can read what was asked.

The run keeps its modules itself (RUN/prompts); for a run that does not, of an earlier version, they are read from
where the configuration says, as far as their texts are still those that were used.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kgqa_hpc.store.run_folder import RunFolder


def write_prompts(run: RunFolder, target: Path) -> None:
    """Copy RUN/prompts to `target`; nothing for a run without."""
    kept = run.path / "prompts"
    if kept.is_dir():
        target.mkdir()
        for path in sorted(kept.rglob("*")):
            if path.is_file() and not path.is_symlink():
                copy = target / path.relative_to(kept)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
