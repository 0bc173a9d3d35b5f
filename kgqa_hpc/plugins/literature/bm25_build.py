"""Index build in three stages: input files are split into parts, parts become shards, shards form the index.

An input file is read once and becomes a part: a folder with one compressed file of changes for each shard. A document
and every later version or deletion of it go to the same shard, by a hash of its id, so each shard alone determines the
documents that remain. A shard is a tantivy index with the documents stored in it. Its build first determines the latest
version of each document, then adds the documents in one thread, so that memory stays at the writer's heap.

The index is built in a hidden folder beside the target and renamed at the end, so after `kill -9` the target's
name holds a whole index or nothing. Parts and shards appear whole and stay, so the same command resumes. A build with
other documents or parameters starts the hidden folder afresh. A lock prevents a second build of the same index.
The result tells the cost of the build, and its linear projection to all of PubMed.
"""

import fcntl
import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from importlib import metadata
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any

import orjson

from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.plugins.literature import bm25
from kgqa_hpc.plugins.literature.bm25 import K1, LONGEST_TERM, MANIFEST, B, load_document
from kgqa_hpc.plugins.literature.read import changes, document_files, superseded
from kgqa_hpc.store.atomic import make_folder, sync_folder
from kgqa_hpc.store.canonical import digest, read_document, sha256_of, write_document
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.terminal import StageProgress

MAX_SHARDS = 1024
_PART_FACTS = "part.json"
_FACTS = "shard.json"
_PLAN = "plan.json"
_LOCK = "lock"
# A job: a function of this module, its arguments, and the folder that exists when it is done.
Job = tuple[Callable[..., None], tuple[Any, ...], Path]


def build_index(
    target: Path, documents: list[Path], *, shards: int, stem: bool, workers: int, progress: StageProgress
) -> dict[str, Any]:
    """Build the index at `target`; return its manifest. A finished index of the same inputs is verified and kept.

    Raises InputError (DocumentFormatError for a document file; another index or other files at `target`), StoreError.
    """
    if not 1 <= shards <= MAX_SHARDS:
        raise InputError(f"--shards {shards}: must be between 1 and {MAX_SHARDS}")
    files, target = document_files(documents), target.absolute()
    parameters = {**_parameters(stem), "shards": shards}
    inputs = [{"name": path.name, **_described(path)} for path in files]
    # Equal inputs and parameters, equal fingerprint.
    fingerprint = digest({"parameters": parameters, "inputs": [source["sha256"] for source in inputs]})
    plan = {"fingerprint": fingerprint, "parameters": parameters, "inputs": inputs}
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        content = bm25.read_manifest(target)
        if content["fingerprint"] != fingerprint:
            problem = f"{target}: an index of other documents or with other parameters is there"
            raise InputError(problem, "choose another folder, or remove that one")
        bm25.verify(target, content, every_byte=True)
        return content
    make_folder(target.parent)
    growing = target.with_name(f".{target.name}.building")
    with _locked(growing, plan):
        parts = [growing / "parts" / f"{n:06d}" for n in range(len(files))]
        folders = [growing / "shards" / f"{n:04d}" for n in range(shards)]
        if not (growing / MANIFEST).exists():
            by_part = zip(files, parts, strict=True)
            reading = [(write_part, (file, part, shards), part) for file, part in by_part]
            _work(reading, "reading", workers, progress)
            indexing = [(write_shard, (parts, n, to, stem), to) for n, to in enumerate(folders)]
            _work(indexing, "indexing", workers, progress)
            for leftover in set((growing / "shards").iterdir()) - set(folders):
                _remove(leftover)  # left by a killed process
            write_manifest(growing, {**plan, **_summary(parts, folders)})
        _publish(growing, target)
    return bm25.read_manifest(target)


def _parameters(stem: bool) -> dict[str, Any]:
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


def _described(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


@contextmanager
def _locked(growing: Path, plan: dict[str, Any]) -> Iterator[None]:
    """The locked hidden folder; emptied first if it belongs to a build with other inputs or parameters."""
    make_folder(growing)
    with open(growing / _LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"{growing}: another build of this index is under way", "wait for it") from None
        if not (growing / _PLAN).exists() or read_document(growing / _PLAN) != plan:
            for name in (MANIFEST, "parts", "shards"):
                _remove(growing / name)
            write_document(growing / _PLAN, plan)
        make_folder(growing / "parts")
        make_folder(growing / "shards")
        yield


def _work(jobs: Sequence[Job], label: str, workers: int, progress: StageProgress) -> None:
    """Execute the jobs whose folder does not exist yet, in this process or in several."""
    waiting = [job for job in jobs if not job[2].exists()]
    done, pool_size = len(jobs) - len(waiting), min(workers, len(waiting))
    progress(done, len(jobs), label)
    if pool_size <= 1:
        for function, arguments, _ in waiting:
            function(*arguments)
            progress(done := done + 1, len(jobs), label)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(pool_size, mp_context=context, initializer=_end_with_parent) as pool:
        futures = [pool.submit(function, *arguments) for function, arguments, _ in waiting]
        try:
            for future in as_completed(futures):
                future.result()
                progress(done := done + 1, len(jobs), label)
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Make a worker process end when the command's process is killed."""
    if parent := parent_process():
        Thread(target=lambda: wait([parent.sentinel]) and os._exit(1), daemon=True).start()


def write_part(source: Path, target: Path, shards: int) -> None:
    """Split the changes of one file over the shards. Raises DocumentFormatError, DiskFull, and then leaves nothing."""
    import pyarrow

    began, records, deletions, size = time.process_time(), 0, 0, 0
    with replaced_folder(target) as folder, ExitStack() as stack:
        streams = (pyarrow.output_stream(_file(folder, n), compression="zstd") for n in range(shards))
        outputs = [stack.enter_context(stream) for stream in streams]
        for name, version, make in changes(source):
            content = None  # a deletion
            if make is not None:
                document = make()
                abstracts = [astuple(abstract) for abstract in document.others]
                content = [document.title, document.text, document.retracted, abstracts]
            line = orjson.dumps([name, version, content], option=orjson.OPT_APPEND_NEWLINE)
            # The id alone determines the shard, on every machine and among any documents.
            shard = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % shards
            outputs[shard].write(line)
            size += len(line)
            records += content is not None
            deletions += content is None
        stack.close()
        facts = {"records": records, "deletions": deletions, "text_bytes": size}
        write_document(folder / _PART_FACTS, {**facts, "cpu_seconds": round(time.process_time() - began, 3)})


def read_changes(parts: list[Path], shard: int) -> Iterator[Any]:
    """The changes of one shard as they were written, in the order of the parts: [id, version, content]."""
    import pyarrow

    for part in parts:
        with pyarrow.input_stream(_file(part, shard), compression="zstd") as stream:
            for line in io.BufferedReader(stream, 1 << 20):
                yield orjson.loads(line)


def _file(folder: Path, shard: int) -> str:
    return str(folder / f"shard-{shard:04d}.zst")


def write_shard(parts: list[Path], number: int, target: Path, stem: bool) -> None:
    """Build shard `number` from its share of the parts; `target` appears whole.

    Raises DiskFull, StoreError.
    """
    began, tokenizer = time.process_time(), bm25.analyzer(stem)
    facts = {"documents": 0, "terms": 0}
    stream = ((name, version, content is None) for name, version, content in read_changes(parts, number))
    replaced, deleted = superseded(stream)
    outdated = replaced | deleted

    def documents() -> Iterator[tuple[str, str, bytes]]:
        for change_number, (name, version, content) in enumerate(read_changes(parts, number)):
            if content is not None and change_number not in outdated:
                text = load_document(name, version, content).searchable
                facts["documents"] += 1
                facts["terms"] += len(tokenizer.analyze(text))
                yield name, text, orjson.dumps([name, version, content])

    with replaced_folder(target) as folder:
        bm25.add_documents(bm25.new_index(folder, stem), documents())
        for lock in folder.glob(".*.lock"):
            lock.unlink()
        dropped = {"replaced": len(replaced), "deleted": len(deleted)}
        spent = {"cpu_seconds": round(time.process_time() - began, 3)}
        write_document(folder / _FACTS, {**facts, **dropped, **spent})


def _summary(parts: list[Path], folders: list[Path]) -> dict[str, Any]:
    read = [read_document(part / _PART_FACTS) for part in parts]
    built = [read_document(folder / _FACTS) for folder in folders]
    counts = {key: sum(facts[key] for facts in read) for key in ("records", "deletions")}
    counts |= {key: sum(facts[key] for facts in built) for key in ("documents", "replaced", "deleted")}
    scratch_bytes, index_bytes = (
        sum(path.stat().st_size for folder in group for path in folder.rglob("*") if path.is_file())
        for group in (parts, folders)
    )
    cost = {
        "reading_cpu_seconds": round(sum(facts["cpu_seconds"] for facts in read), 3),
        "indexing_cpu_seconds": round(sum(facts["cpu_seconds"] for facts in built), 3),
        "text_bytes": sum(facts["text_bytes"] for facts in read),
        "scratch_bytes": scratch_bytes,
        "index_bytes": index_bytes,
    }
    lengths = [{key: facts[key] for key in ("documents", "terms")} for facts in built]
    return {"counts": counts, "cost": cost, "shards": lengths}


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write the manifest, with size and checksum of every file of the finished shards. Raises DiskFull."""
    paths = filter(Path.is_file, sorted((folder / "shards").rglob("*")))
    files = {str(path.relative_to(folder)): _described(path) for path in paths}
    header = {"format": "kgqa-index", "version": bm25.VERSION}
    write_document(folder / MANIFEST, {**header, **content, "files": files})


def _publish(growing: Path, target: Path) -> None:
    """Rename the finished folder to its target, after removing intermediate files."""
    for name in ("parts", _PLAN, _LOCK):
        _remove(growing / name)
    sync_folder(growing)
    os.rename(growing, target)
    sync_folder(target.parent)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# PubMed's citations, rounded (NLM, baseline of 2025).
PUBMED = 38_000_000


def summary(index: str, content: dict[str, Any]) -> dict[str, Any]:
    """The JSON output of `kgqa index build --json`, with a projection: CPU hours and bytes for PUBMED such documents.

    The projection is linear in the number of documents, as measured up to a million (tools/bench_index.py); it is empty
    for an index without documents.
    """
    keys, projection = ("fingerprint", "parameters", "counts", "cost"), {}
    if indexed := content["counts"]["documents"]:
        cost, factor = content["cost"], PUBMED / indexed
        projection = {
            "documents": PUBMED,
            "reading_cpu_hours": round(cost["reading_cpu_seconds"] * factor / 3600, 2),
            "indexing_cpu_hours": round(cost["indexing_cpu_seconds"] * factor / 3600, 2),
            "index_bytes": round(cost["index_bytes"] * factor),
            "scratch_bytes": round(cost["scratch_bytes"] * factor),
        }
    return {"index": index, **{key: content[key] for key in keys}, "projection": projection}


def render(facts: dict[str, Any]) -> str:
    """The summary as text."""
    counts, cost, line = facts["counts"], facts["cost"], facts["projection"]
    rows = [
        f"{facts['index']}",
        f"documents  {counts['documents']:,} of {counts['records']:,} records"
        f" · replaced {counts['replaced']:,} · deleted {counts['deleted']:,}",
        f"cost       {cost['reading_cpu_seconds']:.1f} + {cost['indexing_cpu_seconds']:.1f} CPU seconds"
        f" (reading, indexing) · {_sizes(cost)}",
    ]
    if line:
        rows.append(
            f"projection {line['documents']:,} documents: {line['reading_cpu_hours']:.2f} + "
            f"{line['indexing_cpu_hours']:.2f} CPU hours · {_sizes(line)} (linear projection)"
        )
    return "\n".join(rows)


def _sizes(cost: dict[str, Any]) -> str:
    index, scratch = cost["index_bytes"] / 1e9, cost["scratch_bytes"] / 1e9
    return f"{index:.3g} GB, and {scratch:.3g} GB while building"
