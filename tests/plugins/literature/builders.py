"""Small document files and indexes for the tests of this plugin."""

import gzip
from pathlib import Path

from kgqa_hpc.plugins.literature.bm25_build import build_index


def record(pmid: int, title: str = "A title.", abstract: str = "", version: int = 1, more: str = "") -> str:
    """One PubmedArticle; `abstract` is the inside of Abstract, or plain text for one AbstractText."""
    inside = abstract if abstract.startswith("<AbstractText") else f"<AbstractText>{abstract}</AbstractText>"
    body = f"<Abstract>{inside}</Abstract>" if abstract else ""
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="{version}">{pmid}</PMID>'
        f"<Article><ArticleTitle>{title}</ArticleTitle>{body}</Article>{more}</MedlineCitation></PubmedArticle>"
    )


def deletion(*pmids: int) -> str:
    inside = "".join(f'<PMID Version="1">{pmid}</PMID>' for pmid in pmids)
    return f"<DeleteCitation>{inside}</DeleteCitation>"


def medline(path: Path, *parts: str, prolog: str = "") -> Path:
    inside = f"<PubmedArticleSet>{''.join(parts)}</PubmedArticleSet>"
    data = f'<?xml version="1.0" encoding="utf-8"?>{prolog}{inside}'.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def index(target: Path, *documents: Path, shards: int = 2, stem: bool = False, workers: int = 1) -> Path:
    """A BM25 index of document files."""
    build_index(target, list(documents), shards=shards, stem=stem, workers=workers, progress=lambda *_: None)
    return target
