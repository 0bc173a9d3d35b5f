"""Several runs become one dataset: every id once, everything counted."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.dataset import combine as combine_module
from kgqa_hpc.dataset.combine import COUNTS, FILES, Mixture, combine, counts_of
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import FingerprintMismatch, InputError
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import kgqa
from tests.dataset.conftest import edit_records, records_of, rewrite


def ids(folder: Path) -> list[str]:
    """Ids of all records, which are the same in both forms."""
    found = []
    for name in FILES:
        table = pq.read_table(folder / f"{name}-00000-of-00001.parquet").to_pylist()
        assert [{**row, "features": {}} for row in table] == records_of(folder, name)
        found += [row["id"] for row in table]
    return found


@pytest.fixture
def two(make_merged: Any) -> list[RunFolder]:
    """Merged runs of 60 and 24 items, of which the second has the ids of the first."""
    return [make_merged(name="large/run")[0].folder, make_merged(name="small/run", items=24)[0].folder]


def test_every_id_stands_once_and_all_are_counted(two: list[RunFolder], tmp_path: Path) -> None:
    large, small = two
    told = combine(tmp_path / "out", [small, large])
    found = ids(tmp_path / "out")
    assert len(found) == len(set(found)) == told["accepted"] + told["rejected"]
    theirs = [set(ids(run.dataset)) for run in (small, large)]
    assert set(found) == theirs[0] | theirs[1]
    assert told["combined"] == len(theirs[0] & theirs[1])
    assert told["runs"][0]["run"] == small.manifest().digest
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "out", check=True)


def test_a_combined_dataset_is_shown_exported_and_asked_as_any(two: list[RunFolder], tmp_path: Path) -> None:
    counts = combine(tmp_path / "out", two)
    shown = json.loads(kgqa("show", tmp_path / "out", "-n", "500", "--json").stdout)
    assert len(shown) == counts["accepted"]
    assert "none" not in kgqa("show", tmp_path / "out", "--rejected", "-n", "1").stdout
    for name in ("messages", "lm-eval", "lighteval", "csv"):
        kgqa("export", tmp_path / "out", "--to", name, "--out", tmp_path / name)
    written = {record["id"] for record in records_of(tmp_path / "messages", "train")}
    assert written == {record["id"] for record in shown}
    rows = json.loads(kgqa("sql", tmp_path / "out", "SELECT count(*) AS n FROM accepted", "--json").stdout)
    assert rows == [{"n": counts["accepted"]}]
    kgqa("report", tmp_path / "out")
    page = (tmp_path / "out/report/index.html").read_text(encoding="utf-8")
    whole = f"{counts['accepted'] + counts['rejected']} records = {counts['accepted']} accepted"
    assert all(words in page for words in (whole, "from 2 runs", two[0].manifest().digest[:16]))
    with (tmp_path / "out/accepted.jsonl").open("a") as file:
        file.write("{}\n")
    damaged = kgqa("show", tmp_path / "out", code=1)
    assert "is damaged" in damaged.stderr
    assert "combine again" in damaged.stderr


def test_memory_of_staged_records_does_not_grow_with_their_number(
    two: list[RunFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combine_module, "CHUNK", 2)
    files = combine_module._stage(two, "", tmp_path).files
    assert len(files) > 10
    assert len({id(file.columns) for file in files}) <= 3


def test_runs_of_other_models_are_refused_unless_mixing_is_wanted_and_one_run_always(
    make_merged: Any, tmp_path: Path
) -> None:
    passes = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
    changes: dict[str, Any] = {"one": {}, "other": {"passes": passes}}
    runs = [make_merged(name=f"{name}/run", items=8, **change)[0].folder for name, change in changes.items()]
    with pytest.raises(FingerprintMismatch, match="differ in passes"):
        combine(tmp_path / "out", runs)
    with pytest.raises(InputError, match="two runs or more"):
        combine(tmp_path / "out", [runs[0], runs[0]])
    assert not (tmp_path / "out").exists()
    combine(tmp_path / "out", runs, mixed=True)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_value_of_a_column_that_is_mixed_in_one_run_alone_is_quoted_once(
    make_run: Any, tmp_path: Path, order: tuple[int, int]
) -> None:
    """One run has numbers and words, and so JSON text; the other one numbers alone."""
    runs, said = [make_run(name=f"{name}/run", items=24) for name in ("one", "two")], {}
    for number, run in enumerate(runs):
        run.finish()

        def change(records: list[dict[str, Any]], number: int = number) -> list[dict[str, Any]]:
            for place, record in enumerate(records):
                if record["verdicts"].get("judge"):
                    value: Any = "two" if number == 0 and place % 2 else place
                    record["verdicts"]["judge"]["my_answer"] = value
                    said[record["id"] if number == 0 else f"second-{record['id']}"] = value
            return records

        for shard in run.manifest.names:
            rewrite(run.folder.result("main", shard), change)
        merge(run.folder)
    renamed(runs[1].folder)
    combine(tmp_path / "out", [runs[at].folder for at in order])
    ids(tmp_path / "out")
    records = records_of(tmp_path / "out", *FILES)
    found = {one["id"]: one["verdicts"]["judge"]["my_answer"] for one in records if one["verdicts"]["judge"]}
    assert {type(said[name]) for name in found} == {int, str}
    assert {name: json.loads(text) for name, text in found.items()} == {name: said[name] for name in found}


def test_shares_are_met_exactly_seeded_and_in_order(make_merged: Any, tmp_path: Path) -> None:
    runs = [make_merged(name="one/run")[0].folder, make_merged(name="two/run", items=48, seed=8)[0].folder]
    theirs = [[record["id"] for record in records_of(run.dataset)] for run in runs]
    options: dict[str, Any] = {"mixed": True, "mixture": Mixture([2, 1], 9, seed=5)}
    distinct = [theirs[0], [one for one in theirs[1] if one not in set(theirs[0])]]
    assert len(distinct[1]) == 0  # the same anchors: an id stands once, so the second run has nothing to give
    with pytest.raises(InputError, match="run 2 has 0 accepted records that fit, its share of 9 is 3"):
        combine(tmp_path / "out", runs, **options)
    assert not (tmp_path / "out").exists()
    for run in runs[1:]:
        renamed(run)
    told = combine(tmp_path / "out", runs, **options)
    assert [one["accepted"] for one in told["runs"]] == [6, 3]
    assert [one["not drawn"] for one in told["runs"]] == [len(theirs[0]) - 6, len(theirs[1]) - 3]
    for one, run in zip(told["runs"], runs, strict=True):
        assert sum(one[name] for name in COUNTS) == len(records_of(run.dataset, *FILES))
    ids(tmp_path / "out")
    found = records_of(tmp_path / "out")
    order = {record: at for at, record in enumerate([*theirs[0], *(f"second-{one}" for one in theirs[1])])}
    assert [order[record["id"]] for record in found] == sorted(order[record["id"]] for record in found)
    combine(tmp_path / "again", runs, **options)
    assert (tmp_path / "again" / "SHA256SUMS").read_bytes() == (tmp_path / "out" / "SHA256SUMS").read_bytes()
    other = combine(tmp_path / "other", runs, mixed=True, mixture=Mixture([2, 1], 9, seed=6))
    assert other["accepted"] == 9
    assert records_of(tmp_path / "other") != found


def renamed(run: Any) -> None:
    """Give every record of a dataset an id of its own."""
    edit_records(run.dataset, lambda record: record.update(id=f"second-{record['id']}"), *FILES)


@given(
    shares=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    have=st.lists(st.integers(0, 500), min_size=6),
)
def test_counts_keep_to_shares_and_never_exceed_what_there_is(shares: list[float], have: list[int]) -> None:
    have = have[: len(shares)]
    counts = counts_of(have, shares, None)
    total = sum(counts)
    with pytest.raises(InputError, match=f"ask for at most {total:,},"):
        counts_of(have, shares, 10_000_000)
    assert all(0 <= count <= most for count, most in zip(counts, have, strict=True))
    quotas = [total * share / sum(shares) for share in shares]
    assert all(abs(count - quota) < 1 + 1e-6 for count, quota in zip(counts, quotas, strict=True))


@pytest.mark.parametrize(
    ("number", "shares", "counts"),
    [
        (10, [1, 1, 1], [4, 3, 3]),  # equal remainders: the earlier first
        # Balinski and Young 1982, table of Hamilton's rule
        (26, [9061, 7179, 5259, 3319, 1182], [9, 7, 5, 4, 1]),
        (100, [0.7, 0.2, 0.1], [70, 20, 10]),  # no rounding of binary fractions
        (1, [0.5, 0.5], [1, 0]),
        (0, [3, 4], [0, 0]),
    ],
)
def test_counts_follow_the_largest_remainder(number: int, shares: list[float], counts: list[int]) -> None:
    assert counts_of([number] * len(shares), shares, number) == counts


def test_a_share_that_is_none_is_refused() -> None:
    for share in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="each must be above 0"):
            Mixture([1, share])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["show", "--lost"], "a combined dataset has no lost items"),
        (["show", "--group", "shape 9"], "no group 'shape 9'"),
        (["export", "--to", "biographletqa", "--out", "o"], "no raw answers"),
        (["export", "--to", "messages", "--with", "reasoning", "--out", "o"], "no thoughts"),
        (["publish", "o"], "a combined dataset is ready for upload as it is"),
    ],
)
def test_what_only_a_run_holds_is_refused_in_one_line(
    two: list[RunFolder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    combine(tmp_path / "out", two)
    verb, *options = command
    done = CliRunner().invoke(app, [verb, "out", *options])
    assert isinstance(done.exception, InputError)
    assert message in done.exception.message
    assert not (tmp_path / "o").exists()
