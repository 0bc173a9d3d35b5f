"""Several runs become one dataset: every id once, everything counted."""

from __future__ import annotations

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
from kgqa_hpc.dataset.combine import COUNTS, combine
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.sampling import Mixture, apportion, counts_of, largest
from kgqa_hpc.errors import FingerprintMismatch, InputError
from tests.dataset.conftest import rewrite
from tests.golden.command import kgqa, succeed
from tests.sealed_dataset import seal


def merged(make_run: Any, name: str, **options: Any) -> Any:
    run = make_run(name=name, **options)
    run.finish()
    merge(run.folder)
    return run


def ids(folder: Path) -> list[str]:
    found = []
    for name in ("accepted", "rejected"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        table = pq.read_table(folder / f"{name}-00000-of-00001.parquet").to_pylist()
        assert [{**row, "features": {}} for row in table] == [json.loads(line) for line in lines]
        found += [row["id"] for row in table]
    return found


def test_every_id_stands_once_and_all_are_counted(make_run: Any, tmp_path: Path) -> None:
    large, small = merged(make_run, "large/run"), merged(make_run, "small/run", items=24)
    told = combine(tmp_path / "out", [small.folder, large.folder])
    found = ids(tmp_path / "out")
    assert len(found) == len(set(found)) == told["accepted"] + told["rejected"]
    theirs = [set(ids(run.folder.dataset)) for run in (small, large)]
    assert set(found) == theirs[0] | theirs[1]
    assert told["combined"] == len(theirs[0] & theirs[1])
    assert told["runs"][0]["run"] == small.folder.manifest().digest
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "out", check=True)


def test_a_combined_dataset_is_shown_exported_and_asked_like_that_of_a_run(
    make_run: Any, tmp_path: Path
) -> None:
    runs = [merged(make_run, "large/run"), merged(make_run, "small/run", items=24)]
    counts = combine(tmp_path / "out", [run.folder for run in runs])
    shown = json.loads(succeed("show", tmp_path / "out", "-n", "500", "--json").stdout)
    assert len(shown) == counts["accepted"]
    assert "none" not in succeed("show", tmp_path / "out", "--rejected", "-n", "1").stdout
    for name in ("messages", "lm-eval", "lighteval", "csv"):
        succeed("export", tmp_path / "out", "--to", name, "--out", tmp_path / name)
    lines = (tmp_path / "messages/train.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["id"] for line in lines} == {record["id"] for record in shown}
    rows = json.loads(succeed("sql", tmp_path / "out", "SELECT count(*) AS n FROM accepted", "--json").stdout)
    assert rows == [{"n": counts["accepted"]}]
    succeed("report", tmp_path / "out")
    page = (tmp_path / "out/report/index.html").read_text(encoding="utf-8")
    whole = f"{counts['accepted'] + counts['rejected']} records = {counts['accepted']} accepted"
    assert all(words in page for words in (whole, "from 2 runs", runs[0].folder.manifest().digest[:16]))
    refused = kgqa("export", tmp_path / "out", "--to", "biographletqa", "--out", tmp_path / "published")
    assert refused.code == 2
    assert "a combined dataset has no raw answers" in refused.error
    assert not (tmp_path / "published").exists()
    with (tmp_path / "out/accepted.jsonl").open("a") as file:
        file.write("{}\n")
    damaged = kgqa("show", tmp_path / "out")
    assert damaged.code == 1
    assert "is damaged" in damaged.error
    assert "combine again" in damaged.error


def test_runs_of_other_models_are_refused_unless_mixing_is_wanted(make_run: Any, tmp_path: Path) -> None:
    one = merged(make_run, "one/run", items=8)
    passes = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
    other = merged(make_run, "other/run", items=8, passes=passes)
    with pytest.raises(FingerprintMismatch, match="differ in passes"):
        combine(tmp_path / "out", [one.folder, other.folder])
    assert not (tmp_path / "out").exists()
    combine(tmp_path / "out", [one.folder, other.folder], mixed=True)


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
    lines = [
        json.loads(line)
        for name in ("accepted", "rejected")
        for line in (tmp_path / "out" / f"{name}.jsonl").open()
    ]
    found = {one["id"]: one["verdicts"]["judge"]["my_answer"] for one in lines if one["verdicts"]["judge"]}
    assert {type(said[name]) for name in found} == {int, str}
    assert {name: json.loads(text) for name, text in found.items()} == {name: said[name] for name in found}


def test_one_run_is_no_combination(make_run: Any, tmp_path: Path) -> None:
    run = merged(make_run, "one/run", items=8)
    with pytest.raises(InputError, match="two runs or more"):
        combine(tmp_path / "out", [run.folder, run.folder])


def test_shares_are_met_exactly_seeded_and_in_order(make_run: Any, tmp_path: Path) -> None:
    runs = [merged(make_run, "one/run").folder, merged(make_run, "two/run", items=48, seed=8).folder]
    accepted = [(run.dataset / "accepted.jsonl").read_bytes().splitlines() for run in runs]
    theirs = [[json.loads(line)["id"] for line in lines] for lines in accepted]
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
        lines = [
            (run.dataset / f"{name}.jsonl").read_bytes().count(b"\n") for name in ("accepted", "rejected")
        ]
        assert sum(one[name] for name in COUNTS) == sum(lines)
    ids(tmp_path / "out")
    found = [json.loads(line) for line in (tmp_path / "out" / "accepted.jsonl").open()]
    order = {record: at for at, record in enumerate([*theirs[0], *(f"second-{one}" for one in theirs[1])])}
    assert [order[record["id"]] for record in found] == sorted(order[record["id"]] for record in found)
    combine(tmp_path / "again", runs, **options)
    assert (tmp_path / "again" / "SHA256SUMS").read_bytes() == (tmp_path / "out" / "SHA256SUMS").read_bytes()
    other = combine(tmp_path / "other", runs, mixed=True, mixture=Mixture([2, 1], 9, seed=6))
    assert other["accepted"] == 9
    assert (tmp_path / "other" / "accepted.jsonl").read_bytes() != (
        tmp_path / "out" / "accepted.jsonl"
    ).read_bytes()


def renamed(run: Any) -> None:
    """Give every record of a dataset an id of its own."""
    for name in ("accepted", "rejected"):
        path = run.dataset / f"{name}.jsonl"
        path.write_text(path.read_text().replace('{"id":"', '{"id":"second-'))
    seal(run.dataset)


@given(
    shares=st.lists(st.floats(0.01, 100), min_size=1, max_size=6),
    have=st.lists(st.integers(0, 500), min_size=6),
)
def test_counts_keep_to_the_shares_and_never_ask_for_more_than_there_is(
    shares: list[float], have: list[int]
) -> None:
    have = have[: len(shares)]
    counts = counts_of(have, shares, None)
    total = sum(counts)
    assert total == largest(have, shares)
    assert all(0 <= count <= most for count, most in zip(counts, have, strict=True))
    quotas = [total * share / sum(shares) for share in shares]
    assert all(abs(count - quota) < 1 + 1e-6 for count, quota in zip(counts, quotas, strict=True))


@pytest.mark.parametrize(
    ("number", "shares", "counts"),
    [
        (10, [1, 1, 1], [4, 3, 3]),  # equal remainders: the earlier first
        (
            26,
            [9061, 7179, 5259, 3319, 1182],
            [9, 7, 5, 4, 1],
        ),  # Balinski and Young 1982, table of Hamilton's rule
        (100, [0.7, 0.2, 0.1], [70, 20, 10]),  # no rounding of binary fractions
        (1, [0.5, 0.5], [1, 0]),
        (0, [3, 4], [0, 0]),
    ],
)
def test_counts_follow_the_largest_remainder(number: int, shares: list[float], counts: list[int]) -> None:
    assert apportion(number, shares) == counts


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
    ],
)
def test_what_only_a_run_holds_is_refused_in_one_line(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [merged(make_run, "large/run", items=16), merged(make_run, "small/run", items=8)]
    combine(tmp_path / "out", [run.folder for run in runs])
    verb, *options = command
    done = CliRunner().invoke(app, [verb, "out", *options])
    assert isinstance(done.exception, InputError)
    assert message in done.exception.message
    assert not (tmp_path / "o").exists()
