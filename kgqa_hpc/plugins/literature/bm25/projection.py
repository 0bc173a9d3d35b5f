"""Cost of an index build, and its linear projection to all of PubMed."""

from __future__ import annotations

from typing import Any

# PubMed's citations, rounded (NLM, baseline of 2025).
PUBMED = 38_000_000


def project(content: dict[str, Any]) -> dict[str, Any]:
    """CPU hours and bytes for PUBMED documents like these; empty for an index without documents.

    Linear in the number of documents, as was measured up to a million (tools/bench_index.py).
    """
    indexed = content["counts"]["documents"]
    if not indexed:
        return {}
    cost, factor = content["cost"], PUBMED / indexed
    return {
        "documents": PUBMED,
        "reading_cpu_hours": round(cost["reading_cpu_seconds"] * factor / 3600, 2),
        "indexing_cpu_hours": round(cost["indexing_cpu_seconds"] * factor / 3600, 2),
        "index_bytes": round(cost["index_bytes"] * factor),
        "scratch_bytes": round(cost["scratch_bytes"] * factor),
    }


def summary(index: str, content: dict[str, Any]) -> dict[str, Any]:
    """The JSON output of `kgqa index build --json`."""
    keys = ("fingerprint", "parameters", "counts", "cost")
    return {"index": index, **{key: content[key] for key in keys}, "projection": project(content)}


def render(projection: dict[str, Any]) -> str:
    """The projection as text."""
    counts, cost, line = projection["counts"], projection["cost"], projection["projection"]
    rows = [
        f"{projection['index']}",
        f"documents  {counts['documents']:,} of {counts['records']:,} records"
        f" · replaced {counts['replaced']:,} · deleted {counts['deleted']:,}",
        f"cost       {cost['reading_cpu_seconds']:.1f} + {cost['indexing_cpu_seconds']:.1f} CPU seconds"
        f" (reading, indexing) · {_sizes(cost)}",
    ]
    if line:
        rows.append(
            f"projection {line['documents']:,} documents: {line['reading_cpu_hours']:.2f} + "
            f"{line['indexing_cpu_hours']:.2f} CPU hours · {_sizes(line)} (by line)"
        )
    return "\n".join(rows)


def _sizes(projection: dict[str, Any]) -> str:
    index, scratch = projection["index_bytes"] / 1e9, projection["scratch_bytes"] / 1e9
    return f"{index:.3g} GB, and {scratch:.3g} GB while building"
