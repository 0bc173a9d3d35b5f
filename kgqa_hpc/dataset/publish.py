"""`kgqa publish`: a folder ready for upload, and a list of missing information. Nothing is uploaded."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.card import HUB_LICENCES, licence_fields
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.dataset.exports.source import MARK, open_source, read_accounting, refuse_foreign
from kgqa_hpc.dataset.facts import UNKNOWN_LICENCE, Facts, gather_facts
from kgqa_hpc.dataset.whole import damaged, read_sums, write_sums
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.runs.trust import load_run_plugins
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder


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

    Raises InputError without a dataset, or when `folder` holds something else; CorruptFile when a file of
    the dataset is not what merge wrote; ConfigError for an unknown format.
    """
    source = open_source(run)
    load_run_plugins(run)
    writers = [EXPORTS.get(name)() for name in formats]
    refuse_foreign(folder)
    names = _verified(run.dataset)
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
    upload = f"hf upload --repo-type dataset OWNER/NAME {folder} ."
    return Published(str(folder), files, _missing(run, gather_facts(run, __version__)), upload)


def _verified(dataset: Path) -> list[str]:
    """Names of the files that merge wrote, after their checksums were verified; other files are not included."""
    sums = read_sums(dataset)
    for name, digest in sums.items():
        path = dataset / name
        if path.resolve() != dataset.resolve() / name or not path.is_file() or sha256_of(path) != digest:
            raise damaged(path)
    return list(sums)


def _missing(run: RunFolder, facts: Facts) -> list[str]:
    """Information that a published dataset should have and this run does not, each with its configuration key."""
    counts = read_accounting(run)
    missing = []
    if facts.licence == UNKNOWN_LICENCE:
        missing.append("a licence: dataset.licence")
    elif licence_fields(facts.licence, facts.licence_url).keys() == {"license", "license_name"}:
        hint = did_you_mean(facts.licence.lower(), HUB_LICENCES)
        missing.append(f"an identifier or a link of the licence {facts.licence!r}{hint}: dataset.licence")
    if not facts.citation:
        missing.append("how to cite it: dataset.citation")
    if not facts.contact:
        missing.append("whom to ask: dataset.contact")
    if counts["partial"]:
        missing.append(f"{counts['missing_shards']:,} of {counts['shards']:,} shards: kgqa run {run.path}")
    if not counts.get("splits"):
        missing.append("a split into train and test: dataset.split")
    if not (run.report / "index.html").is_file():
        missing.append(f"the report: kgqa report {run.path}")
    return missing
