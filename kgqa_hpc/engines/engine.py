"""The interface of an engine: a class with settings that returns one response per request, in order of completion.

An engine is one file (or folder) and one entry in the registry (engines/__init__.py); a package of the user's
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

import codecs
import importlib.metadata
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from kgqa_hpc.settings import Package, Settings, later_key
from kgqa_hpc.text.plain_text import printable
from kgqa_hpc.text.streams import open_append

Finish = Literal["stop", "length", "refusal", "error", "abort"]

# Larger numbers of tokens are treated as errors; no model has such a context.
MOST_TOKENS = 1 << 31

# Fields of an engine that stay the same during a run; `settings` is one more where it is not empty.
IDENTITY = ("name", "version", "model", "digest", "quantisation")
# Fields observed of a server, which may change during a run.
OBSERVED = ("server", "structured", "omitted")

# Counts of server failures: repeated requests, refusals for too many requests (HTTP 429), seconds waited for both.
# An engine with a server may keep them by name in an attribute `server_load`.
ServerLoad = dict[str, float]
LOAD = ("retries", "throttled", "waited_s")

# Cure of an error whose reason is in the engine's log; the worker replaces these words by the path of the log.
SEE_LOG = "see the engine's log"


def count_of(value: Any) -> int:
    """A number of tokens from outside, in [0, MOST_TOKENS]; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return 0
    return int(min(value, MOST_TOKENS))


class Request(NamedTuple):  # a NamedTuple is made three times as fast as a frozen dataclass
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
    thought: str = ""  # thought of a thinking model, if `keep_thoughts` is set


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Description of an engine: its part of the provenance of records, and the number of requests it takes at once."""

    name: str  # name in the registry
    version: str  # version of the engine's package
    model: str  # file name or hub id, never a path of this machine
    digest: str = ""  # sha256 of the weights, or hub revision; empty if unknown
    quantisation: str = ""
    max_batch: int = 1  # number of requests processed at the same time
    settings: str = ""  # other settings that change answers and are not the default, as JSON
    window: int = 0  # useful number of requests in flight; 0: twice the batch
    # Seconds without progress that count as a hang; 0: only `runtime.engine_stall` counts
    stall_s: float = 0.0
    server: str = ""  # version or `system_fingerprint` that a server reports
    structured: str = ""  # how a server enforces schemas (engines/openai/agreement.py)
    omitted: str = ""  # parameters that a server refuses, and their replacements
    gpu_uuid: str = ""  # UUID of the engine's first GPU, whose use `kgqa bench` measures

    def provenance(self) -> dict[str, str]:
        """The fields that are stored with each record (docs/guide/dataset.md)."""
        return self.identity() | {name: getattr(self, name) for name in OBSERVED if getattr(self, name)}

    def identity(self) -> dict[str, str]:
        """The fields of the provenance that stay the same during a run; a server may be updated meanwhile."""
        fields = {name: getattr(self, name) for name in IDENTITY}
        return fields | ({"settings": self.settings} if self.settings else {})


class Readiness(NamedTuple):
    """Whether an engine could start here: a line of `kgqa doctor`, and the command that fixes it."""

    ok: bool
    detail: str
    fix: str = ""


def installed(package: Package) -> Readiness:
    """Whether a package is installed, by its path and its metadata: importing it may load torch."""
    if package.missing:
        return Readiness(False, f"{package.module} is not installed", f"pip install '{package.install}'")
    with suppress(importlib.metadata.PackageNotFoundError):
        return Readiness(True, f"{package.module} {importlib.metadata.version(package.module)}")
    return Readiness(True, package.module)


class Price(Settings):
    """Price of a million tokens, in any currency."""

    input: float = Field(ge=0, description="Price of prompt tokens.")
    cached: float | None = Field(
        None, ge=0, description="Price of cached prompt tokens; default: price.input."
    )
    output: float = Field(ge=0, description="Price of answer tokens, including thoughts.")

    def of(self, tokens: Mapping[str, int]) -> float:
        """The price of token counts {prompt, completion, cached}; `prompt` includes `cached`."""
        cached = min(tokens.get("cached", 0), tokens.get("prompt", 0))
        read = (tokens.get("prompt", 0) - cached) * self.input
        again = cached * (self.input if self.cached is None else self.cached)
        return (read + again + tokens.get("completion", 0) * self.output) / 1e6


class EngineSettings(Settings):
    """Base of the settings of every engine: the keys that may stand under `engine:`.

    Class variables list keys by treatment. `operational`: keys that place, pace or speed up the work and
    never change an answer, so they are not in a run's fingerprint; `price` is another, of every engine.
    `dangerous`: keys that another user's run folder could misuse (a command, an address, the name of a
    secret). `retired`: keys of earlier versions that never had an effect; they are ignored.
    """

    registry: ClassVar[str] = "engines"
    operational: ClassVar[frozenset[str]] = frozenset()
    dangerous: ClassVar[frozenset[str]] = frozenset()
    retired: ClassVar[frozenset[str]] = frozenset()
    elsewhere: ClassVar = dict.fromkeys(
        ("temperature", "max_tokens", "top_p", "top_k", "retry_temperature"),
        "how an answer is drawn stands in the head of each prompt (docs/guide/prompts.md)",
    )

    kind: str
    price: Price | None = later_key("Price of a million tokens.")

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Environment variables whose values must never be written anywhere."""
        return ()

    def contents(self) -> dict[str, str]:
        """Digests of further inputs of the answers, by name, for the fingerprint of a run."""
        return {}

    def with_batch(self, size: int) -> EngineSettings | None:
        """These settings with `size` simultaneous requests, for `kgqa bench`; None if the engine chooses the
        number itself.
        """
        return None

    @property
    def gpus_per_worker(self) -> int:
        """Number of GPUs that each worker needs."""
        return 0

    @property
    def hosted(self) -> bool:
        """Whether answers come from a server that the run does not start, so that the run uses no GPU."""
        return False

    def recorded(self, *always: str, **more: Any) -> str:
        """The settings that change answers and differ from their defaults, as JSON for the provenance.

        Kind, model and revision are left out, because the provenance has them; `always` names settings that are
        included even with their defaults, `more` adds values derived from them.
        """
        changed = self.model_dump(mode="json", exclude_defaults=True)
        changed |= self.model_dump(mode="json", include=set(always))
        left_out = self.operational | {"kind", "model", "price", "revision"}
        settings = {key: value for key, value in changed.items() if key not in left_out}
        settings |= {key: value for key, value in more.items() if value not in (None, {})}
        return json.dumps(settings, sort_keys=True, ensure_ascii=False) if settings else ""


# A server may repeat the key of a request in an error or an answer; a model may write escape sequences. The engine's
# child cleans answers and errors before they reach the worker, the worker cleans the child's output before its log.
MASK = "***"
# Smallest length of a secret that is masked: masking "none" or "1" would damage every text.
SHORTEST_SECRET = 6


def one_line(text: str, limit: int = 300) -> str:
    """Foreign text for a message: one line of at most `limit` characters, without control, bidi or escape
    characters.
    """
    return " ".join(printable(text[: 4 * limit]).split())[:limit]


class Redactor:
    """Replaces the values of secret environment variables in texts."""

    def __init__(self, names: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
        values = {environ.get(name, "").strip() for name in names}
        self._secrets = sorted((v for v in values if len(v) >= SHORTEST_SECRET), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def text(self, text: str) -> str:
        """The text with secrets replaced."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def response(self, response: Response) -> Response:
        """The response without secrets in text, thought and error; the error becomes one printable line."""
        error = None if response.error is None else one_line(self.text(response.error))
        text, thought = map(self.text, (response.text, response.thought))
        return response._replace(text=text, thought=thought, error=error)

    def copy(self, source: IO[bytes], log: Path) -> None:
        """Append the cleaned output of a pipe to a log, until the pipe ends."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        # Keep back the end of an unfinished line that may be the beginning of a secret.
        overlap, held = max(map(len, self._secrets), default=1) - 1, ""
        piece = b"\n"
        with source:
            while piece:
                piece = source.readline(1 << 16)
                held = self.text(held + decode(piece, not piece))
                whole = held.endswith("\n") or not piece
                end = len(held) if whole else max(len(held) - overlap, 0)
                # Reading goes on if the log cannot be written, because a full pipe would block the engine.
                with suppress(OSError), open(open_append(log), "ab") as file:
                    file.write(held[:end].encode())
                held = held[end:]


# Messages of drivers and programs about a GPU that needs a reset or a replacement.
_BROKEN_CARD = re.compile(
    r"\bxid\b|uncorrectable|\becc\b|fallen off the bus|unspecified launch failure|illegal memory access|"
    r"illegal instruction|misaligned address|hardware stack error|device not ready|devices? unavailable|"
    r"no cuda-capable device|unknown error|nvlink",
    re.IGNORECASE,
)


def without_node(words: str) -> str:
    """Advice to exclude the node, if `words` point to a broken GPU in a job of Slurm; otherwise empty."""
    node = os.environ.get("SLURMD_NODENAME")
    if not node or not _BROKEN_CARD.search(words):
        return ""
    job = os.environ.get("SLURM_JOB_ID", "JOB")
    return (
        f"; a GPU of {node} may be broken: sbatch --exclude={node} ..., or, for this job when it is requeued, "
        f"scontrol update JobId={job} ExcNodeList={node}"
    )
