"""Text metrics of predictions against references, overall and per group, with intervals: BLEU, ROUGE, METEOR, CIDEr.

Each comes from its reference implementation, on its scale: BLEU-2 and BLEU-4 of the corpus by sacrebleu (0 to 100),
ROUGE-1, ROUGE-2 and ROUGE-L by rouge-score (mean F, no stemming, 0 to 1). The published tables (QAProt, Tables 4, 8
and 9) divide BLEU by 100.

METEOR and CIDEr come from pycocoevalcap, an optional extra (its licence is not stated, and it runs Java). Texts go
through the package's own tokenizer, as in the caption evaluation it comes from, so that scores can be compared with
published ones.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kgqa_hpc.errors import ExtensionError, InputError
from kgqa_hpc.plugins.evaluation.bootstrap import RESAMPLES, Estimate, Floats, Statistic, estimate, mean_of
from kgqa_hpc.plugins.evaluation.judge_prediction import BEST, read_judged
from kgqa_hpc.registry import METRICS
from kgqa_hpc.text.bounded_json import json_objects
from kgqa_hpc.text.plain_text import aligned

ROUGE = ("rouge1", "rouge2", "rougeL")
SCALES = {"bleu2": 100, "bleu4": 100, **dict.fromkeys(ROUGE, 1), "meteor": 1, "cider": 10}
GROUP_COLUMNS = ("organism_group", "functional_class", "taxonomy", "functions", "group")
_ORDER = 4
# METEOR's process cannot score an empty text; a word that is in no reference scores 0 as an empty one should.
_NO_WORDS = "xxnowordsxx"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Predictions and references in the same order, and the full rows of the references for their columns."""

    predictions: tuple[str, ...]
    references: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: int


def read_pairs(predictions: Path, references: Path, *, missing: Literal["error", "empty"] = "error") -> Pairs:
    """Both files matched by id, in the order of the references. Columns of a prediction fill in where needed.

    `missing`: treatment of a reference without a prediction, as an error or as an empty prediction. Raises
    InputError with file and line: no id, no text, an id twice, a prediction without a reference, no lines.
    """
    predicted, expected = _read(predictions), _read(references)
    if not expected:
        raise InputError(f"{references}: holds no references")
    if strangers := predicted.keys() - expected.keys():
        raise InputError(
            f"{predictions}: id {min(strangers)!r} has no reference", "are these the same items?"
        )
    lacking = [item for item in expected if item not in predicted]
    if lacking and missing == "error":
        raise InputError(
            f"{predictions}: {len(lacking):,} references have no prediction, the first is {lacking[0]!r}",
            "predict them, or count them as empty with --missing empty",
        )
    texts = tuple(predicted[item]["text"] if item in predicted else "" for item in expected)
    rows = tuple({**predicted.get(item, {}), **row} for item, row in expected.items())
    return Pairs(texts, tuple(row["text"] for row in expected.values()), rows, len(lacking))


def score(
    pairs: Pairs,
    *,
    by: Sequence[str] | None = None,
    judged: Path | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Every metric over all items and per value of the columns `by` (default: those of GROUP_COLUMNS that exist).

    `judged` is a run of the step `judge_prediction` over these pairs: the means of its scores are metrics, too.
    A list in a column puts its item in each of the groups. Raises InputError for a column that no item has.
    """
    rows = pairs.rows
    columns = [
        column for column in (GROUP_COLUMNS if by is None else by) if any(column in row for row in rows)
    ]
    if by is not None and (unknown := [column for column in by if column not in columns]):
        raise InputError(f"no line has a column {unknown[0]!r}", f"the first has: {', '.join(rows[0])}")
    sure = {"resamples": resamples, "seed": seed}
    metrics, absent = _metrics(pairs, sure)
    scores = read_judged(judged, [str(row["id"]) for row in rows]) if judged else {}
    metrics |= {name: _mean_metric(values, sure) for name, values in scores.items()}

    def of(positions: list[int]) -> dict[str, Any]:
        statistics = {name: metric(positions) for name, metric in metrics.items()}
        return {
            "items": len(positions),
            **{name: statistic.value for name, statistic in statistics.items()},
            "intervals": {name: [statistic.low, statistic.high] for name, statistic in statistics.items()},
        }

    return {
        **of(list(range(len(rows)))),
        "scales": {name: BEST if name in scores else SCALES.get(name, 1) for name in metrics},
        "not_judged": {name: int(np.isnan(values).sum()) for name, values in scores.items()},
        "missing_predictions": pairs.missing,
        "not_computed": absent,
        "groups": {
            column: {value: of(members) for value, members in _groups(rows, column).items()}
            for column in columns
        },
    }


_Metric = Callable[[list[int]], Estimate]


def _metrics(pairs: Pairs, sure: dict[str, int]) -> tuple[dict[str, _Metric], dict[str, str]]:
    """Metrics that this machine can compute, as functions of rows; the others with a reason."""
    from rouge_score.rouge_scorer import RougeScorer

    counts = _bleu_counts(pairs)
    metrics: dict[str, _Metric] = {
        f"bleu{n}": lambda rows, n=n: estimate(_bleu(counts[rows], n), len(rows), **sure)  # type: ignore[misc]
        for n in (2, 4)
    }
    rouge = RougeScorer(list(ROUGE), use_stemmer=False)
    scores = [rouge.score(r, p) for p, r in zip(pairs.predictions, pairs.references, strict=True)]
    values = {name: np.array([score[name].fmeasure for score in scores]) for name in ROUGE}
    values |= {name: _own_metric(name, pairs) for name in METRICS.names()}
    metrics |= {name: _mean_metric(means, sure) for name, means in values.items()}
    why = why_no_captions()
    if why is None:
        try:
            meteor, cider = _caption_metrics(pairs.predictions, pairs.references)
        except OSError as problem:
            why = f"its tokenizer failed: {problem}"
        else:
            metrics["meteor"] = lambda rows: Estimate(meteor(rows))
            metrics["cider"] = _mean_metric(cider, sure)
    return metrics, {} if why is None else dict.fromkeys(("meteor", "cider"), why)


def _own_metric(name: str, pairs: Pairs) -> Floats:
    """The values of a metric of the registry, (items,). Raises ExtensionError for another number of them."""
    with METRICS.calling(name):
        values = np.asarray(METRICS.get(name)(pairs.predictions, pairs.references), dtype=np.float64)
    if name in SCALES or values.shape != (len(pairs.rows),):
        shape = f"gave values of shape {values.shape}"
        problem = "has the name of a shipped metric" if name in SCALES else shape
        cure = "give one number for each pair, under a name of its own"
        raise ExtensionError(f"{METRICS.entry(name)} {problem}", cure)
    return values


def _mean_metric(values: Floats, sure: dict[str, int]) -> _Metric:
    return lambda rows: estimate(mean_of(values[rows]), len(rows), **sure)


def _bleu_counts(pairs: Pairs) -> Floats:
    """For each pair its matching and total n-grams (1 to 4) and both lengths, (items, 10); rows can be summed."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(max_ngram_order=_ORDER)
    rows = []
    for prediction, reference in zip(pairs.predictions, pairs.references, strict=True):
        result = bleu.corpus_score([prediction], [[reference]])
        rows.append([*result.counts, *result.totals, result.sys_len, result.ref_len])
    return np.array(rows, dtype=np.float64)


def _bleu(counts: Floats, order: int) -> Statistic:
    """Corpus BLEU of weighted items, by sacrebleu's own formula (exponential smoothing, its default)."""
    from sacrebleu.metrics.bleu import BLEU

    def score(sums: Floats) -> float:
        *counted, length, expected = (round(value) for value in sums)
        correct, total = counted[:order], counted[_ORDER : _ORDER + order]
        smooth: Any = {"smooth_method": "exp", "max_ngram_order": order}
        return float(BLEU.compute_bleu(correct, total, length, expected, **smooth).score)

    return lambda weights: np.array([score(sums) for sums in weights @ counts])


def why_no_captions() -> str | None:
    """The reason why the two metrics cannot be computed on this machine; None if they can."""
    try:
        import pycocoevalcap  # noqa: F401
    except ImportError:
        return "needs pycocoevalcap: pip install 'kgqa_hpc[caption]'"
    return None if shutil.which("java") else "needs Java (for instance Debian's default-jre-headless)"


def _caption_metrics(
    predictions: Sequence[str], references: Sequence[str]
) -> tuple[Callable[[Sequence[int]], float], Floats]:
    """METEOR 1.5 (0 to 1) of chosen items as a whole, and CIDEr-D (0 to 10) of every item.

    CIDEr-D's document frequencies are over all items. Raises OSError when the tokenizer cannot write into its own
    package folder.
    """
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    # One line each, for the tools' line protocols; `|||` is their separator.
    texts = [" ".join(text.replace("|||", " ").split()) for text in (*predictions, *references)]
    captions: dict[int, Any] = {i: [{"caption": text}] for i, text in enumerate(texts)}
    lines = [words[0] for words in PTBTokenizer().tokenize(captions).values()]
    if len(lines) != len(texts):
        raise OSError(f"the tokenizer gave {len(lines)} of {len(texts)} lines")
    size = len(predictions)
    process = Meteor()  # of Java; takes seconds to start and ends with the function that holds it

    def chosen(rows: Sequence[int], empty: str) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        return {i: [lines[size + i] or empty] for i in rows}, {i: [lines[i] or empty] for i in rows}

    def meteor(rows: Sequence[int]) -> float:
        return float(process.compute_score(*chosen(rows, _NO_WORDS))[0])

    _, scores = Cider().compute_score(*chosen(range(size), ""))
    return meteor, np.array([float(score) for score in scores])


def _read(path: Path) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for line, row in json_objects(path):
        item, location = row.get("id"), f"{path} line {line}"
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise InputError(f"{location}: no id", 'every line is {"id": …, "text": …}')
        if not isinstance(row.setdefault("text", row.get("answer")), str):
            raise InputError(f"{location}: no text", 'every line is {"id": …, "text": …}')
        if str(item) in rows:
            raise InputError(f"{location}: id {str(item)!r} was there before")
        rows[str(item)] = row
    return rows


def _groups(rows: Sequence[Row], column: str) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        value = row.get(column)
        for member in value if isinstance(value, list) else [value]:
            groups.setdefault("none" if member is None else str(member), []).append(i)
    return dict(sorted(groups.items()))


def render(document: dict[str, Any]) -> str:
    """A table from what `score` gave: all items, then each group."""
    names = list(document["scales"])
    judged = list(document["not_judged"])
    lines = _table(document, [name for name in names if name not in judged])
    if judged:
        lines += ["", "judged from 0 to 5:", *_table(document, judged)]
        lines += [f"{name}: {n:,} were not judged" for name, n in document["not_judged"].items() if n]
    if document["missing_predictions"]:
        lines += ["", f"{document['missing_predictions']:,} without a prediction count as empty"]
    lines += [f"{name} was not computed: {why}" for name, why in document["not_computed"].items()]
    return "\n".join(lines)


def _table(document: dict[str, Any], names: list[str]) -> list[str]:
    """The metrics `names` of all items with their intervals, then of each group."""
    ends = ({name: document["intervals"][name][end] for name in names} for end in (0, 1))
    entries = [("all", document), *zip(("  95 % from", "  95 % to"), ends, strict=True)]
    for column, groups in document["groups"].items():
        entries += [(f"{column}:", {}), *((f"  {value}", entry) for value, entry in groups.items())]
    rows = [["", "items", *names]]
    for label, entry in entries:
        items = f"{entry['items']:,}" if "items" in entry else ""
        values = (
            "" if name not in entry else "-" if entry[name] is None else f"{entry[name]:.4f}"
            for name in names
        )
        rows.append([label, items, *values])
    return aligned(rows)
