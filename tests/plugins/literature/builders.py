"""Small document files, indexes, chains of steps and finished runs for the tests of this plugin."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo
from kgqa_hpc.plugins.literature.bm25.build import build_index
from kgqa_hpc.run import Run
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.step import Step


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
    text = (
        f'<?xml version="1.0" encoding="utf-8"?>{prolog}<PubmedArticleSet>{"".join(parts)}</PubmedArticleSet>'
    )
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


def jsonl(path: Path, rows: Iterable[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def index(target: Path, *documents: Path, shards: int = 2, stem: bool = False, workers: int = 1) -> Path:
    """A BM25 index of document files."""
    build_index(target, list(documents), shards=shards, stem=stem, workers=workers, progress=lambda *_: None)
    return target


def config_of(*steps: Any, anchors: str | dict[str, Any] = "pairs.jsonl", **sections: Any) -> dict[str, Any]:
    """A configuration of one pass with the scripted engine; `anchors` is a section, or a file of records."""
    kind = {"kind": "records", "from": anchors} if isinstance(anchors, str) else anchors
    passes = [{"name": "main", "steps": list(steps)}]
    base = {"anchors": kind, "engine": {"kind": "scripted"}, "passes": passes, "dataset": {"z_score": None}}
    return {**base, **sections}


def chain_of(*steps: Any, **sections: Any) -> list[Step]:
    """The steps of a pass, built as a run builds them; arguments as of `config_of`."""
    config = parse_config(config_of(*steps, **sections), "the test")
    return build_chain(config, "main", EngineInfo("scripted", "1", "scripted-1"))


def written(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def made_run(folder: Path, config: dict[str, Any], name: str = "run") -> Path:
    """A run of this configuration, with all its stages."""
    Run.from_config(written(folder / f"{name}.yaml", config), folder / name).all()
    return folder / name
