"""One stream of documents from files of several formats, each id once.

The first bytes of a file tell its format: Parquet, JSON Lines, or XML (MEDLINE or JATS by its elements), the last two
plain or gzip. Files apply in the given order: a later record replaces an earlier one of the same id unless its version
is lower, and a deletion removes earlier records. Each file is read twice, first for the ids and versions that remain at
the end; memory holds the ids (about 150 bytes each), never the texts.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.plugins.literature.documents.document import Change, Document, jsonl_changes, parquet_changes
from kgqa_hpc.plugins.literature.documents.xml import open_bytes, xml_changes

SUFFIXES = (".xml", ".xml.gz", ".nxml", ".nxml.gz", ".jsonl", ".jsonl.gz", ".ndjson", ".parquet")


class Standing:
    """Which changes of a stream are valid at its end, by their number in the stream."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        self._number = 0
        self.replaced: set[int] = set()
        self.deleted: set[int] = set()

    def add(self, name: str, version: int, deletion: bool) -> None:
        last = self._last.get(name)
        if deletion:
            if last is not None and last[1] <= version:
                self.deleted.add(last[0])
                del self._last[name]
        elif last is not None and last[1] > version:
            self.replaced.add(self._number)
        else:
            if last is not None:
                self.replaced.add(last[0])
            self._last[name] = (self._number, version)
        self._number += 1

    def stands(self, number: int) -> bool:
        return number not in self.replaced and number not in self.deleted


def read_documents(paths: Iterable[str | Path]) -> Iterator[Document]:
    """The documents that remain after all files are applied in the given order.

    `paths` may name folders: their document files, by name.
    Raises DocumentFormatError (a file is missing, damaged, or of no known format).
    """
    files, standing = document_files(paths), Standing()
    for path in files:
        for name, version, make in changes(path):
            standing.add(name, version, deletion=make is None)
    for number, (_, _, make) in enumerate(change for path in files for change in changes(path)):
        if make is not None:
            document = make()
            if standing.stands(number):
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
    with open_bytes(path) as file:
        head = file.read(4096)
    if head.startswith(b"PAR1"):
        return parquet_changes(path)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if start == b"<" or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return xml_changes(path)
    if start in (b"{", b""):
        return jsonl_changes(path)
    problem = f"{path}: neither XML nor JSON Lines nor Parquet"
    raise DocumentFormatError(problem, "documents are MEDLINE or JATS XML, or {id, title, text}")
