"""Commands about documents: build and search an index, find names in text."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kgqa_hpc.cli.app import AsJson, print_json, print_result
from kgqa_hpc.text.plain_text import printable

index = typer.Typer(help="Ranked search over documents (BM25).", no_args_is_help=True)

Documents = Annotated[
    list[Path],
    typer.Argument(
        metavar="DOCS…", help="MEDLINE or JATS XML, JSONL, Parquet, or folders of them, in order."
    ),
]
Index = Annotated[Path, typer.Argument(metavar="INDEX", help="The folder of the index.")]


@index.command(name="build")
def index_build(
    index: Index,
    documents: Documents,
    shards: Annotated[int, typer.Option(min=1, help="Number of shards.")] = 4,
    stem: Annotated[bool, typer.Option("--stem", help="Stem English words.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: cores, at most 8.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build a BM25 index of documents."""
    from kgqa_hpc.plugins.literature.bm25_build import build_index, render, summary
    from kgqa_hpc.terminal import stage_progress
    from kgqa_hpc.threads import usable_cores

    with stage_progress() as progress:
        number = workers or min(8, usable_cores())  # a process holds up to 256 MB
        content = build_index(index, documents, shards=shards, stem=stem, workers=number, progress=progress)
    counts = summary(str(index), content)
    print_result(counts, render(counts), as_json)


@index.command(name="search")
def index_search(
    index: Index,
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="Plain words, no operators.")] = None,
    queries: Annotated[Path | None, typer.Option(help="JSONL with id and query, answered in order.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="Documents per query.")] = 10,
    verify: Annotated[bool, typer.Option("--verify", help="Verify every byte.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the documents that match a query best; with --json one line per query."""
    from kgqa_hpc.errors import InputError
    from kgqa_hpc.plugins.literature.bm25 import Bm25Index
    from kgqa_hpc.plugins.literature.read import read_queries

    if (query is None) == (queries is None):
        raise InputError("one of QUERY and --queries FILE is needed", 'kgqa index search INDEX "some words"')
    opened = Bm25Index(index, every_byte=True if verify else None)
    asked: Iterator[tuple[str | None, str]] = iter([(None, query or "")])
    for name, text in read_queries(queries) if queries is not None else asked:
        hits = opened.search(text, k)
        if as_json:
            answer = {"query": text, "hits": [{"id": hit.id, "score": hit.score} for hit in hits]}
            print_json(answer if name is None else {"id": name, **answer}, indent=None)
            continue
        lines = [f"# {printable(text)}"] if queries else []
        rows = [f"{h.score:9.4f}  {printable(h.id)}  {printable(h.document.title)[:100]}" for h in hits]
        print("\n".join([*lines, *(rows or ["no document has a word of the query"])]))


def mentions(
    documents: Documents,
    names: Annotated[
        list[Path], typer.Option(help="TSV with protein_name and gene_names, or HGNC's table; repeatable.")
    ],
    min_length: Annotated[int, typer.Option(min=1, help="Minimum letters and digits of a name.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON, too.")] = False,
) -> None:
    """Find names in documents: a JSON line per document, with offsets in code points."""
    from kgqa_hpc.plugins.literature.names import NameFinder, read_names, searchable_names
    from kgqa_hpc.plugins.literature.read import document_files, read_documents

    document_files(documents)  # report a missing file before slow work
    name_counts, documents_read = Counter[str | None](), 0
    every = (name for table in names for name in read_names(table))
    finder = NameFinder(searchable_names(every, min_length, name_counts))
    for document in read_documents(documents):
        documents_read += 1
        texts = {"mentions": document.text, "title_mentions": document.title}
        spans = {key: [mention._asdict() for mention in finder.find(text)] for key, text in texts.items()}
        print_json({"id": document.id, **spans}, indent=None)
    names_read, names_kept = name_counts.total(), name_counts.pop(None, 0)
    if as_json:
        mentions_counted = {"found": finder.found, "dropped": finder.dropped}
        names_counted = {"read": names_read, "kept": names_kept, "dropped": name_counts}
        counts = {"documents": documents_read, "names": names_counted, "mentions": mentions_counted}
        print(json.dumps(counts), file=sys.stderr)
        return
    names_dropped, mentions_dropped = (
        "".join(f" · {reason} {number:,}" for reason, number in sorted(dropped.items())) or " none"
        for dropped in (name_counts, finder.dropped)
    )
    print(
        f"names     {names_kept:,} of {names_read:,} looked for; dropped{names_dropped}\n"
        f"mentions  {finder.found:,} in {documents_read:,} documents; dropped{mentions_dropped}",
        file=sys.stderr,
    )


def proteins(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Merged literature runs, or files of records.")
    ],
    as_json: AsJson = False,
) -> None:
    """Count pairs, proteins and names of protein datasets (QAProt, Tables 1 and 6)."""
    from kgqa_hpc.plugins.literature.protein_sets import protein_table, render

    table = protein_table(runs)
    print_result(table, render(table), as_json)
