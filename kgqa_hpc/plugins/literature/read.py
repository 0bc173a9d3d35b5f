"""One stream of documents from files of several formats, each id once; and files of queries.

The first bytes of a file tell its format: Parquet, JSON Lines, or XML (MEDLINE or JATS by its elements), the last two
plain or gzip. Files apply in the given order: a later record replaces an earlier one of the same id unless its version
is lower, and a deletion removes earlier records. Each file is read twice, first for the ids and versions that remain at
the end; memory holds the ids (about 150 bytes each), never the texts.

Every reader turns a file into a stream of changes: records, and deletions of earlier ones. JSON Lines and Parquet have
`id`, `title` and `text`; other columns are passed over. `id` is text or a whole number and must be there; a missing or
null title or text is empty text.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.document import Change, Document
from kgqa_hpc.plugins.literature.xml import buffered, xml_changes
from kgqa_hpc.text.streams import UNPACKED_FREELY, UNPACKED_RATIO, json_objects, open_bytes

SUFFIXES = (".xml", ".xml.gz", ".nxml", ".nxml.gz", ".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
BATCH_BYTES = 16 << 20  # maximum bytes of text per batch, estimated from the file's metadata
BATCH_ROWS = 1000
LONGEST_ID = 1000
_COLUMNS = ("id", "title", "text")


def superseded(stream: Iterable[tuple[str, int, bool]]) -> tuple[set[int], set[int]]:
    """The numbers of the changes that a later change makes invalid: of replaced and of deleted records.

    `stream`: id and version of each change, and whether it is a deletion.
    """
    last: dict[str, tuple[int, int]] = {}  # per id: position and version of its valid change
    replaced, deleted = set[int](), set[int]()
    for number, (name, version, deletion) in enumerate(stream):
        before = last.get(name)
        if deletion:
            if before is not None and before[1] <= version:
                deleted.add(before[0])
                del last[name]
        elif before is not None and before[1] > version:
            replaced.add(number)
        else:
            if before is not None:
                replaced.add(before[0])
            last[name] = number, version
    return replaced, deleted


def read_documents(paths: Iterable[str | Path]) -> Iterator[Document]:
    """The documents that remain after all files are applied in the given order.

    A folder in `paths` stands for its document files, sorted by name.
    Raises DocumentFormatError (a file is missing, damaged, or of no known format).
    """
    files = document_files(paths)
    stream = ((name, version, make is None) for path in files for name, version, make in changes(path))
    outdated = set[int]().union(*superseded(stream))
    for number, (_, _, make) in enumerate(change for path in files for change in changes(path)):
        if make is not None:
            document = make()
            if number not in outdated:
                yield document


def document_files(paths: Iterable[str | Path]) -> list[Path]:
    """The document files of the paths; a folder is replaced by its document files, sorted by name.

    Raises DocumentFormatError.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if entry.name.lower().endswith(SUFFIXES))
            if not inside:
                raise DocumentFormatError(f"{path}: no document files in it", f"known: {', '.join(SUFFIXES)}")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise DocumentFormatError(f"{path}: no such file")
    return files


def changes(path: Path) -> Iterator[Change]:
    """Records and deletions of one file, in its order. Raises DocumentFormatError."""
    with buffered(path) as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return _parquet_changes(path)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start == b"<" or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return xml_changes(path)
    broken_download = not start and "xml" in path.name.lower()
    if start in (b"{", b"") and not broken_download:
        rows = json_objects(path, DocumentFormatError)
        return (_change(f"{path} line {number:,}", row) for number, row in rows)
    problem = f"{path}: neither XML nor JSON Lines nor Parquet"
    raise DocumentFormatError(problem, "documents are MEDLINE or JATS XML, or {id, title, text}")


def _parquet_changes(path: Path) -> Iterator[Change]:
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
    """Number of rows per batch, so that it stays small. Raises DocumentFormatError for too high a compression ratio."""
    largest = 1
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        packed = sum(group.column(c).total_compressed_size for c in range(group.num_columns))
        if group.total_byte_size > max(UNPACKED_FREELY, UNPACKED_RATIO.value * packed):
            cure = f"write it again without compression, or set {UNPACKED_RATIO.variable} to a larger number"
            problem = f"{path}: {packed:,} bytes that unpack to {group.total_byte_size:,}"
            raise DocumentFormatError(problem, cure)
        largest = max(largest, group.total_byte_size // max(group.num_rows, 1))
    return max(1, min(BATCH_ROWS, BATCH_BYTES // largest))


def _document_id(location: str, value: Any) -> str:
    """A document's id as text. Raises DocumentFormatError when it is neither text nor a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DocumentFormatError(f"{location}: 'id' is missing or not text", "give each document an id")
    if len(str(value)) > LONGEST_ID:
        raise DocumentFormatError(f"{location}: 'id' is longer than {LONGEST_ID} characters")
    return str(value)


def _change(location: str, row: dict[str, Any]) -> Change:
    if "text" not in row and "title" not in row:
        raise DocumentFormatError(
            f"{location}: neither 'text' nor 'title'", "a document is {id, title, text}"
        )
    title, text = ("" if row.get(key) is None else row[key] for key in ("title", "text"))
    for key, value in (("title", title), ("text", text)):
        if not isinstance(value, str):
            raise DocumentFormatError(f"{location}: '{key}' is not text")
    document = Document(_document_id(location, row.get("id")), title, text)
    return document.id, document.version, lambda: document


def read_queries(path: Path) -> Iterator[tuple[str, str]]:
    """(id, query) of each line of JSON Lines, in order; the id of a query without `id` is its number. Raises
    DocumentFormatError.
    """
    if not path.is_file():
        raise DocumentFormatError(f"{path}: no such file")
    for number, row in json_objects(path, DocumentFormatError):
        location = f"{path} line {number:,}"
        if not isinstance(row.get("query"), str):
            raise DocumentFormatError(f"{location}: 'query' is missing or not text", "a query is {id, query}")
        yield (_document_id(location, row["id"]) if "id" in row else str(number)), row["query"]
