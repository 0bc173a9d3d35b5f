"""JSON lines and Parquet hold the same, whatever judges say."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgqa_hpc.columns import Column
from kgqa_hpc.dataset import write as writing
from kgqa_hpc.dataset.candidates import Staged, StagedFile
from kgqa_hpc.dataset.columns import Columns, fitting
from kgqa_hpc.dataset.stage import as_line, staged_table, write_staged
from kgqa_hpc.dataset.write import Destination, Fate, write_dataset
from tests.dataset.conftest import records_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | TEXT
VALUE = SCALAR | st.lists(TEXT, max_size=3) | st.dictionaries(TEXT, SCALAR, max_size=2)
VERDICTS = st.dictionaries(
    st.sampled_from(["judge", "panel"]),
    st.dictionaries(st.sampled_from(["valid", "score", "why"]), VALUE),
    max_size=2,
)


def record(
    number: int, verdicts: dict[str, Any], steps: tuple[str, ...] = ("generate", "judge")
) -> dict[str, Any]:
    engine = dict.fromkeys(["name", "version", "model", "digest", "quantisation"], "x")
    if number % 3 == 0:  # a server said something of itself
        engine |= {"server": "0.32.0", "structured": "grammar"}
    return {
        "id": f"g01-{number:016x}",
        "question": f"Which one is {number}? é\u2028→",
        "answer": "This one.\x00",
        "kind": "graphlet",
        "group": "shape 1",
        "nodes": [{"id": f"N:{i}", "name": f"name {i}", "type": "T"} for i in range(3)],
        "edges": [[0, 1], [1, 2]],
        "edge_labels": ["is_a", "part_of"],
        "verdicts": verdicts,
        "features": {"difficulty": 0.5},
        "provenance": {
            "run": "f" * 64,
            "seed": 42,
            "source": "csv",
            "anchor": {"id": f"g01-{number:016x}", "kind": "graphlet", "weight": 1.0},
            "prompt": {step: {"name": "p5", "sha256": "0" * 64} for step in steps},
            "engine": dict.fromkeys(steps, engine),
            "parameters": {step: {"temperature": 0.5, "max_tokens": 100, "seed": number} for step in steps},
            "tokens": {"prompt": 1, "completion": 2, "cached": 0},
            "attempts": dict.fromkeys(steps, 1),
        },
    }


DECLARED = (
    Column("nodes", [{"id": "string", "name": "string", "type": "string"}], "Nodes."),
    Column("edges", [["int64"]], "Edges."),
    Column("edge_labels", ["string"], "Types."),
)
PARQUET = "accepted-00000-of-00001.parquet"


SHARD = 4  # records of a staged file


def write(folder: Path, records: list[dict[str, Any]]) -> None:
    """Accepted records as merge writes them, staged in files of SHARD records with columns of their own."""
    columns, files, sizes = Columns(DECLARED), [], []
    for start in range(0, len(records), SHARD):
        own = Columns(DECLARED)
        rows = [as_line(one, own) for one in records[start : start + SHARD]]
        path = folder / f".staged-{start:05d}"
        write_staged(path, staged_table(rows, own))
        columns.take(own.types)
        files.append(StagedFile(path, len(rows), own))
        sizes += [row["bytes"] for row in rows]
    codes, outcomes = (
        np.zeros(len(records), np.int32),
        [Destination("accepted", "accepted", b',"accepted":true,"reason":null}\n')],
    )
    fate = Fate(Staged(files, columns), outcomes, codes, np.array(sizes, np.int32))
    write_dataset(folder, fate, files=("accepted",))
    for file in files:
        file.path.unlink()


def read_both(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return records_of(folder), pq.read_table(folder / PARQUET).to_pylist()


def _without_empty_structs(record: dict[str, Any]) -> dict[str, Any]:
    # A struct without any field cannot be a Parquet column; a verdict of no field says nothing.
    verdicts = {step: verdict for step, verdict in record["verdicts"].items() if verdict != {}}
    return (
        {**record, "verdicts": verdicts} if verdicts else {k: v for k, v in record.items() if k != "verdicts"}
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(VERDICTS, max_size=6))
@example([{"judge": {"why": {"a": 1}, "score": [1, 2]}}] * 3)  # JSON text from the first record on
def test_parquet_and_json_lines_agree(tmp_path_factory: pytest.TempPathFactory, verdicts: list[dict]) -> None:
    folder = tmp_path_factory.mktemp("same")
    write(folder, [record(i, one) for i, one in enumerate(verdicts)])
    lines, rows = read_both(folder)
    known = {step for one in verdicts for step, verdict in one.items() if verdict}
    expected = [
        _without_empty_structs({**r, "verdicts": {s: v for s, v in r["verdicts"].items() if s in known}})
        for r in lines
    ]
    assert rows == expected
    assert [line["id"] for line in lines] == [f"g01-{i:016x}" for i in range(len(verdicts))]


@settings(max_examples=200, deadline=None)
@given(st.lists(VERDICTS, max_size=8), st.data())
def test_every_staged_line_has_the_fields_of_all_records_of_its_shard(
    verdicts: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Whether the fields of a record were collected before it, with it, or after it."""
    steps = st.lists(st.sampled_from(("generate", "judge", "other")), min_size=1, max_size=3)
    records = [record(i, one, tuple(data.draw(steps))) for i, one in enumerate(verdicts)]
    columns = Columns(DECLARED)
    lines = staged_table([as_line(one, columns) for one in records], columns)["record"].to_pylist()
    for one, line in zip(records, lines, strict=True):
        for name, kind in columns.types.items():
            one[name] = fitting(one[name], kind)
        assert line == orjson.dumps(one)[:-1].decode()


@pytest.mark.parametrize(
    ("limit", "number", "verdict", "rows"),
    [
        ({"ROW_GROUP_ROWS": 10}, 95, {"valid": True}, [10] * 9 + [5]),
        ({"ROW_GROUP_BYTES": 5_000}, 10, {"why": "x" * 3_000}, [2] * 5),
    ],
)
def test_row_groups_bound_what_is_held_in_memory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: dict[str, int],
    number: int,
    verdict: dict[str, Any],
    rows: list[int],
) -> None:
    """By their records, and by their bytes."""
    for name, value in limit.items():
        monkeypatch.setattr(writing, name, value)
    write(tmp_path, [record(i, {"judge": verdict}) for i in range(number)])
    metadata = pq.read_metadata(tmp_path / PARQUET)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == rows
    assert read_both(tmp_path)[0] == read_both(tmp_path)[1]


def test_a_step_that_some_records_never_reached_is_null_there(tmp_path: Path) -> None:
    write(tmp_path, [record(0, {}, ("generate",)), record(1, {"judge": {"valid": True}})])
    lines, rows = read_both(tmp_path)
    assert lines[0]["verdicts"] == {"judge": None}
    assert lines[0]["provenance"]["prompt"]["judge"] is None
    assert rows == lines


def test_a_step_column_takes_what_fits_and_text_takes_all() -> None:
    assert fitting({"a": 1}, "string") == '{"a":1}'
    assert fitting(1.0, "int64") == 1
    assert fitting(1.5, "int64") is None
    assert fitting(True, "double") is None
    assert fitting([1, "x"], ["string"]) == ["1", "x"]
    assert fitting({"a": 1, "c": 2}, {"a": "double", "b": "string"}) == {"a": 1.0, "b": None}
