"""A site's OpenSearch (or Elasticsearch) in place of our own index: the same questions, answered by a
service.

Only the search API's `_search`, `_doc` and the root are used, over HTTP, with the standard library. The
query is sent as a `multi_match`, which takes plain text without syntax. Stop words, k1 and b are those of the
site's index; they are requested and recorded in the provenance. Returned documents with equal scores are sorted
by id.
"""

import base64
import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.plugins.literature.bm25.search import Hit
from kgqa_hpc.plugins.literature.documents.document import Document
from kgqa_hpc.text import bounded_json
from kgqa_hpc.text.plain_text import plain_line
from kgqa_hpc.text.services import answer_within

# Environment variable with "user:password", so that no configuration contains it.
CREDENTIALS = "KGQA_OPENSEARCH_AUTH"
FIELDS = ["title", "text"]
ATTEMPTS = 4
LONGEST_ANSWER = 600.0  # s for the whole answer
LARGEST_REPLY = 64 << 20  # bytes
# HTTP codes to retry: 429, and errors of a proxy or of a node that is starting.
_PASSING = {429, 502, 503, 504}


class OpenSearchIndex:
    """The index `name` of the service at `url`, whose documents have the fields `title` and `text`.

    Implements `Retriever`. `pause`: seconds before the second attempt, doubled for each further attempt.
    Raises InputError if the service refuses a request, StoreError if it does not answer.
    """

    def __init__(self, url: str, name: str, pause: float = 1.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url}: not the address of a search service", "http://host:9200")
        self._base = f"{url.rstrip('/')}/{urllib.parse.quote(name, safe='')}"
        self._root = f"{url.rstrip('/')}/"
        self._pause = pause

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The `k` best documents with any word of the query, best first."""
        match = {"query": query, "fields": FIELDS, "type": "cross_fields", "operator": "or"}
        body = {"size": k, "_source": FIELDS, "query": {"multi_match": match}}
        reply = self._ask(f"{self._base}/_search", body)
        try:
            hits = [
                Hit(str(hit["_id"]), float(hit["_score"]), self._document(hit))
                for hit in reply["hits"]["hits"][:k]
            ]
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as problem:
            raise StoreError(
                f"{self._base}: no list of hits: {plain_line(repr(problem))}", "is it OpenSearch?"
            ) from None
        return sorted(hits, key=lambda hit: (-hit.score, hit.id))

    def document(self, name: str) -> Document | None:
        reply = self._ask(f"{self._base}/_doc/{urllib.parse.quote(name, safe='')}", missing={"found": False})
        return self._document(reply) if reply.get("found") else None

    def provenance(self) -> dict[str, Any]:
        """The service's version, and the index's settings (with its unique id) and mappings."""
        return {
            "service": self._ask(self._root).get("version", {}),
            "settings": self._ask(f"{self._base}/_settings"),
            "mappings": self._ask(f"{self._base}/_mapping"),
            "fields": FIELDS,
        }

    def _document(self, hit: dict[str, Any]) -> Document:
        title, text = (str(hit.get("_source", {}).get(field) or "") for field in FIELDS)
        return Document(hit["_id"], title, text)

    def _ask(self, url: str, body: Any = None, missing: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        if os.environ.get(CREDENTIALS):
            secret = base64.b64encode(os.environ[CREDENTIALS].encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {secret}")
        for attempt in range(ATTEMPTS):
            time.sleep(self._pause * 2 ** (attempt - 1) if attempt else 0)
            try:
                with answer_within(request, LONGEST_ANSWER) as answer:
                    data = bytearray()
                    while part := answer.read1(1 << 20):
                        data += part
                        if len(data) > LARGEST_REPLY:
                            problem = f"{url}: answered more than {LARGEST_REPLY >> 20} MiB"
                            raise StoreError(problem, "ask for fewer documents")
                    return dict(bounded_json.loads(bytes(data)))
            except urllib.error.HTTPError as problem:
                if problem.code == 404 and missing is not None:
                    return missing
                if problem.code not in _PASSING:
                    raise InputError(f"{url}: {problem.code} {problem.reason}", "check the index") from None
                reason = f"{problem.code} {problem.reason}"
            except (OSError, http.client.HTTPException, ValueError, TypeError) as problem:
                reason = plain_line(str(problem))
        raise StoreError(f"{url}: no answer after {ATTEMPTS} attempts: {reason}", "is the service up?")
