"""What varies in a study: each variant is the same configuration with some keys changed.

`variants:` has one of two forms: one key with the values to compare, or names with the keys each changes.

    variants: {prompt: [p1_1, p5]}
    variants:
      graphlets: {anchors: {kind: graphlet, per_shape: 30}, prompt: p5}
      paths: {anchors: {kind: path, number: 900}, prompt: path}

A key is a setting of the first step that asks (`prompt`, `temperature`), LABEL.setting of any step, `anchors` or
anchors.KEY, prompts.KEY, `engine` or engine.KEY of the run, and PASS.engine, PASS.engine.KEY or PASS.steps. A pass has
one engine and one chain of steps, so a pass in which these vary becomes one pass for each variant, which does that
variant's items.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.registry import Registry
from kgqa_hpc.steps import STEPS

Change = dict[str, Any]  # what one variant changes: key to value
# Those of a configuration that names none.
PASSES = [{"name": "main", "steps": ["generate", "judge"]}]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NO_SETTINGS = ("use", "as", "label")
DRAWN = "anchors"  # keys below this one change what is drawn, so that variants share no anchors


def changes(variants: Mapping[str, Any]) -> dict[str, Change]:
    """What each variant changes, by its name, in the order given.

    Raises ConfigError for fewer than two variants, or names that are no names or come twice.
    """
    if variants and all(isinstance(change, Mapping) for change in variants.values()):
        where, names, found = "variants", list(variants), [dict(change) for change in variants.values()]
    else:
        if len(variants) != 1:
            raise ConfigError("variants: name one setting, with the values to compare, or what each changes")
        ((key, values),) = variants.items()
        where, names = f"variants.{key}", [_name(key, value) for value in values]
        found = [{key: value} for value in values]
    if len(names) < 2 or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise ConfigError(
            f"{where}: needs two values or more, different ones of letters, digits, _ . -; other values need names, "
            "as in variants: {NAME: {KEY: VALUE}, …}"
        )
    return dict(zip(names, found, strict=True))


def _name(key: str, value: Any) -> str:
    """A text is its own name, without the folder or organisation before it; a number has its key before it."""
    return value.rpartition("/")[2] if isinstance(value, str) else f"{key.rpartition('.')[2]}-{value}"


def share_anchors(variants: Mapping[str, Any]) -> bool:
    """Whether all variants have the same anchors, so that they can be compared anchor by anchor."""
    return not any(key.partition(".")[0] == DRAWN for change in changes(variants).values() for key in change)


def applied(plain: Mapping[str, Any], name: str, change: Change) -> dict[str, Any]:
    """The configuration of one variant, as plain data, from that of the study (`RunConfig.plain()`).

    Raises ConfigError for a key that nothing of the configuration has.
    """
    data = copy.deepcopy(dict(plain))
    alternatives = any(each["variant"] for each in plain["passes"])
    own = [each for each in data["passes"] if each["variant"] in (None, name)]
    data |= {"variants": None, "passes": [{**each, "variant": None} for each in own]}
    for key, value in change.items():
        if _pass_of(key) is None:
            _set(data, key, value)
        elif not alternatives:
            raise ConfigError(f"variants.{key}: no pass of this run is changed by that")
    return data


def _set(data: dict[str, Any], key: str, value: Any) -> None:
    head, _, rest = key.partition(".")
    if key == DRAWN:
        data[DRAWN] = value
    elif head in (DRAWN, "prompts") and rest:
        data[head] = {**data[head], rest: value}
    else:
        step = _step(data, key)
        step[rest or head] = value


def _step(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The step that has the setting: the one of that label, or the first that asks."""
    label, _, setting = key.rpartition(".")
    steps = [step for each in data["passes"] for step in each["steps"]]
    step = next((s for s in steps if (s["as"] == label if label else STEPS.get(s["use"]).answer)), None)
    known = () if step is None else STEPS.get(step["use"]).Settings.model_fields
    if step is None or setting not in known or setting in _NO_SETTINGS:
        raise ConfigError(f"variants.{key}: no step of this run has such a setting")
    found: dict[str, Any] = step
    return found


def _pass_of(key: str) -> str | None:
    """The pass whose engine or steps a key changes, empty for the run's engine; None for any other key."""
    parts = key.split(".")
    if parts[0] == "engine":
        return ""
    return parts[0] if parts[1:2] == ["engine"] or parts[1:] == ["steps"] else None


def with_alternatives(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data of a configuration, in which a pass whose engine or steps vary has become one for each variant.

    What is not in order is left as it is, for the checks to come. Raises ConfigError where such a pass
    scores: nobody could tell the variant from its judge.
    """
    variants, passes = data.get("variants"), data.get("passes", PASSES)
    try:
        found = changes(variants) if isinstance(variants, Mapping) else {}
    except ConfigError:
        return dict(data)
    whole = isinstance(passes, list) and all(isinstance(each, Mapping) for each in passes)
    if not whole or not any(_pass_of(key) is not None for change in found.values() for key in change):
        return dict(data)
    if any(each.get("variant") for each in passes):
        return dict(data)
    return {**data, "passes": [one for each in passes for one in _alternatives(each, data, found)]}


def _alternatives(each: Mapping[str, Any], data: Mapping[str, Any], found: dict[str, Change]) -> list[Any]:
    name = each.get("name")
    wanted = (name,) if each.get("engine") else (name, "")
    own = {
        variant: {key: value for key, value in change.items() if _pass_of(key) in wanted}
        for variant, change in found.items()
    }
    if not any(own.values()):
        return [each]
    if any(
        (step.get("use") if isinstance(step, Mapping) else step) == "score"
        for step in each.get("steps") or ()
    ):
        raise ConfigError(
            f"variants: pass {name} scores, and its engine or steps vary: nobody could tell writer and judge apart; "
            "put the steps that score into a pass of their own, with an `engine:` of its own"
        )
    engine = each.get("engine") or data.get("engine")
    return [
        {
            **each,
            "name": f"{name}-{variant}",
            "variant": variant,
            "steps": change.get(f"{name}.steps", each.get("steps")),
            "engine": _changed(engine, change),
        }
        for variant, change in own.items()
    ]


def _changed(engine: Any, change: Change) -> Any:
    """The engine with its keys changed; a whole engine, one with a kind, takes its place."""
    engine = copy.deepcopy(dict(engine)) if isinstance(engine, Mapping) else {}
    for parts, value in ((key.split("."), value) for key, value in change.items()):
        if "engine" not in parts:
            continue
        *folders, last = ["", *parts[parts.index("engine") + 1 :]]
        if not folders:
            engine = dict(value) if "kind" in value else {**engine, **value}
            continue
        place = engine
        for part in folders[1:]:
            place = place.setdefault(part, {})
        place[last] = value
    return engine


def with_paths(data: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Plain data of a configuration with the files that its variants name resolved against `base`."""

    def absolute(key: str, value: Any) -> Any:
        if (owner := _pass_of(key)) is not None and not key.endswith(".steps"):
            passes = [each for each in data.get("passes") or () if isinstance(each, Mapping)]
            own = next((each.get("engine") for each in passes if each.get("name") == owner), None)
            return _inside(ENGINES, key, value, own or data.get("engine"), base)
        if key.partition(".")[0] == DRAWN:
            return _inside(KINDS, key, value, {"kind": "graphlet", **(data.get(DRAWN) or {})}, base)
        return value

    variants = data.get("variants")
    if not isinstance(variants, Mapping):
        return dict(data)
    found = {
        name: {key: absolute(key, value) for key, value in one.items()}
        if isinstance(one, Mapping)
        else [absolute(name, value) for value in one]
        if isinstance(one, list)
        else one
        for name, one in variants.items()
    }
    return {**data, "variants": found}


def _inside(registry: Registry, key: str, value: Any, section: Any, base: Path) -> Any:
    """The value of a key of a section, its files resolved as they are in the whole section."""
    changed = value if isinstance(value, Mapping) else {key.rpartition(".")[2]: value}
    kind = {**(section if isinstance(section, Mapping) else {}), **changed}.get("kind")
    if not isinstance(kind, str) or kind not in registry:
        return value
    found = registry.get(kind).Settings.with_paths(changed, base)
    return found if isinstance(value, Mapping) else found[key.rpartition(".")[2]]
