"""Trust in a run: consent to the commands, servers and credentials of its configuration, and its third-party code.

Each engine declares its `dangerous` settings (engines/engine.py): a command starts a program, an address receives
prompts, a variable holds a key. The user who creates the run agrees to them: the manifest pins the values, and its
owner is the user who agreed. A command that starts a run's engines or rewrites its manifest calls `require_agreed`
first. If the values changed since, or another user made the run, the command needs `--trust-config`, which pins the
new values. See docs/reference/security.md.

The fingerprint's section `entries` holds package, version and source digest of each entry of another package and of
each file of `plugins:`, so a run refuses changed code until a user accepts it. Files of `plugins:` are copied into
RUN/plugins, and the run uses its copies.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.errors import ConfigError, FingerprintMismatch, InputError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import LOADED_DIGESTS, REGISTRIES, Registry, file_digest, load_plugin_file
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.fingerprint import Sections, require_same
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.plain_text import shell_word


def effects(config: Mapping[str, Any]) -> dict[str, Any]:
    """The dangerous settings of a resolved configuration, by key: {"engine.command": …}."""
    engines = {"engine": config.get("engine")}
    for pass_data in config.get("passes") or ():
        engines[f"passes.{pass_data['name']}.engine"] = pass_data.get("engine")
    dangerous: dict[str, Any] = {}
    for name, engine in engines.items():
        kind = engine.get("kind") if isinstance(engine, Mapping) else None
        if isinstance(engine, Mapping) and isinstance(kind, str) and kind in ENGINES:
            keys = sorted(ENGINES.get(kind).Settings.dangerous)
            dangerous |= {f"{name}.{k}": engine[k] for k in keys if engine.get(k) not in (None, "", [])}
    return dangerous


def require_agreed(run: RunFolder, config: Mapping[str, Any], *, trust: bool = False) -> dict[str, Any]:
    """The dangerous settings of a configuration, checked for consent before they are used.

    Raises InputError, which shows every value, if they differ from the pinned values or another user pinned them.
    `trust` is consent of the calling user. Runs made by root are accepted.
    """
    dangerous = effects(config)
    if trust:
        run.pin_trust(dangerous)
        return dangerous
    lines = [f"{key}: {shown(value)}" for key, value in dangerous.items()]
    if any(run.manifest().trusted.get(key) != value for key, value in dangerous.items()):
        raise _refusal(run, "these are not the values that the run was made with", lines)
    if dangerous:
        require_own(run, *lines)
    return dangerous


def require_own(run: RunFolder, *lines: str, trust: bool = False) -> None:
    """Raises InputError if another user made the run; `lines` describe the access in the message."""
    with disk_errors(run.manifest_file):
        owner = os.stat(run.manifest_file).st_uid
    if not trust and owner not in (os.geteuid(), 0):
        raise _refusal(run, "another user made it", [shown(line) for line in lines])


def _refusal(run: RunFolder, reason: str, lines: list[str]) -> InputError:
    return InputError(
        "\n  ".join([f"{run.path}: {reason}:", *lines]),
        "if you want this machine to do that: repeat the command with --trust-config",
    )


def shown(value: object) -> str:
    """A value as one line of at most 500 printable characters, for messages with text of other users."""
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)[:500]


SECTION = "entries"


def entries_section(config: RunConfig) -> dict[str, dict[str, Any]]:
    """The section `entries` of the fingerprint; empty for a run that uses only shipped entries."""
    used: set[tuple[Registry, str]] = set()
    for variant in (config, *config.variant_configs().values()):
        used.add((KINDS, variant.anchors.kind))
        if variant.graph is not None:
            used.add((SOURCES, variant.graph.source))
        for entry in variant.passes:
            used.add((ENGINES, variant.engine_of(entry.name).kind))
            used |= {(STEPS, step.use) for step in entry.steps}
    identities = {f"{registry.group}.{name}": registry.identity(name) for registry, name in used}
    values: dict[str, Any] = {key: identity for key, identity in sorted(identities.items()) if identity}
    values |= {Path(path).name: {"source": LOADED_DIGESTS[Path(path).name]} for path in config.plugins}
    return {SECTION: {"sha256": canonical.digest(values), "values": values}} if values else {}


def _values(sections: Sections) -> dict[str, Any]:
    """The identity of each entry, by its key."""
    values: dict[str, Any] = sections.get(SECTION, {}).get("values", {})
    return values


def texts_of(run: RunFolder) -> dict[str, str]:
    """Readable package, version and source digest of each recorded entry, including those before accepted changes."""

    def text(identity: Mapping[str, str]) -> str:
        words = (identity.get("package"), identity.get("version"), f"source sha256 {identity['source'][:16]}")
        return " ".join(filter(None, words))

    manifest = run.manifest()
    texts = {key: text(identity) for key, identity in _values(manifest.sections).items()}
    for key in texts:
        before = [text(earlier[key]) for earlier in manifest.earlier if key in earlier]
        texts[key] += f"; parts of the run were made with {', '.join(before)}" if before else ""
    return texts


def load_plugins(run: RunFolder, config: Mapping[str, Any]) -> None:
    """Load the run's copies of the files of `plugins:`.

    Raises InputError for a run of another user, FingerprintMismatch for a copy whose digest differs from the manifest.
    """
    recorded = _values(run.manifest().sections)
    for name in (Path(path).name for path in config.get("plugins") or ()):
        path = run.plugins / name
        try:
            require_own(run, f"plugins: {name} is a program that would run here")
        except InputError as problem:
            raise InputError(
                problem.message, f"read it, then copy the run: cp -r {shell_word(run.path)} MINE"
            ) from None
        if file_digest(path) != recorded.get(name, {}).get("source"):
            raise FingerprintMismatch(
                f"{path}: was changed since this run was made", "put the file back that was there"
            )
        load_plugin_file(path)


def load_run_plugins(run: RunFolder) -> None:
    """Load the run's plugin files, for a command that does not parse the configuration.

    Combined datasets have no configuration; then nothing is loaded.
    """
    if run.config_file.exists():
        load_plugins(run, run.config())


def require_unchanged_plugins(run: RunFolder, config: RunConfig) -> None:
    """Raises FingerprintMismatch if an original file of `plugins:` was edited; a deleted file is accepted."""
    for path in map(Path, config.plugins):
        if path.exists() and file_digest(path) != file_digest(run.plugins / path.name):
            raise FingerprintMismatch(f"{path} was changed since {run.path} was made", _cure(run))


def require_same_code(run: RunFolder, config: RunConfig) -> None:
    """Raises FingerprintMismatch if the package, version or source of an entry differs from the run's record."""
    recorded, present = _values(run.manifest().sections), _values(entries_section(config))
    require_same(str(run.path), {SECTION: recorded}, {SECTION: present}, _cure(run))


def _cure(run: RunFolder) -> str:
    return f"undo the change, use another run folder, or: kgqa init CONFIG {shell_word(run.path)} --accept-changed-code"


def require_entries(run: RunFolder) -> None:
    """Raises ConfigError if a package that provides an entry of the run is not installed here."""
    missing: dict[str, list[str]] = {}
    for key, identity in _values(run.manifest().sections).items():
        group, _, name = key.partition(".")
        if "package" in identity and group in REGISTRIES and name not in REGISTRIES[group]:
            package = f"{identity['package']}=={identity['version']}"
            missing.setdefault(package, []).append(f"{REGISTRIES[group].what} {name}")
    lines = [f"{run.path}: {', '.join(names)}: {package}" for package, names in missing.items()]
    if lines:
        text = "\n".join(f"{line} is not installed here" for line in lines)
        raise ConfigError(text, f"pip install {' '.join(missing)}")


def only_entries_differ(run: RunFolder, sections: Sections) -> bool:
    """Whether the code of entries is the only difference from the run's fingerprint."""
    before = run.manifest().sections
    names = {*before, *sections} - {SECTION}
    same = all(before.get(name, {}).get("values") == sections.get(name, {}).get("values") for name in names)
    return same and before.get(SECTION) != sections.get(SECTION)
