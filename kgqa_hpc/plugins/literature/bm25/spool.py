"""Split of one input file, read once, over the shards of an index that is being built.

A document and every later version or deletion of it go to the same shard, by a hash of its id, so each shard
alone determines the documents that remain. A part is a folder with one compressed file of changes for each shard;
it appears whole.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.plugins.literature.documents.document import Deletion, Document, OtherAbstract
from kgqa_hpc.plugins.literature.documents.read import changes
from kgqa_hpc.store.document import write_document
from kgqa_hpc.store.replace_folder import replaced_folder

FACTS = "part.json"


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
        for change in changes(source):
            line = _dump(change)
            outputs[shard_of(change.id, shards)].write(line)
            size += len(line)
            if isinstance(change, Document):
                records += 1
            else:
                deletions += 1
        stack.close()
        facts = {"records": records, "deletions": deletions, "text_bytes": size}
        write_document(folder / FACTS, {**facts, "cpu_seconds": round(time.process_time() - began, 3)})


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
    return Document(
        name, title, text, version, retracted, tuple(OtherAbstract(*abstract) for abstract in abstracts)
    )


def content_of(document: Document) -> list[Any]:
    """The stored fields of a document besides id and version."""
    abstracts = [astuple(abstract) for abstract in document.others]
    return [document.title, document.text, document.retracted, abstracts]


def _dump(change: Document | Deletion) -> bytes:
    content = content_of(change) if isinstance(change, Document) else None
    return orjson.dumps([change.id, change.version, content], option=orjson.OPT_APPEND_NEWLINE)


def _file(folder: Path, shard: int) -> str:
    return str(folder / f"shard-{shard:04d}.zst")
