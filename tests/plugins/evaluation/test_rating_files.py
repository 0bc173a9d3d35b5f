"""Whatever bytes come as ratings or records: they are read, or refused as bad input, and nothing else."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.analysis import analyse
from kgqa_hpc.plugins.evaluation.cells import csv_bytes, read_csv
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, read_ratings
from kgqa_hpc.plugins.evaluation.records import records

on_one_folder = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
HEADERS = [
    "ID",
    "Question",
    "Answer",
    CRITERIA[0],
    "Evaluation Category",
    "Score",
    "accepted",
    "not_qualified",
    "x",
]
CELLS = st.one_of(
    st.sampled_from(["", "1", "5", "3. words", "0", "true", "=1", '"', "\n", ",", ";", "nan", "1e5"]),
    st.text(max_size=6),
)


@on_one_folder
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(data)
    for read in (lambda: read_ratings([path]), lambda: list(records(path))):
        try:
            read()
        except InputError as problem:
            assert str(path) in str(problem)


@on_one_folder
@given(
    st.lists(st.sampled_from(HEADERS), min_size=3, max_size=8),
    st.lists(st.lists(CELLS, min_size=3, max_size=8), max_size=6),
)
def test_any_table_is_analysed_or_refused(tmp_path: Path, header: list[str], rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    path = tmp_path / "any.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    with suppress(InputError):
        result = analyse(read_ratings([path]))
        assert 0 <= result["items"] <= result["ratings"] <= len(rows)


@on_one_folder
@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2).filter(any), max_size=8))
def test_what_is_written_is_read_back(tmp_path: Path, rows: list[list[str]]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(csv_bytes(["a", "b"], rows))
    assert [list(cells.values()) for _, cells in read_csv(path)[1]] == rows


@on_one_folder
@given(
    st.lists(
        st.one_of(st.none(), st.lists(st.integers(1, 5), min_size=5, max_size=5)), min_size=1, max_size=12
    )
)
def test_both_forms_of_the_same_ratings_say_the_same(tmp_path: Path, scores: list[list[int] | None]) -> None:
    wide, long = tmp_path / "r.csv", tmp_path / "long" / "r.csv"
    long.parent.mkdir(exist_ok=True)
    rows = [[i, "q", "a", *(one or [""] * 5), 1 if one is None else ""] for i, one in enumerate(scores)]
    wide.write_bytes(csv_bytes(["ID", "Question", "Answer", *CRITERIA, "not_qualified"], rows))
    lines = [
        [i, "q", "a", name, f"{score}. words"]
        for i, one in enumerate(scores)
        for name, score in zip(CRITERIA, one or [], strict=bool(one))
    ]
    lines += [[i, "q", "a", "Not qualified to evaluate", "no"] for i, one in enumerate(scores) if one is None]
    long.write_bytes(csv_bytes(["ID", "Question", "Answer", "Evaluation Category", "Score"], lines))
    assert analyse(read_ratings([wide])) == analyse(read_ratings([long]))


def test_a_cell_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_MAX_LINE_BYTES", "1000000")
    path = tmp_path / "r.csv"
    path.write_text(f"ID,Question,Answer,{CRITERIA[0]}\n1,{'q' * (1 << 21)},a,5\n", encoding="utf-8")
    with pytest.raises(InputError, match="field larger"):
        read_ratings([path])
    path.write_text("x" * (1 << 21), encoding="utf-8")
    with pytest.raises(InputError, match="line 1: field larger"):
        read_ratings([path])
