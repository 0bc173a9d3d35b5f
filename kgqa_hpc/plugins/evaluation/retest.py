"""Judges asked in runs of their own: about rated pairs, and again about pairs that they have judged.

Such a run has the ordinary stages (stages.py) and, of a configuration, only the steps of the judges. A pair is judged
again unchanged (test-retest), in another order, or longer; the verdicts that flip show a judge's unreliability or bias,
and McNemar's exact test (1947) tells a bias in one direction. The other order tests position bias (Zheng et al. 2023,
"Judging LLM-as-a-judge", section 3.3): it reverses options or documents, or without any moves the answer's first
sentence to the end. The greater length tests verbosity bias by their repetitive attack: the answer is given twice and
says nothing new.
"""

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.evaluation.agreement import MISSING, Codes, estimate, kappa_statistic, mean_of, wilson
from kgqa_hpc.plugins.evaluation.ratings import Ratings
from kgqa_hpc.plugins.evaluation.records import opinion, records
from kgqa_hpc.runs import create_run, open_run
from kgqa_hpc.runs.trust import require_agreed
from kgqa_hpc.stages import STAGES
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.canonical import canonical
from kgqa_hpc.store.canonical import digest as canonical_digest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile
from kgqa_hpc.text.plain_text import aligned, shell_word

MARK = "~"  # between a record's id and the perturbation
LISTS = ("options", "documents")
ANSWERS = ("answer", "answer_with_names")  # judge_support shows the second
READING = (
    "same: what flips is the judge's own unreliability. order, longer: a shift whose interval leaves out 0 is a taste "
    "for position or length, p being McNemar's exact test; compare it with the flips of `same`."
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
_Record = Mapping[str, Any]


def ask_judges(config_file: Path, ratings: Ratings, folder: Path) -> Path:
    """Have the judging and scoring steps of a configuration judge rated pairs, in a run of kind `records`.

    Returns the merged run, resumable in its folder. Raises ConfigError for a configuration without such steps.
    """
    plain = load_config(config_file).plain()
    pairs = {row.id: {"id": row.id, "question": row.question, "answer": row.answer} for row in ratings.rated}
    plan = _asked(plain, lambda step: STEPS.get(step["use"]).adds == "verdict" or step["use"] == "score")
    if not plan["passes"]:
        raise ConfigError(f"{config_file}: has no step that judges or scores", "add one: steps: [judge]")
    return _judged(plan, pairs.values(), folder, str(config_file))


def _order(record: _Record) -> dict[str, Any] | None:
    lists = {name: list(reversed(record[name])) for name in LISTS if len(record.get(name) or ()) > 1}
    if lists:
        return {**record, **lists}
    sentences = {name: _SENTENCE_END.split(record[name]) for name in ANSWERS if record.get(name)}
    turned = {name: " ".join([*later, first]) for name, (first, *later) in sentences.items()}
    return {**record, **turned} if len(sentences.get("answer", ())) > 1 else None


PERTURBATIONS: dict[str, Callable[[_Record], dict[str, Any] | None]] = {
    "same": dict,
    "order": _order,
    "longer": lambda record: {**record, **{n: f"{record[n]} {record[n]}" for n in ANSWERS if record.get(n)}},
}


def perturbed(record: _Record, names: list[str]) -> list[dict[str, Any]]:
    """The record under each perturbation, with a marked id; those without effect (one sentence) are left out."""
    variants = ((PERTURBATIONS[name](record), f"{record['id']}{MARK}{name}") for name in names)
    return [{**variant, "id": marked} for variant, marked in variants if variant is not None]


def compare_verdicts(first: Codes, second: Codes, **sampling: int) -> dict[str, Any]:
    """Compare two rounds of one judge's verdicts (1, 0, -1 missing), both (items,); items that lack one are left out.

    `same` is the share of unchanged verdicts with Wilson's interval; `to_accept` and `to_reject` count the flips by
    direction; `shift` is the change of the accepted share; `p` is small when one direction prevails.
    """
    from scipy.stats import binomtest

    both = (first != MISSING) & (second != MISSING)
    a, b = first[both], second[both]
    up, down = int((b > a).sum()), int((b < a).sum())
    return {
        "items": len(a),
        "same": wilson(int((a == b).sum()), len(a)),
        "kappa": estimate(kappa_statistic(b, a == 1), len(a), resamples=0)["value"],
        "to_accept": up,
        "to_reject": down,
        "shift": estimate(mean_of((b - a).astype(np.float64)), len(a), **sampling),
        "p": float(binomtest(up, up + down).pvalue) if up + down else 1.0,
    }


def compare_rounds(first: Iterable[_Record], second: Iterable[_Record], *, seed: int = 0) -> dict[str, Any]:
    """The second round's verdicts on `ID~NAME` compared with the first round's on `ID`, by judge and perturbation.

    Both are dataset records with `verdicts`. An item that lacks one of the two votes is left out.
    """
    before = {record["id"]: record["verdicts"] for record in first}
    pairs: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for record in second:
        item, _, name = record["id"].rpartition(MARK)
        for judge, verdict in record["verdicts"].items():
            votes = opinion(before[item].get(judge)).code, opinion(verdict).code
            pairs.setdefault(judge, {}).setdefault(name, []).append(votes)
    return {
        judge: {name: compare_verdicts(*np.array(votes).T, seed=seed) for name, votes in by_name.items()}
        for judge, by_name in pairs.items()
    }


def retest(
    source: Path,
    folder: Path,
    *,
    perturb: list[str],
    judges: list[str],
    number: int,
    seed: int,
    trust: bool = False,
) -> dict[str, Any]:
    """Ask judges of a merged run again about `number` of its pairs under each perturbation.

    `judges` are labels; all judges if it is empty. Verdicts are kept in `folder`; a repeated call resumes.

    Raises InputError for an unknown judge or perturbation, or a dataset without a judge's verdicts.
    """
    if unknown := [name for name in perturb if name not in PERTURBATIONS]:
        raise InputError(f"there is no perturbation {unknown[0]!r}", f"there are {', '.join(PERTURBATIONS)}")
    run, config = open_run(source)
    plain = config.plain()
    require_agreed(run, plain, trust=trust)
    labels = [s.label for s in config.steps if STEPS.get(s.use).adds == "verdict"]
    if strangers := [name for name in judges if name not in labels]:
        raise InputError(f"{source}: has no judge {strangers[0]!r}", f"it has: {', '.join(labels) or 'none'}")
    plan = _asked(plain, lambda step: step["as"] in (judges or labels))
    asked = set(judges or labels)
    judged = (  # a record that was rejected before a judge saw it has None as its verdict
        record for record in records(source) if any(record["verdicts"].get(name) for name in asked)
    )
    chosen = heapq.nsmallest(number, judged, key=lambda pair: canonical_digest([seed, pair["id"]]))
    if not chosen:
        cure = "kgqa judge RUN adds a judge, kgqa merge RUN its verdicts"
        raise InputError(f"{source}: no record has a verdict", cure)
    if unmerged := sorted(asked - chosen[0]["verdicts"].keys()):
        cure = f"first: kgqa merge {shell_word(source)}"
        raise InputError(f"{source}: its dataset has no verdict of {unmerged[0]!r}", cure)
    plan["prompts"] = {**plain["prompts"], "folder": str(run.prompts.resolve())}
    copies = (copy for record in _with_sources(run, chosen) for copy in perturbed(record, perturb))
    again = _judged(plan, copies, folder, str(source))
    comparison = compare_rounds(chosen, records(again), seed=seed)
    return {"pairs": len(chosen), "judges": comparison, "reading": READING}


def _with_sources(run: RunFolder, chosen: Iterable[_Record]) -> Iterator[_Record]:
    """The records, in a run of kind `records` with the fields of their source records, such as the text a judge saw.

    The sources' `documents` are left out: judges do not see them, and the perturbation `order` would reverse them
    instead of the answer.
    """
    with AnchorsFile(run.anchors) as anchors:
        for record in chosen:
            row = anchors.find(record["id"])
            anchor = {} if row is None else next(anchors.rows(row, row + 1))
            source = (anchor.get("data") or {}).get("record") or {}
            yield {**{name: value for name, value in source.items() if name != "documents"}, **record}


def _asked(plain: dict[str, Any], selects: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The parts of a configuration that a run with only the selected steps needs."""
    passes = [{**entry, "steps": list(filter(selects, entry["steps"]))} for entry in plain["passes"]]
    labels = {step["as"] for entry in passes for step in entry["steps"]}
    decide = plain["dataset"]["decide"]
    whole = set(decide["judges"] or labels) <= labels
    return {
        **{key: plain[key] for key in ("seed", "prompts", "engine", "runtime")},
        "passes": [entry for entry in passes if entry["steps"]],
        "dataset": {"decide": decide if whole else {}, "z_score": None},
    }


def _judged(plain: dict[str, Any], pairs: Iterable[dict[str, Any]], folder: Path, where: str) -> Path:
    """A merged run of kind `records` over `pairs` by the configuration, in `folder`."""
    make_folder(folder)
    source = folder / "pairs.jsonl"
    write_file(source, b"".join(canonical(pair) + b"\n" for pair in pairs))
    anchors = {"kind": "records", "from": str(source.resolve()), "where": {}}
    run = create_run(folder / folder.name, parse_config({**plain, "anchors": anchors}, where))
    for stage in STAGES:
        if stage.name not in ("import", "report"):
            stage.work(run.path, None)
    return run.path


def render_retest(document: dict[str, Any]) -> str:
    """The result of `retest` as text: a line for each judge and perturbation."""

    def percent(share: dict[str, Any], sign: str = "", unit: str = "%") -> str:
        if share["low"] is None:
            return "undefined"
        value, low, high = (f"{100 * share[key]:{sign}.1f}" for key in ("value", "low", "high"))
        return f"{value} {unit} [{low}, {high}]"

    rows: list[tuple[object, ...]] = [
        ("judge", "asked again", "n", "same verdict", "kappa", "to accept", "to reject", "p", "acceptance")
    ]
    for judge, by_name in document["judges"].items():
        for name, entry in by_name.items():
            kappa = "-" if entry["kappa"] is None else f"{entry['kappa']:.2f}"
            flips = entry["to_accept"], entry["to_reject"], f"{entry['p']:.2g}"
            shift = percent(entry["shift"], "+", "points")
            rows.append((judge, name, entry["items"], percent(entry["same"]), kappa, *flips, shift))
    return "\n".join([*aligned(rows), "", document["reading"]])
