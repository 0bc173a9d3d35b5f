"""The page's figures, from its findings; after BioGraphletQA's Figures 1, 3, 5, 7, 9, 10 and 11."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from markupsafe import Markup

from kgqa_hpc.report.findings import Findings
from kgqa_hpc.report.flow import flow
from kgqa_hpc.report.graph_pictures import covered_graph, graph_figures
from kgqa_hpc.report.svg import density, histogram, line, stacked_bars
from kgqa_hpc.status.history import Notes

BARS = 60  # groups drawn
CAP = 2000  # questions per node shown, as in the paper's Figure 11


def pictures(findings: Findings, notes: Notes) -> dict[str, Any]:
    """The figures as SVG text, by name."""
    usage = findings.nodes.questions
    above, most = int((usage > CAP).sum()), int(usage.max(initial=0))
    title = f"Accepted questions per node, cut at {CAP:,}: at most {most:,}, {above:,} nodes above {CAP:,}"
    capped = Counter(np.minimum(usage, CAP).tolist())
    counts = findings.accounting
    drawn = {
        "item_flow": flow(counts, "sampled", "items"),
        "outcomes": _outcomes(counts["groups"]),
        "question": _lengths(findings, "question"),
        "answer": _lengths(findings, "answer"),
        "usage": histogram(
            [("acc", capped)],
            title,
            "accepted questions per node (across), nodes (up, logarithmic)",
            logarithmic=True,
        ),
    }
    if "records" in counts:
        drawn["record_flow"] = flow(counts["records"], "records", "records")
    if findings.nodes.links:
        drawn["ranks"] = _ranks(findings)
        drawn["covered"] = covered_graph(findings.nodes)
    if pace(notes):
        points = [((at - notes[0][0]) / 60, float(ended)) for at, ended in notes]
        drawn["pace"] = line(points, "Items ended over time", "minutes since the start")
    if findings.graph:
        drawn |= graph_figures(findings.graph)
    return {name: Markup(svg) for name, svg in drawn.items()}


def pace(notes: Notes) -> dict[str, float] | None:
    """Number of items and seconds between the first and the last note."""
    seconds = notes[-1][0] - notes[0][0] if notes else 0.0
    return {"items": notes[-1][1] - notes[0][1], "seconds": seconds} if seconds > 0 else None


def _ranks(findings: Findings) -> str:
    """Scatter of the nodes' rank by questions against their rank by degree, in the covered graph."""
    from scipy.stats import rankdata

    by_questions, by_degree = (
        rankdata(-counts) for counts in (findings.nodes.questions, findings.nodes.degrees)
    )
    correlation = 0.0  # Spearman's correlation, if both vary
    if by_questions.std() > 0 and by_degree.std() > 0:
        correlation = float(np.corrcoef(by_questions, by_degree)[0, 1])
    title = f"Nodes by rank in questions and by rank in degree: rank correlation {correlation:.2f}"
    return density(by_questions, by_degree, title, "rank by questions (across), rank by degree (up)")


def _outcomes(groups: dict[str, Any]) -> str:
    title = "What became of the items of each group"
    if len(groups) > BARS:
        title += f": the {BARS} largest of {len(groups):,}"
        largest = set(sorted(groups, key=lambda name: -groups[name]["sampled"])[:BARS])
        groups = {name: outcomes for name, outcomes in groups.items() if name in largest}
    series = [
        ("acc", [outcomes["accepted"] for outcomes in groups.values()]),
        ("rej", [sum(outcomes["rejected"].values()) for outcomes in groups.values()]),
        (
            "lost",
            [
                sum(outcomes["invalid"].values()) + sum(outcomes["failed"].values())
                for outcomes in groups.values()
            ],
        ),
        ("wait", [outcomes["waiting"] for outcomes in groups.values()]),
    ]
    return stacked_bars(list(groups), series, title, "group")


def _lengths(findings: Findings, field: str) -> str:
    limits = findings.accounting["lengths"].get(field, {})
    marks = [limits[name] for name in ("minimum", "maximum") if limits.get(name) is not None]
    series = [
        (kind, findings.lengths[name][field]) for kind, name in (("acc", "accepted"), ("rej", "rejected"))
    ]
    every = [length for _, lengths in series for length in lengths]
    marks = [mark for mark in marks if every and min(every) <= mark <= max(every)]
    return histogram(
        series,
        f"Lengths of {field}s in characters: accepted, above them rejected",
        f"length of the {field}, characters",
        marks,
    )
