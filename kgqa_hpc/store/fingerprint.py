"""The identity of a run: the fingerprint of its configuration, its manifest, and the digests in its files.

The fingerprint lists, section by section, the settings that the dataset depends on. It leaves out settings
that do not change an item's result: the runtime section, the filters of merge, folders (contents count, by
digest), and engine settings that only place or speed up the work.

Each file's header names its origin, which is compared before the file counts: a file of another run may be in
the folder by mistake. A result's digest covers only the settings that determine its content (`pass_digest`),
so that more anchors or another judge can be added later. docs/reference/format.md, sections 1 and 6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgqa_hpc import __version__
from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError
from kgqa_hpc.store import atomic, canonical, cleanup
from kgqa_hpc.terminal import note

Sections = Mapping[str, Mapping[str, Any]]
MADE_BY = "made_by"
GRAPH_FILES = "graph_files"
ABSENT = "(not set)"
# Keys of the section `prompts` left out: each step names its prompts.
_NOT_COUNTED = ("folder", "generate", "judge")


def fingerprint(
    config: Mapping[str, Any],
    prompts: Mapping[str, str],
    operational: Callable[[str], Collection[str]],
    contents: Mapping[str, str] | None = None,
    pass_contents: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Sections {name: {"sha256", "values"}} of a resolved configuration (`RunConfig.plain()`).

    `prompts` gives the sha256 of each prompt by name; `operational` the settings to leave out of a
    kind of engine (engines/__init__.py); `contents` the digests of the files that anchors are read from, by name;
    `pass_contents`, per pass, the digests of the files that its engine and steps read.
    """
    passes: dict[str, Any] = {}
    for position, entry in enumerate(config["passes"]):
        engine = entry.get("engine") or config["engine"]
        left_out = operational(engine["kind"])
        digests = (pass_contents or {}).get(entry["name"])
        passes[entry["name"]] = {
            "position": position,
            "steps": [dict(step) for step in entry["steps"]],
            "engine": {key: value for key, value in engine.items() if key not in left_out},
            **({"contents": dict(digests)} if digests else {}),
            **({"variant": entry["variant"]} if entry.get("variant") else {}),
        }
    shared = {key: value for key, value in config["prompts"].items() if key not in _NOT_COUNTED}
    sections = {
        "graph": dict(config["graph"] or {}),
        "sampling": {
            "seed": config["seed"],
            **config["anchors"],
            **({"contents": contents} if contents else {}),
            **({"variants": config["variants"]} if config.get("variants") else {}),
        },
        "prompts": {**shared, "modules": dict(prompts)},
        "passes": passes,
    }
    plain = {name: _without_folders(values) for name, values in sections.items()}
    return {name: {"sha256": canonical.digest(values), "values": values} for name, values in plain.items()}


def _without_folders(value: Any) -> Any:
    """Replace absolute paths by file names, so that moving a file does not change the fingerprint."""
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    if isinstance(value, str) and value.startswith("/"):
        return value.rstrip("/").rpartition("/")[2]
    return value


def contents(paths: Collection[Path]) -> dict[str, str]:
    """The sha256 of each file by name. Raises InputError for an unreadable file."""
    digests = {}
    for path in paths:
        try:
            digests[path.name] = canonical.sha256_of(path)
        except OSError as problem:
            raise InputError(f"{path}: cannot be read: {problem.strerror}", "check the path") from None
    return digests


def content(path: Path) -> str:
    """The sha256 of a file or folder that a step reads: of a run's records, or of all files in another folder.

    Raises InputError.
    """
    if not path.is_dir():
        (digest,) = contents([path]).values()
        return digest
    folder = path / "dataset" if (path / "dataset").is_dir() else path
    records = [file for name in ("accepted", "rejected") if (file := folder / f"{name}.jsonl").is_file()]
    files = records or sorted(file for file in folder.iterdir() if file.is_file())
    return canonical.digest(contents(files))


def pass_digest(sections: Sections, pass_name: str) -> str:
    """The sha256 of the settings that determine the results of a pass, as stored in the headers of results.

    It covers graph, seed and kind of anchors, and the steps, prompts and engine of this and all earlier passes.
    It leaves out settings that may be added without changing existing results: more anchors, later passes.
    Raises KeyError for an unknown pass.
    """
    values = {name: section["values"] for name, section in sections.items()}
    passes, prompts = values["passes"], values["prompts"]
    modules, last = prompts.get("modules", {}), passes[pass_name]["position"]
    chain = sorted(passes.values(), key=lambda entry: entry["position"])[: last + 1]
    covered = {
        "graph": _set(values["graph"]),
        "seed": values["sampling"]["seed"],
        "kind": values["sampling"].get("kind"),
        "prompts": _set({key: value for key, value in prompts.items() if key != "modules"}),
        "passes": [
            {
                "steps": [
                    [step, step.get("prompt"), modules.get(step.get("prompt"))]
                    + [modules.get(name) for name in step.get("later_prompts") or ()]
                    for step in entry["steps"]
                ],
                "engine": _set(entry["engine"]),
                **({"contents": entry["contents"]} if "contents" in entry else {}),
            }
            for entry in chain
        ],
    }
    return canonical.digest(covered)


def _set(value: Any, prefix: str = "") -> dict[str, Any]:
    """The settings that are not null, by dotted key."""
    if not isinstance(value, Mapping) or not value:
        return {} if value is None else {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _set(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


def require_same(location: str, recorded: Mapping[str, Any], expected: Mapping[str, Any], cure: str) -> None:
    """Raises FingerprintMismatch that names each key that differs, old → new.

    A null setting counts as unset: a later version may add such a setting and still continue older runs.
    """
    old, new = _set(recorded), _set(expected)
    lines = [f"{location} was made with another configuration:"]
    for key in sorted(old.keys() | new.keys()):
        pair = old.get(key, ABSENT), new.get(key, ABSENT)
        if pair[0] != pair[1]:
            texts = [text if isinstance(text, str) else canonical.canonical(text).decode() for text in pair]
            lines.append(f"  {key}: {' → '.join(texts)}")
    if len(lines) > 1:
        raise FingerprintMismatch("\n".join(lines), cure)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json; by default that of a new run.

    `sections` is the fingerprint, {name: {"sha256", "values"}}; `trusted` holds the commands and servers to which the
    run's maker agreed (runs/trust.py); `earlier` the versions of entries' code before the accepted one.
    """

    sections: Sections
    trusted: Mapping[str, Any]
    created: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    program: str = f"kgqa_hpc {__version__}"
    earlier: Sequence[Mapping[str, Any]] = ()

    @property
    def digest(self) -> str:
        """The sha256 of the whole fingerprint."""
        return canonical.digest({name: section["sha256"] for name, section in self.sections.items()})


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Commit manifest.json. Raises DiskFull, StoreError."""
    content = {
        "format": "kgqa-run",
        "version": 1,
        "created": manifest.created,
        "program": manifest.program,
        "fingerprint": manifest.sections,
        "trusted": manifest.trusted,
        **({"earlier_entries": manifest.earlier} if manifest.earlier else {}),
    }
    canonical.write_document(path, content)


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """The origin of the results and journals of one pass; `made_by` is its `pass_digest`."""

    pass_name: str
    made_by: str

    def header(self, shard: str, shard_sha256: str) -> dict[str, str]:
        """Header members of a result or a journal."""
        return {MADE_BY: self.made_by, "pass": self.pass_name, "shard": shard, "shard_sha256": shard_sha256}

    def require(self, path: Path, header: Mapping[str, Any]) -> None:
        """Check a header; raises CorruptFile, with the reason, for a result of another run, pass or shard.

        `shard_sha256` may differ: another build of HDF5 packs the same anchors into other bytes.
        """
        expected = {"pass": self.pass_name, "shard": path.name.split(".")[0]}
        for key, value in expected.items():
            if header.get(key) != value:
                raise CorruptFile(f"{path}: belongs to {key} {header.get(key)!r}, not to {value!r}")
        require_origin(path, {MADE_BY: None, **header}, {MADE_BY: self.made_by})


def graph_origin(sections: Sections, files: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, str]:
    """Header members of kg.h5. `files`: the content of graph_files.json (kg/settings.py), which may be unknown."""
    digests = {name: entry["sha256"] for name, entry in (files or {}).items()}
    origin = {MADE_BY: canonical.digest(sections["graph"]["sha256"])}
    return origin | ({GRAPH_FILES: canonical.digest(digests)} if digests else {})


def anchors_origin(sections: Sections) -> dict[str, str]:
    """Header members of anchors.h5."""
    return {MADE_BY: canonical.digest([sections["graph"]["sha256"], sections["sampling"]["sha256"]])}


def require_origin(path: Path, header: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    """Raises CorruptFile if a header names another origin. A header without a digest passes."""
    reasons = {
        MADE_BY: "was made with another configuration than this run's",
        GRAPH_FILES: "was read from files of the same names as this run's, with other content",
    }
    for key, value in origin.items():
        if header.get(key, value) != value:
            raise CorruptFile(f"{path}: {reasons[key]}")


def keeps_own(folder: Path, path: Path, kind: str, origin: Mapping[str, str]) -> bool:
    """Whether `path` exists and belongs to this run; a file of another run is moved to quarantine, in `folder`.

    Raises CorruptFile when it is damaged; StoreError.
    """
    from kgqa_hpc.store.sealed import read_header  # HDF5 takes a while to load, and is needed here only

    if not atomic.exists(path):
        return False
    with canonical.curing("move it away and run the same command again: it is made anew, the same as it was"):
        header = read_header(path, kind)
    try:
        require_origin(path, header, origin)
    except CorruptFile as problem:
        cleanup.quarantine(folder, path, problem.message)
        note(f"{problem.message}; moved to {folder}")
        return False
    return True
