"""The dataset card: README.md with the front matter the Hugging Face Hub reads, and what a user must know.

Everything in it follows from the run; nothing is claimed that was not counted. The text is card.md.j2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from kgqa_hpc.dataset.accounting import OUTCOMES, Accounting, sentence

# Licence identifiers the Hub knows, of those that graphs carry.
_HUB_LICENCES = {"apache-2.0", "mit", "unlicense", "cc0-1.0", "odbl", "odc-by", "pddl", "unknown"}
_HUB_LICENCES |= {f"cc-by{kind}-{v}" for kind in ("", "-sa", "-nc", "-nd", "-nc-sa") for v in ("3.0", "4.0")}
_SIZES = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a card says about a run besides its accounting.

    `graph` holds plain facts by label (source, licence, nodes, edges …), in the order they are shown.
    """

    run: str
    seed: int
    licence: str
    version: str
    graph: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The dataset's human name."""
        name = self.graph.get("title") or self.graph.get("source", "a knowledge graph")
        return _line(f"Questions and answers from a knowledge graph ({name})")


def render_card(facts: Facts, accounting: Accounting, published: str | None = None) -> str:
    """README.md of a dataset folder; `published` names the file of the published form, if there is one."""
    jinja = Environment(
        loader=PackageLoader("kgqa_hpc.dataset", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, not HTML; `cell` keeps foreign text in its place
    )
    jinja.filters["cell"] = _cell
    text = jinja.get_template("card.md.j2").render(
        front_matter=_front_matter(facts, accounting),
        facts=facts,
        accounting=accounting,
        total=accounting.total,
        identity=sentence(accounting.total),
        reasons=_reasons(accounting),
        limits=accounting.lengths,
        models=_models(accounting),
        published=published,
    )
    return text.lstrip("\n")


def licence_fields(licence: str) -> dict[str, str]:
    """The front matter's way to name a licence: an identifier of the Hub, or `other` with a name."""
    identifier = licence.strip().lower().replace(" ", "-")
    if identifier in _HUB_LICENCES:
        return {"license": identifier}
    return {"license": "other", "license_name": _line(licence)}


def _front_matter(facts: Facts, accounting: Accounting) -> str:
    accepted = accounting.total.accepted
    fields = {
        "pretty_name": facts.title,
        **licence_fields(facts.licence),
        "language": ["en"],
        "task_categories": ["question-answering", "text-generation"],
        "size_categories": [next((name for limit, name in _SIZES.items() if accepted < limit), "n>10M")],
        "annotations_creators": ["machine-generated"],
        "language_creators": ["machine-generated"],
        "tags": ["knowledge-graph", "graphlets", "synthetic", "croissant"],
        "configs": [
            {"config_name": "accepted", "default": True, "data_files": "accepted.parquet"},
            {"config_name": "rejected", "data_files": "rejected.parquet"},
        ],
    }
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)


def _reasons(accounting: Accounting) -> list[tuple[str, str, int]]:
    total = accounting.total
    return [(o, reason, n) for o in OUTCOMES[1:] for reason, n in sorted(getattr(total, o).items())]


def _models(accounting: Accounting) -> list[list[Any]]:
    rows = []
    for row in accounting.requests:
        prompt, engine, tokens = row["prompt"], row["engine"], row["tokens"]
        name = f"{engine.get('name', '')} {engine.get('version', '')}"
        model = f"{engine.get('model', '')} {engine.get('quantisation', '')}"
        cells = [row["step"], prompt["name"], prompt["sha256"][:12], name, model]
        rows.append([*cells, row["requests"], tokens["prompt"], tokens["completion"]])
    return rows


def _cell(value: object) -> str:
    """Text that stays within its table cell."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return _line(text).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.split())
