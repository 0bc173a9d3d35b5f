"""What an engine is: a class with settings that turns requests into responses, one for each, as completed.

An engine is one file (or folder) and one entry in the registry (engines/registry.py); a package of the user's
own adds one by an entry point `kgqa_hpc.engines`:

    class EchoEngine:
        \"\"\"Says every prompt again.\"\"\"
        name = "echo"

        class Settings(EngineSettings):
            kind: Literal["echo"] = "echo"
            loud: bool = False

        def __init__(self, settings, memory=None):
            self.info = EngineInfo(name="echo", version="1", model="echo-1")

        def preflight(self, schemas): ...
        def generate(self, mailbox):
            for request in mailbox:
                yield Response(request.id, request.messages[-1]["content"], "stop")
        def close(self): ...
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from kgqa_hpc.settings import Settings

Finish = Literal["stop", "length", "refusal", "error", "abort"]

# The largest number of tokens that is believed; far above any context there is.
MOST_TOKENS = 1 << 31

# What is observed of a server, and may change during a run.
OBSERVED = ("server", "structured", "omitted")


# Troubles with a server: requests tried again, refusals for too many requests (HTTP 429), seconds waited for both.
# Counts by name (LOAD), which an engine over a server may keep in an attribute `server_load`.
ServerLoad = dict[str, float]
LOAD = ("retries", "throttled", "waited_s")


def number_of(value: Any) -> float:
    """A count or seconds from outside; 0 for anything that is no such number."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
    return float(value) if good else 0.0


class Request(NamedTuple):  # as Response: made three times as quickly as a frozen dataclass
    """One prompt. `id` is unique among the requests in flight; `messages` are {"role", "content"} objects.

    `schema` is the JSON schema the answer must follow (enforced while decoding where the engine can), `seed`
    fixes the sampling when `temperature` > 0 (0 means greedy), `max_tokens` bounds the answer.
    """

    id: str
    messages: tuple[dict[str, str], ...]
    max_tokens: int = 1000
    temperature: float = 0.0
    seed: int = 0
    schema: dict[str, Any] | None = None


class Response(NamedTuple):
    """The answer to the request of the same id. Only `finish == "stop"` is data.

    `length` (token limit hit), `refusal` (the model or its provider declined, `text` says how), `error` (this
    request failed) and `abort` (cancelled) are states to retry from; their `text` is kept for the trace and never
    parsed.
    """

    id: str
    text: str
    finish: Finish
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    error: str | None = None
    thought: str = ""  # of a thinking model, where `keep_thoughts` asks for it


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What produced an answer, as it goes into the provenance of records, and how much it takes at once."""

    name: str  # of the engine, as in the registry
    version: str  # of the engine's package
    model: str  # file name or hub id, never a path of this machine
    digest: str = ""  # sha256 of the weights or the hub revision; empty when it cannot be known
    quantisation: str = ""
    max_batch: int = 1  # requests it works on at the same time
    settings: str = ""  # what else changes answers and is not the default, as JSON
    window: int = 0  # requests worth having in flight; 0: twice the batch
    stall_s: float = 0.0  # seconds without progress that are a hang; 0: only `runtime.engine_stall` counts
    server: str = ""  # version or `system_fingerprint` of a server, as it says
    structured: str = ""  # how a server keeps to schemas, as agreed with it
    omitted: str = ""  # parameters that a server refuses, and what was sent in their stead
    extra: Mapping[str, Any] = field(default_factory=dict)  # what else is known, for `kgqa bench`

    def provenance(self) -> dict[str, str]:
        """The part that is stored with each record (docs/guide/dataset.md)."""
        observed = {name: getattr(self, name) for name in OBSERVED}
        return {**self.identity(), **{name: value for name, value in observed.items() if value}}

    def identity(self) -> dict[str, str]:
        """The part of it that stays the same during a run; a server may be updated meanwhile."""
        return {
            "name": self.name,
            "version": self.version,
            "model": self.model,
            "digest": self.digest,
            "quantisation": self.quantisation,
            **({"settings": self.settings} if self.settings else {}),
        }


class Readiness(NamedTuple):
    """Whether an engine could start here: one line of `kgqa doctor`, and the line that mends it."""

    ok: bool
    detail: str
    fix: str = ""


def installed(package: str, extra: str) -> Readiness:
    """Whether a package is installed, by its metadata and its path: importing it may load torch."""
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = None
    if version is None or importlib.util.find_spec(package) is None:
        return Readiness(False, f"{package} is not installed", f"pip install 'kgqa_hpc[{extra}]'")
    return Readiness(True, f"{package} {version}")


class Price(Settings):
    """Of a million tokens, in any currency."""

    input: float = Field(ge=0, description="Read.")
    cached: float | None = Field(
        None, ge=0, description="Read from the server's cache; default: as the others."
    )
    output: float = Field(ge=0, description="Written, thoughts included.")

    def of(self, tokens: Mapping[str, int]) -> float:
        """The price of tokens {prompt, completion, cached}; the cached ones are among those of the prompt."""
        cached = min(tokens.get("cached", 0), tokens.get("prompt", 0))
        read = (tokens.get("prompt", 0) - cached) * self.input
        again = cached * (self.input if self.cached is None else self.cached)
        return (read + again + tokens.get("completion", 0) * self.output) / 1e6


class EngineSettings(Settings):
    """Base of the settings of every engine: the keys that may stand under `engine:`.

    Class variables say how the keys are treated. `operational`: they place, pace or speed up the work and
    never change an answer, so they are not in a run's fingerprint. `dangerous`: what somebody else's
    run folder could misuse (a command, an address, the name of a secret). `retired`: keys of earlier
    versions that never had an effect; they are passed over.
    """

    registry: ClassVar[str] = "engines"
    operational: ClassVar[frozenset[str]] = frozenset()
    dangerous: ClassVar[frozenset[str]] = frozenset()
    retired: ClassVar[frozenset[str]] = frozenset()

    kind: str
    price: Price | None = Field(
        None,
        exclude_if=lambda value: value is None,
        description="Of a million tokens, for kgqa plan, kgqa status and runtime.budget.",
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """A price changes no answer, whatever the engine."""
        super().__pydantic_init_subclass__(**kwargs)
        cls.operational |= {"price"}

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Environment variables whose values must never be written anywhere."""
        return ()

    def contents(self) -> dict[str, str]:
        """Digests of what else the answers come from, by name; they count in the fingerprint of a run."""
        return {}

    def with_batch(self, size: int) -> EngineSettings | None:
        """These settings with `size` requests at once, for `kgqa bench`; None where the engine decides that alone."""
        return None

    @property
    def gpus_per_worker(self) -> int:
        """GPUs that each worker needs for itself."""
        return 0

    @property
    def hosted(self) -> bool:
        """Whether answers come from a server that the run does not start: no GPU of ours works."""
        return False

    def recorded(self, *always: str, **more: Any) -> str:
        """The settings that change answers and differ from their defaults, as JSON for the provenance.

        Left out are kind, model and revision, which stand there anyway; `always` names some that are there
        even with their defaults, `more` adds what follows from them.
        """
        changed = self.model_dump(mode="json", exclude_defaults=True)
        changed |= self.model_dump(mode="json", include=set(always))
        left_out = self.operational | {"kind", "model", "revision"}
        settings = {key: value for key, value in changed.items() if key not in left_out}
        settings |= {key: value for key, value in more.items() if value not in (None, {})}
        return json.dumps(settings, sort_keys=True, ensure_ascii=False) if settings else ""


class Generation(Settings):
    """How tokens are chosen, beside the prompt's temperature; what is not set is the engine's default."""

    temperature: float | None = Field(None, ge=0, description="In place of a prompt's temperature of 0.")
    top_p: float | None = Field(None, gt=0, le=1, description="Sample from the likeliest with this sum.")
    top_k: int | None = Field(None, ge=1, description="Sample from so many of the likeliest.")
    min_p: float | None = Field(
        None, ge=0, lt=1, description="Leave out what is less likely than this share."
    )
    repetition_penalty: float | None = Field(None, gt=0, description="Above 1: repeat less.")
    extra: dict[str, Any] | None = Field(None, description="More of it, passed on as it is.")

    def values(self) -> dict[str, Any]:
        """What is set, extras included, without the temperature."""
        return {**self.model_dump(exclude={"extra", "temperature"}, exclude_none=True), **(self.extra or {})}


def count_of(value: Any) -> int:
    """A number of tokens from outside, in [0, MOST_TOKENS]; 0 for anything that is no such number."""
    if value.__class__ is int and 0 <= value <= MOST_TOKENS:  # nearly always, and asked for with each answer
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return 0
    return int(min(value, MOST_TOKENS))
