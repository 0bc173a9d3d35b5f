"""croissant.json: the dataset described for machines (MLCommons Croissant 1.0, JSON-LD).

Only what a reader needs to load the flat fields; nested ones (nodes, verdicts, provenance) are in the Parquet
schema. There is no date in it, because the same results give the same bytes: who publishes the dataset adds
`datePublished` and `url`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.card import Facts
from kgqa_hpc.store.canonical import sha256_of

_TYPES = {".parquet": "application/x-parquet", ".jsonl": "application/jsonlines"}
_TYPES |= {".json": "application/json", ".csv": "text/csv"}

_FIELDS = {
    "id": ("sc:Text", "Identifier of the graphlet and of the record."),
    "question": ("sc:Text", "The question."),
    "answer": ("sc:Text", "Its answer."),
    "graphlet_id": ("sc:Integer", "The graphlet's shape, 1 to 29."),
    "num_nodes": ("sc:Integer", "Nodes of the graphlet, 3 to 5."),
    "accepted": ("sc:Boolean", "Whether the pair passed the length filter and every judge."),
    "reason": ("sc:Text", "Why it did not; empty for accepted pairs."),
}

# The context that Croissant 1.0 prescribes (https://docs.mlcommons.org/croissant/docs/croissant-spec.html).
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "equivalentProperty": "cr:equivalentProperty",
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(folder: Path, facts: Facts) -> dict[str, Any]:
    """The JSON-LD of the finished files in `folder`."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix in _TYPES]
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"kgqa-{facts.run[:16]}",
        "description": f"{facts.title}: pairs grounded in graphlets, written and judged by language models.",
        "license": facts.licence,
        "version": "1.0.0",
        "inLanguage": "en",
        "creator": {"@type": "sc:Organization", "name": "made with kgqa_hpc"},
        "rai:dataCollection": "Sampled graphlets of a knowledge graph; text written by a language model.",
        "rai:dataAnnotationProtocol": "Judged by language models; verdicts are kept with each record.",
        "rai:dataLimitations": "Machine-generated and machine-judged; no human checked it.",
        "distribution": [_file(path) for path in files],
        "recordSet": [_record_set(name) for name in ("accepted", "rejected")],
    }


def _file(path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": _TYPES[path.suffix],
        "sha256": sha256_of(path),
    }


def _record_set(name: str) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "key": {"@id": f"{name}/id"},
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": column,
                "description": description,
                "dataType": kind,
                "source": {"fileObject": {"@id": f"{name}.parquet"}, "extract": {"column": column}},
            }
            for column, (kind, description) in _FIELDS.items()
        ],
    }
