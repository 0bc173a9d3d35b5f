"""The sample is stratified, blinded, shuffled, seeded, of the size that power needs, and never overwrites ratings."""

from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import kappa_error, kappa_half_width, ratings_for_kappa
from kgqa_hpc.plugins.evaluation.human_sample import (
    Aim,
    draw_sample,
    pairs_for_difference,
    power_of,
    render,
    share_out,
)
from kgqa_hpc.plugins.evaluation.ratings import read_csv, read_ratings
from kgqa_hpc.plugins.evaluation.records import records
from tests.plugins.evaluation.pairs import record
from tests.record_runs import jsonl


def rows(path: Path) -> list[dict[str, str]]:
    return [cells for _, cells in read_csv(path)[1]]


def test_half_is_accepted_shapes_come_evenly_and_the_sheet_is_blind(merged_run: Path, tmp_path: Path) -> None:
    drawn = draw_sample(merged_run, tmp_path / "s.csv", number=30, seed=1)
    sheet, key = rows(tmp_path / "s.csv"), rows(tmp_path / "s.key.csv")
    assert set(Counter((row["accepted"], row["stratum"]) for row in key).values()) == {3}
    assert (drawn["power"]["accepted"], drawn["power"]["rejected"]) == (15, 15)
    by_stratum = {(row["accepted"], row["stratum"]): float(row["weight"]) for row in key}
    assert by_stratum["true", "shape 1"] == pytest.approx(12 / 3)
    assert by_stratum["false", "shape 1"] == pytest.approx(8 / 3, rel=1e-4)
    assert not {"accepted", "reason", "group", "stratum", "verdicts"} & sheet[0].keys()
    assert [row["id"] for row in sheet] == [row["id"] for row in key]
    verdicts = [row["accepted"] for row in key]
    assert verdicts not in (sorted(verdicts), sorted(verdicts, reverse=True))


@pytest.mark.parametrize("number", [None, 10])
@pytest.mark.parametrize(("expected", "difference"), [(0.1, 0.15), (0.2, 0.3), (1.2, 0.5), (0.5, 0.0)])
def test_an_aim_that_makes_no_sense_is_refused_with_and_without_a_number(
    merged_run: Path, tmp_path: Path, number: int | None, expected: float, difference: float
) -> None:
    aim = Aim(expected=expected, difference=difference)
    with pytest.raises(InputError, match="power calculation: shares"):
        draw_sample(merged_run, tmp_path / "s.csv", number=number, aim=aim)


def test_every_pair_is_the_records_own_text_as_many_as_power_needs_or_there_are(
    merged_run: Path, tmp_path: Path
) -> None:
    drawn = draw_sample(merged_run, tmp_path / "s.csv")
    texts = {r["id"]: (r["question"], r["answer"]) for r in records(merged_run)}
    assert {row["id"]: (row["question"], row["answer"]) for row in rows(tmp_path / "s.csv")} == texts
    assert (drawn["power"]["accepted"], drawn["power"]["rejected"]) == (60, 40)
    assert "takes 89 of each" in render(drawn)
    assert "smallest difference told: 2" in render(drawn)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(merged_run: Path, tmp_path: Path) -> None:
    for name, seed in (("a.csv", 1), ("b.csv", 1), ("c.csv", 2)):
        draw_sample(merged_run, tmp_path / name, number=20, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in ("a.csv", "b.csv", "c.csv"))
    assert a == b
    assert a != c


def test_any_column_stratifies(tmp_path: Path) -> None:
    pairs = [record(i, accepted=i % 2 == 0, organism=("human", "mouse")[i % 4 > 1]) for i in range(40)]
    source = jsonl(tmp_path / "r.jsonl", pairs)
    drawn = draw_sample(source, tmp_path / "s.csv", number=8, by="organism")
    assert "4 strata; sheet" in render(drawn)
    few = render(draw_sample(source, tmp_path / "few.csv", number=3, by="organism"))
    assert "4 strata, 1 without a pair: no weight stands for their 10 records; sheet" in few
    key = rows(tmp_path / "s.key.csv")
    assert set(Counter((row["accepted"], row["stratum"]) for row in key).values()) == {2}
    with pytest.raises(InputError, match="no column 'colour'"):
        draw_sample(source, tmp_path / "t.csv", by="colour")


def test_an_audit_of_a_hundred_shows_the_text_each_pair_was_made_from_and_can_be_read(tmp_path: Path) -> None:
    pairs = [record(i, accepted=True, document_text=f"Text {i}.") for i in range(300)]
    source, sheet = jsonl(tmp_path / "r.jsonl", pairs), tmp_path / "s.csv"
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
    sheet.write_text(sheet.read_text("utf-8").replace(",,,,,,,", ",5,5,5,5,5,,", 1), encoding="utf-8")
    rated = sheet.read_bytes()
    (tmp_path / "s.key.csv").unlink()
    with pytest.raises(InputError, match="may hold ratings"):
        draw_sample(merged_run, sheet, number=10)
    assert sheet.read_bytes() == rated
    assert not (tmp_path / "s.key.csv").exists()  # nothing half-written


def test_a_combined_dataset_is_sampled_like_a_run(merged_run: Path, tmp_path: Path) -> None:
    combined = copytree(merged_run / "dataset", tmp_path / "out")
    (combined / "combined.json").write_text("{}")
    draw_sample(combined, tmp_path / "a.csv", number=10)
    draw_sample(merged_run, tmp_path / "b.csv", number=10)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_run_that_was_not_merged_is_told_how(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="kgqa merge"):
        draw_sample(tmp_path / "run", tmp_path / "s.csv")


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(0, 200))
def test_draws_are_shared_out_evenly_and_completely(sizes: list[int], total: int) -> None:
    quotas = share_out(sizes, total)
    assert sum(quotas) == min(total, sum(sizes))
    assert all(0 <= quota <= size for quota, size in zip(quotas, sizes, strict=True))
    assert all(q >= max(quotas) - 1 for q, size in zip(quotas, sizes, strict=True) if q < size)


def test_106_ratings_give_kappa_within_19_hundredths_and_a_tenth_takes_about_390() -> None:
    assert kappa_half_width(106) == pytest.approx(0.19, abs=0.005)
    assert ratings_for_kappa(0.10) == 385
    # The published verdicts against the published ratings: 59 and 19 right, 19 and 9 wrong.
    error = kappa_error((59 + 19) / 106, (78 * 68 + 28 * 38) / 106**2)
    assert kappa_half_width(106, error) == pytest.approx(0.19, abs=0.005)
    assert ratings_for_kappa(0.10, error) == pytest.approx(390, abs=10)


def test_the_detectable_difference_is_the_inverse_of_the_size_and_none_with_one_empty_side() -> None:
    pairs = pairs_for_difference(0.7, 0.15)
    assert 0.148 <= power_of(pairs, pairs, Aim(expected=0.7))["detectable"] <= 0.15
    assert power_of(50, 0, Aim())["detectable"] is None
    document = {"sheet": "s.csv", "key": "s.key.csv", "strata": [], "power": power_of(2, 1, Aim())}
    assert "smallest difference told: none (too few pairs)" in render(document)
