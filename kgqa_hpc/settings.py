"""Settings of a configuration: strict pydantic models that anchor kinds, steps, engines and sources bring
along. All are `Settings`; what a kind of entry has in common is one class more.

A section such as `anchors:` names its entry (`kind: graphlet`); the entry's model says which other keys there
are. kgqa_hpc/config.py puts the sections together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.registry import Registry, did_you_mean
from kgqa_hpc.validation import Told, told

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Key = tuple[str | int, ...]


class Settings(BaseModel):
    """Base of all settings: unknown keys are refused, values do not change.

    `paths` names the keys that hold files or folders: relative ones start where the configuration lies, and
    their contents count in the fingerprint, not where they lie.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)
    paths: ClassVar[tuple[str, ...]] = ()


class KindSettings(Settings):
    """What every anchor kind is given under `anchors:`.

    `size` names the key that says how many anchors there are, for kinds whose larger samples contain the smaller.
    """

    size: ClassVar[str] = "number"
    kind: str


class StepSettings(Settings):
    """What every step is given in `passes[].steps`.

    `imitates` names the key of a benchmark's training file, for steps that write items like its own: the dataset must
    then say with `decontaminate` what it is not to hold.
    """

    imitates: ClassVar[str | None] = None
    use: str = Field(description="The step.")
    label: Name = Field(alias="as", description="Its name in this run; default: that of the step.")
    prompt: Name | None = Field(None, description="The prompt; default: the step's own.")
    # Left out where it is not set, so that runs of versions without it keep their fingerprint.
    temperature: float | None = Field(
        None,
        ge=0,
        le=2,
        exclude_if=lambda value: value is None,
        description="Of the first attempt; default: the prompt's, 0 being greedy.",
    )


class Problems:
    """Collects everything that is wrong with a configuration, one sentence with its key each."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, key: Key, text: str) -> None:
        where = ".".join(str(part) for part in key)
        self.lines.append(f"{where}: {text}" if where else text)

    def add_all(self, key: Key, model: type[BaseModel], problem: ValidationError) -> None:
        """The errors of a model that was validated at `key`."""
        for one in told(problem):
            self.add((*key, *one.place), sentence(model, one))


def section(
    registry: Registry, by: str, data: Any, key: Key, problems: Problems, default: str | None = None
) -> Any:
    """Validate plain data by the model of the entry that data[`by`] names; None after a problem."""
    if not isinstance(data, dict):
        problems.add(key, f"is a mapping with the key {by}")
        return None
    name = data.get(by, default)
    if not isinstance(name, str):
        problems.add((*key, by), f"is missing; known: {', '.join(registry.names())}")
        return None
    if name not in registry:
        problems.add((*key, by), registry.unknown(name))
        return None
    try:
        model = registry.get(name).Settings
    except ConfigError as problem:
        problems.add((*key, by), str(problem))
        return None
    try:
        return model.model_validate({**data, by: name})
    except ValidationError as problem:
        problems.add_all(key, model, problem)
        return None


def resolved(data: Any, keys: Sequence[str], base: Path) -> Any:
    """`data` with relative paths at `keys` (texts, or lists of texts) made absolute from `base`."""

    def absolute(value: Any) -> Any:
        if isinstance(value, list):
            return [absolute(one) for one in value]
        return str((base / Path(value).expanduser()).resolve()) if isinstance(value, str) else value

    if not isinstance(data, dict):
        return data
    return {key: absolute(value) if key in keys else value for key, value in data.items()}


def sentence(model: type[BaseModel], one: Told) -> str:
    """What is wrong with a `model`'s data, in our words; an unknown key with the nearest known one."""
    if one.type != "extra_forbidden":
        return one.text
    location = [part for part in one.place if isinstance(part, str)]
    return one.text + did_you_mean(location[-1], _keys(_inner(model, location[:-1])))


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _inner(model: type[BaseModel], location: list[str]) -> type[BaseModel]:
    """The model that stands at `location` in `model`; the nearest known one on the way."""
    for part in location:
        field = model.model_fields.get(part)
        for candidate in [] if field is None else _models_in(field.annotation):
            model = candidate
            break
    return model


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    from typing import get_args

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
