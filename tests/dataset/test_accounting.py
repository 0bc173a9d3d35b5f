"""The accounting identity holds, or nothing is published: violated in a dozen ways, each is refused with its reason."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.dataset.accounting import (
    OUTCOMES,
    Accounting,
    OutcomeCounts,
    RecordCounts,
    in_order,
)
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import AccountingError, CorruptFile, FingerprintMismatch, KgqaError, MissingFile
from kgqa_hpc.store.canonical import read_document, write_document
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import write_shard
from tests.dataset.conftest import contents, rewrite
from tests.runs import SyntheticRun, read_shard, synthetic
from tests.store.conftest import flip

Items = list[tuple[int, str, str | None]]
ITEMS = st.lists(
    st.tuples(
        st.integers(1, 29),
        st.sampled_from(OUTCOMES),
        st.sampled_from(["length", "judge: question not valid", "generate: truncated", None]),
    ),
    max_size=300,
)


def _count(items: Items) -> Accounting:
    accounting = Accounting(shards=1)
    for shape, status, reason in items:
        tally = accounting.group(f"shape {shape}")
        tally.sampled += 1
        tally.add(status, reason)
    return accounting


@given(ITEMS.filter(bool), st.sampled_from([-1, 1]))
def test_one_item_more_or_less_in_one_group_is_refused(items: Items, change: int) -> None:
    accounting = _count(items)
    accounting.group(f"shape {items[0][0]}").sampled += change
    with pytest.raises(AccountingError, match=rf"shape {items[0][0]}: [\d,]+ sampled !="):
        accounting.check()


def test_waiting_items_are_allowed_only_while_shards_are_missing() -> None:
    groups = {"shape 1": OutcomeCounts(sampled=3, accepted=1, waiting=2)}
    Accounting(groups=groups, shards=2, missing_shards=1).check()
    with pytest.raises(AccountingError):
        Accounting(groups=groups, shards=2).check()


def test_a_person_reads_the_identity_and_each_reason() -> None:
    accounting = _count([(1, "accepted", None), (1, "rejected", "length"), (2, "failed", "generate: error")])
    accounting.missing_shards, accounting.shards = 1, 4
    text = str(accounting)
    assert "3 sampled = 1 accepted + 1 rejected + 0 invalid + 1 failed" in text
    assert "PARTIAL: 1 of 4 shards are not done yet" in text
    assert "generate: error" in text
    assert str(OutcomeCounts(sampled=2)).startswith("2 sampled !=")


def test_records_have_an_identity_of_their_own() -> None:
    accounting = _count([(1, "accepted", None)])
    accounting.records["shape 1"] = RecordCounts(sampled=3, accepted=2)
    with pytest.raises(AccountingError, match="shape 1: 3 records != 2 accepted"):
        accounting.check()
    accounting.records["shape 1"].rejected["unclear"] += 1
    accounting.check()
    assert accounting.to_dict()["records"]["rejected"] == {"unclear": 1}
    assert "3 records = 2 accepted + 1 rejected" in str(accounting)


def test_groups_stand_in_the_order_a_person_expects() -> None:
    names = ["Homo sapiens", "path of 9", "path of 10", "shape 1", "shape 2", "shape 11", "²"]
    assert [name for name, _ in in_order(dict.fromkeys(sorted(names)))] == names


SHARD = "shard-000002"
Records = list[dict[str, Any]]
Spoil = Callable[[RunFolder, RunFolder], Any]


def changed(change: Callable[[Records], Records], **header: str) -> Spoil:
    """A result whose records, or whose header, are others."""
    return lambda run, _: rewrite(run.result("main", SHARD), change, **header)


def regrouped(run: RunFolder, _: RunFolder) -> None:
    """A shard with the ids of its anchors and another group."""
    path = run.shard(SHARD)
    anchors, header = read_shard(path), read_header(path, "shard")
    path.unlink()
    origin = {key: header[key] for key in ("anchors_sha256", "shard_size", "start")}
    write_shard(path, [{**one, "group": "shape 9"} for one in anchors], origin)


def forgotten(run: RunFolder, _: RunFolder) -> None:
    """A manifest of shards that leaves out the last one."""
    document = read_document(run.shards_manifest, "shards")
    document["shards"] = document["shards"][:-1]
    write_document(run.shards_manifest, document)


def scribbled(run: RunFolder, _: RunFolder) -> None:
    """A manifest of shards that somebody edited by hand."""
    text = run.shards_manifest.read_text(encoding="utf-8")
    run.shards_manifest.write_text(text.replace('"items": 8', '"items": 7', 1), encoding="utf-8")


def result_of(shard: str, *, foreign: bool = False) -> Spoil:
    """The result of another shard, or of another run."""
    return lambda run, other: shutil.copy(
        (other if foreign else run).result("main", shard), run.result("main", SHARD)
    )


def torn(run: RunFolder, _: RunFolder) -> None:
    path = run.result("main", SHARD)
    path.write_bytes(path.read_bytes()[:-100])


def renamed(request: dict[str, Any], version: int | None) -> dict[str, Any]:
    return {**request, "engine": {**request["engine"], "version": version}}


LISTED: dict[str, Any] = {
    "status": "accepted",
    "reason": None,
    "output": {},
    "verdicts": {},
    "decided": False,
}
WAYS: dict[str, tuple[Spoil, type[KgqaError], str]] = {
    "an item is missing": (changed(lambda items: items[1:]), CorruptFile, "holds other items than its shard"),
    "an item of nobody": (
        changed(lambda items: [{**items[0], "id": "g01-none"}, *items[1:]]),
        CorruptFile,
        "holds other items",
    ),
    "items in another order": (changed(lambda items: items[::-1]), CorruptFile, "holds other items"),
    "an item without an outcome": (
        changed(lambda items: [{**items[0], "status": "open"}, *items[1:]]),
        AccountingError,
        "'open'",
    ),
    "an outcome that is none": (
        changed(lambda items: [{**items[0], "status": "lost"}, *items[1:]]),
        AccountingError,
        "'lost'",
    ),
    "an item of half the fields": (
        changed(lambda items: [*items[:-1], {key: items[-1][key] for key in ("id", "status", "reason")}]),
        AccountingError,
        f"{SHARD}: item 8 of 8 is none that a worker writes: KeyError",
    ),
    "verdicts that are no verdicts": (
        changed(lambda items: [{**one, "verdicts": ["yes"]} for one in items]),
        AccountingError,
        f"{SHARD}: item . of 8 is none that a worker writes",
    ),
    "requests of engines that are numbers": (
        changed(
            lambda items: [{**one, "trace": [renamed(entry, 5) for entry in one["trace"]]} for one in items]
        ),
        AccountingError,
        f"{SHARD}: item 1 of 8 is none that a worker writes: .* engine of a request are texts",
    ),
    "a record without a question": (
        changed(lambda items: [*items[:-1], {**items[-1], **LISTED, "records": [{"answer": "A."}]}]),
        AccountingError,
        "record 1 has no question",
    ),
    "a result is missing": (
        lambda run, _: run.result("main", SHARD).unlink(),
        AccountingError,
        r"1 of 8 shards are not done[\s\S]*kgqa run",
    ),
    "a result is cut": (torn, CorruptFile, SHARD),
    "a result of another shard": (result_of("shard-000001"), CorruptFile, "belongs to shard 'shard-000001'"),
    "a result of another pass": (changed(lambda items: items, **{"pass": "second"}), CorruptFile, SHARD),
    "a result of another run": (result_of(SHARD, foreign=True), CorruptFile, SHARD),
    "a shard of another group": (regrouped, AccountingError, "holds other anchors than its slice"),
    "a shard is not listed": (forgotten, AccountingError, "holds 60 anchors, the shards together 56"),
    "a shard's items edited": (scribbled, CorruptFile, "checksum does not match"),
    "no anchors": (lambda run, _: run.anchors.unlink(), MissingFile, "kgqa sample"),
    "a damaged head of the anchors": (
        lambda run, _: flip(run.anchors, 40),
        CorruptFile,
        r"anchors\.h5[\s\S]*kgqa sample",
    ),
    "damaged anchors": (
        lambda run, _: flip(run.anchors, 5000),
        CorruptFile,
        r"anchors\.h5[\s\S]*kgqa sample",
    ),
    "anchors of another run": (
        lambda run, other: shutil.copy(other.anchors, run.anchors),
        FingerprintMismatch,
        "another anchors.h5",
    ),
}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    """A finished run of another seed and size."""
    return synthetic(tmp_path_factory.mktemp("other"), items=59, seed=8).finish()


@pytest.mark.parametrize("way", WAYS)
def test_what_does_not_add_up_is_refused_and_the_old_dataset_stays(
    way: str, merged: Any, other: SyntheticRun, tmp_path: Path
) -> None:
    spoil, error, reason = WAYS[way]
    run = RunFolder(shutil.copytree(merged[0].folder.path, tmp_path / "run"))
    before = contents(run.dataset)
    spoil(run, other.folder)
    with pytest.raises(error, match=reason):
        merge(run)
    assert contents(run.dataset) == before


def test_an_engine_that_does_not_know_its_version_is_no_violation(make_run: Any) -> None:
    run = make_run().finish()
    changed(
        lambda items: [{**one, "trace": [renamed(entry, None) for entry in one["trace"]]} for one in items]
    )(run.folder, run.folder)
    requests = merge(run.folder).to_dict()["requests"]
    versions = [(row["step"], row["engine"]["version"]) for row in requests]
    assert len(versions) == 4
    assert versions == sorted(versions, key=lambda row: (row[0], row[1] or ""))
    assert {version for _, version in versions} > {None}
