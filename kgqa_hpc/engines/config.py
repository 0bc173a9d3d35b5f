"""Settings of the engine that a mapping under `engine:` names, from this or another package.

`EngineConfig` is the type of such a field in a pydantic model: it validates through the registry, and its
errors keep their place (`engine.kind`, `engine.faults.crash`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from kgqa_hpc.engines.engine import EngineSettings
from kgqa_hpc.engines.registry import ENGINES
from kgqa_hpc.settings import Problem, problems_of, sentence

# Keys of a prompt's front matter that users tend to write under `engine`.
OF_PROMPTS = frozenset(["temperature", "max_tokens", "top_p", "top_k", "retry_temperature"])
_OF_PROMPTS = ": how an answer is drawn stands in the head of each prompt (docs/guide/prompts.md)"


def parse_engine(data: Any, base: Path | None = None) -> EngineSettings:
    """Checked settings of the engine that `data["kind"]` names; settings pass as they are.

    Relative paths start in the folder `base`.

    Raises pydantic's ValidationError with the place of every problem, and ConfigError for an engine of
    another package that cannot be imported.
    """
    if isinstance(data, EngineSettings):
        return data
    if not isinstance(data, Mapping):
        raise _invalid("must be a mapping such as {kind: cpu}", (), data)
    kind = data.get("kind")
    if kind is None:
        raise _invalid(f"is missing; known: {', '.join(ENGINES.names())}", ("kind",), data)
    if not isinstance(kind, str) or kind not in ENGINES:
        raise _invalid(ENGINES.unknown(str(kind)[:80]), ("kind",), kind)
    settings = ENGINES.get(kind).Settings
    current = {key: value for key, value in data.items() if key not in settings.retired}
    try:
        checked: EngineSettings = settings.model_validate(current, context={"base": base})
    except ValidationError as problem:
        raise ValidationError.from_exception_data(
            "engine", [_explained(mistake, settings) for mistake in problems_of(problem)]
        ) from None
    return checked


def _in_context(data: Any, info: ValidationInfo) -> EngineSettings:
    return parse_engine(data, (info.context or {}).get("base"))


EngineConfig = Annotated[Any, BeforeValidator(_in_context)]


class _Operational(Mapping[str, frozenset[str]]):
    """Mapping that imports an engine only when its key is read."""

    def __getitem__(self, kind: str) -> frozenset[str]:
        if kind not in ENGINES:
            raise KeyError(kind)
        settings: type[EngineSettings] = ENGINES.get(kind).Settings
        return settings.operational

    def __iter__(self) -> Iterator[str]:
        return iter(ENGINES.names())

    def __len__(self) -> int:
        return len(ENGINES.names())


# Settings of each kind of engine that never change an answer. The fingerprint omits them:
# a run can continue with other machines, servers or batch sizes.
OPERATIONAL: Mapping[str, frozenset[str]] = _Operational()


def _invalid(words: str, key: tuple[str, ...], value: Any) -> ValidationError:
    problem = PydanticCustomError("engine", "{words}", {"words": words})
    return ValidationError.from_exception_data(
        "engine", [InitErrorDetails(type=problem, loc=key, input=value)]
    )


def _explained(mistake: Problem, settings: type[EngineSettings]) -> InitErrorDetails:
    """One problem of the settings, with the nearest known key where one is unknown, or where it belongs."""
    elsewhere = mistake.type == "extra_forbidden" and mistake.key[-1] in OF_PROMPTS
    words = mistake.text + _OF_PROMPTS if elsewhere else sentence(settings, mistake)
    problem = PydanticCustomError("engine", "{words}", {"words": words})
    return InitErrorDetails(type=problem, loc=mistake.key, input=mistake.value)
