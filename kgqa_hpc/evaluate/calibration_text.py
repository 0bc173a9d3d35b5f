"""A calibration as text for a terminal."""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from kgqa_hpc.evaluate.bootstrap import interval_text
from kgqa_hpc.plain_text import plain_line


def render(document: dict[str, Any]) -> str:
    """A page of text from what `calibration.calibrate` gave."""
    lines = _head(document)
    lines += [f"{'judge':<28}{'n':>5}  {'precision':<22}{'recall':<22}{'kappa':<24}AUC"]
    rows = {
        **document["judges"],
        **({"(the run's decision)": document["decision"]} if document["decision"] else {}),
    }
    lines += [_row(name, one) for name, one in rows.items()]
    for name, one in document["judges"].items():
        if threshold := one["threshold"]:
            lines.append(
                f"{plain_line(name)}: best threshold is a score of {threshold['accept_from']:g} or more; "
                f"kappa on items it was not fitted to {interval_text(threshold['kappa'])}"
            )
        longer = one["prefers_longer"]
        if longer["judge"]["value"] is not None:
            lines.append(
                f"{plain_line(name)}: an accepted answer is longer than a rejected one with chance "
                f"{interval_text(longer['judge'])}; a good one than a bad one {interval_text(longer['people'])}"
            )
    if document["panel"]:
        lines += _panel(document["panel"])
    return "\n".join([*lines, "", *_needed(document["needed"])])


def _head(document: dict[str, Any]) -> list[str]:
    how = document["matched"]
    lines = [
        f"{document['calibrated_on']:,} of {document['rated']:,} rated pairs have a verdict "
        f"(matched by id {how['id']:,}, by text {how['text']:,}); people find {document['good']:,} good "
        "(minimum of the three answer scores >= 3)"
    ]
    if how["texts_differ"]:
        lines.append(f"warning: {how['texts_differ']:,} have the id of a rated pair but another text")
    return [*lines, ""]


def _row(name: str, one: dict[str, Any]) -> str:
    undecided = f"  ({one['undecided']} without a vote)" if one["undecided"] else ""
    rank = interval_text(one["auc"]) if "auc" in one else ""
    return (
        f"{plain_line(name)[:27]:<28}{one['items']:>5}  {interval_text(one['precision']):<22}"
        f"{interval_text(one['recall']):<22}{interval_text(one['kappa']):<24}{rank}{undecided}".rstrip()
    )


def _panel(panel: dict[str, Any]) -> list[str]:
    lines = ["", f"{'rule':<28}{'n':>5}  {'precision':<22}{'recall':<22}kappa"]
    lines += [_row(name, one) for name, one in panel["rules"].items()]
    if panel["best"]:
        block = json.dumps(panel["decide"], ensure_ascii=True)
        lines += ["", _recommendation(panel), f"In the run's configuration: dataset: {{decide: {block}}}"]
    for name, one in panel["alone"].items():
        alone = f"alone rejects {one['rejects_alone']:,}, alone accepts {one['accepts_alone']:,}"
        lines.append(f"{plain_line(name)}: {alone}")
    agreement = panel["agreement"]
    parts = {"alpha": "krippendorff_alpha", "Fleiss' kappa": "fleiss_kappa", "AC1": "gwet_ac1"}
    shown = ", ".join(f"{label} {interval_text(agreement[key])}" for label, key in parts.items())
    return [*lines, f"agreement of the judges: {shown}"]


def _recommendation(panel: dict[str, Any]) -> str:
    best = plain_line(panel["best"])
    if panel["next"] is None:
        return f"Best rule: {best}; the others decide the same."
    gap = panel["gap"]
    noise = gap["low"] is None or gap["low"] <= 0
    told = "which is noise at this number of ratings" if noise else "more than noise"
    return f"Best rule: {best}; its kappa is {interval_text(gap)} above that of {plain_line(panel['next'])}, {told}."


def _needed(need: dict[str, Any]) -> list[str]:
    lines = [
        f"{need['ratings']} ratings give kappa ± {need['half_width']:.2f}; ± {need['width']:.2f} needs about "
        f"{ceil(need['needed'] / 10) * 10} (95 %, planned for balanced shares)."
    ]
    for name, one in need["judges"].items():
        lines.append(
            f"At the agreement of {plain_line(name)}: ± {one['half_width']:.2f} now, "
            f"± {need['width']:.2f} with {one['needed']}."
        )
    return lines
