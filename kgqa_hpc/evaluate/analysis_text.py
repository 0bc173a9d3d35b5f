"""The analysis of ratings as text for a terminal."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.plain_text import plain_line


def render(document: dict[str, Any]) -> str:
    """A page of text from what `analysis.analyse` gave."""
    groups = [name for name in ("all", "accepted", "rejected") if document[name] is not None]
    lines = [_head(document), "", *_criteria(document, groups), "", *_answer(document, groups)]
    lines += _difference(document["accepted_against_rejected"])
    lines += _agreement(document["agreement"])
    lines += ["", *document["notes"]] if document["notes"] else []
    return "\n".join(lines)


def _head(document: dict[str, Any]) -> str:
    who = ", ".join(f"{plain_line(name)} {rated:,}" for name, rated in document["annotators"].items())
    return (
        f"{document['rated']:,} of {document['ratings']:,} rated ({document['not_qualified']:,} not "
        f"qualified), {document['items']:,} items; annotators: {who}"
    )


def _criteria(document: dict[str, Any], groups: list[str]) -> list[str]:
    lines = [
        f"{'criterion':<38}{'group':<10}{'n':>6}{'mean':>8}  {'95 % interval':<16}{'min':>4}{'>= 3':>9}"
        "   scores 1 to 5"
    ]
    for name in document["criteria"]:
        for group in groups:
            row = document["by_group"][group]["criteria"][name]
            counts = " ".join(f"{n:>4}" for n in row["distribution"].values())
            lines.append(
                f"{plain_line(name)[:37]:<38}{group:<10}{row['ratings']:>6}"
                f"{_number(row['mean']['value']):>8}  {_interval(row['mean']):<16}"
                f"{_number(row['minimum'], 0):>4}{_percent(row['share_3']['value']):>9} {counts}"
            )
    return lines


def _answer(document: dict[str, Any], groups: list[str]) -> list[str]:
    lines = []
    for group in groups:
        one = document["answer"][group]
        if one["ratings"]:
            lines.append(
                f"answer, {group}: minimum of the three scores >= 3 in {one['count_3']['minimum']} of "
                f"{one['ratings']} ({_percent(one['share_3']['minimum'])}), "
                f"mean {_number(one['mean']['minimum'])}; "
                f"average >= 3 in {_percent(one['share_3']['average'])}"
            )
    return lines


def _difference(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    lines = ["", "accepted against rejected (Mann-Whitney, two-sided; Cliff's delta):"]
    return lines + [
        f"  {plain_line(name):<38} p = {row['p']:.3g}, delta {row['cliffs_delta']:+.2f}"
        for name, row in found.items()
    ]


def _agreement(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    lines = ["", "agreement between annotators (95 % intervals):"]
    for name, row in found.items():
        values = ", ".join(
            f"{label} {_number(row[key]['value'])} {_interval(row[key])}"
            for label, key in (
                ("alpha (ordinal)", "krippendorff_alpha"),
                ("Fleiss", "fleiss_kappa"),
                ("AC1", "gwet_ac1"),
            )
        )
        lines.append(f"  {plain_line(name):<38} {row['voted_twice']} items: {values}")
    return lines


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _interval(row: dict[str, Any]) -> str:
    return "" if row["low"] is None else f"[{row['low']:.3f}, {row['high']:.3f}]"
