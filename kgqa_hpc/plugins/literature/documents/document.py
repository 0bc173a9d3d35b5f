"""A document: what can be indexed, searched, quoted and asked about; and the readers of rows.

Every reader of this folder turns a file into a stream of changes: records, and deletions of earlier ones. JSON Lines
and Parquet have `id`, `title` and `text`; other columns are passed over. `id` is text or a whole number and must be
there; a missing or null title or text is empty text. Files of queries are read here too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.text.bounded_json import json_objects
from kgqa_hpc.text.streams import UNPACKED_FREELY, UNPACKED_RATIO, open_bytes

BATCH_BYTES = 16 << 20  # bytes of text per batch, by the file's own metadata
BATCH_ROWS = 1000
LONGEST_ID = 1000
_COLUMNS = ("id", "title", "text")


@dataclass(frozen=True, slots=True)
class OtherAbstract:
    """An abstract beside the main one: a translation, a plain-language summary, another agency's."""

    kind: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    `id`: a PMID, a PMC id with `#` and the number of the chunk, or what the user's file says.
    `text`: plain text; the parts of a structured abstract are lines that begin with `LABEL: `.
    `version`: of two documents with the same id, the higher version stands; of equal ones the later.
    `retracted`: the source says that the publication was retracted.
    """

    id: str
    title: str
    text: str
    version: int = 1
    retracted: bool = False
    others: tuple[OtherAbstract, ...] = ()

    @property
    def searchable(self) -> str:
        """What an index sees: title and text, and the English abstracts beside where there is no main one."""
        parts = [self.title, self.text]
        if not self.text:
            parts += [abstract.text for abstract in self.others if abstract.language in ("", "eng")]
        return "\n".join(part for part in parts if part)


# Id and version of a record, and a function that makes its document; None for a deletion, which withdraws every
# earlier record of the id up to the version.
Change = tuple[str, int, Callable[[], Document] | None]


def jsonl_changes(path: Path) -> Iterator[Change]:
    """One document a line. Raises DocumentFormatError with the line."""
    for number, row in json_objects(path, DocumentFormatError):
        if "text" not in row and "title" not in row:
            problem = f"{path} line {number:,}: neither 'text' nor 'title'"
            raise DocumentFormatError(problem, "a document is {id, title, text}")
        yield _change(f"{path} line {number:,}", row)


def parquet_changes(path: Path) -> Iterator[Change]:
    """One document a row, read batch by batch. Raises DocumentFormatError with the row."""
    import pyarrow
    import pyarrow.parquet

    try:
        with open_bytes(path) as source:
            names = pyarrow.parquet.read_schema(source).names
            columns = [name for name in _COLUMNS if name in names]
            if "id" not in columns or len(columns) < 2:
                problem = f"{path}: has the columns {', '.join(names)[:200]}"
                raise DocumentFormatError(problem, "documents need the columns id, title, text")
            number = 0
            file = pyarrow.parquet.ParquetFile(source, read_dictionary=columns)
            rows = _batch_rows(path, file.metadata)
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                for k in range(len(batch)):
                    number += 1
                    row = {name: batch.column(name)[k].as_py() for name in columns}
                    yield _change(f"{path} row {number:,}", row)
    except (pyarrow.ArrowException, OSError) as error:
        raise DocumentFormatError(f"{path}: not readable as Parquet: {str(error)[:200]}") from None


def _batch_rows(path: Path, metadata: Any) -> int:
    """Rows of a batch, so that it stays small. Raises DocumentFormatError for texts that are packed too much."""
    largest = 1
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        packed = sum(group.column(c).total_compressed_size for c in range(group.num_columns))
        if group.total_byte_size > max(UNPACKED_FREELY, UNPACKED_RATIO.value * packed):
            cure = f"write it again without compression, or set {UNPACKED_RATIO.variable} to a larger number"
            raise DocumentFormatError(
                f"{path}: {packed:,} bytes that unpack to {group.total_byte_size:,}", cure
            )
        largest = max(largest, group.total_byte_size // max(group.num_rows, 1))
    return max(1, min(BATCH_ROWS, BATCH_BYTES // largest))


def document_id(location: str, value: Any) -> str:
    """A document's id as text. Raises DocumentFormatError when it is neither text nor a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DocumentFormatError(f"{location}: 'id' is missing or not text", "give each document an id")
    if len(str(value)) > LONGEST_ID:
        raise DocumentFormatError(f"{location}: 'id' is longer than {LONGEST_ID} characters")
    return str(value)


def _change(location: str, row: dict[str, Any]) -> Change:
    title, text = ("" if row.get(key) is None else row[key] for key in ("title", "text"))
    for key, value in (("title", title), ("text", text)):
        if not isinstance(value, str):
            raise DocumentFormatError(f"{location}: '{key}' is not text")
    document = Document(document_id(location, row.get("id")), title, text)
    return document.id, document.version, lambda: document


def read_queries(path: Path) -> Iterator[tuple[str, str]]:
    """(id, query) of each line of JSON Lines, in order; without `id` it has its number. Raises DocumentFormatError."""
    if not path.is_file():
        raise DocumentFormatError(f"{path}: no such file")
    for number, row in json_objects(path, DocumentFormatError):
        location = f"{path} line {number:,}"
        if not isinstance(row.get("query"), str):
            raise DocumentFormatError(f"{location}: 'query' is missing or not text", "a query is {id, query}")
        yield (document_id(location, row["id"]) if "id" in row else str(number)), row["query"]
