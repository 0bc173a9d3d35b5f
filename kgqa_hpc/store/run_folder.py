"""A run folder: the paths of its files, and its manifest.

The folder appears complete, with config.yaml and manifest.json, or not at all. A configuration that does not
match the run is refused with every difference named. docs/reference/format.md, section 1.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError, MissingFile, OlderFormat
from kgqa_hpc.store import atomic, canonical, yaml_file
from kgqa_hpc.store.cleanup import quarantine, sweep_temps
from kgqa_hpc.store.fingerprint import (
    Manifest,
    ResultOrigin,
    Sections,
    anchors_origin,
    graph_origin,
    pass_digest,
    require_origin,
    require_same,
    write_manifest,
)
from kgqa_hpc.store.sums import COMBINED
from kgqa_hpc.text.plain_text import shell_word

CONFIGURATION = ".configuration"  # name of the lease to change the configuration; no pass can have it
_CURE = "use another run folder for the new configuration, or undo the change"


@dataclass(frozen=True)
class _Entry:
    """Descriptor: a path of the run, by its name in the folder."""

    name: str

    def __get__(self, run: RunFolder, owner: type[RunFolder]) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run (docs/reference/format.md, section 1), and methods to create, open and check it."""

    path: Path

    config_file = _Entry("config.yaml")
    manifest_file = _Entry("manifest.json")
    kg = _Entry("kg.h5")
    graph_files = _Entry("graph_files.json")
    refused = _Entry("refused.json")
    anchors = _Entry("anchors.h5")
    stats = _Entry("stats")
    prompts = _Entry("prompts")
    plugins = _Entry("plugins")
    pins = _Entry("pins")
    shards = _Entry("shards")
    shards_manifest = _Entry("shards/manifest.json")
    batches = _Entry("batches")
    quarantine = _Entry("quarantine")
    dataset = _Entry("dataset")
    report = _Entry("report")
    logs = _Entry("logs")
    status_file = _Entry("status.json")

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def shard(self, name: str) -> Path:
        return self.shards / f"{name}.h5"

    def results(self, pass_name: str) -> Path:
        """The folder of a pass's results and journals."""
        return self.path / "results" / pass_name

    def result(self, pass_name: str, shard: str) -> Path:
        return self.results(pass_name) / f"{shard}.h5"

    def leases(self, pass_name: str) -> Path:
        return self.path / "leases" / pass_name

    @classmethod
    def create(
        cls,
        path: Path,
        config: Mapping[str, Any],
        sections: Sections,
        trusted: Mapping[str, Any] | None = None,
    ) -> RunFolder:
        """Make the folder for a resolved configuration (plain data) and its fingerprint.

        `trusted` are the settings that the user agrees to (runs/trust.py); None keeps the earlier consent.
        An existing run with the same fingerprint is kept; its config.yaml takes over the settings that may
        change (runtime, dataset). Raises FingerprintMismatch; InputError if the folder has other content;
        DiskFull, StoreError with nothing left behind.
        """
        run = cls(path)
        if not (atomic.exists(run.manifest_file) or run.holds_work()):
            if run._appear(config, sections, trusted or {}):
                return run
            if not atomic.exists(run.manifest_file):  # else another process has just made the run
                cure = "choose another folder, or empty this one"
                raise InputError(f"{path}: exists and is not a run folder", cure)
        if not atomic.exists(run.manifest_file):
            run._mend(sections, trusted or {}, "the manifest is missing")
        try:
            run.check(sections)
        except CorruptFile as problem:
            run._mend(sections, trusted or {}, problem.message)
        if not atomic.exists(run.config_file) or canonical.read_bytes(run.config_file) != _yaml(config):
            atomic.write_file(run.config_file, _yaml(config))
        if trusted is not None:
            run.pin_trust(trusted)
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run.

        Raises InputError if `path` is not a run or its dataset holds a FIFO; CorruptFile, NewerFormat for its manifest.
        """
        run = cls(path)
        if not atomic.exists(run.manifest_file):
            word = shell_word(path)
            problem, cure = "no such run folder", f"make it with: kgqa init CONFIG {word}"
            if run.holds_work():
                problem = "the run is there, but its manifest.json is missing"
                cure = (
                    f"this makes it again and keeps all work: kgqa init {shell_word(run.config_file)} {word}"
                )
            elif path.is_file():
                problem = "is a file, not a run folder"
                cure = f"give the folder of a run; kgqa init {word} RUN makes one from a configuration"
            elif (path / COMBINED).is_file():
                problem, cure = "is a combined dataset, not a run", "name the runs that it was made of"
            elif path.exists():
                problem = "is not a run folder (no manifest.json)"
            raise InputError(f"{path}: {problem}", cure)
        run.manifest()
        if (odd := atomic.irregular(run.dataset)) is not None:
            raise InputError(f"{odd}: is not a regular file", "remove it")
        return run

    def _appear(self, config: Mapping[str, Any], sections: Sections, trusted: Mapping[str, Any]) -> bool:
        """Fill a temp folder and rename it to the run's path; False if that exists with content."""
        resolved = self.path.resolve()
        atomic.make_folder(resolved.parent)
        sweep_temps(resolved.parent, prefix=f".{resolved.name}.")
        temp = resolved.with_name(f".{resolved.name}.{secrets.token_hex(6)}{atomic.TEMP_SUFFIX}")
        try:
            atomic.make_folder(temp)
            atomic.write_file(temp / self.config_file.name, _yaml(config))
            write_manifest(temp / self.manifest_file.name, Manifest(sections, trusted))
            with atomic.disk_errors(self.path):
                try:
                    atomic.rename(temp, resolved)
                except OSError as problem:
                    if problem.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                        return False
                    raise
                atomic.sync_folder(resolved.parent)
                return True
        finally:
            shutil.rmtree(temp, ignore_errors=True)

    def holds_work(self) -> bool:
        """Whether the folder contains files that only a run has."""
        return any(map(atomic.exists, (self.shards_manifest, self.anchors, self.path / "results")))

    def untouched(self) -> bool:
        """Whether no worker has begun: no leases, shards, results or dataset. Graph and sample may exist."""
        if any(name != CONFIGURATION for name in atomic.names_if_there(self.path / "leases")):
            return False
        return not any(map(atomic.exists, (self.shards_manifest, self.path / "results", self.dataset)))

    def manifest(self) -> Manifest:
        """The content of manifest.json. Raises CorruptFile, NewerFormat, OlderFormat, StoreError."""
        path = self.manifest_file
        with canonical.curing("kgqa init with the run's own configuration makes it again"):
            content = canonical.read_document(path, "run")
            try:
                created, program, sections = (content[name] for name in ("created", "program", "fingerprint"))
            except KeyError as problem:
                raise CorruptFile(f"{path}: a manifest without {problem}") from None
        passes = sections.get("passes", {}).get("values", {}).values()
        if any(isinstance(step, str) for entry in passes for step in entry["steps"]):
            raise OlderFormat(f"{path}: a run of {program}, whose steps have no settings")
        trusted, earlier = content.get("trusted", {}), content.get("earlier_entries", [])
        return Manifest(sections, trusted, created, program, earlier)

    def origin(self, pass_name: str) -> ResultOrigin:
        """The origin in the headers of a pass's results. Raises KeyError for an unknown pass."""
        return ResultOrigin(pass_name, pass_digest(self.manifest().sections, pass_name))

    def config(self) -> dict[str, Any]:
        """config.yaml as plain data. Raises InputError if it is missing or cannot be read as YAML."""
        cure = "remove it, and run kgqa init with the run's configuration again"
        try:
            data = yaml_file.load_yaml(self.config_file)
        except FileNotFoundError:
            raise InputError(f"{self.config_file}: no such file", "run kgqa init again") from None
        except InputError as problem:
            raise InputError(problem.message, cure) from None
        if not isinstance(data, dict):
            raise InputError(f"{self.config_file}: is not a mapping of keys to values", cure)
        return data

    def check(self, sections: Sections) -> None:
        """Raises FingerprintMismatch, which names each key that differs from the run's fingerprint, old → new."""
        recorded = {name: section["values"] for name, section in self.manifest().sections.items()}
        expected = {name: section["values"] for name, section in sections.items()}
        cure = _CURE
        if recorded.get("entries") != expected.get("entries"):
            cure += f"; other code alone: kgqa init CONFIG {shell_word(self.path)} --accept-changed-code"
        require_same(str(self.path), recorded, expected, cure)

    def pin(self, name: str, values: Mapping[str, Any]) -> None:
        """Record permanently a fact that becomes known during the run, such as the digest of the weights.

        The first process writes pins/<name>.json; a later one with other values raises FingerprintMismatch.
        """
        path = self.pins / f"{name}.json"
        atomic.make_folder(self.pins)
        content = {"format": "kgqa-pin", "version": 1, "values": dict(values)}
        if not canonical.write_document(path, content, exclusive=True):
            with canonical.curing(
                "the results tell the values they were made with; remove it to record the present values"
            ):
                recorded = canonical.read_document(path, "pin")["values"]
            require_same(str(self.path), {name: recorded}, {name: dict(values)}, _CURE)

    def grow(
        self, config: Mapping[str, Any], sections: Sections, trusted: Mapping[str, Any] | None = None
    ) -> None:
        """Take over a configuration that only adds to this run: more anchors, or passes after its own.

        `trusted`, the settings of a pass that the caller adds, is added to the earlier consent. The manifest is
        written last, so repeating a killed call completes it. Raises FingerprintMismatch if the change would affect
        existing results.
        """
        manifest = self.manifest()
        for name in manifest.sections["passes"]["values"]:
            exists = name in sections["passes"]["values"]
            if not exists or pass_digest(sections, name) != pass_digest(manifest.sections, name):
                self.check(sections)
        agreed = {**manifest.trusted, **(trusted or {})}
        self.rewrite(replace(manifest, sections=sections, trusted=agreed), config)

    def rewrite(self, manifest: Manifest, config: Mapping[str, Any] | None = None) -> None:
        """Replace config.yaml, if given, and manifest.json, the manifest last. Raises DiskFull, StoreError."""
        if config is not None:
            atomic.write_file(self.config_file, _yaml(config))
        write_manifest(self.manifest_file, manifest)

    def pin_trust(self, trusted: Mapping[str, Any]) -> None:
        """Record the dangerous settings that the user agrees to; the manifest's owner identifies the user."""
        manifest = self.manifest()
        with atomic.disk_errors(self.manifest_file):
            is_owner = os.stat(self.manifest_file).st_uid == os.geteuid()
        if manifest.trusted != trusted or not is_owner:
            self.rewrite(replace(manifest, trusted=trusted))

    def _mend(self, sections: Sections, trusted: Mapping[str, Any], reason: str) -> None:
        """Write a damaged or deleted manifest again, if the existing files match this fingerprint."""
        from kgqa_hpc.store.sealed import read_header  # HDF5 takes a while to load, and is needed here only

        def header_of(path: Path, kind: str) -> dict[str, Any]:
            try:
                return read_header(path, kind)
            except (CorruptFile, MissingFile):
                return {}  # a damaged file: the next run moves it to quarantine

        try:
            require_origin(self.kg, header_of(self.kg, "knowledge-graph"), graph_origin(sections))
            require_origin(self.anchors, header_of(self.anchors, "anchors"), anchors_origin(sections))
            for path in sorted(self.path.glob("results/*/shard-*.h5")):
                name = path.parent.name
                if name not in sections["passes"]["values"]:
                    raise CorruptFile(
                        f"{path}: belongs to a pass {name!r}, which the configuration does not have"
                    )
                if header := header_of(path, "result"):
                    ResultOrigin(name, pass_digest(sections, name)).require(path, header)
        except CorruptFile as problem:
            location = f"{self.path} ({reason}, but {problem.message})"
            raise FingerprintMismatch(f"{location}: it was made with another configuration", _CURE) from None
        if atomic.exists(self.manifest_file):
            quarantine(self.quarantine, self.manifest_file, reason)
        write_manifest(self.manifest_file, Manifest(sections, trusted))


def _yaml(config: Mapping[str, Any]) -> bytes:
    text: str = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True)
    return text.encode("utf-8")
