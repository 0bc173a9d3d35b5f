"""What strangers send, at random and under a watchdog: answers, replies, headers of files.

KGQA_EXAMPLES says how many of each (watchdog.py). Every example is understood or refused in the one way that
its reader promises; no other exception, and no wait.
"""

import asyncio
import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import MOST_TOKENS, Response
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.replies import Trouble
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import StoreError
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.steps.answer_json import Unparseable, parse_json
from kgqa_hpc.store.fingerprint import ResultOrigin
from kgqa_hpc.store.partition import partition, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES, read_header, render_header, verify
from tests.foreign.test_hostile_replies import ASKED, Raw
from tests.foreign.watchdog import EXAMPLES, watched
from tests.runs import make_run

pytestmark = pytest.mark.timeout(7200)
EACH = settings(max_examples=EXAMPLES, deadline=None)

SCHEMA = {
    "properties": {
        "question": {"type": "string", "minLength": 1, "maxLength": 400},
        "score": {"type": "integer", "minimum": 0, "maximum": 5},
        "valid": {"type": "boolean"},
    }
}
_WORDS = """
question score valid choices message content usage prompt_tokens prompt_tokens_details cached_tokens
finish_reason error rows bytes sha256 counts accepted tokens requests status pass shard made_by stop
length responses
"""
WORDS = st.sampled_from(_WORDS.split())
NUMBERS = (
    st.integers()
    | st.sampled_from([2**63, 2**64, 10**30, -(2**63), -1, 1e308, 5e-324, 0.1])
    | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=12) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=20,
)
_PIECES = ["\\u00", "```", "```json\n", "<think>", "</think>", "   ", "true", "NaN", "1e999", "9" * 40]
_PIECES += ["question:", '"question":', '"score":', '"valid":', *"\"'{}[],:\\“\u2028\x1b"]
PIECES = st.sampled_from(_PIECES)
REPEATED = st.builds(lambda piece, times: piece * times, PIECES, st.integers(1, 60))


@EACH
@given(st.lists(PIECES | REPEATED | JSON.map(json.dumps) | st.text(max_size=8), max_size=10))
def test_a_models_text_is_an_answer_or_has_a_reason(parts: list[str]) -> None:
    text = "".join(parts)
    with watched(text):
        try:
            value = parse_json(text, SCHEMA["properties"]).value
        except Unparseable:
            return
    assert list(value) == ["question", "score", "valid"]
    assert type(value["question"]) is str
    assert type(value["score"]) is int
    assert type(value["valid"]) is bool


DAMAGES = st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=4)


def damaged(data: bytes, damages: list[tuple[int, bytes]]) -> bytes:
    changed = bytearray(data)
    for at, what in damages:
        changed[at : at + len(what)] = what
    return bytes(changed)


HONEST = {
    "choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2},
}
REPLIES = JSON | st.builds(lambda usage: {**HONEST, "usage": usage}, JSON) | st.just(HONEST)
STATUSES = st.sampled_from([200, 200, 200, 200, 204, 301, 400, 401, 404, 429, 500, 503, 999])
HEADERS = st.sampled_from(["", "Content-Encoding: gzip", "Content-Encoding: br", "Retry-After: 1e999", "Retry-After: x",
    "Transfer-Encoding: chunked", "Content-Length: 5", "Content-Length: -1", "Set-Cookie: \x1b[2J"]
)  # fmt: skip


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[asyncio.Runner, Raw, str]]:
    raw = Raw(b"")
    with asyncio.Runner() as runner:
        listener = runner.run(asyncio.start_server(raw, "127.0.0.1", 0))
        yield runner, raw, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        listener.close()


@EACH
@given(REPLIES, STATUSES, HEADERS, st.booleans(), DAMAGES, st.booleans())
def test_a_servers_bytes_are_an_answer_or_a_trouble(
    served: Any, body: Any, status: int, header: str, packed: bool, damages: Any, whole: bool
) -> None:
    runner, raw, url = served
    content = json.dumps(body).encode()
    content = gzip.compress(content, 1, mtime=0) if packed else content
    length = "" if "Length" in header or "chunked" in header else f"Content-Length: {len(content)}\r\n"
    header = f"{header}\r\n" if header else ""
    raw.reply = f"HTTP/1.1 {status} so\r\n{header}{length}\r\n".encode() + content
    if not whole:
        raw.reply = damaged(raw.reply, damages)

    async def ask() -> Response | None:
        api = ChatApi(url, OpenAISettings(model="m"), timeout_s=30)
        try:
            return await api.ask(ASKED, "none")
        except Trouble as trouble:
            assert str(trouble).isprintable()
            return None
        finally:
            await api.close()

    with watched(raw.reply):
        got = runner.run(ask())
    if got is not None:
        assert type(got.text) is str
        assert 0 <= got.prompt_tokens <= MOST_TOKENS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    made = make_run(tmp_path_factory.mktemp("headers") / "run", 4)
    partition(made, 4)
    made.results("main").mkdir(parents=True, exist_ok=True)
    return made


TRUE = {"format": "kgqa-result", "version": 2, "bytes": HEADER_BYTES + 8, "sha256": "0" * 64}
VALUES = st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | st.lists(NUMBERS, max_size=3)
FIELDS = st.dictionaries(WORDS, VALUES | st.dictionaries(WORDS, VALUES, max_size=2), max_size=4)


@EACH
@given(FIELDS, st.booleans(), st.booleans(), DAMAGES)
def test_the_header_of_a_sealed_file_is_believed_or_refused(
    run: RunFolder, fields: dict[str, Any], honest: bool, whole: bool, damages: Any
) -> None:
    made_by = ResultOrigin("main", "0" * 64)
    true = {"rows": 4, **TRUE}
    origin = made_by.header("shard-000000", "2" * 64)
    try:
        block = render_header({**TRUE, **origin, **fields} if honest else {**fields, **true, **origin})
    except (ValueError, TypeError, OverflowError):
        block = json.dumps({**TRUE, **fields}).encode().ljust(HEADER_BYTES)
    path: Path = run.result("main", "shard-000000")
    path.write_bytes((block if whole else damaged(block, damages)) + b"x" * 8)
    with watched(block):
        for read in (read_header, verify):
            with suppress(StoreError):
                header = read(path, "result")
                assert isinstance(header, dict)
                made_by.require(path, header)


@settings(max_examples=max(EXAMPLES // 50, 50), deadline=None)
@given(FIELDS)
def test_the_status_survives_any_numbers_in_a_results_header(run: RunFolder, fields: dict[str, Any]) -> None:
    entry = read_shards_manifest(run).shards[0]
    origin = run.origin("main").header(entry.name, entry.sha256)
    try:
        block = render_header({**fields, **TRUE, "rows": 4, **origin})
    except (ValueError, TypeError, OverflowError):
        return
    run.result("main", entry.name).write_bytes(block + b"x" * 8)
    with watched(block):
        json.dumps(survey(run.path))
