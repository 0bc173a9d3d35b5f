"""The index as an engine: one answer per query, in the form the schema asks for; and a site's search service, which
answers as our own index does, or is one line of trouble.
"""

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.engines import parse_engine
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import EngineConfigError, InputError, StoreError
from kgqa_hpc.plugins.literature import engine
from kgqa_hpc.plugins.literature.document import Document
from kgqa_hpc.plugins.literature.engine import CREDENTIALS, IndexEngine, OpenSearchIndex
from kgqa_hpc.prompts.prompt import load_prompt
from tests.foreign.test_hostile_replies import Raw, chunked, nested, with_length
from tests.foreign.watchdog import watched
from tests.plugins.literature.builders import index as make_index
from tests.record_runs import jsonl
from tests.servers import QuietHandler, serving

DOCUMENTS = [
    {"id": "1", "title": "Copper", "text": "ATP7B carries copper out of liver cells."},
    {"id": "2", "title": "Iron", "text": "Ferritin stores iron; copper helps."},
    {"id": "3", "title": "Zinc", "text": "Metallothionein binds zinc."},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    return make_index(folder / "index", jsonl(folder / "docs.jsonl", DOCUMENTS))


def ask(index: Path, query: str, schema: dict[str, Any] | None) -> Any:
    engine = IndexEngine(parse_engine({"kind": "index", "path": str(index)}))
    messages = ({"role": "system", "content": "x"}, {"role": "user", "content": query})
    request = Request("a", messages, 1, 0, 0, schema)
    (response,) = engine.generate(Mailbox.holding([request]))
    return response


def schema(most: int, longest: int = 2000) -> dict[str, Any]:
    whole = copy.deepcopy(load_prompt("retrieve").schema)
    whole["properties"]["documents"]["maxItems"] = most
    whole["properties"]["documents"]["items"]["properties"]["text"]["maxLength"] = longest
    return whole


def test_a_query_is_answered_by_the_best_documents_in_order(index: Path) -> None:
    response = ask(index, "What carries copper out of the liver? ATP7B", schema(10))
    assert response.finish == "stop"
    found = json.loads(response.text)["documents"]
    assert [document["id"] for document in found] == ["1", "2"]
    assert found[0]["score"] > found[1]["score"] > 0
    assert found[0]["text"] == DOCUMENTS[0]["text"]


def test_the_schema_says_how_many_and_how_long_and_nothing_found_is_an_empty_answer(index: Path) -> None:
    (only,) = json.loads(ask(index, "copper", schema(1, longest=5)).text)["documents"]
    assert only["text"] == DOCUMENTS[int(only["id"]) - 1]["text"][:5]
    assert json.loads(ask(index, "the of", schema(10)).text) == {"documents": []}


def test_another_question_is_refused_before_the_run_and_is_an_error_in_it(index: Path) -> None:
    engine = IndexEngine(parse_engine({"kind": "index", "path": str(index)}))
    engine.preflight([load_prompt("retrieve").schema])
    with pytest.raises(EngineConfigError, match="pass of its own"):
        engine.preflight([load_prompt("filter").schema])
    assert ask(index, "copper", None).finish == "error"


def test_the_provenance_tells_one_index_from_another(index: Path) -> None:
    info = IndexEngine(parse_engine({"kind": "index", "path": str(index)})).info
    assert info.digest == json.loads((index / "index.json").read_text())["fingerprint"]
    assert info.version.startswith("tantivy ")
    assert json.loads(info.settings)["k1"] == 1.2


def test_an_index_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        IndexEngine(parse_engine({"kind": "index", "path": str(tmp_path / "none")}))
    with pytest.raises(EngineConfigError, match="path"):
        IndexEngine(parse_engine({"kind": "index"}))


SERVED = {"a": ("Cats", "The cat."), "b": ("Dogs", "A dog, a cat."), "c/1": ("Birds", "A bird.")}


class _Service(QuietHandler):
    asked: list[tuple[str, str | None, Any]]
    failures: list[int]

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        self.asked.append((self.path, self.headers.get("Authorization"), body))
        code, content = (self.failures.pop(0), {}) if self.failures else self._content(body)
        self.reply(code, json.dumps(content).encode())

    do_GET = do_POST = _answer

    def _content(self, body: Any) -> tuple[int, dict[str, Any]]:
        if self.path == "/pubmed/_search":
            words = body["query"]["multi_match"]["query"].lower().split()
            found = {name: sum(word in " ".join(d).lower() for word in words) for name, d in SERVED.items()}
            hits = [_hit(name) | {"_score": score} for name, score in reversed(found.items()) if score]
            return 200, {"hits": {"hits": hits[: body["size"]]}}
        if self.path == "/":
            return 200, {"version": {"number": "2.19.0"}}
        return (200, {"pubmed": {}}) if self.path in ("/pubmed/_settings", "/pubmed/_mapping") else (404, {})


def _hit(name: str) -> dict[str, Any]:
    return {"_id": name, "_source": dict(zip(("title", "text"), SERVED[name], strict=True))}


@pytest.fixture
def service() -> Iterator[tuple[str, type[_Service]]]:
    handler = type("Service", (_Service,), {"asked": [], "failures": []})
    with serving(handler) as address:
        yield address, handler


def test_it_answers_queries_with_documents(service) -> None:
    url, handler = service
    index = OpenSearchIndex(url, "pubmed")
    assert len(index.search('"cat" AND dog:* cat', 2)) == 2
    assert handler.asked[0][2]["query"]["multi_match"]["query"] == '"cat" AND dog:* cat'
    assert [hit.id for hit in index.search("cat")] == ["a", "b"]
    assert [hit.document for hit in index.search("bird")] == [Document("c/1", "Birds", "A bird.")]


def test_the_provenance_tells_the_version_and_the_settings_of_a_service(service) -> None:
    info = IndexEngine(parse_engine({"kind": "index", "url": service[0], "name": "pubmed"})).info
    assert (info.version, info.model) == ("OpenSearch 2.19.0", "pubmed")
    assert json.loads(info.settings)["mappings"] == {"pubmed": {}}


def test_a_service_that_is_busy_is_asked_again_and_one_that_refuses_is_bad_input(service) -> None:
    url, handler = service
    index = OpenSearchIndex(url, "pubmed", pause=0)
    handler.failures += [503, 429]
    assert [hit.id for hit in index.search("dog")] == ["b"]
    handler.failures += [503] * 4
    with pytest.raises(StoreError, match="503"):
        index.search("dog")
    with pytest.raises(InputError, match="404"):
        OpenSearchIndex(url, "missing", pause=0).search("dog")
    with pytest.raises(InputError, match="not the address"):
        OpenSearchIndex("file:///etc", "passwd")


def test_credentials_come_from_the_environment_alone(service, monkeypatch: pytest.MonkeyPatch) -> None:
    url, handler = service
    monkeypatch.setenv(CREDENTIALS, "me:secret")
    OpenSearchIndex(url, "pubmed").search("dog")
    assert handler.asked[-1][1] == "Basic bWU6c2VjcmV0"


HOSTILE = {
    "1,010 levels": with_length(nested(1010)),
    "a list": with_length(b"[]"),
    "hits that are none": with_length(b'{"hits": 1}'),
    "a hit without a score": with_length(b'{"hits": {"hits": [{"_id": "a", "_score": null}]}}'),
    "a hit that is a text": with_length(b'{"hits": {"hits": ["a"]}}'),
    "a source that is a list": with_length(
        b'{"hits": {"hits": [{"_id": "a", "_score": 1, "_source": [1]}]}}'
    ),
    "no JSON": with_length(b"\xff"),
    "a status that steers": b"HTTP/1.1 2\x1b[2J\r\n\r\n",
    "no HTTP": b"x\r\n",
    "nothing": b"",
    "a chunk without a size": chunked(b"{", end=b"zz\r\n"),
    "a flood": chunked(*[b" " * (1 << 20)] * 4),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_search_service_that_means_harm_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ATTEMPTS", 1)
    monkeypatch.setattr(engine, "LARGEST_REPLY", 1 << 20)

    async def search() -> Any:
        async with await asyncio.start_server(Raw(HOSTILE[name]), "127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            return await asyncio.to_thread(OpenSearchIndex(url, "i", pause=0).search, "cat")

    with watched(), pytest.raises((StoreError, InputError)) as caught:
        asyncio.run(search())
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1_000
    assert name != "a flood" or "more than 1 MiB" in caught.value.message
