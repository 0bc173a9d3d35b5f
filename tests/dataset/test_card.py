"""The card is valid front matter and Markdown whatever a graph calls itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc.columns import Column
from kgqa_hpc.dataset.accounting import Accounting, OutcomeCounts
from kgqa_hpc.dataset.card import licence_fields, render_card, type_text
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.dataset.merge import merge

HPO = "https://hpo.jax.org/app/license"


@pytest.mark.parametrize(
    ("licence", "fields"),
    [
        ("CC BY 4.0", {"license": "cc-by-4.0"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        ("unknown", {"license": "unknown"}),
        (f"HPO licence ({HPO})", {"license": "other", "license_name": "hpo-licence", "license_link": HPO}),
        ("Ours & theirs", {"license": "other", "license_name": "ours-theirs"}),
        ("…", {"license": "other", "license_name": "unnamed"}),
    ],
)
def test_a_licence_is_an_identifier_of_the_hub_or_a_slug_with_its_link(
    licence: str, fields: dict[str, str]
) -> None:
    assert licence_fields(licence) == fields


def render(facts: Facts, accounting: Accounting, sample: dict[str, Any] | None = None) -> str:
    columns = (Column("id", "string", "The id | of it."), Column("edges", [["int64"]], "Edges."))
    return render_card(facts, accounting, columns, [], {}, sample)


def test_nothing_a_graph_says_about_itself_breaks_the_card() -> None:
    evil = 'a: "b"\n---\n# c | d {{ 1 }}'
    facts = Facts("f" * 64, 1, evil, "0.1", {"title": evil, "nodes": 12_345})
    accounting = Accounting({"shape 1": OutcomeCounts(sampled=2, accepted=1, pairs=2)}, shards=1)
    accounting.group("shape 1").rejected[evil] = 1
    accounting.lengths = {"z_score": None, "pairs": 2}
    text = render(facts, accounting, {"id": evil, "question": "```\n# not a fence"})
    front, body = text.removeprefix("---\n").split("\n---\n", 1)
    metadata = yaml.safe_load(front)
    assert metadata["license_name"] == "a-b-c-d-1"
    assert 'a: "b" --- # c | d {{ 1 }}' in metadata["pretty_name"]
    assert "| nodes | 12,345 |" in body
    assert 'a: "b" --- # c \\| d {{ 1 }} | 1 |' in body
    assert "No length filter was applied." in body
    assert "| `id` | string | The id \\| of it. |" in body
    assert body.count("```") == 4


def test_types_are_told_in_words() -> None:
    assert type_text([{"id": "string", "n": "int64"}]) == "list of {id: string, n: integer}"


def test_the_card_names_licence_fields_a_record_and_the_line_that_publishes_it(make_run: Any) -> None:
    run = make_run(items=8, dataset={"licence": "CC0-1.0", "citation": "Doe 2026", "contact": "doe@x.org"})
    run.finish()
    merge(run.folder)
    text = (run.folder.dataset / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "cc0-1.0"
    assert "| nodes after reduction | 300 |" in text
    assert "| `triples` | list of list of string |" in text
    assert '"question": "What links the nodes' in text
    assert "upload --repo-type dataset" in text
    assert "Cite: Doe 2026" in text
    assert "Contact: doe@x.org" in text


def test_the_prompts_of_a_run_lie_in_its_dataset(make_run: Any) -> None:
    run = make_run(items=8)
    kept = Path(run.folder.path) / "prompts"
    kept.mkdir(exist_ok=True)
    (kept / "ask.md").write_text("Ask.")
    run.finish()
    merge(run.folder)
    assert (run.folder.dataset / "prompts" / "ask.md").read_text() == "Ask."
    assert "prompts/ask.md" in (run.folder.dataset / "SHA256SUMS").read_text()
