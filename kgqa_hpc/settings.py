"""Base classes of all settings, and their validation errors as plain sentences.

Each anchor kind, step, engine and source has a strict pydantic model, a subclass of `Settings`; subclasses such as
`StepSettings` hold the keys common to one sort of entry. A section such as `anchors:` names its entry
(`kind: graphlet`), and the entry's model defines the other keys. kgqa_hpc/config joins the sections.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.registry import Registry, did_you_mean

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Key = tuple[str | int, ...]  # path in a configuration: keys, and positions in lists

_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "unknown key",
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "must be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be a text",
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type"), "must be a mapping of keys to values"),
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
}
_LONGEST = 40  # a wrong value of more characters is not shown
# Names that pydantic adds to an error's location for the branches of a union (`str | list[str]`).
_BRANCHES = frozenset(["str", "int", "float", "bool", "dict", "list", "constrained-str", "nullable"])


@dataclass(frozen=True)
class Package:
    """An optional package: the module to import, and the requirement for pip (`kgqa_hpc[hpo]`).

    Settings declare it as `package`; a single key as `Annotated[type, Package(...)]`.
    """

    module: str
    install: str

    @property
    def missing(self) -> bool:
        """Whether the package is not installed here; checked without an import."""
        return find_spec(self.module) is None


class Settings(BaseModel):
    """Base class of all settings: unknown keys are refused, values are immutable.

    `paths` names the keys that hold files or folders. Relative paths are resolved against the configuration's folder
    (`base` of the validation context); the fingerprint contains the files' contents, not their paths. `package` is
    the optional package that the entry needs; `elsewhere` maps keys that users expect here to the sections with them.
    For a key whose default is empty, null means the default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)
    paths: ClassVar[tuple[str, ...]] = ()
    package: ClassVar[Package | None] = None
    elsewhere: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        """Plain data with the relative paths at `paths` (texts, or lists of texts) made absolute from `base`."""

        def absolute(value: Any) -> Any:
            if isinstance(value, list):
                return [absolute(entry) for entry in value]
            return str((base / expanduser(value)).resolve()) if isinstance(value, str) else value

        return {key: absolute(value) if key in cls.paths else value for key, value in data.items()}

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, Mapping):
            return data
        defaults = {
            f.alias or name: f.get_default(call_default_factory=True) for name, f in cls.model_fields.items()
        }
        data = {k: v for k, v in data.items() if v is not None or defaults.get(k) not in ([], {}, "")}
        base = (info.context or {}).get("base")
        return data if base is None else cls.with_paths(data, base)


def later_key(description: str, **bounds: Any) -> Any:
    """A key of a later version: left out of dumps where it is not set, so that older runs keep their fingerprint."""
    return Field(None, exclude_if=lambda value: value is None, description=description, **bounds)


class KindSettings(Settings):
    """Settings that all anchor kinds share (`anchors:`).

    `size` names the key for the number of anchors, for kinds whose larger samples contain the smaller ones.
    """

    size: ClassVar[str] = "number"
    kind: str


class StepSettings(Settings):
    """Settings that all steps share (`passes[].steps`).

    `imitates` names the key of a benchmark's training file, for steps that write items similar to the benchmark's.
    A configuration with such a step must set `dataset.decontaminate`.
    """

    imitates: ClassVar[str | None] = None
    use: str = Field(description="Name of the step.")
    label: Name = Field(alias="as", description="Label of the step; default: its name.")
    prompt: Name | None = Field(None, description="Prompt of the step; default: the step's own.")
    later_prompts: list[Name] | None = later_key("Prompts of later turns; the last one repeats.")
    temperature: float | None = later_key(
        "Sampling temperature of the first attempt (0: greedy); default: the prompt's.", ge=0, le=2
    )


class Problem(NamedTuple):
    """An error in a configuration: its key (names and positions), a sentence, pydantic's error type, and the value."""

    key: Key
    text: str
    type: str
    value: Any


def line(key: Key, text: str) -> str:
    """A problem as a sentence that begins with its key, with dots."""
    return f"{'.'.join(map(str, key))}: {text}" if key else text


def lines_of(model: type[BaseModel], problem: ValidationError, key: Key = ()) -> list[str]:
    """A line for each error of a failed validation of `model`, whose keys stand below `key`."""
    return [line((*key, *entry.key), sentence(model, entry)) for entry in problems_of(problem)]


def section(
    registry: Registry, by: str, data: Any, base: Path | None = None, default: str | None = None
) -> Any:
    """The settings of the registry entry that data[`by`] names; its model checks the other keys.

    Relative paths are resolved against `base`. Raises ValidationError with a sentence for each problem.
    """
    if isinstance(data, Settings):
        return data
    if not isinstance(data, Mapping):
        raise _refusal([((), f"must be a mapping with the key {by}", data)])
    name = data.get(by, default)
    if name is None:
        raise _refusal([((by,), f"is missing; known: {', '.join(registry.names())}", data)])
    if not isinstance(name, str) or name not in registry:
        raise _refusal([((by,), registry.unknown(str(name)[:80]), data)])
    try:
        model = registry.get(name).Settings
        if not (isinstance(model, type) and issubclass(model, Settings)):
            raise ConfigError(f"{registry.entry(name)}: its Settings is no class of kgqa_hpc.settings")
        return model.model_validate({**data, by: name}, context={"base": base})
    except ConfigError as problem:
        raise _refusal([((by,), str(problem), data)]) from None
    except ValidationError as problem:
        entries = problems_of(problem)
        raise _refusal([(entry.key, sentence(model, entry), entry.value) for entry in entries]) from None


def _refusal(problems: list[tuple[Key, str, Any]]) -> ValidationError:
    """A ValidationError of these problems: key, sentence and value of each."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError("section", "{words}", {"words": text}), loc=key, input=value
        )
        for key, text, value in problems
    ]
    return ValidationError.from_exception_data("section", details)


def packages(settings: Any, key: Key = ()) -> Iterator[tuple[Key, Package]]:
    """(key, package) of each optional package that the settings and their nested settings need."""
    if isinstance(settings, list):
        for number, entry in enumerate(settings):
            yield from packages(entry, (*key, number))
    if isinstance(settings, Settings):
        if settings.package is not None:
            yield key, settings.package
        for name, field in type(settings).model_fields.items():
            value, inner = getattr(settings, name), (*key, field.alias or name)
            if value is not None:
                yield from ((inner, mark) for mark in field.metadata if isinstance(mark, Package))
                yield from packages(value, inner)


def sentence(model: type[BaseModel], problem: Problem) -> str:
    """The problem's sentence; for an unknown key, with the nearest key of `model` as a suggestion."""
    if problem.type != "extra_forbidden":
        return problem.text
    location = [part for part in problem.key if isinstance(part, str)]
    for part in location[:-1]:  # find the nested model that lacks the key, or the last known model
        field = model.model_fields.get(part)
        model = next(iter(models_in(field.annotation)), model) if field else model
    if hint := getattr(model, "elsewhere", {}).get(location[-1]):
        return f"{problem.text}: {hint}"
    keys = [field.alias or name for name, field in model.model_fields.items()]
    return problem.text + did_you_mean(location[-1], keys)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The pydantic models within a type, such as those of a list or a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


def problems_of(problem: ValidationError) -> list[Problem]:
    """The errors of a failed validation, at most one per key.

    For a union, the branch that matched deepest is reported; both branches if they tie.
    """
    problems: dict[Key, Problem] = {}
    loose: set[Key] = set()  # keys of union branches; a problem deeper in the value replaces theirs
    for error in problem.errors(include_url=False):
        key = tuple(
            part
            for part in error["loc"]
            if isinstance(part, int) or not (part in _BRANCHES or "[" in part or part.startswith("function-"))
        )
        text = _sentence(error)
        if len(key) < len(error["loc"]):
            if key in problems:
                earlier, expected = problems[key].text, text.removeprefix("must be ")
                text = earlier if expected in earlier else f"{earlier.partition(', not ')[0]} or {expected}"
            loose.add(key)
        problems[key] = Problem(key, text, error["type"], error["input"])
    outer = {key[:length] for key in problems for length in range(len(key))}
    return [problem for key, problem in problems.items() if key not in loose & outer]


def _sentence(error: Any) -> str:
    context = error.get("ctx") or {}
    for ours in ("words", "text"):  # the text of an error raised in this package
        if ours in context:
            return str(context[ours])
    if error["type"] not in _WORDS:
        return str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be", 1)
    text = _WORDS[error["type"]].format_map({k: str(v).replace("'", "") for k, v in context.items()})
    value = error["input"]
    if error["type"] in ("missing", "extra_forbidden") or not isinstance(value, str | int | float):
        return text
    value_text = str(value).lower() if isinstance(value, bool) else str(value)
    short = value_text and len(value_text) <= _LONGEST and value_text.isprintable()
    return f"{text}, not {value_text}" if short else text
