"""What made a file: a digest in its header, compared before the file counts.

Files of another run may lie in a folder by mistake or on purpose: the same sample answered by a cheaper
model, another seed's anchors. A result's digest covers what its content follows from (`pass_digest`), and
nothing else, so that more anchors or another judge may be added later. docs/format.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.store import atomic, canonical
from kgqa_hpc.store.config_digest import pass_digest
from kgqa_hpc.store.quarantine import quarantine

Sections = Mapping[str, Mapping[str, Any]]
MADE_BY = "made_by"


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """What the results and journals of one pass of a run are made by."""

    pass_name: str
    made_by: str

    @classmethod
    def of(cls, sections: Sections, pass_name: str) -> ResultOrigin:
        """`sections` are the run's fingerprint, from its manifest."""
        return cls(pass_name, pass_digest(sections, pass_name))

    def header(self, shard: str, shard_sha256: str) -> dict[str, str]:
        """What stands in the header of a result or a journal."""
        return {
            MADE_BY: self.made_by,
            "pass": self.pass_name,
            "shard": shard,
            "shard_sha256": shard_sha256,
        }

    def require(self, path: Path, header: Mapping[str, Any]) -> None:
        """Raises CorruptFile, with the reason, for a result of another run, pass or shard.

        `shard_sha256` may differ: another build of HDF5 packs the same anchors into other bytes.
        """
        expected = {"pass": self.pass_name, "shard": path.name.split(".")[0], MADE_BY: self.made_by}
        _require(path, header, expected)


def graph_origin(sections: Sections) -> dict[str, str]:
    """What stands in the header of kg.h5."""
    return {MADE_BY: canonical.digest(sections["graph"]["sha256"])}


def anchors_origin(sections: Sections) -> dict[str, str]:
    """What stands in the header of anchors.h5."""
    return {MADE_BY: canonical.digest([sections["graph"]["sha256"], sections["sampling"]["sha256"]])}


def require_origin(path: Path, header: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    """Raises CorruptFile for a kg.h5 or anchors.h5 of another run. A file without a digest tells nothing."""
    if MADE_BY in header:
        _require(path, header, origin)


def keeps_own(folder: Path, path: Path, kind: str, origin: Mapping[str, str]) -> bool:
    """Whether `path` is there and this run's own; another run's goes to quarantine, in `folder`.

    Raises CorruptFile when it is damaged; StoreError.
    """
    from kgqa_hpc.store.sealed import read_header  # HDF5 takes a while to load, and is needed here only

    if not atomic.exists(path):
        return False
    try:
        header = read_header(path, kind)
    except CorruptFile as problem:
        cure = "move it away and run the same command again: it is made anew, the same as it was"
        raise CorruptFile(problem.message, problem.cure or cure) from None
    try:
        require_origin(path, header, origin)
    except CorruptFile as problem:
        quarantine(folder, path, problem.message)
        return False
    return True


def _require(path: Path, header: Mapping[str, Any], expected: Mapping[str, str]) -> None:
    for key, value in expected.items():
        found = header.get(key)
        if found == value:
            continue
        if key == MADE_BY:
            raise CorruptFile(f"{path}: was made with another configuration than this run's")
        raise CorruptFile(f"{path}: belongs to {key} {found!r}, not to {value!r}")
