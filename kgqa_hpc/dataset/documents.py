"""The files of a dataset beside its records: accounting, table by group, prompts, card, Croissant, checksums."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson

from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.card import DataFile, render_card
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.croissant import croissant
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.dataset.group_table import group_table, table_name
from kgqa_hpc.dataset.whole import write_sums
from kgqa_hpc.store.canonical import pretty, sha256_of
from kgqa_hpc.store.run_folder import RunFolder


def write_documents(
    folder: Path,
    run: RunFolder,
    facts: Facts,
    accounting: Accounting,
    columns: Columns,
    parts: tuple[str, ...],
) -> None:
    """Write these files into the folder of the records; `parts` are the parts of the split."""
    (folder / "accounting.json").write_bytes(pretty(accounting.to_dict()))
    (folder / table_name(facts)).write_text(group_table(facts, accounting), encoding="utf-8")
    _copy_prompts(run, folder / "prompts")
    sums = {
        path.relative_to(folder).as_posix(): sha256_of(path) for path in folder.rglob("*") if path.is_file()
    }
    all_columns = columns.all(split=bool(parts))
    files = data_files(folder, parts, accounting)
    (folder / "croissant.json").write_bytes(pretty(croissant(folder, facts, all_columns, files, sums)))
    card = render_card(facts, accounting, all_columns, files, sums, first_record(folder / "accepted.jsonl"))
    (folder / "README.md").write_text(card, encoding="utf-8")
    write_sums(folder, sums)


def data_files(folder: Path, parts: tuple[str, ...], accounting: object) -> list[DataFile]:
    """The Parquet parts by configuration and split."""
    stems = {("accepted", part): f"accepted-{part}" for part in parts} or {("accepted", "train"): "accepted"}
    stems[("rejected", "train")] = "rejected"
    return [
        DataFile(
            config,
            split,
            tuple(sorted(path.name for path in folder.glob(f"{stem}-?????-of-*.parquet"))),
            folder,
        )
        for (config, split), stem in stems.items()
    ]


def first_record(path: Path) -> dict[str, object] | None:
    """The first accepted record, if there is one."""
    with path.open("rb") as file:
        line = file.readline()
    return orjson.loads(line) if line else None


def _copy_prompts(run: RunFolder, target: Path) -> None:
    """Copy RUN/prompts to `target`, so that a reader of a record finds its prompts."""
    prompts = run.prompts
    if prompts.is_dir():
        target.mkdir()
        for path in sorted(prompts.rglob("*")):
            if path.is_file() and not path.is_symlink():
                copy = target / path.relative_to(prompts)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
