"""The interface of all engines: requests in, exactly one response per request out, as completed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

Finish = Literal["stop", "length", "error", "abort"]


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

    `length` (token limit hit), `error` (this request failed) and `abort` (cancelled) are states to retry
    from; their `text` is kept for the trace and never parsed.
    """

    id: str
    text: str
    finish: Finish
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What produced an answer, as it goes into the provenance of records, and how much it takes at once."""

    name: str  # lmdeploy | openai | cpu | scripted
    version: str  # of the engine's package
    model: str  # file name or hub id, never a path of this machine
    digest: str = ""  # sha256 of the weights or the hub revision; empty when it cannot be known
    quantisation: str = ""
    guided: bool = False  # enforces `Request.schema` while decoding
    deterministic: bool = False  # the same request always gives the same text
    max_batch: int = 1  # requests it works on at the same time
    extra: Mapping[str, Any] = field(default_factory=dict)

    def provenance(self) -> dict[str, str]:
        """The part that is stored with each record (INTERFACES, section 7)."""
        return {
            "name": self.name,
            "version": self.version,
            "model": self.model,
            "digest": self.digest,
            "quantisation": self.quantisation,
        }


class Engine(Protocol):
    """A started engine. It lives in a child process (engines/child.py); one thread calls `generate`."""

    info: EngineInfo

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Refuse before GPU time is spent: raises EngineConfigError when a schema cannot be served."""

    def generate(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Yield one response per request, in the order of completion.

        `requests` may block while nothing is queued; responses that are ready must be yielded meanwhile, and
        at most about `info.max_batch` requests may be taken ahead. Ends when `requests` is exhausted and all
        are answered. Trouble with one request is a response with finish `error`, never an exception.
        """

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` in the model's own tokenizer (without chat template)."""

    def cancel(self) -> None:
        """Abort what is in flight (finish `abort`); callable from any thread; `generate` then ends soon."""

    def close(self) -> None:
        """Free the model. Idempotent."""
