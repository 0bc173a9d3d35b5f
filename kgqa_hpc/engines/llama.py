"""llama.cpp inside the process (xllamacpp): a GGUF file is checked and loaded, prompts become tokens, tokens text.

The header of the file is read first, so that a damaged file is refused before it is loaded. Layout: magic "GGUF",
version, number of tensors, number of keys; typed key-value pairs; one entry per tensor with its shape, type and
offset; the tensors. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

Completions go straight into the library; the chat template and the tokenizer are only reachable through its
HTTP port, which is bound to loopback and locked with a random key.
"""

import http.client
import json
import os
import secrets
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from kgqa_hpc.engines.engine import Finish, Response
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text.streams import open_bytes

# Threads that spin long at a barrier make generation 10 to 50 times slower on a busy machine;
# threads that never spin make it a quarter slower on an idle machine. Therefore they spin about 10 us.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# Common values of general.file_type in GGUF files (llama_ftype of llama.cpp).
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    32: "BF16",
}  # fmt: skip
_MOST_KEYS, _MOST_TENSORS, _LONGEST_STRING = 1 << 16, 1 << 20, 1 << 26
_CURE = "give a complete .gguf file under engine.model, or leave it out for the bundled one"


def quantisation_of(header: Mapping[str, Any]) -> str:
    """The format of the weights, e.g. Q4_K_M; empty if the file does not give it."""
    kind = header.get("general.file_type")
    return _FILE_TYPES.get(kind, f"type {kind}") if isinstance(kind, int) else ""


def read_header(path: Path) -> dict[str, Any]:
    """The keys of the header with scalars, texts and lists of texts; None for other arrays.

    Raises EngineConfigError when the file is missing, not GGUF, or ends before its last tensor.
    """
    try:
        with open_bytes(path) as file:
            return _keys(path, file, path.stat().st_size)
    except FileNotFoundError:
        raise EngineConfigError(f"{path}: no such model file", _CURE) from None
    except OSError as problem:
        raise EngineConfigError(f"{path}: cannot be read: {problem.strerror}", _CURE) from None
    except (struct.error, EOFError, KeyError, OverflowError, UnicodeDecodeError):
        raise EngineConfigError(f"{path}: the GGUF header is damaged or cut off", _CURE) from None


def _keys(path: Path, file: BinaryIO, size: int) -> dict[str, Any]:
    """The keys of the header; the tensors must lie within the file's `size`."""
    if file.read(4) != b"GGUF":
        raise EngineConfigError(f"{path}: is not a GGUF file (its first bytes are not 'GGUF')", _CURE)
    (version,) = _unpack(file, "I")
    if version not in (2, 3):
        raise EngineConfigError(f"{path}: GGUF version {version} is not 2 or 3", _CURE)
    tensors, count = _unpack(file, "QQ")
    if tensors > _MOST_TENSORS or count > _MOST_KEYS:
        raise EOFError
    keys = {_string(file): _value(file, _unpack(file, "I")[0]) for _ in range(count)}
    last = 0
    for _ in range(tensors):
        _string(file)
        (dimensions,) = _unpack(file, "I")
        if dimensions > 8:
            raise EOFError
        last = max(last, _unpack(file, "Q" * dimensions + "IQ")[-1])
    if file.tell() + last >= size:
        raise EngineConfigError(f"{path}: is cut off: {size:,} bytes, tensors reach beyond", _CURE)
    return keys


def _value(file: BinaryIO, kind: int) -> Any:
    """A value; KeyError for an unknown type, which means that the bytes before it were misread."""
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _unpack(file, _SCALARS[kind])[0]
    inner, length = _unpack(file, "IQ")
    if inner in (_STRING, _ARRAY):
        return [_value(file, inner) for _ in range(length)]
    file.seek(length * struct.calcsize("<" + _SCALARS[inner]), 1)
    return None


def _string(file: BinaryIO) -> str:
    (length,) = _unpack(file, "Q")
    data = file.read(min(length, _LONGEST_STRING))
    if len(data) != length:
        raise EOFError
    return data.decode("utf-8", "replace")


def _unpack(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    """Numbers of a layout; struct.error at the end of the file."""
    return struct.unpack("<" + layout, file.read(struct.calcsize("<" + layout)))


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
                "see the engine's log; a newer xllamacpp may know its architecture",
            ) from None
        address = urlsplit(self._server.listening_address)
        self._address = (address.hostname or "127.0.0.1", address.port or 0)

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

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection(*self._address, timeout=600)
        try:
            head = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
            connection.request("POST", path, json.dumps(body), head)
            answer = connection.getresponse()
            data = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"llama.cpp {path}: {data.get('error', {}).get('message', data)}")
        return data
