"""From cleaned pairs about proteins: topics of titles, a sample balanced by them, tables, sequences in exports."""

import json
from collections import Counter
from pathlib import Path

import pytest

from kgqa_hpc.plugins.evaluation.records import records
from tests.command import kgqa
from tests.record_runs import config_of, jsonl, made_run

pytestmark = pytest.mark.plugin("literature", "evaluation")
TITLES = {"kinase": 48, "membrane": 12}  # pairs about each; a title stands for eight of them
WORDS = {"kinase": "phosphorylation signalling", "membrane": "channel transport"}


def pair(topic: str, n: int) -> dict[str, object]:
    return {
        "id": f"{topic}-{n}",
        "question": f"What does the protein do, case {n} of {topic}?",
        "question_with_names": f"What does {topic.upper()}{n % 3} do, case {n} of {topic}?",
        "answer": "The protein binds.",
        "document_id": f"{topic}{n // 8}",
        "document_title": f"A {topic} in {WORDS[topic]}, part {n // 8}",
        "protein": f"{topic.upper()}{n % 3}",
        "sequence": "MAFMV" * (n % 3 + 1),
    }


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cleaned")
    jsonl(folder / "pairs.jsonl", (pair(topic, n) for topic, number in TITLES.items() for n in range(number)))
    columns = ["document_id", "document_title", "protein", "sequence", "question_with_names"]
    steps = [{"use": "keep", "columns": columns}, {"use": "topic", "from": "pairs.jsonl", "number": 2}]
    dataset = {"z_score": None, "debias": {"columns": ["topic"], "number": 24}}
    return made_run(folder, config_of(*steps, dataset=dataset, runtime={"shard_size": 16}))


def test_a_pair_has_the_topic_of_its_title(cleaned: Path) -> None:
    topics = Counter((record["id"].split("-")[0], record["topic"]) for record in records(cleaned))
    assert sorted(topics.values()) == sorted(TITLES.values()), topics
    assert all(word in topic for word, topic in topics)


def test_a_balanced_sample_holds_rare_topics_more_often(cleaned: Path) -> None:
    kept = [record for record in records(cleaned) if record["accepted"]]
    assert len(kept) == 24
    rare = sum(record["id"].startswith("membrane") for record in kept) / len(kept)
    assert rare > 1.4 * TITLES["membrane"] / sum(TITLES.values())


def test_questions_that_differ_in_the_replaced_name_alone_are_no_duplicates(tmp_path: Path) -> None:
    fixed = {"question": "What does the protein do?", "answer": "It binds."}
    asked = enumerate(f"What does {name} do?" for name in ("CAT", "SOD1", "CAT"))
    jsonl(tmp_path / "pairs.jsonl", ({"id": f"p{n}", "question_with_names": q, **fixed} for n, q in asked))
    keep = {"use": "keep", "columns": ["question_with_names"]}
    run = made_run(tmp_path, config_of(keep, dataset={"z_score": None, "duplicates": {"exact": True}}))
    assert sorted(record["reason"] or "" for record in records(run)) == ["", "", "duplicate"]


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("messages", lambda line: line["messages"][0]["content"]),
        ("sharegpt", lambda line: line["conversations"][0]["value"]),
        ("alpaca", lambda line: f"{line['input']} {line['instruction']}"),
    ],
)
def test_chat_exports_carry_the_sequence(form: str, shown: object, cleaned: Path, tmp_path: Path) -> None:
    kgqa("export", cleaned, "--to", form, "--out", tmp_path / form)
    sequences = {record["id"]: record["sequence"] for record in records(cleaned)}
    lines = [json.loads(line) for line in (tmp_path / form / "train.jsonl").read_text().splitlines()]
    assert len(lines) == 24
    for line in lines:
        text = shown(line)  # type: ignore[operator]
        assert sequences[line["id"]] in text
        assert text.endswith("?")


def test_the_table_counts_pairs_proteins_and_lengths_of_each_run(cleaned: Path) -> None:
    source = cleaned.parent / "pairs.jsonl"
    table = json.loads(kgqa("proteins", source, cleaned, "--json").stdout)
    every, sample = table[str(source)], table[str(cleaned)]
    assert (every["pairs"], sample["pairs"]) == (60, 24)
    assert (every["documents"], every["proteins"], every["names"]) == (8, 24, 6)
    assert (every["questions"], every["answer_words"], every["residues"]) == (60, 3.0, 10.0)
    assert every["question_words"] == 8.0
    assert "| mean residues of a sequence |" in kgqa("proteins", source).stdout


@pytest.mark.parametrize(
    ("row", "message"),
    [({"accepted": False}, "has no accepted pair"), ({"question": "Q?"}, "'r' has no question and answer")],
)
def test_a_source_without_pairs_is_refused(tmp_path: Path, row: dict[str, object], message: str) -> None:
    source = jsonl(tmp_path / "none.jsonl", [{"id": "r", **row}])
    assert message in kgqa("proteins", source, code=2).stderr
