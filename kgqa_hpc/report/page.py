"""RUN/report/index.html: the report of a merged run on one page (kgqa_hpc/drawing.py).

Functions of other packages (registry `sections`: dataset -> HTML) add sections to it.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from markupsafe import Markup

from kgqa_hpc.dataset.card import group_rows
from kgqa_hpc.dataset.facts import Facts, gather_facts
from kgqa_hpc.dataset.files import CombinedFolder, open_source
from kgqa_hpc.drawing import json_block, render_page
from kgqa_hpc.errors import ExtensionError, InputError
from kgqa_hpc.intervals import wilson
from kgqa_hpc.registry import SECTIONS
from kgqa_hpc.report.findings import Findings, combined_facts, read_findings
from kgqa_hpc.report.pictures import covered_graph, flow, graph_figures, group_drawing
from kgqa_hpc.report.svg import density, histogram, line, stacked_bars
from kgqa_hpc.status.log_files import Notes, read_notes
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.plain_text import shell_word

Counts = dict[str, Any]
GROUPS = 300  # largest number of rows of a table on the page
PAIRS = 10  # number of accepted pairs at the top of the page
BARS = 60  # largest number of groups in the bar chart
CAP = 2000  # the histogram of questions per node ends here, as in the paper's Figure 11


def write_report(run: RunFolder, *, all_records: bool = False) -> Path:
    """Write the page of a merged run or a combined dataset, with a sample of its records or all; returns its path.

    Raises InputError when there is no dataset yet or the folder of the page is a link, DiskFull.
    """
    if run.report.is_symlink():  # another user of the run may have made the link, to any folder of this user
        raise InputError(
            f"{run.report}: is a link; the page is written into no other folder", "remove the link"
        )
    findings = read_findings(run, all_records=all_records)
    facts = combined_facts(run) if isinstance(run, CombinedFolder) else gather_facts(run)
    notes = read_notes(run.logs)
    counts = findings.accounting
    groups = _groups(facts, counts)
    decided = counts.get("records", counts)
    accepted, judged = decided["accepted"], decided["accepted"] + sum(decided["rejected"].values())
    data = {"run": shell_word(run.path), "records": findings.samples}
    page = render_page(
        "kgqa_hpc.report",
        "page",
        run=run.name,
        combined=isinstance(run, CombinedFolder),
        path=str(run.path),
        facts=facts,
        counts=counts,
        headline={"accepted": accepted, "of": judged, "share": wilson(accepted, judged)},
        groups=groups,
        drawings=[Markup(group_drawing(row)) for row in groups if row.get("edges")],
        requests=[_rates(row) for row in counts["requests"]],
        figures=_figures(findings, notes),
        pace=pace(notes),
        nodes=findings.nodes,
        sections=_sections(run),
        pairs=[record for record in findings.samples if record["accepted"]][:PAIRS],
        demo=any(row["prompt"]["name"].startswith("demo") for row in counts["requests"]),
        data=json_block(orjson.dumps(data).decode()),
        shown=len(findings.samples),
    )
    make_folder(run.report)
    target = run.report / "index.html"
    write_file(target, page.encode("utf-8", "replace"))
    return target


def _sections(run: RunFolder) -> list[dict[str, Any]]:
    """Name, title and HTML of the non-empty sections that other packages add. Raises ExtensionError."""
    sections = []
    for name in SECTIONS.names():
        function = SECTIONS.get(name)
        with SECTIONS.calling(name):
            html = function(open_source(run))
        if not isinstance(html, str):
            raise ExtensionError(f"{SECTIONS.entry(name)} returned {html!r:.80}", "return HTML as a text")
        title = (function.__doc__ or name).strip().split("\n")[0].removesuffix(".")
        sections.append({"name": name, "title": title, "html": Markup(html)})
    return [section for section in sections if section["html"]]


def _groups(facts: Facts, counts: Counts) -> list[dict[str, Any]]:
    """A row for each of the largest groups: those that the kind declares, sampled or not, and other sampled groups."""
    rows = group_rows(facts, counts["groups"])
    least = min(sorted((row["counts"]["sampled"] for row in rows), reverse=True)[:GROUPS], default=0)
    for row in rows:
        accepted, rejected = row["counts"]["accepted"], sum(row["counts"]["rejected"].values())
        row |= {"share": wilson(accepted, accepted + rejected), "absent": not row["counts"]["sampled"]}
    return [row for row in rows if row["counts"]["sampled"] >= least][:GROUPS]


def _rates(row: dict[str, Any]) -> dict[str, Any]:
    """A row of requests with the shares that were of no use or repaired, and the answer tokens per request."""
    requests, usable = row["requests"], row["usable"]
    lost = row["unparseable"] + row["truncated"] + row["errors"]
    return {
        **row,
        "no_use": lost / requests if requests else None,
        "repaired_rate": row["repaired"] / usable if usable else None,
        "each": row["tokens"]["completion"] / requests if requests else None,
    }


def _figures(findings: Findings, notes: Notes) -> dict[str, Any]:
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

    by_questions, by_degree = rankdata(-findings.nodes.questions), rankdata(-findings.nodes.degrees)
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
