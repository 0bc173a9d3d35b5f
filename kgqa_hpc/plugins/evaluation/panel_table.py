"""How the judges of a whole run relate, without any rating: what each accepts, and how they agree.

Memory is a byte for each verdict, so it holds for a million records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import COEFFICIENTS, MISSING, Votes, agreement_table
from kgqa_hpc.plugins.evaluation.bootstrap import interval_text
from kgqa_hpc.plugins.evaluation.judged import wilson
from kgqa_hpc.plugins.evaluation.panel import Codes, confusion, decides_alone, rules
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.verdicts import opinion


def panel_table(source: Path, *, seed: int = 0) -> dict[str, Any]:
    """For a merged run or a file of records: per judge what it accepts, and for several judges what each rule
    would accept, confusion, lone decisions and agreement.

    Raises InputError when no record has a vote.
    """
    votes, judges = read_votes(source)
    several = len(judges) > 1
    return {
        "records": len(votes),
        "judges": {name: _row(votes[:, j]) for j, name in enumerate(judges)},
        "rules": {rule: _row(decision) for rule, decision in rules(votes).items()} if several else {},
        "confusion": confusion(votes, judges),
        "alone": decides_alone(votes, judges),
        "agreement": agreement_table(Votes(votes, judges, (False, True)), seed=seed) if several else None,
    }


def render(document: dict[str, Any]) -> str:
    """The table as text."""
    lines = [
        f"{document['records']:,} records",
        "",
        f"{'judge or rule':<30}{'accepted':>10}{'rejected':>10}{'missing':>9}  share",
    ]
    for name, one in {**document["judges"], **document["rules"]}.items():
        counts = f"{one['accepted']:>10,}{one['rejected']:>10,}{one['missing']:>9,}"
        lines.append(f"{name[:29]:<30}{counts}  {interval_text(one['share'])}")
    lines += [
        f"{' and '.join(one['judges'])}: both accept {one['both']:,}, only the first {one['only_first']:,}, "
        f"only the second {one['only_second']:,}, neither {one['neither']:,}, no two votes {one['missing']:,}"
        for one in document["confusion"]
    ]
    if document["agreement"] is not None:
        lines += [
            f"{name}: alone rejects {one['rejects_alone']:,}, alone accepts {one['accepts_alone']:,}"
            for name, one in document["alone"].items()
        ]
        lines += coefficients(document["agreement"])
    return "\n".join(lines)


def coefficients(agreement: dict[str, Any]) -> list[str]:
    """A line for each coefficient of `agreement_table`, and for Cohen's kappa of every two."""
    lines = [f"{words}: {interval_text(agreement[key])}" for key, words in COEFFICIENTS.items()]
    pairs = agreement["cohen_kappa"]
    return lines + [f"Cohen's kappa of {' and '.join(one['judges'])}: {interval_text(one)}" for one in pairs]


def read_votes(source: Path) -> tuple[Codes, tuple[str, ...]]:
    """Votes (records, judges) of a source; judges in the order they first occur."""
    places: dict[str, int] = {}
    columns: list[bytearray] = []
    read = 0
    for record in records(source):
        for name, verdict in (record.get("verdicts") or {}).items():
            vote = opinion(verdict).vote
            if vote is None:
                continue
            place = places.setdefault(name, len(places))
            if place == len(columns):
                columns.append(bytearray())
            columns[place].extend(b"\x02" * (read - len(columns[place])))
            columns[place].append(int(vote))
        read += 1
    if not columns:
        raise InputError(
            f"{source}: no record has a judge's vote", "verdicts hold booleans under a judge's name"
        )
    table = [np.frombuffer(bytes(column.ljust(read, b"\x02")), dtype=np.uint8) for column in columns]
    codes = np.stack(table, axis=1).astype(np.int64)
    return np.where(codes == 2, MISSING, codes), tuple(places)


def _row(decision: Codes) -> dict[str, Any]:
    accepted, voted = int((decision == 1).sum()), int((decision != MISSING).sum())
    return {
        "accepted": accepted,
        "rejected": voted - accepted,
        "missing": len(decision) - voted,
        "share": wilson(accepted, voted).to_dict(),
    }
