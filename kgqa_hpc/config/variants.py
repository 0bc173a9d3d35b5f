"""Plain configurations before their check: defaults of the steps, and variants of a study.

Variants are copies of one configuration with some keys changed.

`variants:` has one of two forms: one key with the values to compare, or variant names with their changed keys.

    variants: {prompt: [p1_1, p5]}
    variants:
      graphlets: {anchors: {kind: graphlet, per_shape: 30}, prompt: p5}
      paths: {anchors: {kind: path, number: 900}, prompt: path}

Possible keys: a setting of the first step that asks an engine (`prompt`, `temperature`), LABEL.setting of any step,
`anchors` or anchors.KEY, prompts.KEY, `engine` or engine.KEY of the run, and PASS.engine, PASS.engine.KEY or
PASS.steps. A pass has one engine and one chain of steps. If these vary, the pass becomes one pass per variant, which
processes only the items of its variant.
"""

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config.sections import PromptConfig
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import section
from kgqa_hpc.steps import STEPS

Change = dict[str, Any]  # the changed keys of one variant, with their new values
# The passes of a configuration without the key `passes`.
PASSES = [{"name": "main", "steps": ["generate", "judge"]}]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NO_SETTINGS = ("use", "as", "label")
DRAWN = "anchors"  # keys of this section change the sampling, so variants with such changes share no anchors


def changes(variants: Mapping[str, Any]) -> dict[str, Change]:
    """The changed keys of each variant by variant name, in the order of the configuration.

    Raises ConfigError for fewer than two variants, and for malformed or repeated names.
    """
    if variants and all(isinstance(change, Mapping) for change in variants.values()):
        key_path, names, combined = "variants", list(variants), [dict(change) for change in variants.values()]
    else:
        if len(variants) != 1:
            raise ConfigError("variants: name one setting, with the values to compare, or what each changes")
        ((key, values),) = variants.items()
        # A variant's name is the last part of a text ("model" for "org/model"), or KEY-NUMBER for a number.
        key_path, last = f"variants.{key}", key.rpartition(".")[2]
        names = [v.rpartition("/")[2] if isinstance(v, str) else f"{last}-{v}" for v in values]
        combined = [{key: value} for value in values]
    if len(names) < 2 or len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
        raise ConfigError(
            f"{key_path}: needs two values or more, different ones of letters, digits, _ . -; other values need names, "
            "as in variants: {NAME: {KEY: VALUE}, …}"
        )
    return dict(zip(names, combined, strict=True))


def share_anchors(variants: Mapping[str, Any]) -> bool:
    """Whether all variants use the same anchors, which allows paired comparisons."""
    return not any(key.partition(".")[0] == DRAWN for change in changes(variants).values() for key in change)


def applied(plain: Mapping[str, Any], name: str, change: Change) -> dict[str, Any]:
    """Plain configuration of one variant, made from the study's (`RunConfig.plain()`).

    Raises ConfigError for a key that does not exist in the configuration.
    """
    data = copy.deepcopy(dict(plain))
    alternatives = any(pass_data["variant"] for pass_data in plain["passes"])
    passes = [pass_data for pass_data in data["passes"] if pass_data["variant"] in (None, name)]
    data |= {"variants": None, "passes": [{**pass_data, "variant": None} for pass_data in passes]}
    for key, value in change.items():
        head, _, tail = key.partition(".")
        if _pass_of(key) is not None:
            if not alternatives:
                raise ConfigError(f"variants.{key}: no pass of this run is changed by that")
        elif key == DRAWN:
            data[DRAWN] = value
        elif head in (DRAWN, "prompts") and tail:
            data[head] = {**data[head], tail: value}
        else:
            _step(data, key)[tail or head] = value
    return data


def _step(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The step with the setting `key` (LABEL.setting, or a setting of the first step that asks an engine)."""
    label, _, setting = key.rpartition(".")
    steps = [step for pass_data in data["passes"] for step in pass_data["steps"]]
    step = next((s for s in steps if (s["as"] == label if label else STEPS.get(s["use"]).answer)), None)
    fields = () if step is None else STEPS.get(step["use"]).Settings.model_fields
    if step is None or setting not in fields or setting in _NO_SETTINGS:
        raise ConfigError(f"variants.{key}: no step of this run has such a setting")
    return step


def _pass_of(key: str) -> str | None:
    """Name of the pass whose engine or steps a key changes; "" for the run's engine, None for any other key."""
    parts = key.split(".")
    if parts[0] == "engine":
        return ""
    return parts[0] if parts[1:2] == ["engine"] or parts[1:] == ["steps"] else None


def with_alternatives(data: Mapping[str, Any]) -> dict[str, Any]:
    """Plain configuration in which each pass with varying engine or steps is replaced by one pass per variant.

    Malformed data stays unchanged, because later checks report it. Raises ConfigError if such a pass contains a
    score step: effects of the writer and of the judge could not be distinguished.
    """
    variants, passes = data.get("variants"), data.get("passes", PASSES)
    try:
        alternatives = changes(variants) if isinstance(variants, Mapping) else {}
    except ConfigError:
        return dict(data)
    whole = isinstance(passes, list) and all(isinstance(pass_data, Mapping) for pass_data in passes)
    if not whole or not any(_pass_of(key) is not None for change in alternatives.values() for key in change):
        return dict(data)
    if any(pass_data.get("variant") for pass_data in passes):
        return dict(data)
    by_variant = [part for pass_data in passes for part in _alternatives(pass_data, data, alternatives)]
    return {**data, "passes": by_variant}


def _alternatives(
    pass_data: Mapping[str, Any], data: Mapping[str, Any], changed: dict[str, Change]
) -> list[Any]:
    name = pass_data.get("name")
    prefixes = (name,) if pass_data.get("engine") else (name, "")
    matching = {
        variant: {key: value for key, value in change.items() if _pass_of(key) in prefixes}
        for variant, change in changed.items()
    }
    if not any(matching.values()):
        return [pass_data]
    if any(
        (step.get("use") if isinstance(step, Mapping) else step) == "score"
        for step in pass_data.get("steps") or ()
    ):
        raise ConfigError(
            f"variants: pass {name} scores, and its engine or steps vary: nobody could tell writer and judge apart; "
            "put the steps that score into a pass of their own, with an `engine:` of its own"
        )
    engine = pass_data.get("engine") or data.get("engine")
    return [
        {
            **pass_data,
            "name": f"{name}-{variant}",
            "variant": variant,
            "steps": change.get(f"{name}.steps", pass_data.get("steps")),
            "engine": _changed(engine, change),
        }
        for variant, change in matching.items()
    ]


def _changed(engine: Any, change: Change) -> Any:
    """The engine with its keys changed; an engine section with `kind` replaces it whole."""
    engine = copy.deepcopy(dict(engine)) if isinstance(engine, Mapping) else {}
    for parts, value in ((key.split("."), value) for key, value in change.items()):
        if "engine" not in parts:
            continue
        *folders, last = ["", *parts[parts.index("engine") + 1 :]]
        if not folders:
            engine = dict(value) if "kind" in value else {**engine, **value}
            continue
        target = engine
        for part in folders[1:]:
            target = target.setdefault(part, {})
        target[last] = value
    return engine


def with_paths(data: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Plain configuration with the relative paths in its variants resolved against `base`."""

    def absolute(key: str, value: Any) -> Any:
        if (owner := _pass_of(key)) is not None and not key.endswith(".steps"):
            passes = [pass_data for pass_data in data.get("passes") or () if isinstance(pass_data, Mapping)]
            own_engines = (part.get("engine") for part in passes if part.get("name") == owner)
            return _inside(ENGINES, key, value, next(own_engines, None) or data.get("engine"), base)
        if key.partition(".")[0] == DRAWN:
            return _inside(KINDS, key, value, {"kind": "graphlet", **(data.get(DRAWN) or {})}, base)
        return value

    variants = data.get("variants")
    if not isinstance(variants, Mapping):
        return dict(data)
    resolved = {
        name: {key: absolute(key, value) for key, value in variant.items()}
        if isinstance(variant, Mapping)
        else [absolute(name, value) for value in variant]
        if isinstance(variant, list)
        else variant
        for name, variant in variants.items()
    }
    return {**data, "variants": resolved}


def _inside(registry: Registry, key: str, value: Any, section: Any, base: Path) -> Any:
    """The value of one key of a section, with its relative paths resolved against `base`."""
    changed = value if isinstance(value, Mapping) else {key.rpartition(".")[2]: value}
    kind = {**(section if isinstance(section, Mapping) else {}), **changed}.get("kind")
    if not isinstance(kind, str) or kind not in registry:
        return value
    inner = registry.get(kind).Settings.with_paths(changed, base)
    return inner if isinstance(value, Mapping) else inner[key.rpartition(".")[2]]


def with_step_defaults(data: dict[str, Any]) -> Any:
    """The passes of plain data, in which each step is a mapping with a label and a prompt.

    The default prompt is that of the section `prompts:` (`prompts: {judge: …}`), or the step's own. Malformed parts
    stay unchanged; the models refuse them later.
    """
    passes, prompts = data.get("passes", PASSES), data.get("prompts")

    def step(entry: Any) -> Any:
        entry = {"use": entry} if isinstance(entry, str) else entry
        use = entry.get("use") if isinstance(entry, dict) else None
        if not isinstance(use, str) or use not in STEPS:
            return entry
        named = prompts.get(use) if isinstance(prompts, dict) and use in PromptConfig.model_fields else None
        prompt = named if isinstance(named, str) else STEPS.get(use).default_prompt
        return {"as": use, "prompt": prompt, **entry}

    if not isinstance(passes, list):
        return passes
    return [
        {**entry, "steps": [step(part) for part in entry["steps"]]}
        if isinstance(entry, dict) and isinstance(entry.get("steps"), list)
        else entry
        for entry in passes
    ]


def asks(passes: Any) -> bool:
    """Whether any valid step of plain passes asks an engine."""
    for entry in passes if isinstance(passes, list) else [None]:
        steps = entry.get("steps") if isinstance(entry, dict) else None
        for plain in steps if isinstance(steps, list) else [None]:
            try:
                settings = section(STEPS, "use", plain)
            except ValidationError:
                continue
            if STEPS.get(settings.use).asks_with(settings):
                return True
    return False
