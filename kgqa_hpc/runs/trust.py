"""Consent: the commands, servers and credentials that a run's configuration makes its workers use.

Each engine declares its `dangerous` settings (engines/engine.py): a command starts a program, an address receives
prompts, a variable holds a key. The user who creates the run agrees to them: the manifest pins the values, and its
owner is the user who agreed. A command that starts a run's engines or rewrites its manifest calls `require_agreed`
first. If the values changed since, or another user made the run, the command needs `--trust-config`, which pins the
new values. See docs/reference/security.md.
"""

import os
from collections.abc import Mapping
from typing import Any

from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.run_folder import RunFolder


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
        raise _refusal(run, "these are not the values it was made with", lines)
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
