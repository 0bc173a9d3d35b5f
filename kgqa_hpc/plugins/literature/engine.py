"""A BM25 index as an engine: the last message of a request is the query, the answer is the list of hits as JSON.

    {"documents": [{"id": "9", "score": 12.3, "title": "…", "text": "…"}, …]}

The schema of the request sets the number of documents (maxItems of `documents`), the fields, and the maximum
lengths of their texts; a longer text is cut at the end, so offsets stay those of the document. No model takes
part: the same query gives the same answer for any seed and temperature.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import orjson
from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.plugins.literature.bm25.manifest import read_manifest
from kgqa_hpc.plugins.literature.bm25.search import Bm25Index, Retriever

FIELDS = ("id", "score", "title", "text")
_BATCH = 16  # requests that are queued while one is answered


class IndexSettings(EngineSettings):
    """An index that `kgqa index build` made, or a site's OpenSearch."""

    paths = ("path",)
    dangerous: ClassVar = frozenset({"url"})

    kind: Literal["index"] = "index"
    path: str | None = Field(None, description="The folder of the index.")
    url: str | None = Field(None, description="Address of an OpenSearch service, instead of a folder.")
    name: str | None = Field(None, description="Name of the index in the OpenSearch service at `url`.")

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
            self._index: Retriever = Bm25Index(Path(settings.path))
        elif settings.url and settings.name and not settings.path:
            from kgqa_hpc.plugins.literature.documents.opensearch import OpenSearchIndex

            self._index = OpenSearchIndex(settings.url, settings.name)
        else:
            problem = "engine index needs either `path`, or `url` and `name`"
            raise EngineConfigError(problem, "make an index with: kgqa index build")
        provenance = self._index.provenance()
        parameters = provenance.get("parameters") or {}
        self.info = EngineInfo(
            name="index",
            version=str(parameters.get("engine", "")),
            model=Path(settings.path).name if settings.path else str(settings.name),
            digest=str(provenance.get("fingerprint", "")),
            max_batch=_BATCH,
            settings=orjson.dumps(parameters, option=orjson.OPT_SORT_KEYS).decode() if parameters else "",
        )

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        """Raises EngineConfigError for a schema that does not ask for documents."""
        for schema in schemas:
            fields = _fields(schema)
            if not fields or fields.keys() - set(FIELDS) or set(schema["properties"]) != {"documents"}:
                raise EngineConfigError(
                    "engine index answers with a list `documents` of "
                    f"{', '.join(FIELDS)}, and this prompt asks for something else",
                    "give the step retrieve a pass of its own, and the other steps another engine",
                )

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        for request in mailbox:
            schema = request.schema or {}
            if not (fields := _fields(schema)):
                text = "the index answers nothing but queries"
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
    """The fields that the schema wants of each document; empty when it asks for no documents."""
    documents = (schema.get("properties") or {}).get("documents") or {}
    fields: Mapping[str, Any] = (documents.get("items") or {}).get("properties") or {}
    return fields
