"""The commands and servers that a run's configuration makes its workers use, and which users agreed to them.

`engine.command` starts a program, `call` runs a Python function, `base_url` sends prompts to a server, `api_key_env`
gives it a key. Whoever makes the run agrees: the manifest pins the values. Working on a run whose values were changed
since, or that another user made, needs `--trust-config`, which shows and pins them anew. docs/security.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kgqa_hpc.errors import InputError

KEYS = ("command", "base_url", "api_key_env", "call")


def effects(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a resolved configuration that reach beyond the run, by their key: {"engine.command":
    …}.
    """
    engines = {"engine": config.get("engine")}
    for one in config.get("passes") or ():
        engines[f"passes.{one['name']}.engine"] = one.get("engine")
    return {
        f"{place}.{key}": engine[key]
        for place, engine in engines.items()
        if isinstance(engine, Mapping)
        for key in KEYS
        if engine.get(key) not in (None, "", [])
    }


def require_trust(where: str, found: Mapping[str, Any], pinned: Mapping[str, Any], owner: int) -> None:
    """Raises InputError that shows every value, unless they are the pinned ones of a run of our own.

    `owner` is the user id of the manifest's owner; root may make runs for others.
    """
    if not found or (found == pinned and owner in (os.geteuid(), 0)):
        return
    reason = "another user made it" if found == pinned else "these are not the values it was made with"
    raise InputError(
        "\n".join([f"{where}: {reason}:", *(f"  {key}: {shown(value)}" for key, value in found.items())]),
        f"if you want this machine to do that: kgqa run {where} --trust-config",
    )


def shown(value: object) -> str:
    """On a terminal, in one line: foreign text without control characters."""
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return "".join(character if character.isprintable() else "?" for character in text)[:500]
