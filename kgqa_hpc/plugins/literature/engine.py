"""Document search as an engine: the last message of a request is the query, the answer is the list of hits as JSON.

    {"documents": [{"id": "9", "score": 12.3, "title": "…", "text": "…"}, …]}

The index is a BM25 index in a folder, or a site's OpenSearch (or Elasticsearch). The schema of the request sets the
number of documents (maxItems of `documents`), the fields, and the maximum lengths of their texts; a longer text is cut
at the end, so offsets stay those of the document. No model takes part: the same query gives the same answer for any
seed and temperature.

Of OpenSearch only `_search`, the index's settings and mappings and the root are used, over HTTP, with the standard
library. The query is sent as a `multi_match`, which takes plain text without syntax. Stop words, k1 and b are those of
the site's index; they are requested and recorded in the provenance. Documents with equal scores are sorted by id.
"""

import base64
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson
from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response
from kgqa_hpc.engines.http import TooLarge, answer_within
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import EngineConfigError, InputError, StoreError
from kgqa_hpc.plugins.literature.bm25 import Bm25Index, Hit, read_manifest
from kgqa_hpc.plugins.literature.document import Document
from kgqa_hpc.text.plain_text import plain_line
from kgqa_hpc.text.streams import parse_json

FIELDS = ("id", "score", "title", "text")
_BATCH = 16  # requests that are queued while one is answered


class IndexSettings(EngineSettings):
    """An index that `kgqa index build` made, or a site's OpenSearch."""

    paths = ("path",)
    dangerous: ClassVar = frozenset({"url"})

    kind: Literal["index"] = "index"
    path: str | None = Field(None, description="The folder of the index.")
    url: str | None = Field(None, description="Address of an OpenSearch service.")
    name: str | None = Field(None, description="Name of the index in the OpenSearch service.")

    def contents(self) -> dict[str, str]:
        """The fingerprint of the index: documents and parameters. Raises InputError without an index."""
        return {"index": str(read_manifest(Path(self.path))["fingerprint"])} if self.path else {}


class IndexEngine:
    """Document search as the engine of step `retrieve`: a BM25 index in a folder, or an OpenSearch service.

    Raises EngineConfigError without an index.
    """

    name = "index"
    Settings = IndexSettings

    def __init__(self, settings: IndexSettings, memory: Path | None = None) -> None:
        if settings.path and not settings.url:
            self._index: Bm25Index | OpenSearchIndex = Bm25Index(Path(settings.path))
        elif settings.url and settings.name and not settings.path:
            self._index = OpenSearchIndex(settings.url, settings.name)
        else:
            problem = "engine index needs either `path`, or `url` and `name`"
            raise EngineConfigError(problem, "make an index with: kgqa index build")
        parameters = self._index.parameters
        self.info = EngineInfo(
            name="index",
            version=parameters["engine"],
            model=Path(settings.path).name if settings.path else str(settings.name),
            digest=self._index.fingerprint,
            max_batch=_BATCH,
            settings=orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS).decode(),
        )

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Raises EngineConfigError for a schema that does not ask for documents."""
        for schema in schemas:
            fields = _fields(schema)
            if not fields or fields.keys() - set(FIELDS) or set(schema["properties"]) != {"documents"}:
                lists = f"a list `documents` of {', '.join(FIELDS)}"
                problem = f"engine index answers with {lists}, and this prompt asks for something else"
                cure = "give the step retrieve a pass of its own, and the other steps another engine"
                raise EngineConfigError(problem, cure)

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        for request in mailbox:
            schema = request.schema or {}
            if not (fields := _fields(schema)):
                text = "engine index answers only requests for documents"
                yield Response(request.id, "", "error", error=text)
                continue
            limit = int(schema["properties"]["documents"]["maxItems"])
            documents: list[dict[str, str | float]] = []
            for hit in self._index.search(request.messages[-1]["content"], limit):
                texts = {"id": hit.id, "title": hit.document.title, "text": hit.document.text}
                cut = {name: text[: fields.get(name, {}).get("maxLength")] for name, text in texts.items()}
                documents.append({name: cut.get(name, hit.score) for name in fields})
            yield Response(request.id, orjson.dumps({"documents": documents}).decode(), "stop")

    def close(self) -> None:
        """Nothing to free."""


def _fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of each document that the schema requests; empty when it requests no documents."""
    documents = (schema.get("properties") or {}).get("documents") or {}
    fields: Mapping[str, Any] = (documents.get("items") or {}).get("properties") or {}
    return fields


# Environment variable with "user:password", so that no configuration contains it.
CREDENTIALS = "KGQA_OPENSEARCH_AUTH"
SEARCHED = ["title", "text"]
ATTEMPTS = 4
LONGEST_ANSWER = 600.0  # seconds for the whole answer
LARGEST_REPLY = 64 << 20  # bytes of an answer
# HTTP codes to retry: 429, and errors of a proxy or of a node that is starting.
_PASSING = {429, 502, 503, 504}


class OpenSearchIndex:
    """The index `name` of the service at `url`, whose documents have the fields `title` and `text`.

    It has the interface of `Bm25Index`. `pause`: seconds before the second attempt, doubled for each further attempt.
    Raises InputError if the service refuses a request, StoreError if it does not answer.
    """

    fingerprint = ""

    def __init__(self, url: str, name: str, pause: float = 1.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url}: not the address of a search service", "http://host:9200")
        self._base = f"{url.rstrip('/')}/{urllib.parse.quote(name, safe='')}"
        self._root = f"{url.rstrip('/')}/"
        self._pause = pause

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents with any word of the query, best first."""
        match = {"query": query, "fields": SEARCHED, "type": "cross_fields", "operator": "or"}
        body = {"size": k, "_source": SEARCHED, "query": {"multi_match": match}}
        reply = self._ask(f"{self._base}/_search", body)
        hits: list[Hit] = []
        try:
            for hit in reply["hits"]["hits"][:k]:
                title, text = (str(hit.get("_source", {}).get(field) or "") for field in SEARCHED)
                document = Document(hit["_id"], title, text)
                hits.append(Hit(str(hit["_id"]), float(hit["_score"]), document))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as problem:
            message = f"{self._base}: no list of hits: {plain_line(repr(problem))}"
            raise StoreError(message, "is it OpenSearch?") from None
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))

    @property
    def parameters(self) -> dict[str, Any]:
        """The service's version, and the index's settings (with its unique id) and mappings."""
        version = self._ask(self._root).get("version")
        return {
            "engine": f"OpenSearch {version.get('number') if isinstance(version, dict) else version}",
            "settings": self._ask(f"{self._base}/_settings"),
            "mappings": self._ask(f"{self._base}/_mapping"),
            "fields": SEARCHED,
        }

    def _ask(self, url: str, body: Any = None) -> dict[str, Any]:
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        if os.environ.get(CREDENTIALS):
            secret = base64.b64encode(os.environ[CREDENTIALS].encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {secret}")
        for attempt in range(ATTEMPTS):
            time.sleep(self._pause * 2 ** (attempt - 1) if attempt else 0)
            try:
                return dict(parse_json(answer_within(request, LONGEST_ANSWER, LARGEST_REPLY)))
            except TooLarge:
                problem_text = f"{url}: answered more than {LARGEST_REPLY >> 20} MiB"
                raise StoreError(problem_text, "ask for fewer documents") from None
            except urllib.error.HTTPError as problem:
                if problem.code not in _PASSING:
                    raise InputError(f"{url}: {problem.code} {problem.reason}", "check the index") from None
                reason = f"{problem.code} {problem.reason}"
            except (OSError, http.client.HTTPException, ValueError, TypeError) as problem:
                reason = plain_line(str(problem))
        raise StoreError(f"{url}: no answer after {ATTEMPTS} attempts: {reason}", "is the service up?")
