"""RUN/report/index.html: one self-contained page, safe whatever names, questions and models hold.

Everything foreign is escaped (Jinja2 autoescape), figures are data URIs, and a content security policy keeps
the browser from loading or running anything. The text is page.html.j2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import OUTCOMES
from kgqa_hpc.dataset.facts import gather_facts, shape_totals
from kgqa_hpc.graphlets.shapes import SHAPES
from kgqa_hpc.report import figures
from kgqa_hpc.report.drawing import draw
from kgqa_hpc.report.findings import Findings, read_findings
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.run_folder import RunFolder

TOP_NODES = 10


def write_report(run: RunFolder) -> Path:
    """Write the page of a merged run; returns its path.

    Raises InputError when there is no dataset yet or matplotlib is missing, DiskFull.
    """
    figures.require_matplotlib()
    findings = read_findings(run)
    notes = _notes(run.logs / "history.jsonl")
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=run.name,
            facts=gather_facts(run, __version__),
            counts=findings.accounting,
            reasons=_reasons(findings.accounting),
            shapes=_shapes(findings, shape_totals(run)),
            requests=[_rates(row) for row in findings.accounting["requests"]],
            figures=_figures(findings, notes),
            pace=_pace(notes),
            nodes=_top_nodes(findings),
            used_nodes=len(findings.usage),
            samples=[_sample(record) for record in findings.samples],
        )
    )
    make_folder(run.report)
    target = run.report / "index.html"
    write_file(target, page.encode("utf-8"))
    return target


def _environment() -> Environment:
    jinja = Environment(
        loader=PackageLoader("kgqa_hpc.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["number"] = lambda value: f"{value:,}"
    jinja.filters["percent"] = lambda share: "" if share is None else f"{100 * share:.1f} %"
    return jinja


def _reasons(counts: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [
        (outcome, reason, number) for outcome in OUTCOMES[1:] for reason, number in counts[outcome].items()
    ]


def _shapes(findings: Findings, totals: dict[int, int]) -> list[dict[str, Any]]:
    rows = []
    for key, tally in findings.accounting["shapes"].items():
        shape = SHAPES.get(int(key))
        judged = tally["accepted"] + sum(n for reason, n in tally["rejected"].items() if reason != "length")
        rows.append(
            {
                "id": key,
                "name": shape.name if shape else "",
                "drawing": draw(shape.k, shape.edges, size=34, radius=3) if shape else None,
                "total": totals.get(int(key)),
                "tally": {**tally, **{name: sum(tally[name].values()) for name in OUTCOMES[1:]}},
                "ratio": _share(tally["accepted"], judged),
            }
        )
    return rows


def _rates(row: dict[str, Any]) -> dict[str, Any]:
    lost = row["unparseable"] + row["truncated"] + row["errors"]
    return {
        **row,
        "invalid_rate": _share(lost, row["requests"]),
        "repaired_rate": _share(row["repaired"], row["usable"]),
        "tokens_each": {kind: _share(n, row["requests"]) for kind, n in row["tokens"].items()},
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _figures(findings: Findings, notes: list[tuple[float, int]]) -> dict[str, str]:
    images = {
        "outcomes": figures.outcomes_per_shape(findings),
        "question": figures.lengths(findings, "question"),
        "answer": figures.lengths(findings, "answer"),
        "usage": figures.node_usage(findings),
    }
    return {**images, "pace": figures.pace(notes)} if _pace(notes) else images


def _notes(path: Path) -> list[tuple[float, int]]:
    """The progress notes of the run's lead, as far as they can be read: a log, not the truth."""
    if not path.exists():
        return []
    notes = []
    for line in path.read_bytes().splitlines():
        try:
            note = orjson.loads(line)
            notes.append((float(note["time"]), int(note["ended"])))
        except (ValueError, TypeError, KeyError):
            continue
    return notes


def _pace(notes: list[tuple[float, int]]) -> dict[str, float] | None:
    """Items and hours between the first and the last note."""
    hours = (notes[-1][0] - notes[0][0]) / 3600 if notes else 0.0
    return {"items": notes[-1][1] - notes[0][1], "hours": hours} if hours > 0 else None


def _top_nodes(findings: Findings) -> list[tuple[str, str, int]]:
    order = sorted(findings.usage.items(), key=lambda one: (-one[1], one[0]))
    return [(node, findings.names[node], count) for node, count in order[:TOP_NODES]]


def _sample(record: dict[str, Any]) -> dict[str, Any]:
    edges = zip(record["edges"], record["edge_labels"], strict=True)
    return {
        **record,
        "drawing": draw(record["num_nodes"], record["edges"], size=120, radius=11),
        "relations": [(source, target, label) for (source, target), label in edges],
    }
