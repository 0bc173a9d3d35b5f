"""Merge assembles what was done: all of it, once, and nothing else."""

import csv
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa_hpc.dataset import candidates
from kgqa_hpc.dataset.accounting import OUTCOMES, Accounting
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import AccountingError
from kgqa_hpc.store.shards import read_result
from tests.dataset.conftest import contents, records_of, rewrite
from tests.runs import SyntheticRun

ALL = ("accepted", "rejected", "lost")
Merged = tuple[SyntheticRun, Accounting]


def test_every_sampled_id_is_in_exactly_one_file_in_the_order_of_the_shards(merged: Merged) -> None:
    run, accounting = merged
    accounting.check()
    ids = [[record["id"] for record in records_of(run.folder.dataset, name)] for name in ALL]
    assert sorted(itertools.chain(*ids)) == sorted(run.ids)
    assert all(one == [i for i in run.ids if i in set(one)] for one in ids)
    total = accounting.total
    numbers = [total.accepted, total.rejected.total(), total.invalid.total() + total.failed.total()]
    assert [len(one) for one in ids] == numbers


def test_each_fate_is_counted_under_its_reason(merged: Merged) -> None:
    run, accounting = merged
    document = accounting.to_dict()
    assert document == json.loads((run.folder.dataset / "accounting.json").read_text())
    assert document["sampled"] == 60
    assert document["rejected"] == {"judge: invalid answer": 5, "judge: invalid question": 5, "length": 2}
    assert document["invalid"] == {"generate: not_json": 5, "judge: truncated": 4}
    assert document["failed"] == {"generate: engine error": 5}
    assert document["accepted"] == 34
    assert not document["partial"]
    per_shape = document["groups"].values()
    assert sum(tally["sampled"] for tally in per_shape) == 60
    for tally in per_shape:
        assert tally["sampled"] == tally["accepted"] + sum(sum(tally[name].values()) for name in OUTCOMES[1:])


def test_a_length_outlier_is_rejected_before_any_judge_is_heard(merged: Merged, make_merged: Any) -> None:
    run, accounting = merged
    rejected = {record["id"]: record for record in records_of(run.folder.dataset, "rejected")}
    accepted_by_judge, lost_by_judge = rejected[run.ids[run.LONG]], rejected[run.ids[run.LONG_AND_LOST]]
    assert accepted_by_judge["reason"] == lost_by_judge["reason"] == "length"
    assert accepted_by_judge["verdicts"]["judge"]["valid_question"] is True
    assert lost_by_judge["verdicts"]["judge"] is None
    assert accounting.lengths["pairs"] == 50
    assert accounting.lengths["answer"]["maximum"] < len(accepted_by_judge["answer"])
    unlimited = make_merged(dataset={"z_score": None})[1].total
    assert "length" not in unlimited.rejected
    assert unlimited.invalid["judge: truncated"] == 5


def test_a_record_holds_its_graphlet_as_it_stands_in_the_graph_and_its_provenance(merged: Merged) -> None:
    run, _ = merged
    record = next(r for r in records_of(run.folder.dataset) if r["id"] == run.ids[10])
    origin = record["provenance"]
    expected = {
        "question": "What links the nodes of number 0010?",
        "graphlet_id": 2,
        "edges": [[1, 0], [2, 1], [0, 2], [0, 1]],
        "edge_labels": ["binds", "binds", "binds", "treats"],
        "num_nodes": 3,
        "accepted": True,
    }
    assert {name: record[name] for name in expected} == expected
    assert record["nodes"][1] == {"id": "N:10:1", "name": "näme 10-1", "type": "Gene"}
    assert record["verdicts"]["judge"]["original_answer_valid"] is True
    expected = {
        "run": run.folder.manifest().digest,
        "seed": 7,
        "anchor": {"id": run.ids[10], "kind": "graphlet", "weight": 1.0},
        "attempts": {"generate": 2, "judge": 2},
        "tokens": {"prompt": 400, "completion": 40, "cached": 200},
    }
    assert {name: origin[name] for name in expected} == expected
    assert origin["prompt"]["judge"] == run.chain[1].prompt.identity()
    assert origin["engine"]["generate"]["model"] == "scripted-1"
    assert origin["parameters"]["generate"]["temperature"] == run.chain[0].prompt.retry_temperature


SPLIT = {"split": {"by": "id", "shares": {"train": 0.5, "test": 0.5}}}


@pytest.mark.parametrize("dataset", [{}, {"order": "answer", **SPLIT}])
def test_the_dataset_is_the_same_to_the_byte_wherever_and_however_it_was_cut_and_made(
    make_run: Any, dataset: dict[str, Any]
) -> None:
    one = make_run(name="here", dataset=dataset)
    other = make_run(name="there/and/back", shard_size=25, dataset=dataset)
    one.finish()
    other.finish(*reversed(other.manifest.names))
    for run in (one, other, one):
        merge(run.folder, part_bytes=12_000)
    ours, theirs = contents(one.folder.dataset), contents(other.folder.dataset)
    assert sum(name.endswith(".parquet") for name in ours) > 4
    assert ours.keys() == theirs.keys()
    differing = {name for name in ours if ours[name] != theirs[name]}
    # The number of shards is a fact about the run and stands in the accounting, hence in its checksum.
    assert differing == {"accounting.json", "croissant.json", "SHA256SUMS"}


@pytest.mark.parametrize("dataset", [{}, SPLIT])
def test_a_value_of_mixed_columns_is_quoted_once_in_any_shard(make_run: Any, dataset: dict[str, Any]) -> None:
    """Shards with numbers alone, with words, with both, with lists of objects: JSON text in every record."""
    said: dict[str, Any] = {}
    run = make_run(dataset=dataset).finish()
    for number, shard in enumerate(run.manifest.names[:4]):

        def change(records: list[dict[str, Any]], number: int = number) -> list[dict[str, Any]]:
            for place, record in enumerate(records):
                if record["verdicts"].get("judge"):
                    value: Any = "two" if number == 1 or (number == 2 and place % 2) else place
                    value = [place, {"at": place}] if number == 3 else value
                    said[record["id"]] = record["verdicts"]["judge"]["my_answer"] = value
            return records

        rewrite(run.folder.result("main", shard), change)
    merge(run.folder)
    records = records_of(run.folder.dataset, "accepted", "rejected")
    found = {one["id"]: one["verdicts"]["judge"]["my_answer"] for one in records if one["verdicts"]["judge"]}
    assert {type(value) for value in said.values()} == {int, str, list}
    counts = json.loads((run.folder.dataset / "accounting.json").read_text())
    assert counts["json_text"] == [["verdicts", "judge", "my_answer"]]
    for name, text in found.items():
        assert json.loads(text) == said.get(name, "why")


def test_checksums_and_card_describe_the_files(merged: Merged) -> None:
    folder = merged[0].folder.dataset
    forms = {f"{name}{end}" for name in ALL[:2] for end in (".jsonl", "-00000-of-00001.parquet")}
    others = {"lost.jsonl", "accounting.json", "graphlets.csv", "croissant.json", "README.md", "SHA256SUMS"}
    assert {path.name for path in folder.iterdir()} == forms | others | {"biographletqa.jsonl"}
    subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True
    )
    front, body = (folder / "README.md").read_text().removeprefix("---\n").split("\n---\n", 1)
    metadata = yaml.safe_load(front)
    assert metadata["license"] == "unknown"
    parts = [{"split": "train", "path": ["accepted-00000-of-00001.parquet"]}]
    assert metadata["configs"][0]["data_files"] == parts
    identity = "60 sampled = 34 accepted + 12 rejected + 9 invalid + 5 failed"
    assert all(words in body for words in (identity, "| ask |", "biographletqa.jsonl"))


def test_graphlets_csv_has_the_columns_of_the_papers_table(merged: Merged) -> None:
    run, accounting = merged
    with (run.folder.dataset / "graphlets.csv").open() as file:
        rows = {int(row["id"]): row for row in csv.DictReader(file)}
    assert list(rows[1]) == ["id", "total", "ratio", "count", "generated", "accepted", "acceptance_ratio"]
    assert (rows[2]["total"], rows[2]["count"], float(rows[2]["ratio"])) == ("40", "20", 0.5)
    for shape, row in rows.items():
        tally = accounting.groups[f"shape {shape}"]
        unparsed = tally.failed.total() + tally.invalid["generate: not_json"]
        generated = tally.sampled - unparsed - tally.rejected["length"]
        assert int(row["generated"]) == generated
        assert float(row["acceptance_ratio"]) == pytest.approx(tally.accepted / generated)


def test_requests_are_counted_per_prompt_and_model(merged: Merged) -> None:
    generate, judge = merged[1].requests
    names = (generate["step"], generate["prompt"]["name"], judge["prompt"]["name"])
    assert names == ("generate", "ask", "check")
    assert generate["requests"] == 45 + 5 * 2 + 5 * 3 + 5 * 3
    assert (generate["usable"], generate["unparseable"], generate["errors"]) == (50, 20, 15)
    assert (judge["usable"], judge["truncated"], judge["tokens"]["prompt"]) == (45, 15, 6500)


def test_the_last_pass_counts_and_carries_what_earlier_ones_did(make_run: Any, merged: Merged) -> None:
    passes = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
    run = make_run(passes=passes)
    run.folder.results("draft").mkdir(parents=True)
    with pytest.raises(AccountingError, match="8 of 8 shards"):
        merge(run.folder)
    run.finish()
    two_passes, one_pass = merge(run.folder).to_dict(), merged[1].to_dict()
    assert {name: two_passes[name] for name in OUTCOMES} == {name: one_pass[name] for name in OUTCOMES}
    assert records_of(run.folder.dataset)[0]["provenance"]["prompt"]["generate"]["name"] == "ask"


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(fates=st.lists(st.sampled_from(OUTCOMES), min_size=9, max_size=9), data=st.data())
def test_the_identity_holds_whatever_becomes_of_the_items(
    tmp_path_factory: pytest.TempPathFactory, fates: list[str], data: Any, template: Any
) -> None:
    run = template(tmp_path_factory.mktemp("run"))
    records = read_result(run.result("main", "shard-000000"))
    for record, fate in zip(records, fates, strict=True):
        fate = fate if record["output"] or fate != "accepted" else "failed"  # nothing can be accepted
        record["decided"] = False
        record["status"], record["reason"] = fate, data.draw(st.sampled_from(["judge: a", "generate: b"]))
        if fate in ("invalid", "failed") and data.draw(st.booleans()):
            record["output"] = {}
    rewrite(run.result("main", "shard-000000"), lambda _: records)
    accounting = merge(run)
    accounting.check()
    assert accounting.total.sampled == len(fates)
    ids = sorted(record["id"] for record in records_of(run.dataset, *ALL))
    assert ids == sorted(record["id"] for record in records)


def test_a_run_where_nothing_was_accepted_still_has_a_dataset(make_run: Any) -> None:
    run = make_run(items=1).finish()
    lost = {"status": "failed", "reason": "generate: engine died", "output": {}, "verdicts": {}, "trace": []}
    rewrite(run.folder.result("main", "shard-000000"), lambda records: [{**records[0], **lost}])
    merge(run.folder)
    assert pq.read_table(run.folder.dataset / "accepted-00000-of-00001.parquet").num_rows == 0
    assert records_of(run.folder.dataset, "lost")[0]["reason"] == "generate: engine died"


MERGE_AND_MEASURE = """
import re, sys
from pathlib import Path
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.run_folder import RunFolder
merge(RunFolder(Path(sys.argv[1])))
# Not ru_maxrss, which begins with the memory of the process that started this one.
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def peak_of_merging(run: Path) -> int:
    """Peak resident memory of a merge in a process of its own, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MERGE_AND_MEASURE, run], capture_output=True, text=True, check=True
    )
    return int(done.stdout) * 1024


@pytest.mark.slow
def test_ten_times_the_records_take_no_more_memory(make_tiny_run: Any) -> None:
    small = peak_of_merging(make_tiny_run(2_000, 1000, "small"))
    large = peak_of_merging(make_tiny_run(20_000, 1000, "large"))
    # Held as objects, 18,000 more records would be about 60 MB.
    assert large - small < 30 << 20


def test_the_memory_does_not_grow_with_the_number_of_shards(
    rows_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MEMORY", "20MB")
    staged = rows_of(tmp_path, [{}]).staged
    many = candidates.Staged(staged.files * 1000, staged.columns)
    with candidates.open_candidates(many, tmp_path / "scratch") as table:
        assert len(table.accepted) == 1000
