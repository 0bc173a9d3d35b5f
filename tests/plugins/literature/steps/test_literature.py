"""Questions from literature: one item gives many records, and what is left out is counted under its reason."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.judges import JudgeCriteria, JudgeDecision, JudgeOptions, JudgeSupport
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done
from tests.record_runs import chain_of, config_of, jsonl, made_run, stop, written

TEXT = (
    "Complexin-3 (Cplx3) clamps vesicles in the retina of mice. Deletion of Cplx3 leads to more release. "
    "TP53 and catalase were not changed."
)
SPROT = """>sp|Q8R1B5|CPLX3_MOUSE Complexin-3 OS=Mus musculus OX=10090 GN=Cplx3 PE=1 SV=1
MAFMVKSMVG
>sp|P04637|P53_HUMAN Cellular tumor antigen p53 OS=Homo sapiens OX=9606 GN=TP53 P53 PE=1 SV=4
MEEPQSDPSV
>sp|P24270|CATA_MOUSE Catalase OS=Mus musculus OX=10090 GN=Cat PE=1 SV=4
MSDSRDPASD
>sp|Q00001|CATB_MOUSE Catalase OS=Mus musculus OX=10090 GN=Cat2 PE=1 SV=1
MSDSRDPASE
"""


ABSTRACTS = {"kind": "abstract", "documents": ["docs.jsonl"], "names": "names.tsv"}


@pytest.fixture
def item() -> Item:
    document = {"id": "1", "title": "Complexin in the retina", "text": TEXT}
    data = {"document": document, "mentions": [[13, 18, "Cplx3"]], "names": ["Cplx3", "TP53"]}
    return Item(Anchor("d-1", "abstract", "2 to 4 names", data=data))


def pairs(*entries: tuple[str, ...]) -> str:
    """An answer of these pairs: protein, question, and where they matter answer and organism scope."""
    usual = ("", "", "It clamps vesicles.", "All")
    names = ("protein", "question", "answer", "organism_scope")
    rows = [dict(zip(names, [*entry, *usual[len(entry) :]], strict=True)) for entry in entries]
    return json.dumps({"pairs": rows})


def test_one_abstract_gives_many_records_and_each_drop_has_its_reason(item: Item) -> None:
    (extract,) = chain_of({"use": "extract", "per_protein": 2}, anchors=ABSTRACTS)
    cases = [
        ("Cplx3", "What does Cplx3 do?", None),
        ("cplx3", "Where is Cplx3?", None),
        ("Cplx3", "What does Cplx3 bind?", "more than 2 of a protein"),
        ("TP53", "What does TP53 do?", None),
        ("TP53", "what does  TP53 do?", "question repeated"),
        ("BRCA1", "What does BRCA1 do?", "protein not in the text"),
        ("TP53", "What did the authors find about TP53?", "speaks of its source"),
    ]
    sources = ["According to this study it is not.", "It is not, as shown above."]
    answers = [*sources, "x" * 1000]  # as long as the prompt's schema allows
    said = pairs(*(case[:2] for case in cases), *(("TP53", "Is TP53 changed?", text) for text in answers))
    assert isinstance(extract.take(item, stop(said), 0), Done)
    reasons = [*(reason for _, _, reason in cases), *["speaks of its source"] * 2, "cut off"]
    expected = [reason and f"extract: {reason}" for reason in reasons]
    assert [record["reason"] for record in item.records or ()] == expected


def test_an_abstract_that_says_nothing_ends_well_without_records_and_nobody_is_asked_on(item: Item) -> None:
    extract, organism = chain_of("extract", "organism", anchors=ABSTRACTS)
    assert isinstance(extract.take(item, stop(pairs()), 0), Done)
    assert item.records == []
    assert not organism.asks_about(item)
    assert isinstance(organism.run(item), Done)


@pytest.mark.parametrize(
    ("answer", "organisms"),
    [
        ("Mus musculus", ["Mus musculus", "Rattus norvegicus", "Mus musculus"]),
        ("Unknown", [None, "Rattus norvegicus", None]),
    ],
)
def test_a_scope_stays_and_the_main_organism_stands_for_all(
    item: Item, answer: str, organisms: list[str | None]
) -> None:
    extract, organism = chain_of("extract", "organism", anchors=ABSTRACTS)
    scopes = ("All", "Rattus norvegicus", "Not sure")
    said = pairs(*(("Cplx3", f"What is {scope}?", "It clamps.", scope) for scope in scopes))
    extract.take(item, stop(said), 0)
    organism.take(item, stop(json.dumps({"organism": answer})), 0)
    rows = item.records or []
    assert [row["organism"] if row["reason"] is None else None for row in rows] == organisms
    assert Counter(row["reason"] for row in rows)["organism: unknown"] == organisms.count(None)


def test_names_are_mapped_to_one_entry_and_taken_out_of_the_texts_or_rejected_by_class(
    item: Item, tmp_path: Path
) -> None:
    (tmp_path / "sprot.fasta").write_text(SPROT)
    mapping = {"use": "map_protein", "proteins": str(tmp_path / "sprot.fasta")}
    steps = chain_of("extract", "organism", mapping, "prune", "delexicalise", anchors=ABSTRACTS)
    release = "Deletion of Cplx3 leads to more release of the CPLX3 protein."
    said = pairs(
        ("Cplx3", "What happens without Cplx3?", release),
        ("TP53", "What does TP53 do?"),
        ("catalase", "What does catalase do?"),
        ("vesicles", "What do vesicles do?"),
        ("Complexin-3", "Where does complexin-3 work?", "Not sure, perhaps in cells."),
    )
    steps[0].take(item, stop(said), 0)
    steps[1].take(item, stop('{"organism": "Mus musculus"}'), 0)
    for step in steps[2:]:  # as after a kill, each goes on from what the step before it left
        item = Item.from_record(item.anchor, json.loads(json.dumps(item.to_record())))
        assert isinstance(step.run(item), Done)
    rows = item.records or []
    classes = ["map_protein: homologue", "map_protein: ambiguous", "map_protein: missing", "prune: not sure"]
    assert [row["reason"] for row in rows] == [None, *classes]
    expected = {
        "accession": "Q8R1B5", "sequence": "MAFMVKSMVG", "organism": "Mus musculus",
        "taxonomy": ["mammals", "vertebrates"],
        # The paper's own Figure 5 kept "Cplx3" in an answer.
        "answer": "Deletion of the protein leads to more release of the protein.", "answer_with_names": release,
        "question": "What happens without the protein?", "names_replaced": 3,
    }  # fmt: skip
    assert {key: rows[0][key] for key in expected} == expected
    assert rows[2]["candidates"] == ["P24270", "Q00001"]


@pytest.mark.parametrize("judge", [JudgeSupport, JudgeOptions, JudgeDecision])
def test_one_criterion_that_fails_is_an_objection(judge: type[JudgeCriteria]) -> None:
    verdict = dict.fromkeys(judge.criteria, True)
    assert judge.objection(verdict) is None
    for criterion, objection in judge.criteria.items():
        assert judge.objection({**verdict, criterion: False}) == objection


@pytest.fixture(scope="module")
def literature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over sixty documents with the scripted engine, and a panel of three over its records."""
    folder = tmp_path_factory.mktemp("literature")
    names = [f"ABC{n}" for n in range(20)]
    texts = [f"{names[n % 20]} binds {names[n % 7]} in mice." if n % 3 else "No." for n in range(60)]
    texts[1] = ""
    rows = [{"id": str(n), "title": f"Title {n}", "text": text} for n, text in enumerate(texts)]
    jsonl(folder / "docs.jsonl", rows)
    (folder / "names.tsv").write_text("gene_names\n" + "\n".join(names) + "\n")
    engine = {"kind": "scripted", "faults": {"garbage": 0.05}}
    steps = ["extract", "organism", "prune", "judged_question_type", "delexicalise"]
    made_run(folder, config_of(*steps, anchors=ABSTRACTS, engine=engine, runtime={"shard_size": 7}))
    return folder


def test_documents_read_add_up_to_what_was_drawn_and_left_out(literature: Path) -> None:
    counts = json.loads((literature / "run" / "stats" / "abstracts.json").read_text())
    assert counts["read"] == 60
    left_out = sum(counts.get(name, 0) for name in ("without text", "retracted", "without a name"))
    assert counts["with a name"] + left_out == 60
    assert counts["drawn"] == counts["with a name"] == 39


def test_items_and_records_add_up(literature: Path) -> None:
    accounting = json.loads((literature / "run" / "dataset" / "accounting.json").read_text())
    lost = sum(sum(accounting[name].values()) for name in ("rejected", "invalid", "failed"))
    assert accounting["sampled"] == 39 == accounting["accepted"] + lost
    counts = accounting["records"]
    assert counts["records"] == counts["accepted"] + sum(counts["rejected"].values()) > 0
    found = list(records(literature / "run"))
    assert len(found) == counts["records"]
    assert all(record["document_text"] for record in found)


@pytest.mark.parametrize("use", ["judge_support", "judge", "check"])
@pytest.mark.parametrize("later", [False, True])
def test_a_step_for_one_record_is_refused_where_an_item_has_many(
    literature: Path, tmp_path: Path, use: str, later: bool
) -> None:
    config = yaml.safe_load((literature / "run.yaml").read_text())
    if later:
        config["passes"].append({"name": "later", "steps": []})
    config["passes"][-1]["steps"].append(use)
    with pytest.raises(ConfigError, match=f"{use} works on one record, but extract makes many of an item"):
        stages.init(written(literature / "judged.yaml", config), tmp_path / "judged")


def test_a_record_without_an_answer_or_a_text_fails_alone(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": "What binds?", "answer": "That.", "document_text": "That binds."},
        {"id": "b", "question": "What holds?", "document_text": "That holds."},
        {"id": "c", "question": "What bends?", "answer": "That."},
    ]
    run = made_run(tmp_path, config_of("judge_support", anchors=str(jsonl(tmp_path / "pairs.jsonl", rows))))
    counts = json.loads((run / "dataset" / "accounting.json").read_text())
    assert counts["failed"] == {"judge_support: KeyError": 1}
    assert counts["rejected"]["judge_support: no text"] == 1
