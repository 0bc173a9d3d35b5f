"""The sample is stratified, blinded, shuffled, seeded, and never overwrites ratings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.cells import guard, read_csv, unguard
from kgqa_hpc.plugins.evaluation.human_sample import draw_sample, share_out
from kgqa_hpc.plugins.evaluation.power import Aim
from kgqa_hpc.plugins.evaluation.ratings import read_ratings
from kgqa_hpc.plugins.evaluation.records import records
from tests.plugins.evaluation.pairs import record, write_lines


def rows(path: Path) -> list[dict[str, str]]:
    return [cells for _, cells in read_csv(path)[1]]


def test_half_is_accepted_half_rejected_and_shapes_come_evenly(merged_run: Path, tmp_path: Path) -> None:
    drawn = draw_sample(merged_run, tmp_path / "s.csv", number=30, seed=1)
    key = rows(tmp_path / "s.key.csv")
    assert Counter(row["accepted"] for row in key) == {"true": 15, "false": 15}
    assert set(Counter((row["accepted"], row["stratum"]) for row in key).values()) == {3}
    assert (drawn.plan.accepted, drawn.plan.rejected) == (15, 15)
    by_stratum = {(row["accepted"], row["stratum"]): float(row["weight"]) for row in key}
    assert by_stratum["true", "shape 1"] == pytest.approx(12 / 3)
    assert by_stratum["false", "shape 1"] == pytest.approx(8 / 3, rel=1e-4)


def test_the_sheet_is_blind_and_the_key_has_the_same_order(merged_run: Path, tmp_path: Path) -> None:
    draw_sample(merged_run, tmp_path / "s.csv", number=30, seed=1)
    header, _ = read_csv(tmp_path / "s.csv")
    assert not {"accepted", "reason", "group", "stratum", "verdicts"} & {name.lower() for name in header}
    sheet, key = rows(tmp_path / "s.csv"), rows(tmp_path / "s.key.csv")
    assert [row["id"] for row in sheet] == [row["id"] for row in key]
    verdicts = [row["accepted"] for row in key]
    assert verdicts != sorted(verdicts)
    assert verdicts != sorted(verdicts, reverse=True)


def test_an_aim_that_makes_no_sense_is_refused_with_and_without_a_number(
    merged_run: Path, tmp_path: Path
) -> None:
    for number in (None, 10):
        with pytest.raises(InputError, match="power calculation: shares"):
            draw_sample(merged_run, tmp_path / "s.csv", number=number, aim=Aim(expected=0.1))


def test_every_pair_is_the_records_own_text(merged_run: Path, tmp_path: Path) -> None:
    draw_sample(merged_run, tmp_path / "s.csv", number=100)
    texts = {r["id"]: (r["question"], r["answer"]) for r in records(merged_run)}
    assert {row["id"]: (row["question"], row["answer"]) for row in rows(tmp_path / "s.csv")} == texts


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(merged_run: Path, tmp_path: Path) -> None:
    for name, seed in (("a.csv", 1), ("b.csv", 1), ("c.csv", 2)):
        draw_sample(merged_run, tmp_path / name, number=20, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in ("a.csv", "b.csv", "c.csv"))
    assert a == b
    assert a != c


def test_without_a_number_the_power_calculation_decides_as_far_as_there_are_pairs(
    merged_run: Path, tmp_path: Path
) -> None:
    drawn = draw_sample(merged_run, tmp_path / "s.csv")
    assert (drawn.plan.accepted, drawn.plan.rejected) == (60, 40)
    assert "takes 89 of each" in str(drawn.plan)
    assert "smallest difference told" in str(drawn.plan)


def test_any_column_stratifies(tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "r.jsonl",
        [record(i, accepted=i % 2 == 0, organism=("human", "mouse")[i % 4 > 1]) for i in range(40)],
    )
    draw_sample(source, tmp_path / "s.csv", number=8, by="organism")
    key = rows(tmp_path / "s.key.csv")
    assert set(Counter((row["accepted"], row["stratum"]) for row in key).values()) == {2}
    with pytest.raises(InputError, match="no column 'colour'"):
        draw_sample(source, tmp_path / "t.csv", by="colour")


def test_an_audit_of_a_hundred_shows_the_text_each_pair_was_made_from_and_can_be_read(tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "r.jsonl", [record(i, accepted=True, document_text=f"Text {i}.") for i in range(300)]
    )
    sheet = tmp_path / "s.csv"
    draw_sample(source, sheet, number=100, show=["document_text"])
    drawn = rows(sheet)
    assert len({row["id"] for row in drawn}) == 100
    assert all(row["document_text"] == f"Text {int(row['id'][2:])}." for row in drawn)
    sheet.write_text(sheet.read_text(encoding="utf-8").replace(",,,,,,,", ",5,5,5,5,5,,"), encoding="utf-8")
    assert len(read_ratings([sheet]).rated) == 100
    with pytest.raises(InputError, match="has no column 'text'"):
        draw_sample(source, tmp_path / "t.csv", number=10, show=["text"])


def test_a_sheet_with_ratings_is_never_overwritten(merged_run: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "s.csv"
    draw_sample(merged_run, sheet, number=10)
    draw_sample(merged_run, sheet, number=10)  # the same again is no harm
    sheet.write_text(
        sheet.read_text(encoding="utf-8").replace(",,,,,,,", ",5,5,5,5,5,,", 1), encoding="utf-8"
    )
    rated = sheet.read_bytes()
    (tmp_path / "s.key.csv").unlink()
    with pytest.raises(InputError, match="may hold ratings"):
        draw_sample(merged_run, sheet, number=10)
    assert sheet.read_bytes() == rated
    assert not (tmp_path / "s.key.csv").exists()  # nothing half-written


def test_a_run_that_was_not_merged_is_told_how(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="kgqa merge"):
        draw_sample(tmp_path / "run", tmp_path / "s.csv")


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(0, 200))
def test_places_are_shared_out_evenly_and_completely(sizes: list[int], total: int) -> None:
    places = share_out(sizes, total)
    assert sum(places) == min(total, sum(sizes))
    assert all(0 <= p <= size for p, size in zip(places, sizes, strict=True))
    open_ = [p for p, size in zip(places, sizes, strict=True) if p < size]
    assert all(p >= max(places) - 1 for p in open_)


@given(st.text())
def test_a_guarded_cell_reads_back_and_is_no_formula(text: str) -> None:
    assert unguard(guard(text)) == text
    assert guard(text)[:1] not in set("=+-@\t\r")
