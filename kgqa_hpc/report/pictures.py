"""The page's figures, from its findings; after BioGraphletQA's Figures 1, 3, 5, 7, 9, 10 and 11.

Outcomes of items and of records are Sankey diagrams: bands from the total (left) to each outcome (right).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
from markupsafe import Markup

from kgqa_hpc.dataset.accounting import LENGTH
from kgqa_hpc.dataset.filters import BEYOND, CONTAMINATED, EXACT, NEAR, NOT_DRAWN
from kgqa_hpc.report.findings import Findings
from kgqa_hpc.report.graph_pictures import covered_graph, graph_figures
from kgqa_hpc.report.svg import cut, density, histogram, line, stacked_bars, tag
from kgqa_hpc.status.log_files import Notes

STAGES = (
    "not done yet",
    "no usable answer",
    "length filter",
    "judges and checks",
    "duplicates",
    "contamination",
    "balanced sample",
    "target",
    "accepted",
)
_FILTERS = {LENGTH: 2, EXACT: 4, NEAR: 4, CONTAMINATED: 5, NOT_DRAWN: 6, BEYOND: 7}  # reason: place in STAGES
_JUDGES = 3
OTHERS = "other reasons"
REASONS = 8  # number of reasons with a band of their own; smaller ones of a stage share a band
ACROSS, DOWN = 1000, 240  # width of the bands' picture, and of all items in it, in units
# Labels: width of their column, characters of a line, largest number of characters of a reason.
WORDS, LETTERS, CUT = 190, 30, 200
HAIRLINE = 0.8  # smallest width of a band, so that 1 of 100,000 is visible

BARS = 60  # groups drawn
CAP = 2000  # questions per node shown, as in the paper's Figure 11


def pictures(findings: Findings, notes: Notes) -> dict[str, Any]:
    """The figures as SVG text, by name."""
    usage, counts = findings.nodes.questions, findings.accounting
    above, most = int((usage > CAP).sum()), int(usage.max(initial=0))
    title = f"Accepted questions per node, cut at {CAP:,}: at most {most:,}, {above:,} nodes above {CAP:,}"
    unit = "accepted questions per node (across), nodes (up, logarithmic)"
    capped = [("acc", Counter(np.minimum(usage, CAP).tolist()))]
    drawn = {
        "item_flow": flow(counts, "sampled", "items"),
        "outcomes": _outcomes(counts["groups"]),
        "question": _lengths(findings, "question"),
        "answer": _lengths(findings, "answer"),
        "usage": histogram(capped, title, unit, logarithmic=True),
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

    nodes = findings.nodes
    by_questions, by_degree = rankdata(-nodes.questions), rankdata(-nodes.degrees)
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
    every = groups.values()
    series = [
        ("acc", [outcomes["accepted"] for outcomes in every]),
        ("rej", [sum(outcomes["rejected"].values()) for outcomes in every]),
        ("lost", [sum([*o["invalid"].values(), *o["failed"].values()]) for o in every]),
        ("wait", [outcomes["waiting"] for outcomes in every]),
    ]
    return stacked_bars(list(groups), series, title, "group")


def _lengths(findings: Findings, field: str) -> str:
    limits = findings.accounting["lengths"].get(field, {})
    marks = [limits[name] for name in ("minimum", "maximum") if limits.get(name) is not None]
    series = [("acc", findings.lengths["accepted"][field]), ("rej", findings.lengths["rejected"][field])]
    title = f"Lengths of {field}s in characters: accepted, above them rejected"
    return histogram(series, title, f"length of the {field}, characters", marks)


@dataclass(frozen=True, slots=True)
class Band:
    """An outcome of `count` items: the `stage` (index in STAGES) that removed them, and their colour class."""

    stage: int
    kind: str
    count: int
    outcome: str
    reason: str = ""

    @property
    def name(self) -> str:
        """The label: outcome and reason (foreign text), cut to about CUT characters."""
        words = " ".join(f"{self.outcome}: {self.reason[: 2 * CUT]}".split()) if self.reason else self.outcome
        return cut(words, CUT)


def bands(counts: Mapping[str, Any]) -> list[Band]:
    """The non-empty outcomes of accounting.json's counts, in the order in which they leave the flow.

    The REASONS largest reasons have a band of their own; the others of a stage and outcome share a band.
    """
    ends = [
        Band(0, "wait", counts.get("waiting", 0), "waiting"),
        Band(len(STAGES) - 1, "acc", counts["accepted"], "accepted"),
    ]
    reasons = [
        Band(1, "lost", number, outcome, reason)
        for outcome in ("failed", "invalid")
        for reason, number in counts.get(outcome, {}).items()
    ]
    for reason, number in counts["rejected"].items():
        reasons.append(Band(_FILTERS.get(reason, _JUDGES), "rej", number, "rejected", reason))
    reasons = sorted((band for band in reasons if band.count), key=lambda band: (-band.count, band.reason))
    small: dict[tuple[int, str], list[Band]] = {}
    for band in reasons[REASONS:]:
        small.setdefault((band.stage, band.outcome), []).append(band)
    shared = [
        group[0]
        if len(group) == 1
        else replace(group[0], count=sum(b.count for b in group), reason=f"{OTHERS} ({len(group):,})")
        for group in small.values()
    ]
    return sorted(
        [*(band for band in ends if band.count), *reasons[:REASONS], *shared],
        key=lambda b: (b.stage, b.outcome, not b.reason.startswith(OTHERS), b.count, b.reason),
    )


def flow(counts: Mapping[str, Any], start: str, unit: str) -> str:
    """The figure: all items or records (`unit`), labelled `start`, and their outcomes; "" without any.

    A band runs from the left beside the others, leaves them at its stage, and ends in its row; the last band (accepted)
    is on top. A row is as high as its band or its label, whichever is higher; the first row of a stage has the stage's
    name above it. The total is the sum of all outcomes: merge writes no accounting if the two differ.
    """
    all_bands = bands(counts)
    if not all_bands:
        return ""
    total = sum(band.count for band in all_bands)
    texts = {band: f"{_share(band.count, total)} {band.name}" for band in all_bands}
    stages = sorted({band.stage for band in all_bands})
    shapes, labels = [], []
    y, top, stage = 0.0, 0.0, -1  # of the band at the left, of its row, of the row before
    for band in reversed(all_bands):
        heading = band.stage != stage and band.outcome != "accepted"
        top += 22 if heading else 4
        y, stage = y or top, band.stage
        high = band.count / total * DOWN
        leaves = 40 + 560 * stages.index(band.stage) / max(len(stages) - 1, 1)
        shapes.append(_shape(band.kind, y, top, max(high, HAIRLINE), leaves, texts[band]))
        lines = wrap(band.name, LETTERS, max_lines=2, placeholder="…")
        labels += [tag("text", "stage", STAGES[stage], x=8, y=top - 6)] if heading else []
        labels.append(tag("text", "count", _share(band.count, total), x=8, y=top + 11))
        labels += [tag("text", "", text, x=8, y=top + 12 + 13 * n) for n, text in enumerate(lines, 1)]
        y += high
        top += max(high, 18 + 13 * len(lines))
    head = f'viewBox="0 0 {ACROSS} {top:.1f}" height="{top:.0f}" preserveAspectRatio="none" role="img"'
    words = f'viewBox="0 0 {WORDS} {top:.1f}" width="{WORDS}" height="{top:.0f}" aria-hidden="true"'
    note = ""
    if any(band.reason.startswith(OTHERS) for band in all_bands):
        note = "<figcaption>Every reason is in <code>dataset/accounting.json</code>.</figcaption>"
    title = f"What became of the {unit}: {total:,} {start}"
    shares = "; ".join(f"{STAGES[band.stage]}: {text}" for band, text in texts.items())
    return (
        f'<figure class="flow"><p aria-hidden="true"><b>{total:,}</b> {escape(start)}</p>'
        f'<svg class="figure" {head}><title>{escape(title)}</title><desc>{escape(shares)}</desc>'
        f"{''.join(shapes)}</svg><svg {words}>{''.join(labels)}</svg>{note}</figure>"
    )


def _shape(kind: str, y: float, top: float, wide: float, leaves: float, title: str) -> str:
    """A band that starts at the height `y`, leaves the flow at the position `leaves`, and ends at the height `top`."""
    bend, end = leaves + 150, leaves + 300
    upper = f"M0 {y:.2f}H{leaves:.0f}C{bend:.0f} {y:.2f} {bend:.0f} {top:.2f} {end:.0f} {top:.2f}H{ACROSS}"
    y, top = y + wide, top + wide
    under = f"V{top:.2f}H{end:.0f}C{bend:.0f} {top:.2f} {bend:.0f} {y:.2f} {leaves:.0f} {y:.2f}H0Z"
    hair = " hair" if wide < 2 else ""  # with an outline, because a steep band looks pale
    return tag("path", kind + hair, title=title, d=upper + under)


def _share(count: int, total: int) -> str:
    """E.g. `1,234 (12.3 %)`; shares below a tenth of a percent read `less than 0.1 %`."""
    share = 100 * count / total
    return f"{count:,} ({f'{share:.1f}' if share >= 0.1 else 'less than 0.1'} %)"
