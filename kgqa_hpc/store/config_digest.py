"""The fingerprint of a run: what its dataset depends on, section by section.

Left out is what may change between two starts without changing what an item becomes: the runtime section,
what merge keeps, folders in which things lie (contents count, by digest), and the settings of engines that
only place or speed up the work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import FingerprintMismatch, InputError
from kgqa_hpc.store import canonical

ABSENT = "(not set)"
_SHORT_FORMS = ("generate", "judge")  # of prompts; the steps name the prompts they use


def fingerprint(
    config: Mapping[str, Any],
    prompts: Mapping[str, str],
    operational: Mapping[str, Collection[str]],
    contents: Mapping[str, str] | None = None,
    pass_contents: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Sections {name: {"sha256", "values"}} of a resolved configuration (`RunConfig.plain()`).

    `prompts` gives the sha256 of each prompt by name; `operational`, per kind of engine, the settings to
    leave out (engines/config.py); `contents` the digests of the files that anchors are read from, by name;
    `pass_contents`, per pass, those of the files that its engine and steps read.
    """
    shared = {key: value for key, value in config["prompts"].items() if key not in ("folder", *_SHORT_FORMS)}
    sections = {
        "graph": dict(config["graph"] or {}),
        "sampling": {
            "seed": config["seed"],
            **config["anchors"],
            **({"contents": contents} if contents else {}),
            **({"variants": config["variants"]} if config.get("variants") else {}),
        },
        "prompts": {**shared, "modules": dict(prompts)},
        "passes": _passes(config, operational, pass_contents or {}),
    }
    plain = {name: _without_folders(values) for name, values in sections.items()}
    return {name: {"sha256": canonical.digest(values), "values": values} for name, values in plain.items()}


def contents(paths: Collection[Path]) -> dict[str, str]:
    """The sha256 of each file by name. Raises InputError for one that cannot be read."""
    return {path.name: _file_digest(path) for path in paths}


def _file_digest(path: Path) -> str:
    try:
        return canonical.sha256_of(path)
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}", "check the path") from None


def digest(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """One sha256 for all sections; journals and results carry it."""
    return canonical.digest({name: section["sha256"] for name, section in sections.items()})


def pass_digest(sections: Mapping[str, Mapping[str, Any]], pass_name: str) -> str:
    """One sha256 for what a pass's results follow from; they carry it.

    Covered are graph, seed and kind of anchors, and the steps, prompts and engine of this pass and of those
    before it. Left out is what may be added to a run without changing what is there: more anchors, later
    passes.
    `sections` as `fingerprint` gives them. Raises KeyError for an unknown pass.
    """
    values = {name: section["values"] for name, section in sections.items()}
    passes, prompts = values["passes"], values["prompts"]
    last = passes[pass_name]["position"]
    chain = sorted(
        (each for each in passes.values() if each["position"] <= last), key=lambda p: p["position"]
    )
    modules = prompts.get("modules", {})
    covered = {
        "graph": _set(values["graph"]),
        "seed": values["sampling"]["seed"],
        "kind": values["sampling"].get("kind"),
        "prompts": _set({key: v for key, v in prompts.items() if key != "modules"}),
        "passes": [
            {
                "steps": [
                    [step, step.get("prompt"), modules.get(step.get("prompt"))] for step in each["steps"]
                ],
                "engine": _set(each["engine"]),
                **({"contents": each["contents"]} if "contents" in each else {}),
            }
            for each in chain
        ],
    }
    return canonical.digest(covered)


def require_same(where: str, recorded: Mapping[str, Any], wanted: Mapping[str, Any], cure: str) -> None:
    """Raises FingerprintMismatch that names each key that differs, old → new.

    A setting that is null is one that is not set: a later version may add such a setting, and goes on with
    runs that were made before.
    """
    old, new = _set(recorded), _set(wanted)
    changed = [
        f"  {key}: {_show(old.get(key, ABSENT))} → {_show(new.get(key, ABSENT))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, ABSENT) != new.get(key, ABSENT)
    ]
    if changed:
        raise FingerprintMismatch(
            "\n".join([f"{where} was made with another configuration:", *changed]), cure
        )


def _passes(
    config: Mapping[str, Any],
    operational: Mapping[str, Collection[str]],
    contents: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    passes: dict[str, Any] = {}
    for position, one in enumerate(config["passes"]):
        engine = one.get("engine") or config["engine"]
        left_out = operational.get(engine["kind"], ())
        passes[one["name"]] = {
            "position": position,
            "steps": [dict(step) for step in one["steps"]],
            "engine": {key: value for key, value in engine.items() if key not in left_out},
            **({"contents": dict(found)} if (found := contents.get(one["name"])) else {}),
            **({"variant": one["variant"]} if one.get("variant") else {}),
        }
    return passes


def _without_folders(value: Any) -> Any:
    """Absolute paths become file names: the same files count as the same wherever they lie."""
    if isinstance(value, dict):
        return {key: _without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_folders(inner) for inner in value]
    if isinstance(value, str) and value.startswith("/"):
        return value.rstrip("/").rpartition("/")[2]
    return value


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value:
        flat: dict[str, Any] = {}
        for key, inner in value.items():
            flat |= _flat(inner, f"{prefix}.{key}" if prefix else str(key))
        return flat
    return {prefix: value}


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in _flat(values).items() if value is not None}


def _show(value: Any) -> str:
    return str(value) if isinstance(value, str) else canonical.canonical(value).decode()
