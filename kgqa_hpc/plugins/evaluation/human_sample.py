"""A sample of a run's pairs for people, of the size that statistical power needs, and the page on which they rate it.

The sample is stratified, blinded, shuffled and seeded: half accepted, half rejected; each half spread evenly over the
values of a column (a run's groups: the shapes of graphlets, as in BioGraphletQA, section 3.3.1). Raters see neither
verdict nor stratum: these go to a key file, with the number of records that each sampled one stands for. Sample sizes
are normal approximations (Fleiss, Levin and Paik 2003, chapter 4).

The page is one HTML file (drawing.py). It works offline and by keyboard, and saves ratings in the rater's browser.
"""

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from math import ceil, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from kgqa_hpc.drawing import json_block, render_page
from kgqa_hpc.errors import InputError
from kgqa_hpc.intervals import Z95
from kgqa_hpc.plugins.evaluation.agreement import kappa_half_width
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, SCALES, csv_bytes, read_csv
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.text.streams import read_bytes

Stratum = tuple[bool, str]  # whether a record was accepted, its value of the column

_NORMAL = NormalDist()
_SHEET = ("ID", "Question", "Answer", *CRITERIA, "not_qualified", "comment")
_KEY = ("ID", "accepted", "stratum", "population", "weight", "reason")


class Aim(NamedTuple):
    """Goal of a sample: to distinguish the share `expected` of good pairs among the accepted from a lower share."""

    expected: float = 0.75
    difference: float = 0.2
    power: float = 0.8
    alpha: float = 0.05


AIM = Aim()


def pairs_for_difference(expected: float, difference: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """Pairs in each of two groups that distinguish the shares `expected` and `expected - difference`.

    Two-sided test at `alpha` with the given power. Raises ValueError for shares outside 0 to 1.
    """
    shifted = expected - difference
    if not (0 <= shifted <= 1 and 0 <= expected <= 1 and difference > 0):
        raise ValueError(f"shares {expected:g} and {shifted:g} must differ and lie between 0 and 1")
    middle = (expected + shifted) / 2
    chance = _NORMAL.inv_cdf(1 - alpha / 2) * sqrt(2 * middle * (1 - middle))
    miss = _NORMAL.inv_cdf(power) * sqrt(expected * (1 - expected) + shifted * (1 - shifted))
    return ceil((chance + miss) ** 2 / difference**2)


def power_of(accepted: int, rejected: int, aim: Aim) -> dict[str, Any]:
    """The aim, and the statistical power of a sample of these sizes; shares are of pairs that raters find good.

    `half_width` is half of a share's 95 % interval, `detectable` the smallest drop below the expected share that groups
    of these sizes can detect; None if there is none.
    """
    half = Z95 * sqrt(aim.expected * (1 - aim.expected) / accepted) if accepted else 1.0
    pairs = 2 / (1 / accepted + 1 / rejected) if accepted and rejected else 0.0
    detectable, low, high = None, 1e-6, aim.expected
    if pairs_for_difference(*aim._replace(difference=high)) <= pairs:
        for _ in range(60):
            middle = (low + high) / 2
            enough = pairs_for_difference(*aim._replace(difference=middle)) <= pairs
            low, high = (low, middle) if enough else (middle, high)
        detectable = high
    widths = {"half_width": half, "kappa_half_width": kappa_half_width(accepted + rejected)}
    return {**aim._asdict(), "accepted": accepted, "rejected": rejected, "detectable": detectable, **widths}


def draw_sample(
    source: Path,
    sheet: Path,
    *,
    number: int | None = None,
    by: str = "group",
    where: str | None = None,
    show: Sequence[str] = (),
    aim: Aim = AIM,
    seed: int = 0,
) -> dict[str, Any]:
    """Write the sheet to rate and its key (`NAME.key.csv` beside it); returns what was drawn, as plain data.

    `number` pairs in all; without it as many as the `aim` needs. `where`: an SQL expression that selects records of a
    merged run; `show`: further columns of the records to show, such as the text that a pair was made from. Reads
    the source twice, keeping one number a record. Raises InputError: nothing merged, no such column, no pair
    requested, or files that hold another sample.
    """
    try:  # also for a given `number`: invalid aims are refused
        size = 2 * pairs_for_difference(*aim)
    except ValueError as problem:
        raise InputError(f"power calculation: {problem}") from None
    size = size if number is None else number
    shared: dict[Stratum, Stratum] = {}
    strata = [shared.setdefault(s, s) for s in (_stratum(record, by) for record in records(source, where))]
    if size < 1 or not strata:
        raise InputError(f"{source}: nothing to sample", "ask for one pair or more, of a non-empty dataset")
    population = Counter(strata)
    names = {stratum: code for code, stratum in enumerate(sorted(population))}
    codes = np.array([names[stratum] for stratum in strata])
    rng = np.random.default_rng(seed)
    quotas = _quotas(population, size, rng)
    chosen: set[int] = set()
    for stratum, code in names.items():
        chosen.update(rng.choice(np.flatnonzero(codes == code), size=quotas[stratum], replace=False).tolist())
    rows = [record for position, record in enumerate(records(source, where)) if position in chosen]
    key_rows: list[list[object]] = []
    sheet_rows: list[list[object]] = []
    for record in (rows[i] for i in rng.permutation(len(rows))):
        if missing := [column for column in show if column not in record]:
            lacking = f"record {record['id']!r} has no column {missing[0]!r}"
            raise InputError(lacking, f"it has: {', '.join(record)}")
        accepted, value = stratum = _stratum(record, by)
        shares = (population[stratum], f"{population[stratum] / quotas[stratum]:.6g}")
        key_rows.append([record["id"], str(accepted).lower(), value, *shares, record.get("reason") or ""])
        pair = [record["id"], record["question"], record["answer"]]
        sheet_rows.append([*pair, *[""] * (len(_SHEET) - 3), *(record[column] for column in show)])
    key = sheet.with_suffix(".key.csv")
    files = {key: csv_bytes(_KEY, key_rows), sheet: csv_bytes((*_SHEET, *show), sheet_rows)}
    for path, content in files.items():
        if path.exists() and read_bytes(path) != content:
            cure = "it may hold ratings: choose another name"
            raise InputError(f"{path}: exists already with other content", cure)
    for path, content in files.items():
        make_folder(path.parent)
        write_file(path, content)
    good = sum(n for (side, _), n in quotas.items() if side)
    counts = ((*stratum, quotas[stratum], population[stratum]) for stratum in names)
    fields = ("accepted", "stratum", "sampled", "population")
    strata_drawn = [dict(zip(fields, row, strict=True)) for row in counts]
    power = power_of(good, sum(quotas.values()) - good, aim)
    return {"sheet": str(sheet), "key": str(key), "power": power, "strata": strata_drawn}


def render(document: dict[str, Any]) -> str:
    """The result of `draw_sample` as text."""
    power, aim = document["power"], Aim(*(document["power"][name] for name in Aim._fields))
    smallest = power["detectable"]
    empty = [stratum["population"] for stratum in document["strata"] if not stratum["sampled"]]
    without = (
        f", {len(empty)} without a pair: no weight stands for their {sum(empty)} records" if empty else ""
    )
    return (
        f"{power['accepted'] + power['rejected']} pairs: {power['accepted']} accepted, {power['rejected']} rejected\n"
        f"Telling {aim.expected:.0%} good from {aim.expected - aim.difference:.0%} takes "
        f"{pairs_for_difference(*aim)} of each (power {aim.power:.0%}, two-sided alpha {aim.alpha:g}).\n"
        "This sample: smallest difference told: "
        f"{'none (too few pairs)' if smallest is None else f'{100 * smallest:.1f} points'}; "
        f"the share among accepted ± {100 * power['half_width']:.1f} points; "
        f"kappa of a judge ± {power['kappa_half_width']:.2f} (95 %, before anyone skips an item).\n"
        f"{len(document['strata'])} strata{without}; "
        f"sheet {document['sheet']}, key {document['key']} (keep it from raters)"
    )


def share_out(sizes: list[int], total: int) -> list[int]:
    """Distribute `total` draws over strata of these sizes as evenly as possible; the remainder goes to the first.

    Adds up to min(total, sum(sizes)).
    """
    total = min(total, sum(sizes))
    # The highest level up to which all strata can be filled.
    level = bisect_right(range(total + 1), total, key=lambda draws: sum(min(n, draws) for n in sizes)) - 1
    quotas = [min(size, level) for size in sizes]
    larger = [i for i, size in enumerate(sizes) if size > level]
    for i in larger[: total - sum(quotas)]:
        quotas[i] += 1
    return quotas


def _stratum(record: dict[str, Any], by: str) -> Stratum:
    """Whether the record was accepted, and its value of the column `by`; its shape stands for a missing `group`.

    Raises InputError for a record without question, answer or the column.
    """
    for field in ("question", "answer"):
        if not isinstance(record.get(field), str):
            problem = f"record {record['id']!r} has no {field}"
            raise InputError(problem, "people rate pairs of question and answer")
    value = record.get(by)
    if by == "group" and value is None and record.get("graphlet_id") is not None:
        value = f"shape {record['graphlet_id']}"
    elif by not in record and by != "group":
        raise InputError(f"record {record['id']!r} has no column {by!r}", f"it has: {', '.join(record)}")
    return bool(record.get("accepted", True)), "none" if value is None else str(value)


def _quotas(population: Counter[Stratum], size: int, rng: np.random.Generator) -> dict[Stratum, int]:
    """Draws per stratum: half accepted, half rejected (more of one if the other has too few), evenly over strata.

    If the draws cannot be spread evenly, the strata with one draw more are chosen at random.
    """
    sides = [[s for s in sorted(population) if s[0] is side] for side in (True, False)]
    totals = [sum(population[s] for s in side) for side in sides]
    quotas: dict[Stratum, int] = {}
    for side, quotas_of_side in zip(sides, share_out(totals, size), strict=True):
        side = [side[i] for i in rng.permutation(len(side))]
        quotas |= dict(zip(side, share_out([population[s] for s in side], quotas_of_side), strict=True))
    return quotas


def write_page(sheet: Path, page: Path, *, title: str = "Rating question-answer pairs") -> int:
    """Write `page` for the items of `sheet` (ID, Question, Answer; other columns are not shown).

    Returns the number of items. Raises InputError: a missing column, an id twice or empty, no items.
    """
    columns = ("id", "question", "answer")
    by_id: dict[str, dict[str, str]] = {}
    for line, cells in read_csv(sheet, *columns)[1]:
        if not cells["id"] or cells["id"] in by_id:
            raise InputError(f"{sheet} line {line}: id {cells['id']!r} is empty or repeated")
        by_id[cells["id"]] = {name: cells[name] for name in columns}
    if not by_id:
        raise InputError(f"{sheet}: holds no items")
    items = list(by_id.values())
    # Key of the browser's local storage, so that two samples on one machine stay apart.
    sample = hashlib.sha256(json.dumps(items).encode()).hexdigest()[:16]
    scales = [scale._asdict() for scale in SCALES]
    data = {"sample": sample, "title": title, "items": items, "scales": scales}
    make_folder(page.parent)
    block = json_block(json.dumps(data, separators=(",", ":")))
    text = render_page("kgqa_hpc.plugins.evaluation", "rating_page", title=title, data=block)
    write_file(page, text.encode("utf-8"))
    return len(items)
