"""manifest.json: what a run is, and what its maker lets it do. docs/format.md, section 1."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc import __version__
from kgqa_hpc.errors import CorruptFile, OlderFormat
from kgqa_hpc.store.config_digest import digest
from kgqa_hpc.store.document import read_document, write_document

KIND = "run"
Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """manifest.json: `sections` is the fingerprint, {name: {"sha256", "values"}}, `trusted` what the run's
    maker lets it do beyond the run (runs/trust.py).
    """

    created: str
    program: str
    sections: dict[str, dict[str, Any]]
    trusted: dict[str, Any]

    @property
    def digest(self) -> str:
        """One sha256 for the whole fingerprint."""
        return digest(self.sections)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": f"kgqa-{KIND}",
            "version": 1,
            "created": self.created,
            "program": self.program,
            "fingerprint": self.sections,
            "trusted": self.trusted,
        }


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Commit manifest.json. Raises DiskFull, StoreError."""
    write_document(path, manifest.to_dict())


def read_manifest(path: Path) -> Manifest:
    """Raises CorruptFile, NewerFormat, or StoreError when it is missing."""
    cure = "kgqa init with the run's own configuration makes it again"
    try:
        content = read_document(path, KIND)
        trusted = content.get("trusted", {})
        manifest = Manifest(content["created"], content["program"], content["fingerprint"], trusted)
    except KeyError as problem:
        raise CorruptFile(f"{path}: a manifest without {problem}", cure) from None
    except CorruptFile as problem:
        raise CorruptFile(problem.message, cure) from None
    passes = manifest.sections.get("passes", {}).get("values", {}).values()
    if any(isinstance(step, str) for each in passes for step in each["steps"]):
        raise OlderFormat(f"{path}: a run of {manifest.program}, whose steps have no settings")
    return manifest


def new_manifest(sections: Sections, trusted: Mapping[str, Any]) -> Manifest:
    """The manifest of a run that is made now by this process."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    plain = {name: dict(section) for name, section in sections.items()}
    return Manifest(created, f"kgqa_hpc {__version__}", plain, dict(trusted))
