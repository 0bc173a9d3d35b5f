"""The page's figures, from its findings; after BioGraphletQA's Figures 1, 3, 5, 7, 9, 10 and 11.

Outcomes of items and of records are Sankey diagrams: bands from the total (left) to each outcome (right).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
from markupsafe import Markup

from kgqa_hpc.dataset.accounting import LENGTH
from kgqa_hpc.dataset.filters import CONTAMINATED, EXACT, NEAR, NOT_DRAWN
from kgqa_hpc.dataset.target import BEYOND
from kgqa_hpc.report.findings import Findings
from kgqa_hpc.report.graph_pictures import covered_graph, graph_figures
from kgqa_hpc.report.svg import cut, density, histogram, line, stacked_bars
from kgqa_hpc.status.history import Notes

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
    lost = [sum([*entry["invalid"].values(), *entry["failed"].values()]) for entry in groups.values()]
    series = [
        ("acc", [outcomes["accepted"] for outcomes in groups.values()]),
        ("rej", [sum(outcomes["rejected"].values()) for outcomes in groups.values()]),
        ("lost", lost),
        ("wait", [outcomes["waiting"] for outcomes in groups.values()]),
    ]
    return stacked_bars(list(groups), series, title, "group")


def _lengths(findings: Findings, field: str) -> str:
    limits = findings.accounting["lengths"].get(field, {})
    marks = [limits[name] for name in ("minimum", "maximum") if limits.get(name) is not None]
    kinds = {"acc": "accepted", "rej": "rejected"}
    series = [(kind, findings.lengths[name][field]) for kind, name in kinds.items()]
    every = [length for _, lengths in series for length in lengths]
    marks = [mark for mark in marks if every and min(every) <= mark <= max(every)]
    return histogram(
        series,
        f"Lengths of {field}s in characters: accepted, above them rejected",
        f"length of the {field}, characters",
        marks,
    )


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
    """The non-empty outcomes of accounting.json's counts, in the order in which they leave the flow."""
    result = [Band(0, "wait", counts.get("waiting", 0), "waiting")]
    for outcome in ("failed", "invalid"):
        result += [Band(1, "lost", n, outcome, reason) for reason, n in counts.get(outcome, {}).items()]
    for reason, number in counts["rejected"].items():
        result.append(Band(_FILTERS.get(reason, _JUDGES), "rej", number, "rejected", reason))
    result.append(Band(len(STAGES) - 1, "acc", counts["accepted"], "accepted"))
    several = _summed([band for band in result if band.count])
    return sorted(
        several, key=lambda b: (b.stage, b.outcome, not b.reason.startswith(OTHERS), b.count, b.reason)
    )


def _summed(all_bands: Sequence[Band]) -> Iterator[Band]:
    """Bands of the flow: the REASONS largest reasons, and the sum of the other reasons of each stage and outcome."""
    reasons = sorted((band for band in all_bands if band.reason), key=lambda band: (-band.count, band.reason))
    yield from (band for band in all_bands if not band.reason)
    yield from reasons[:REASONS]
    small_bands: dict[tuple[int, str, str], list[Band]] = {}
    for band in reasons[REASONS:]:
        small_bands.setdefault((band.stage, band.kind, band.outcome), []).append(band)
    for (stage, kind, outcome), several in small_bands.items():
        if len(several) == 1:
            yield several[0]
        else:
            together = sum(band.count for band in several)
            yield Band(stage, kind, together, outcome, f"{OTHERS} ({len(several):,})")


def flow(counts: Mapping[str, Any], start: str, unit: str) -> str:
    """The figure: all items or records (`unit`), labelled `start`, and their outcomes; "" without any.

    The total is the sum of all outcomes: merge writes no accounting if the two differ.
    """
    all_bands = bands(counts)
    total = sum(band.count for band in all_bands)
    if not all_bands:
        return ""
    rows = _rows(all_bands, total)
    height = rows[-1][0] + rows[-1][1]
    shares = [f"{STAGES[band.stage]}: {_share(band, total)} {band.name}" for band in all_bands]
    head = f'viewBox="0 0 {ACROSS} {height:.1f}" height="{height:.0f}" preserveAspectRatio="none" role="img"'
    words = f'viewBox="0 0 {WORDS} {height:.1f}" width="{WORDS}" height="{height:.0f}" aria-hidden="true"'
    note = ""
    if any(band.reason.startswith(OTHERS) for band in all_bands):
        note = "<figcaption>Every reason is in <code>dataset/accounting.json</code>.</figcaption>"
    title = f"What became of the {unit}: {total:,} {start}"
    return (
        f'<figure class="flow"><p aria-hidden="true"><b>{total:,}</b> {escape(start)}</p>'
        f'<svg class="figure" {head}><title>{escape(title)}</title><desc>{escape("; ".join(shares))}</desc>'
        f"{''.join(_shapes(all_bands, rows, total))}</svg>"
        f"<svg {words}>{''.join(_labels(all_bands, rows, total))}</svg>{note}</figure>"
    )


def _rows(all_bands: Sequence[Band], total: int) -> list[tuple[float, float]]:
    """Top and height of each band's label, from the last band (accepted) down to the first loss.

    A row is as high as its band or its label, whichever is higher; the first row of a stage has the stage's
    name above it.
    """
    rows, top, stage = [], 0.0, -1
    for band in reversed(all_bands):
        head = 22.0 if band.stage != stage and band.outcome != "accepted" else 4.0
        least = 18.0 + 13.0 * len(_lines(band))
        high = max(band.count / total * DOWN, least)
        rows.append((top + head, high))
        top, stage = top + head + high, band.stage
    return rows


def _shapes(all_bands: Sequence[Band], rows: Sequence[tuple[float, float]], total: int) -> Iterator[str]:
    """The shape of each band: from the left beside the others, away from them at its stage, then to its row."""
    stages = sorted({band.stage for band in all_bands})
    y, last = rows[0][0], max(len(stages) - 1, 1)
    for band, (top, _) in zip(reversed(all_bands), rows, strict=True):
        wide = max(band.count / total * DOWN, HAIRLINE)
        x = 40 + 560 * stages.index(band.stage) / last  # the position at which the band leaves the flow
        bend = x + 150
        upper = f"M0 {y:.2f}H{x:.0f}C{bend:.0f} {y:.2f} {bend:.0f} {top:.2f} {x + 300:.0f} {top:.2f}H{ACROSS}"
        low, end = y + wide, top + wide
        under = f"V{end:.2f}H{x + 300:.0f}C{bend:.0f} {end:.2f} {bend:.0f} {low:.2f} {x:.0f} {low:.2f}H0Z"
        title = escape(f"{_share(band, total)} {band.name}")
        thin = " hair" if wide < 2 else ""  # with an outline, because a steep band looks pale
        yield f'<path class="{band.kind}{thin}" d="{upper}{under}"><title>{title}</title></path>'
        y += band.count / total * DOWN


def _labels(all_bands: Sequence[Band], rows: Sequence[tuple[float, float]], total: int) -> Iterator[str]:
    stage = len(STAGES) - 1  # `accepted` needs no heading
    for band, (top, _) in zip(reversed(all_bands), rows, strict=True):
        if band.stage != stage:
            yield f'<text class="stage" x="8" y="{top - 6:.1f}">{STAGES[band.stage]}</text>'
        stage = band.stage
        yield f'<text class="count" x="8" y="{top + 11:.1f}">{_share(band, total)}</text>'
        for number, text in enumerate(_lines(band), 1):
            yield f'<text x="8" y="{top + 12 + 13 * number:.1f}">{escape(text)}</text>'


def _lines(band: Band) -> list[str]:
    """The label of a band, in at most two lines."""
    return wrap(band.name, LETTERS, max_lines=2, placeholder="…")


def _share(band: Band, total: int) -> str:
    """E.g. `1,234 (12.3 %)`; shares below a tenth of a percent read `less than 0.1 %`."""
    share = 100 * band.count / total
    return f"{band.count:,} ({f'{share:.1f}' if share >= 0.1 else 'less than 0.1'} %)"
