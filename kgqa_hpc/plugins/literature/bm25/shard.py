"""Split of the input files over the shards of an index, and a shard: a tantivy index with the documents stored in it.

An input file is read once and becomes a part: a folder with one compressed file of changes for each shard. A document
and every later version or deletion of it go to the same shard, by a hash of its id, so each shard alone determines the
documents that remain. Parts and shards appear whole. The build of a shard first determines the latest version of each
document, then adds the documents in one thread, so that memory stays at the writer's heap. An open shard offers the
data for an exact BM25 over many shards: document frequencies, the documents, and the total number of terms.

Terms are runs of letters and digits, lower case, without English stop words (the list of tantivy, Lucene's); stemmed
only when asked for.

The manifest of an index, `index.json`, holds the parameters, the input files with their sha256, the counts, what
building cost, and every file of the shards with its checksum. A finished index is never changed.
"""

import hashlib
import io
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple
from importlib import metadata
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import orjson
import tantivy

from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.plugins.literature.documents.document import Document, OtherAbstract
from kgqa_hpc.plugins.literature.documents.read import Standing, changes
from kgqa_hpc.store import canonical
from kgqa_hpc.store.canonical import read_document, write_document
from kgqa_hpc.store.replace_folder import replaced_folder

PART_FACTS = "part.json"
K1 = 1.2
B = 0.75
TOKENIZER = "kgqa"
# Longer runs of letters are sequences or damage, not words.
LONGEST_TERM = 255


def parameters(stem: bool) -> dict[str, Any]:
    """Parameters of terms and scores, for the provenance."""
    return {
        "k1": K1,
        "b": B,
        "idf": "ln(1 + (N - n + 0.5) / (n + 0.5))",
        "terms": "runs of letters and digits, lower case",
        "stop_words": "english",
        "stemmer": "english" if stem else None,
        "longest_term_bytes": LONGEST_TERM,
        "engine": f"tantivy {metadata.version('tantivy')}",
    }


def analyzer(stem: bool) -> tantivy.TextAnalyzer:
    """The same text gives the same terms, in a document and in a query."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_TERM + 1))
    builder = builder.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.stopword("english"))
    if stem:
        builder = builder.filter(tantivy.Filter.stemmer("english"))
    return builder.build()


def shard_of(name: str, shards: int) -> int:
    """The shard of the document `name`: the same on every machine, whatever else is indexed."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % shards


def write_part(source: Path, target: Path, shards: int) -> None:
    """Split the changes of one file over the shards. Raises DocumentFormatError, DiskFull, and then leaves nothing."""
    import pyarrow

    began, records, deletions, size = time.process_time(), 0, 0, 0
    with replaced_folder(target) as folder, ExitStack() as stack:
        outputs = [
            stack.enter_context(pyarrow.output_stream(_file(folder, shard), compression="zstd"))
            for shard in range(shards)
        ]
        for name, version, make in changes(source):
            content = content_of(make()) if make is not None else None
            line = orjson.dumps([name, version, content], option=orjson.OPT_APPEND_NEWLINE)
            outputs[shard_of(name, shards)].write(line)
            size += len(line)
            records += content is not None
            deletions += content is None
        stack.close()
        facts = {"records": records, "deletions": deletions, "text_bytes": size}
        write_document(folder / PART_FACTS, {**facts, "cpu_seconds": round(time.process_time() - began, 3)})


def read_changes(parts: list[Path], shard: int) -> Iterator[Any]:
    """The changes of one shard as they were written, in the order of the parts: [id, version, content]."""
    import pyarrow

    for part in parts:
        with pyarrow.input_stream(_file(part, shard), compression="zstd") as stream:
            for line in io.BufferedReader(stream, 1 << 20):
                yield orjson.loads(line)


def load_document(name: str, version: int, content: list[Any]) -> Document:
    """The document that was written as [id, version, content]."""
    title, text, retracted, abstracts = content
    beside = tuple(OtherAbstract(*abstract) for abstract in abstracts)
    return Document(name, title, text, version, retracted, beside)


def content_of(document: Document) -> list[Any]:
    """The stored fields of a document besides id and version."""
    abstracts = [astuple(abstract) for abstract in document.others]
    return [document.title, document.text, document.retracted, abstracts]


def _file(folder: Path, shard: int) -> str:
    return str(folder / f"shard-{shard:04d}.zst")


FACTS = "shard.json"
# Bytes that the writer buffers before it writes a segment; tools/bench_index.py measures the effect.
HEAP_BYTES = 64 << 20
# tantivy's own thread may add its lock file once to a folder that is being removed.
ATTEMPTS = 10


def schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("terms", tokenizer_name=TOKENIZER, index_option="freq")
    builder.add_bytes_field("document", stored=True)
    return builder.build()


def write_shard(parts: list[Path], number: int, target: Path, stem: bool) -> None:
    """Build shard `number` from its share of the parts; `target` appears whole.

    Raises DiskFull, StoreError.
    """
    began = time.process_time()
    standing = Standing()
    for name, version, content in read_changes(parts, number):
        standing.add(name, version, content is None)
    with replaced_folder(target) as folder:
        index = tantivy.Index(schema(), path=str(folder))
        index.register_tokenizer(TOKENIZER, analyzer(stem))
        writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
        tokenizer, documents, words = analyzer(stem), 0, 0
        for change_number, (name, version, content) in enumerate(read_changes(parts, number)):
            if content is not None and standing.stands(change_number):
                document = load_document(name, version, content)
                documents, words = documents + 1, words + len(tokenizer.analyze(document.searchable))
                writer.add_document(_entry(document))
        writer.commit()
        writer.wait_merging_threads()
        del writer
        for lock in folder.glob(".*.lock"):
            lock.unlink()
        dropped = {"replaced": len(standing.replaced), "deleted": len(standing.deleted)}
        facts = {"documents": documents, "terms": words, **dropped}
        write_document(folder / FACTS, {**facts, "cpu_seconds": round(time.process_time() - began, 3)})


def _entry(document: Document) -> tantivy.Document:
    entry = tantivy.Document()
    entry.add_text("id", document.id)
    entry.add_text("terms", document.searchable)
    entry.add_bytes("document", orjson.dumps([document.id, document.version, content_of(document)]))
    return entry


class Shard:
    """An open shard. `documents` is their number.

    tantivy writes a lock file where it opens, which a read-only or foreign folder refuses; so it is given a
    folder of links to the files. The links go as soon as the files are open, so that a process that is killed
    leaves none behind.
    """

    def __init__(self, folder: Path, stem: bool) -> None:
        links = Path(mkdtemp(prefix="kgqa-shard-"))
        try:
            for path in folder.absolute().iterdir():
                if path.suffix != ".lock":
                    (links / path.name).symlink_to(path)
            index = tantivy.Index.open(str(links))
            index.register_tokenizer(TOKENIZER, analyzer(stem))
            self._schema, self._searcher = index.schema, index.searcher()
        finally:
            for _ in range(ATTEMPTS):
                rmtree(links, ignore_errors=True)
        self.documents = self._searcher.num_docs

    def containing(self, term: str) -> int:
        """Number of documents that contain the term."""
        return self._searcher.doc_freq("terms", term)

    def ranked(self, weights: dict[str, float], limit: int) -> Iterator[tuple[float, tantivy.DocAddress]]:
        """(score, address) of the documents with any of these terms, best first, fetched as they are needed.

        `weights`: factors for the shard's own scores of the terms. `limit`: number of documents fetched first.
        """
        clauses = []
        for term, weight in weights.items():
            clause = tantivy.Query.term_query(self._schema, "terms", term, index_option="freq")
            boosted = clause if weight == 1.0 else tantivy.Query.boost_query(clause, weight)
            clauses.append((tantivy.Occur.Should, boosted))
        query, offset = tantivy.Query.boolean_query(clauses), 0
        while True:
            hits = self._searcher.search(query, limit, count=False, offset=offset).hits
            yield from hits
            if len(hits) < limit:
                return
            offset, limit = offset + limit, 3 * (offset + limit)

    def document(self, address: tantivy.DocAddress) -> Document:
        return load_document(*orjson.loads(self._searcher.doc(address)["document"][0]))


MANIFEST = "index.json"
VERSION = 1
# Up to this size every byte is verified whenever an index is opened: it takes under a second.
VERIFIED_ALWAYS = 512 << 20


def describe_file(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": canonical.sha256_of(path)}


def fingerprint(parameters: dict[str, Any], inputs: list[dict[str, Any]]) -> str:
    """The fingerprint of an index: equal inputs and parameters, equal fingerprint."""
    return canonical.digest({"parameters": parameters, "inputs": [source["sha256"] for source in inputs]})


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Describe every file of the finished shards. Raises DiskFull."""
    files = {
        str(path.relative_to(folder)): describe_file(path)
        for path in sorted((folder / "shards").rglob("*"))
        if path.is_file()
    }
    write_document(folder / MANIFEST, {"format": "kgqa-index", "version": VERSION, **content, "files": files})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished index. Raises InputError (the folder is none), CorruptFile, NewerFormat."""
    if not (folder / MANIFEST).is_file():
        problem = f"{folder}: not an index (no {MANIFEST} in it)"
        raise InputError(problem, "make one: kgqa index build INDEX DOCS…")
    return read_document(folder / MANIFEST, "index", VERSION)


def verify(folder: Path, manifest: dict[str, Any], every_byte: bool | None = None) -> None:
    """Check the files against the manifest: names and sizes always, every byte when small or when asked for.

    Raises CorruptFile with the name of the file.
    """
    files = manifest["files"]
    if every_byte is None:
        every_byte = sum(file["bytes"] for file in files.values()) <= VERIFIED_ALWAYS
    for name, expected in files.items():
        path = folder / name
        cure = "remove the index and build it again"
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise CorruptFile(f"{path}: missing, or not as long as it was written", cure)
        if every_byte and canonical.sha256_of(path) != expected["sha256"]:
            raise CorruptFile(f"{path}: the checksum does not match the content", cure)
