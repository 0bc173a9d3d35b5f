"""The engines, shipped or of other packages (entry point `kgqa_hpc.engines`), and their settings from a configuration.

`EngineConfig` is the type of a field that holds the mapping under `engine:` in a pydantic model: it validates through
the registry, and its errors keep their place (`engine.kind`, `engine.faults.crash`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import problems_of, sentence

# Keys of a prompt's front matter that users tend to write under `engine`.
OF_PROMPTS = frozenset(["temperature", "max_tokens", "top_p", "top_k", "retry_temperature"])
_OF_PROMPTS = ": how an answer is drawn stands in the head of each prompt (docs/guide/prompts.md)"


class Engine(Protocol):
    """A started engine. It lives in a child process (engines/child.py); one thread calls `generate`.

    Made by `Class(settings, memory)`: `memory` is a file that outlives the process. Raises EngineConfigError
    when it cannot start as configured. Optional: `progress`, a number that grows while it works (tokens), so
    that a long answer is told from a hang; `probe()`, a class method that gives a Readiness; `ask_once(settings)`, a
    class method that asks a server before other work begins; `server_load`, troubles with it (engines/engine.py);
    `keeps_batches`: it is also given `folder`, a folder of the run for what outlives all processes.
    """

    info: EngineInfo

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Refuse before GPU time is spent: raises EngineConfigError when a schema cannot be served."""

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        """Yield one response per request of the mailbox, in the order of completion.

        Reading the mailbox may block while nothing is queued; responses that are ready must be yielded
        meanwhile. Ends when the mailbox has ended and all are answered, or after a cancel. Trouble with one
        request is a response with finish `error`, never an exception.
        """

    def close(self) -> None:
        """Free the model. Idempotent."""


ENGINES = Registry(
    "engines",
    "engine",
    {
        "lmdeploy": "kgqa_hpc.engines.lmdeploy.engine:LmdeployEngine",
        "openai": "kgqa_hpc.engines.openai.engine:OpenAIEngine",
        "openai_batch": "kgqa_hpc.engines.openai_batch.engine:OpenAIBatchEngine",
        "cpu": "kgqa_hpc.engines.cpu.engine:CpuEngine",
        "function": "kgqa_hpc.engines.function:FunctionEngine",
        "scripted": "kgqa_hpc.engines.scripted.engine:ScriptedEngine",
    },
)


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
        details = []
        for mistake in problems_of(problem):
            # An unknown key gets the nearest known key, or the place where it belongs.
            elsewhere = mistake.type == "extra_forbidden" and mistake.key[-1] in OF_PROMPTS
            words = mistake.text + _OF_PROMPTS if elsewhere else sentence(settings, mistake)
            details.append(_detail(words, mistake.key, mistake.value))
        raise ValidationError.from_exception_data("engine", details) from None
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
    return ValidationError.from_exception_data("engine", [_detail(words, key, value)])


def _detail(words: str, key: tuple[Any, ...], value: Any) -> InitErrorDetails:
    problem = PydanticCustomError("engine", "{words}", {"words": words})
    return InitErrorDetails(type=problem, loc=key, input=value)
