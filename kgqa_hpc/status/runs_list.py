"""The runs below a folder with their states (`kgqa ls`), and the deletable files of a run (`kgqa clean`)."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.status.snapshot import accepted_at_merge, survey
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.run_folder import RunFolder

DEEPEST = 3  # depth of the search below the given folder


def runs_below(folder: Path) -> list[dict[str, Any]]:
    """One mapping for each run: path, state, items, verdicts; `problem` for a run that cannot be read.

    Folders that this user may not enter, and those that disappear meanwhile, are left out.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder", "kgqa ls FOLDER lists the runs in it")
    return [_described(path) for path in sorted(_run_folders(folder, DEEPEST))]


def _run_folders(folder: Path, deep: int) -> Iterator[Path]:
    with suppress(PermissionError, FileNotFoundError):
        if (folder / "manifest.json").is_file() and (folder / "config.yaml").is_file():
            yield folder
        elif deep:
            for inner in folder.iterdir():
                if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                    yield from _run_folders(inner, deep - 1)


def _described(path: Path) -> dict[str, Any]:
    try:
        run, now = RunFolder.open(path), survey(path)
    except KgqaError as problem:
        return {"path": str(path), "state": "damaged", "problem": problem.message}
    states = {
        "running": now["workers"]["alive"],
        "merged": now["complete"] and (run.dataset / "accounting.json").exists(),
        "complete": now["complete"],
        "stopped": now["items"]["ended"],
        "sampled": run.anchors.exists(),
        "new": True,
    }
    merged = accepted_at_merge(run)
    return {
        "path": str(path),
        "state": next(state for state, holds in states.items() if holds),
        "items": now["items"],
        "accepted": now["verdicts"]["accepted"],
        **({} if merged is None else {"merged": merged}),
        "workers": now["workers"]["alive"],
    }


def render_runs(rows: list[dict[str, Any]], folder: Path) -> str:
    """A line for each run."""
    if not rows:
        return f"no run below {folder}"
    wide, lines = max(len(row["path"]) for row in rows), []
    for row in rows:
        progress = row.get("problem", "")
        if "problem" not in row and row["items"]["total"]:
            merged = f" · {row['merged']:,} in the dataset" if "merged" in row else ""
            ended, total = row["items"]["ended"], row["items"]["total"]
            progress = f"{ended:,} of {total:,} items · {row['accepted']:,} accepted{merged}"
        lines.append(f"{row['path']:<{wide}}  {row['state']:<9}{progress}")
    return "\n".join(lines)


def leftovers(folder: Path) -> list[dict[str, Any]]:
    """The parts of a run that may be deleted (docs/reference/format.md, section 1), with their bytes.

    Raises InputError while workers are alive, for they write there.
    """
    run = RunFolder.open(folder)
    if alive := survey(folder)["workers"]["alive"]:
        raise InputError(f"{folder}: {alive} workers are at work", "clean it when they have ended")
    parts = (run.path / "leases", run.logs, run.quarantine, run.status_file)
    documents = []
    for part in filter(Path.exists, parts):
        files = part.rglob("*") if part.is_dir() else [part]
        size = sum(file.lstat().st_size for file in files if not file.is_dir())
        documents.append({"path": str(part), "bytes": size})
    return documents


def clean(parts: list[dict[str, Any]]) -> None:
    """Delete the files that `leftovers` returned."""
    for part in parts:
        path = Path(part["path"])
        with disk_errors(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
