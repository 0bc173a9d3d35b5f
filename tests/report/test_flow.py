"""The flow says of every item what it came to: bands as wide as their counts, in the order of their loss."""

import itertools
import json
import re
from html import unescape
from typing import Any

import pytest

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.report.page import write_report
from kgqa_hpc.report.pictures import CUT, DOWN, REASONS, STAGES, bands, flow
from tests.dataset.test_open_items import finish_with_lists

COUNTS: dict[str, Any] = {
    "accepted": 61_000,
    "rejected": {"judge: no": 20_000, "length": 5_000, "near duplicate": 2_000, "contaminated": 1},
    "invalid": {"generate: not_json": 4_000},
    "failed": {"engine error": 0},
    "waiting": 7_999,
}
EVIL = '</title></svg><script>alert("x")</script>&amp;' * 230  # 10,000 letters


def drawn(svg: str) -> list[tuple[str, float, float]]:
    """Class, width at the left end and at the right end of every band, from its path."""
    paths = re.findall(
        r'<path class="(\w+)[^"]*" d="M0 ([\d.]+)H[^"]*? ([\d.]+)H1000V([\d.]+)H[^"]* ([\d.]+)H0Z"', svg
    )
    assert len(paths) == svg.count("<path")
    return [
        (kind, float(under) - float(upper), float(end) - float(top)) for kind, upper, top, end, under in paths
    ]


def told(svg: str) -> list[str]:
    """The text alternative, a band each."""
    found = re.search(r"<desc>([^<]*)</desc>", svg)
    assert found
    return unescape(found[1]).split("; ")


def numbers(svg: str) -> list[int]:
    return [int(re.search(r": ([\d,]+) \(", line)[1].replace(",", "")) for line in told(svg)]  # type: ignore[index]


def test_bands_are_as_wide_as_their_counts_and_one_of_100_000_is_seen() -> None:
    found = drawn(flow(COUNTS, "sampled", "items"))
    assert [kind for kind, _, _ in found] == ["acc", "rej", "rej", "rej", "rej", "lost", "wait"]
    for (_, left, right), count in zip(found, (61_000, 1, 2_000, 20_000, 5_000, 4_000, 7_999), strict=True):
        assert left == pytest.approx(right, abs=0.02)
        assert left == pytest.approx(count / 100_000 * DOWN if count > 1 else 0.8, abs=0.02)


def test_the_text_alternative_tells_every_count_in_the_order_of_loss_and_of_nothing_nothing() -> None:
    assert told(flow(COUNTS, "sampled", "items")) == [
        "not done yet: 7,999 (8.0 %) waiting",
        "no usable answer: 4,000 (4.0 %) invalid: generate: not_json",
        "length filter: 5,000 (5.0 %) rejected: length",
        "judges and checks: 20,000 (20.0 %) rejected: judge: no",
        "duplicates: 2,000 (2.0 %) rejected: near duplicate",
        "contamination: 1 (less than 0.1 %) rejected: contaminated",
        "accepted: 61,000 (61.0 %) accepted",
    ]
    assert flow({"accepted": 0, "rejected": {}}, "written", "records") == ""


def test_no_two_bands_and_no_two_rows_lie_on_each_other() -> None:
    svg = flow(COUNTS, "sampled", "items")
    tops = [float(y) for y in re.findall(r'<text[^>]* y="([\d.]+)"', svg)]
    assert all(later - earlier >= 12.9 for earlier, later in itertools.pairwise(tops))
    # At the left the bands lie on each other without a gap, at the right apart.
    starts = [float(y) for y in re.findall(r' d="M0 ([\d.]+)H', svg)]
    counts = [band.count for band in reversed(bands(COUNTS))]
    assert starts == pytest.approx(
        [starts[0] + sum(counts[:i]) / 100_000 * DOWN for i in range(len(counts))], abs=0.02
    )
    ends = re.findall(r" ([\d.]+)H1000V([\d.]+)H", svg)
    assert all(float(above[1]) < float(below[0]) for above, below in itertools.pairwise(ends))


def test_of_many_reasons_the_largest_are_drawn_and_no_item_is_left_out() -> None:
    counts = {**COUNTS, "rejected": {f"judge: reason {n:02d}": n for n in range(1, 41)} | {"length": 3}}
    svg = flow(counts, "sampled", "items")
    assert sum(numbers(svg)) == 61_000 + 820 + 3 + 4_000 + 7_999
    names = [band.name for band in bands(counts)]
    # 41 reasons of rejection, of which 7 and `length` stand alone
    assert "rejected: other reasons (33)" in names
    assert "rejected: length" in names  # the only small one of its stage keeps its name
    assert len(names) == REASONS + 4
    assert "Every reason is in <code>dataset/accounting.json</code>" in svg


def test_a_hostile_reason_is_cut_text() -> None:
    svg = flow({"accepted": 1, "rejected": {EVIL: 2, "": 3}}, "written", "records")
    assert "<script" not in svg
    assert svg.count("<title>") == svg.count("</title>") == 4
    assert len(svg) < 20 * CUT
    assert any(
        line.startswith('judges and checks: 2 (33.3 %) rejected: </title></svg><script>alert("x")')
        for line in told(svg)
    )


@pytest.mark.parametrize("partial", [False, True])
def test_the_flow_of_a_run_adds_up_to_its_accounting(make_run: Any, partial: bool) -> None:
    run = make_run()
    run.merge(*(["shard-000000"] if partial else []), partial=partial)
    counts = json.loads((run.folder.dataset / "accounting.json").read_text())
    page = write_report(run.folder).read_text(encoding="utf-8")
    figure = re.search(r'<figure class="flow">.*?</figure>', page)
    assert figure
    assert page.count('<figure class="flow">') == 1
    assert sum(numbers(figure[0])) == counts["sampled"] == 60
    by_stage = dict.fromkeys(STAGES, 0)
    for line, number in zip(told(figure[0]), numbers(figure[0]), strict=True):
        by_stage[line.split(": ")[0]] += number
    assert by_stage["accepted"] == counts["accepted"]
    assert by_stage["not done yet"] == counts["waiting"] == (52 if partial else 0)
    assert by_stage["no usable answer"] == sum((counts["invalid"] | counts["failed"]).values())
    assert by_stage["length filter"] == counts["rejected"].get("length", 0)
    assert by_stage["judges and checks"] + by_stage["length filter"] == sum(counts["rejected"].values())


def test_records_of_items_with_several_have_a_flow_of_their_own(make_run: Any) -> None:
    run = make_run(items=32, dataset={"z_score": None})
    finish_with_lists(run)
    merge(run.folder)
    items, records = re.findall(
        r'<figure class="flow">.*?</figure>', write_report(run.folder).read_text(encoding="utf-8")
    )
    assert numbers(items) == [4, 28]
    assert told(records) == [
        "judges and checks: 4 (11.1 %) rejected: unclear",
        "accepted: 32 (88.9 %) accepted",
    ]
