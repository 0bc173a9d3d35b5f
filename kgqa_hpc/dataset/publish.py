"""`kgqa export` and `kgqa publish`: the records of a dataset in another format, and a folder ready for upload.

Nothing is uploaded. A publication comes with a list of missing information.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kgqa_hpc.dataset.card import HUB_LICENCES, licence_fields
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.dataset.exports.items import Reasoning
from kgqa_hpc.dataset.facts import UNKNOWN_LICENCE, Facts, gather_facts
from kgqa_hpc.dataset.files import CombinedFolder, open_source, read_accounting
from kgqa_hpc.errors import InputError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.runs.trust import load_run_plugins
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sums import damaged, read_sums, require_whole, write_sums
from kgqa_hpc.text.plain_text import shell_word

WITH_REASONING = ("messages", "alpaca", "sharegpt")
MARK = ".kgqa-export"  # a folder with this file may be replaced by the next export


def export(run: RunFolder, format: str, out: Path, where: str = "", *, reasoning: bool = False) -> list[Path]:
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
    source = open_source(run, where)
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
            source = replace(source, reasoning=Reasoning(run, folder).of)
        with EXPORTS.calling(format):
            writer.write(source, folder)
    return sorted(path for path in out.rglob("*") if path.is_file() and path.name != MARK)


def refuse_foreign(out: Path) -> None:
    """Raises InputError if `out` has content that neither an export nor `kgqa publish` wrote."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise InputError(f"{out}: contains files that no export wrote", "name a new folder")


@dataclass(frozen=True, slots=True)
class Published:
    """The written folder, its files, the missing information, and the command that uploads it."""

    folder: str
    files: list[str]
    missing: list[str]
    upload: str

    def __str__(self) -> str:
        missing = [f"missing  {path}" for path in self.missing] or ["nothing is missing"]
        return "\n".join([f"{self.folder}: {len(self.files)} files", *missing, f"upload   {self.upload}"])


def publish(run: RunFolder, folder: Path, formats: Sequence[str] = ()) -> Published:
    """Copy the verified dataset, write the requested exports, the report's copy and checksums of all.

    Raises InputError without a dataset of a run, or when `folder` holds something else; CorruptFile when a file of
    the dataset is not what merge wrote; ConfigError for an unknown format.
    """
    if isinstance(run, CombinedFolder):
        raise InputError(f"{run.path}: a combined dataset is ready for upload as it is", _upload(run.path))
    source = open_source(run)
    load_run_plugins(run)
    writers = [EXPORTS.get(name)() for name in formats]
    refuse_foreign(folder)
    names = list(read_sums(run.dataset))  # only the files in SHA256SUMS are published
    dataset = run.dataset.resolve()
    for name in names:
        if (dataset / name).resolve() != dataset / name:  # the path or a link leads out of the folder
            raise damaged(run.dataset / name)
    require_whole(run.dataset, *names)
    with replaced_folder(folder) as growing:
        for name in names:
            (growing / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.dataset / name, growing / name)
        for writer in writers:
            target = growing / "exports" / writer.name
            target.mkdir(parents=True)
            with EXPORTS.calling(writer.name):
                writer.write(source, target)
        if (run.report / "index.html").is_file():
            shutil.copyfile(run.report / "index.html", growing / "report.html")
        write_sums(growing, {})
        (growing / MARK).write_text("publish\n", encoding="utf-8")
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != MARK)
    files = sorted(path.relative_to(folder).as_posix() for path in paths)
    return Published(str(folder), files, _missing(run, gather_facts(run)), _upload(folder))


def _upload(folder: Path) -> str:
    return f"hf upload --repo-type dataset OWNER/NAME {shell_word(folder)} ."


def _missing(run: RunFolder, facts: Facts) -> list[str]:
    """Information that a published dataset should have and this run does not, each with its configuration key."""
    counts = read_accounting(run)
    unnamed = licence_fields(facts.licence, facts.licence_url).keys() == {"license", "license_name"}
    hint = did_you_mean(facts.licence.lower(), HUB_LICENCES)
    shards = f"{counts['missing_shards']:,} of {counts['shards']:,} shards: kgqa run {shell_word(run.path)}"
    named = f"an identifier or a link of the licence {facts.licence!r}{hint}: dataset.licence"
    absent = {
        "a licence: dataset.licence": facts.licence == UNKNOWN_LICENCE,
        named: unnamed,
        "how to cite it: dataset.citation": not facts.citation,
        "whom to ask: dataset.contact": not facts.contact,
        shards: counts["partial"],
        "a split into train and test: dataset.split": not counts.get("splits"),
        f"the report: kgqa report {shell_word(run.path)}": not (run.report / "index.html").is_file(),
    }
    return [sentence for sentence, missing in absent.items() if missing]
