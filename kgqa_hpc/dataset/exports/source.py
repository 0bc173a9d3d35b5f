"""Input of the exports: the accepted records of a run's dataset, by part of the split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.dataset.where import EVERY, Where
from kgqa_hpc.dataset.whole import read_accounting_file, read_records, require_whole
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs.trust import load_run_plugins
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.replace_folder import replaced_folder, settle
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.streams import read_bytes

if TYPE_CHECKING:
    from kgqa_hpc.dataset.exports.items import Reasoning

TRAIN = "train"
THINKING = "thinking"  # member of a record with its reasoning; no column has this name
Line = dict[str, Any]


COMBINED = "combined.json"


@dataclass(frozen=True)
class CombinedFolder(RunFolder):
    """The folder of `kgqa combine`, whose dataset is read like that of a run."""

    @property
    def dataset(self) -> Path:  # type: ignore[override]
        """The folder with the dataset's files, for a combined dataset the folder itself."""
        return self.path


def open_folder(path: Path) -> RunFolder:
    """A run, or a combined dataset. Raises InputError when `path` is neither."""
    return CombinedFolder(path) if (path / COMBINED).is_file() else RunFolder.open(path)


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A merged run or a combined dataset.

    `splits` are the names of its parts, train alone without a split; `where`: the condition on its records;
    `reasoning`: gives each record the member THINKING.
    """

    run: RunFolder
    splits: tuple[str, ...]
    where: Where = EVERY
    reasoning: Reasoning | None = None

    @property
    def digest(self) -> str:
        """The run's fingerprint; of a combined dataset the sha256 of its combined.json."""
        if isinstance(self.run, CombinedFolder):
            return sha256_of(self.run.path / COMBINED)
        return self.run.manifest().digest

    @property
    def accepted(self) -> Path:
        """The file of the accepted records."""
        return self.run.dataset / "accepted.jsonl"

    def records(self, split: str | None = None) -> Iterator[dict[str, Any]]:
        """Accepted records in their order, of one part or of all. Raises CorruptFile for a damaged file."""
        holds = self.where.selector(self.run.dataset, "accepted")
        for record in read_records(self.run.dataset, "accepted"):
            if (split is None or record.get("split", TRAIN) == split) and holds(record):
                if self.reasoning is not None:
                    record[THINKING] = self.reasoning.of(record)
                yield record


def export(
    run: RunFolder, format: str, out: Path, where: Where = EVERY, *, reasoning: bool = False
) -> list[Path]:
    """Write the records of a run that match `where` into the folder `out`, which is replaced as a whole.

    With `reasoning` the formats of training programs put it before the answer, between <think> and </think>.

    Returns the files. Raises ConfigError for an unknown format, InputError without a dataset or a requested
    column, or if `out` exists and is not an export.
    """
    load_run_plugins(run)
    writer = EXPORTS.get(format)()
    if isinstance(run, CombinedFolder) and getattr(writer, "needs_results", False):
        raise InputError(
            f"{run.path}: a combined dataset has no raw answers, which {format} holds", "export its runs"
        )
    source = replace(open_source(run), where=where)
    where.selector(run.dataset, "accepted")  # raises for a wrong condition before anything is written
    if reasoning and format not in WITH_REASONING:
        raise InputError(
            f"--with reasoning: {format} has no room for it", f"one of {', '.join(WITH_REASONING)}"
        )
    if reasoning and isinstance(run, CombinedFolder):
        raise InputError(f"{run.path}: a combined dataset has no thoughts", "export each run by itself")
    refuse_foreign(out)
    with replaced_folder(out) as folder:
        (folder / MARK).write_text(f"{format}\n", encoding="utf-8")
        if reasoning:
            from kgqa_hpc.dataset.exports.items import Reasoning

            source = replace(source, reasoning=Reasoning(run, folder))
        with EXPORTS.calling(format):
            writer.write(source, folder)
    return sorted(path for path in out.rglob("*") if path.is_file() and path.name != MARK)


WITH_REASONING = ("messages", "alpaca", "sharegpt")
MARK = ".kgqa-export"  # a folder with this file may be replaced by the next export


def refuse_foreign(out: Path) -> None:
    """Raises InputError if `out` has content that neither an export nor `kgqa publish` wrote."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise InputError(f"{out}: holds something that no export wrote", "name a new folder")


def open_source(run: RunFolder) -> ExportSource:
    """The merged dataset of a run. Raises InputError when there is none."""
    parts = read_accounting(run).get("splits", {}).get("parts", {})
    return ExportSource(run, tuple(parts) or (TRAIN,))


def read_accounting(run: RunFolder) -> dict[str, Any]:
    """The content of accounting.json of a merged run; the counts of combined.json in its form, without groups.

    Raises InputError when there is no dataset.
    """
    if isinstance(run, CombinedFolder):
        require_whole(run.path, COMBINED)
        counts = orjson.loads(read_bytes(run.path / COMBINED))
        return {"accepted": counts["accepted"], "rejected": {"rejected": counts["rejected"]}, "groups": {}}
    settle(run.dataset)
    counts = run.dataset / "accounting.json"
    if not counts.exists():
        raise InputError(f"{run.path}: there is no dataset yet", f"first: kgqa merge {run.path}")
    return read_accounting_file(run.dataset)


def write_lines(source: ExportSource, folder: Path, line: Callable[[dict[str, Any]], Line | None]) -> None:
    """One SPLIT.jsonl for each part, one `line(record)` per record; None leaves the record out."""
    for split in source.splits:
        with (folder / f"{split}.jsonl").open("wb") as file:
            lines = filter(None, map(line, source.records(split)))
            file.writelines(orjson.dumps(content) + b"\n" for content in lines)
