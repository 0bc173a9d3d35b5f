"""llama.cpp inside the process (xllamacpp): a GGUF file is loaded, prompts become tokens, tokens text.

Completions go straight into the library; the chat template and the tokenizer are only reachable through its
HTTP port, which is bound to loopback and locked with a random key.
"""

import http.client
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kgqa_hpc.engines.engine import Finish, Response
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.streams import open_bytes

# Threads that spin long at a barrier make generation 10 to 50 times slower on a busy machine;
# threads that never spin make it a quarter slower on an idle machine. Therefore they spin about 10 us.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_CURE = "give a complete .gguf file under engine.model, or leave it out for the bundled one"


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
    """A loaded model with `slots` independent contexts of `context` tokens each."""

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
        params.cache_ram_mib = 0  # else it keeps old prompts: 8 GB by default
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
        finish: Finish = "error"
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
