"""The accounting identity holds, or nothing is published."""

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
from kgqa_hpc.errors import AccountingError

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
