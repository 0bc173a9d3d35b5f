"""Starting configurations that come with the package: `kgqa init --example NAME FILE`."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.folders import shipped_prompts
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.store.atomic import write_file


def examples() -> dict[str, Path]:
    """All of them by name: configs/examples, and those of configs/ that are used as they stand."""
    configs = shipped_prompts().parent / "configs"
    found = {path.stem: path for folder in (configs, configs / "examples") for path in folder.glob("*.yaml")}
    return dict(sorted(found.items()))


def write_example(name: str, file: Path) -> None:
    """Write the example to `file`. Raises InputError for an unknown name, or a file that is there already."""
    known = examples()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InputError(f"no example {name!r}{hint}", f"there are {', '.join(known)}")
    if not write_file(file, known[name].read_bytes(), exclusive=True):
        raise InputError(f"{file}: is there already", "give another name; nothing was written")
