"""The index as an engine: one answer per query, in the form the schema asks for."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.registry import parse_engine
from kgqa_hpc.errors import EngineConfigError, InputError
from kgqa_hpc.plugins.literature.engine import IndexEngine
from kgqa_hpc.prompts.prompt import load_prompt
from tests.plugins.literature.builders import index as make_index
from tests.plugins.literature.builders import jsonl

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
