"""Records of a finished run as anchors: which ones, how many, and that another dataset is another run."""

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa_hpc import stages
from kgqa_hpc.anchors.anchor import Source, Tools
from kgqa_hpc.anchors.records import RecordAnchors, RecordSettings
from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError
from kgqa_hpc.runs import open_for_work
from kgqa_hpc.store.sums import write_sums
from tests.record_runs import config_of, jsonl, written


def pairs(number):
    return [
        {"id": f"r{n}", "question": f"What is {n}?", "answer": f"It is {n}.", "accepted": n % 4 > 0}
        | {"group": f"shape {1 if n < 8 else 2}"}
        for n in range(number)
    ]


def drawn(path, seed=42, **settings):
    wanted = RecordSettings.model_validate({"from": str(path), **settings})
    found = RecordAnchors().draw(Source(), wanted, seed, Tools())
    return [anchor.id for anchor in found.anchors]


def test_so_many_accepted_records_are_drawn_by_the_seed(tmp_path):
    path = jsonl(tmp_path / "pairs.jsonl", pairs(400))
    chosen = drawn(path, number=100)
    assert len(set(chosen)) == 100
    assert all(int(name[1:]) % 4 for name in chosen)
    assert chosen == drawn(path, number=100) != drawn(path, seed=43, number=100)
    assert set(drawn(path, number=20)) < set(chosen)
    assert len(drawn(path, number=1000)) == 300
    assert len(drawn(path, where={"accepted": [True, False]})) == 400


def test_strata_give_equal_shares_and_the_others_what_a_small_one_lacks(tmp_path):
    path = jsonl(tmp_path / "pairs.jsonl", pairs(400))
    group = {record["id"]: record["group"] for record in pairs(400)}
    shares = Counter(group[name] for name in drawn(path, number=10, stratify="group"))
    assert shares == {"shape 1": 5, "shape 2": 5}
    shares = Counter(group[name] for name in drawn(path, number=30, stratify="group"))
    assert shares == {"shape 1": 6, "shape 2": 24}


def test_a_filter_that_nothing_passes_and_a_line_without_id_are_told(tmp_path):
    path = jsonl(tmp_path / "pairs.jsonl", pairs(4))
    with pytest.raises(InputError, match=r"no record fits anchors\.where"):
        drawn(path, where={"group": "shape 9"})
    jsonl(path, [*pairs(2), {"question": "Q?"}])
    with pytest.raises(InputError, match="line 3: is no record with a text id"):
        drawn(path)


@pytest.mark.parametrize("damage", ["text", "cut", "flipped"])
def test_a_damaged_parquet_file_is_told(tmp_path, damage):
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.Table.from_pylist(pairs(500)), path)
    whole = path.read_bytes()
    middle = len(whole) // 3
    flipped = bytes(byte ^ 0xFF for byte in whole[middle : middle + 400])
    flipped = whole[:middle] + flipped + whole[middle + 400 :]
    path.write_bytes({"text": b"no table", "cut": whole[:-100], "flipped": flipped}[damage])
    with pytest.raises(InputError, match=r"pairs\.parquet: not Parquet, or damaged"):
        drawn(path)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("accepted.jsonl", {"accepted": True}),
        ("rejected.jsonl", {"accepted": True}),
        ("accepted-00000-of-00001.parquet", "answer LIKE 'It%'"),
    ],
)
def test_a_dataset_that_changed_after_its_merge_is_damaged(name, where, tmp_path):
    folder = tmp_path / "run/dataset"
    folder.mkdir(parents=True)
    for side, rows in (("accepted", pairs(9)), ("rejected", [])):
        jsonl(folder / f"{side}.jsonl", rows)
        pq.write_table(pa.Table.from_pylist(pairs(9)), folder / f"{side}-00000-of-00001.parquet")
    write_sums(folder, {})
    assert drawn(tmp_path / "run", where=where)
    with (folder / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(CorruptFile, match=f"{name}: is damaged"):
        drawn(tmp_path / "run", where=where)


def test_a_run_goes_on_only_with_the_records_it_began_with(tmp_path):
    jsonl(tmp_path / "pairs.jsonl", pairs(8))
    stages.init(written(tmp_path / "run.yaml", config_of("judge")), tmp_path / "run")
    open_for_work(tmp_path / "run")
    jsonl(tmp_path / "pairs.jsonl", [{**pair, "answer": "Another."} for pair in pairs(8)])
    with pytest.raises(FingerprintMismatch, match="pairs"):
        open_for_work(tmp_path / "run")
