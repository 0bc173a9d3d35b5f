"""Facts about a run for the dataset's card: the graph and its licence, the sample, the seed."""

import csv
from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc import __version__
from kgqa_hpc.kg.settings import recorded
from kgqa_hpc.runs import run_config
from kgqa_hpc.runs.chain import kind_of
from kgqa_hpc.runs.trust import texts_of
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import ANCHORS

GRAPH = "knowledge-graph"
LISTED = 12  # largest number of files of a graph that a card lists
# The Hub's identifier if neither `dataset.licence` nor the graph states a licence.
UNKNOWN_LICENCE = "unknown"
# Attributes of a graph source, in the order of the card.
_ATTRIBUTES = ("title", "source", "version", "licence", "licence_url", "licence_terms", "citation")
_OWN_FILES = ("csv", "triples", "graphml")  # sources whose name does not identify the graph
KNOWLEDGE_GRAPH = "a knowledge graph"
_EVIDENCE = {"abstract": "abstracts of the literature", "records": "records of another dataset"}
_METHODS = {
    "graphlet": ", by the method of BioGraphletQA\n(*From Graphs to Questions*)",
    "abstract": ", by the method of QAProt",
}
_COUNTS = {
    "nodes_before": "nodes",
    "edges_before": "edges",
    "nodes": "nodes after reduction",
    "simple_edges": "edges after reduction",
    "min_degree": "minimum degree",
    "max_degree": "maximum degree",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a run that its card states beside the accounting.

    `licence` is that of the dataset: as stated in the configuration, else the graph's. `graph` holds plain facts by
    label (source, the graph's licence, nodes, edges …), in the order they are shown.
    `group_word` is what the kind calls its groups; `summary` its rows by group, if it has any; `date` the day
    the run was made (ISO 8601), from its manifest, if known; `making` the origin of the pairs in words, e.g.
    "written and judged by language models"; `method` names the published method of the kind, if any.
    """

    run: str
    seed: int
    licence: str
    version: str = __version__
    graph: dict[str, Any] = field(default_factory=dict)
    licence_url: str | None = None
    citation: str | None = None
    contact: str | None = None
    date: str | None = None
    kind: str = "graphlet"
    group_word: str = "group"
    summary: list[dict[str, Any]] = field(default_factory=list)
    title: str = "Questions and answers"
    description: str | None = None
    languages: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    evidence: str = KNOWLEDGE_GRAPH
    making: str = "written and judged by language models"
    method: str = ""
    judged: bool = True
    rehearsed: bool = False  # the scripted engine made up any text or verdict


def gather_facts(run: RunFolder) -> Facts:
    """The facts of a run."""
    config = run_config(run)
    stated, kind = config.dataset, kind_of(config)
    attributes = (read_header(run.kg, GRAPH).get("attributes") or {}) if run.kg.exists() else {}
    of_graph = attributes.get("licence") or UNKNOWN_LICENCE
    header = read_header(run.anchors, ANCHORS)
    reduction = header.get("reduction") or {}
    source = getattr(config.graph, "source", None) or config.anchors.kind
    evidence = _EVIDENCE.get(kind.name, KNOWLEDGE_GRAPH)
    name = attributes.get("title") or source
    named = f" ({name})" if evidence == KNOWLEDGE_GRAPH and name not in _OWN_FILES else ""
    # For each step that asks a model: its additions (output, verdict …) and its engine.
    asking = [
        (STEPS.get(step.use).adds, config.engine_of(part.name).kind)
        for part in config.passes
        for step in part.steps
        if step.use in STEPS and STEPS.get(step.use).asks_with(step)
    ]
    done = {adds for adds, _ in asking}
    by = " and ".join(word for word, adds in (("written", "output"), ("judged", "verdict")) if adds in done)
    making = f"{by} by language models" if by else "worded without a language model"
    rehearsed = any(engine == "scripted" for _, engine in asking)
    if rehearsed:
        making = (
            f"{by} by the scripted engine: made-up texts and verdicts of a rehearsal, without any meaning"
        )
    created = getattr(run.manifest(), "created", None)
    languages = [stated.language] if isinstance(stated.language, str) else stated.language or []
    return Facts(
        run.manifest().digest,
        config.seed,
        stated.licence or of_graph,
        graph={
            "source": source,
            **{key: attributes[key] for key in _ATTRIBUTES if attributes.get(key)},
            "licence": of_graph,
            **{label: reduction[key] for key, label in _COUNTS.items() if key in reduction},
            **_files(run),
            **texts_of(run),
        },
        licence_url=None if stated.licence else attributes.get("licence_url"),
        citation=stated.citation or attributes.get("citation"),
        contact=stated.contact,
        date=str(created)[:10] if created else None,
        kind=kind.name,
        group_word=kind.group_word,
        summary=kind.summary({**header, "totals": header.get("totals") or _totals_of_table(run)}) or [],
        title=one_line(stated.title or f"Questions and answers from {evidence}{named}"),
        description=stated.description,
        languages=tuple(languages),
        authors=tuple(stated.authors or ()),
        evidence=evidence,
        making=making,
        method=_METHODS.get(kind.name, ""),
        judged="verdict" in done,
        rehearsed=rehearsed,
    )


def _files(run: RunFolder) -> dict[str, str]:
    """The input files of the graph with their sha256; only their number, where they are many."""
    files = recorded(run)
    if len(files) > LISTED:
        return {"read from": f"{len(files):,} files, see graph_files.json of the run"}
    return {f"read from {name}": f"sha256 {file['sha256']}" for name, file in files.items()}


def _totals_of_table(run: RunFolder) -> dict[str, int]:
    """Totals that did not fit into the header, from the table of `kgqa sample`."""
    path = run.stats / "graphlets.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {f"shape {row['id']}": int(row["total"]) for row in csv.DictReader(file)}


def one_line(text: str) -> str:
    """Text without line breaks and runs of spaces."""
    return " ".join(text.split())
