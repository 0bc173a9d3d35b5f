"""Questions from literature: one item gives many records, and what is left out is counted under its reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.literature.steps.extract import CRITERIA, JudgeSupport, kept
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Step
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile
from tests.work.rig import Processes, kill_and_finish

StopAnswer = Callable[[str], Response]
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


def chain_of(*steps: Any) -> list[Step]:
    data = {
        "anchors": {"kind": "abstract", "documents": ["docs.jsonl"], "names": "names.tsv"},
        "engine": {"kind": "scripted"},
        "passes": [{"name": "main", "steps": list(steps)}],
    }
    return build_chain(parse_config(data, "the test"), "main", EngineInfo("scripted", "1", "scripted-1"))


@pytest.fixture
def item() -> Item:
    document = {"id": "1", "title": "Complexin in the retina", "text": TEXT}
    data = {"document": document, "mentions": [[13, 18, "Cplx3"]], "names": ["Cplx3", "TP53"]}
    return Item(Anchor("d-1", "abstract", "2 to 4 names", data=data))


def pair(
    protein: str, question: str, answer: str = "It clamps vesicles.", scope: str = "All"
) -> dict[str, str]:
    return {"protein": protein, "organism_scope": scope, "question": question, "answer": answer}


def pairs(*entries: dict[str, str]) -> str:
    return json.dumps({"pairs": list(entries)})


def test_one_abstract_gives_many_records_and_each_drop_has_its_reason(item: Item, stop: StopAnswer) -> None:
    (extract,) = chain_of({"use": "extract", "per_protein": 2})
    said = pairs(
        pair("Cplx3", "What does Cplx3 do?"),
        pair("cplx3", "Where is Cplx3?"),
        pair("Cplx3", "What does Cplx3 bind?"),
        pair("TP53", "What does TP53 do?"),
        pair("TP53", "what does  TP53 do?"),
        pair("BRCA1", "What does BRCA1 do?"),
        pair("TP53", "What did the authors find about TP53?"),
        pair("TP53", "Is TP53 changed?", "According to this study it is not."),
        pair("TP53", "Is TP53 changed?", "It is not, as shown above."),
    )
    assert isinstance(extract.take(item, stop(said), 0), Done)
    assert item.records is not None
    assert [record["reason"] for record in item.records] == [
        None,
        None,
        "extract: more than 2 of a protein",
        None,
        "extract: question repeated",
        "extract: protein not in the text",
        "extract: speaks of its source",
        "extract: speaks of its source",
        "extract: speaks of its source",
    ]


def test_an_abstract_that_says_nothing_ends_well_without_records_and_nobody_is_asked_on(
    item: Item, stop: StopAnswer
) -> None:
    extract, organism = chain_of("extract", "organism")
    assert isinstance(extract.take(item, stop(pairs()), 0), Done)
    assert item.records == []
    assert not organism.asks_about(item)
    assert isinstance(organism.run(item), Done)


def test_a_scope_stays_and_the_main_organism_stands_for_all(item: Item, stop: StopAnswer) -> None:
    extract, organism = chain_of("extract", "organism")
    said = pairs(
        pair("Cplx3", "What does Cplx3 do?", scope="All"),
        pair("Cplx3", "Where is Cplx3?", scope="Rattus norvegicus"),
        pair("TP53", "What does TP53 do?", scope="Not sure"),
    )
    for answer, expected in (
        ("Mus musculus", ["Mus musculus", "Rattus norvegicus", "Mus musculus"]),
        ("Unknown", [None, "Rattus norvegicus", None]),
    ):
        extract.take(item, stop(said), 0)
        organism.take(item, stop(json.dumps({"organism": answer})), 0)
        found = [record["organism"] if record["reason"] is None else None for record in item.records or ()]
        assert found == expected
    assert Counter(record["reason"] for record in item.records or ())["organism: unknown"] == 2


def mapped(item: Item, stop: StopAnswer, folder: Path) -> list[dict[str, Any]]:
    (folder / "sprot.fasta").write_text(SPROT)
    steps = chain_of(
        "extract",
        "organism",
        {"use": "map_protein", "proteins": str(folder / "sprot.fasta")},
        "prune",
        "delexicalise",
    )
    said = pairs(
        pair(
            "Cplx3",
            "What happens without Cplx3?",
            "Deletion of Cplx3 leads to more release of the CPLX3 protein.",
        ),
        pair("TP53", "What does TP53 do?"),
        pair("catalase", "What does catalase do?"),
        pair("vesicles", "What do vesicles do?"),
        pair("Complexin-3", "Where does complexin-3 work?", "Not sure, perhaps in cells."),
    )
    steps[0].take(item, stop(said), 0)
    steps[1].take(item, stop('{"organism": "Mus musculus"}'), 0)
    for step in steps[2:]:
        assert isinstance(step.run(item), Done)
    assert item.records is not None
    return item.records


def test_names_are_mapped_to_one_entry_or_rejected_by_class(
    item: Item, stop: StopAnswer, tmp_path: Path
) -> None:
    found = mapped(item, stop, tmp_path)
    assert [record["reason"] for record in found] == [
        None,
        "map_protein: homologue",
        "map_protein: ambiguous",
        "map_protein: missing",
        "prune: not sure",
    ]
    assert (found[0]["accession"], found[0]["sequence"], found[0]["organism"]) == (
        "Q8R1B5",
        "MAFMVKSMVG",
        "Mus musculus",
    )
    assert found[0]["taxonomy"] == ["mammals", "vertebrates"]
    assert found[2]["candidates"] == ["P24270", "Q00001"]


def test_no_name_of_the_protein_is_left_and_both_texts_are_kept(
    item: Item, stop: StopAnswer, tmp_path: Path
) -> None:
    """The paper's own Figure 5 kept "Cplx3" in an answer."""
    record = mapped(item, stop, tmp_path)[0]
    assert record["answer"] == "Deletion of the protein leads to more release of the protein."
    assert record["question"] == "What happens without the protein?"
    assert record["answer_with_names"].startswith("Deletion of Cplx3 leads")
    assert record["names_replaced"] == 3


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_criterion_that_fails_is_an_objection(criterion: str) -> None:
    verdict = dict.fromkeys(CRITERIA, True)
    assert JudgeSupport.objection(verdict) is None
    assert JudgeSupport.objection({**verdict, criterion: False}) == CRITERIA[criterion]


@pytest.fixture(scope="module")
def literature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over sixty documents with the scripted engine, and a panel of three over its records."""
    folder = tmp_path_factory.mktemp("literature")
    names = [f"ABC{n}" for n in range(20)]
    documents = [
        {
            "id": str(n),
            "title": f"Title {n}",
            "text": f"{names[n % 20]} binds {names[n % 7]} in mice." if n % 3 else "No.",
        }
        for n in range(60)
    ]
    documents[1]["text"] = ""
    (folder / "docs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (folder / "names.tsv").write_text("gene_names\n" + "\n".join(names) + "\n")
    config = {
        "anchors": {"kind": "abstract", "documents": ["docs.jsonl"], "names": "names.tsv"},
        "engine": {"kind": "scripted", "faults": {"garbage": 0.05}},
        "passes": [
            {
                "name": "main",
                "steps": ["extract", "organism", "prune", "judged_question_type", "delexicalise"],
            }
        ],
        "dataset": {"z_score": None},
        "runtime": {"shard_size": 7},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(folder / "run.yaml", folder / "run")
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


@pytest.mark.slow
def test_kill_9_between_answers_changes_no_byte_of_many_records(
    literature: Path, tmp_path: Path, processes: Processes
) -> None:
    config = yaml.safe_load((literature / "run.yaml").read_text())
    config["engine"]["latency"] = {"batch": 4, "per_request_s": 0.05}
    config["runtime"] |= {"commit_every": 0.2, "lease": 3.0}
    for name in ("docs.jsonl", "names.tsv"):
        (tmp_path / name).write_bytes((literature / name).read_bytes())
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    stages.init(tmp_path / "run.yaml", tmp_path / "run")
    stages.sample(tmp_path / "run")
    kill_and_finish(RunFolder(tmp_path / "run"), processes)
    stages.merge(tmp_path / "run")
    for name in ("accepted.jsonl", "rejected.jsonl"):
        both = [(folder / "run" / "dataset" / name).read_bytes() for folder in (literature, tmp_path)]
        assert both[0] == both[1]


def test_a_smaller_sample_is_the_beginning_of_a_larger_one(literature: Path) -> None:
    ids = []
    for number in (5, 10):
        config = yaml.safe_load((literature / "run.yaml").read_text())
        config["anchors"]["number"] = number
        (literature / "small.yaml").write_text(yaml.safe_dump(config))
        stages.init(literature / "small.yaml", literature / f"run{number}")
        stages.sample(literature / f"run{number}")
        with AnchorsFile(literature / f"run{number}" / "anchors.h5") as anchors:
            ids.append([row["id"] for row in anchors.rows()])
    assert ids[1][:5] == ids[0]


def test_three_judges_must_agree_on_every_criterion(literature: Path) -> None:
    """Over made-up records, for what the scripted engine extracts names no protein of the text."""
    made = [
        {
            "id": f"r{n}",
            "question": f"What is {n}?",
            "answer": "That.",
            "document_text": "That is it.",
            "accepted": True,
        }
        for n in range(60)
    ]
    (literature / "made.jsonl").write_text("".join(json.dumps(one) + "\n" for one in made))
    judges = ["a", "b", "c"]
    config = {
        "anchors": {"kind": "records", "from": "made.jsonl"},
        "engine": {"kind": "scripted", "accept": 0.8},
        "passes": [
            {
                "name": judge,
                "engine": {"kind": "scripted", "model": judge, "accept": 0.8},
                "steps": [{"use": "judge_support", "as": judge}],
            }
            for judge in judges
        ],
        "dataset": {"z_score": None, "decide": {"judges": judges, "rule": "all"}},
    }
    (literature / "clean.yaml").write_text(yaml.safe_dump(config))
    stages.all_stages(literature / "clean.yaml", literature / "clean")
    found = list(records(literature / "clean"))
    assert len(found) == 60
    for record in found:
        agreed = all(all(record["verdicts"][judge][name] for name in CRITERIA) for judge in judges)
        assert record["accepted"] == agreed
    assert 0 < sum(record["accepted"] for record in found) < 60


def test_what_no_step_rejected_is_what_is_kept(item: Item) -> None:
    item.records = [{"reason": None, "n": 1}, {"reason": "prune: cells", "n": 2}]
    assert [record["n"] for record in kept(item)] == [1]
