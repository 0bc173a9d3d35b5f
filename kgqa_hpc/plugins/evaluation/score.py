"""Text metrics of predictions against references, overall and per group, with intervals: BLEU, ROUGE, METEOR, CIDEr.

Each comes from its reference implementation, on its scale: BLEU-2 and BLEU-4 of the corpus by sacrebleu (0 to 100),
ROUGE-1, ROUGE-2 and ROUGE-L by rouge-score (mean F, no stemming, 0 to 1). The published tables (QAProt, Tables 4, 8
and 9) divide BLEU by 100.

METEOR and CIDEr come from pycocoevalcap, an optional extra (its licence is not stated, and it runs Java). Texts go
through the package's own tokenizer, as in the caption evaluation it comes from, so that scores can be compared with
published ones.

A judge may rate the predictions, too: five aspects from 0 to 5 (QAProt, appendix, Figure 8). It is a step in a run of
its own, over the file that `kgqa score PREDICTIONS REFERENCES --joined FILE` writes: records with question, answer (the
reference) and `prediction`. `kgqa score … --judged RUN` reads its scores back by id and reports their means, too.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import RESAMPLES, Floats, estimate, interval, mean_of
from kgqa_hpc.plugins.evaluation.own_metrics import own_metrics
from kgqa_hpc.plugins.evaluation.records import mapping, records
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import PAIR, Item
from kgqa_hpc.steps.pair import pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step
from kgqa_hpc.store.atomic import write_file
from kgqa_hpc.text.plain_text import TEXT_LENGTH, aligned, clean_text
from kgqa_hpc.text.streams import json_objects

ROUGE = ("rouge1", "rouge2", "rougeL")
SCALES = {"bleu2": 100, "bleu4": 100, **dict.fromkeys(ROUGE, 1), "meteor": 1, "cider": 10}
GROUP_COLUMNS = ("organism_group", "functional_class", "taxonomy", "functions", "group")
_ORDER = 4
# METEOR's process cannot score an empty text; a word that is in no reference scores 0 as an empty one should.
_NO_WORDS = "xxnowordsxx"

Row = dict[str, Any]
# A metric of some items, by their positions, with its interval; takes `resamples` and `seed`.
Metric = Callable[..., dict[str, Any]]


class Pairs(NamedTuple):
    """Predictions and references in the same order, and the full rows of the references for their columns."""

    predictions: tuple[str, ...]
    references: tuple[str, ...]
    rows: tuple[Row, ...]
    missing: int


def read_pairs(predictions: Path, references: Path, *, missing: Literal["error", "empty"] = "error") -> Pairs:
    """Both files matched by id, in the order of the references.

    A column that a reference lacks comes from its prediction. `missing`: treatment of a reference without a prediction,
    as an error or as an empty prediction. Raises InputError with file and line: no id, no text, an id twice, a
    prediction without a reference, no lines.
    """
    predicted, expected = _read(predictions), _read(references)
    if not expected:
        raise InputError(f"{references}: holds no references")
    if strangers := predicted.keys() - expected.keys():
        problem = f"{predictions}: id {min(strangers)!r} has no reference"
        raise InputError(problem, "are these the same items?")
    lacking = [item for item in expected if item not in predicted]
    if lacking and missing == "error":
        example = f"the first is {lacking[0]!r}"
        problem = f"{predictions}: {len(lacking):,} references have no prediction, {example}"
        raise InputError(problem, "predict them, or count them as empty with --missing empty")
    texts = tuple(predicted[item]["text"] if item in predicted else "" for item in expected)
    rows = tuple({**predicted.get(item, {}), **row} for item, row in expected.items())
    return Pairs(texts, tuple(row["text"] for row in expected.values()), rows, len(lacking))


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
    columns = [c for c in (GROUP_COLUMNS if by is None else by) if any(c in row for row in rows)]
    if unknown := [column for column in by or () if column not in columns]:
        raise InputError(f"no line has a column {unknown[0]!r}", f"the first has: {', '.join(rows[0])}")
    metrics, absent = _metrics(pairs)
    scores = read_judged(judged, pairs) if judged else {}
    metrics |= {name: partial(_mean, values) for name, values in scores.items()}

    def scored(positions: list[int]) -> dict[str, Any]:
        results = {name: value(positions, resamples=resamples, seed=seed) for name, value in metrics.items()}
        return {
            "items": len(positions),
            **{name: result["value"] for name, result in results.items()},
            "intervals": {name: [result["low"], result["high"]] for name, result in results.items()},
        }

    groups: dict[str, dict[str, list[int]]] = {column: {} for column in columns}
    for column, members in groups.items():
        for position, row in enumerate(rows):
            values = row.get(column)
            for value in values if isinstance(values, list) else [values]:
                members.setdefault("none" if value is None else str(value), []).append(position)
    return {
        **scored(list(range(len(rows)))),
        "scales": {name: BEST if name in scores else SCALES.get(name, 1) for name in metrics},
        "not_judged": {name: int(np.isnan(values).sum()) for name, values in scores.items()},
        "missing_predictions": pairs.missing,
        "not_computed": absent,
        "groups": {
            column: {value: scored(positions) for value, positions in sorted(members.items())}
            for column, members in groups.items()
        },
    }


def _metrics(pairs: Pairs) -> tuple[dict[str, Metric], dict[str, str]]:
    """The metrics that this machine can compute, and for each other metric the reason why it cannot.

    Raises ExtensionError for a metric of the registry that does not give one finite number for each pair.
    """
    from rouge_score.rouge_scorer import RougeScorer

    rouge = RougeScorer(list(ROUGE), use_stemmer=False)
    scores = [rouge.score(r, p) for p, r in zip(pairs.predictions, pairs.references, strict=True)]
    values = {name: np.array([score[name].fmeasure for score in scores]) for name in ROUGE}
    ids = [str(row["id"]) for row in pairs.rows]
    values |= own_metrics(pairs.predictions, pairs.references, ids, SCALES)
    metrics = _bleu(pairs) | {name: partial(_mean, means) for name, means in values.items()}
    why = why_no_captions()
    if why is None:
        try:
            meteor, cider = _caption_metrics(pairs.predictions, pairs.references)
        except OSError as problem:
            why = f"its tokenizer failed: {problem}"
        else:
            metrics |= {"meteor": lambda rows, **_: interval(meteor(rows)), "cider": partial(_mean, cider)}
    return metrics, {} if why is None else dict.fromkeys(("meteor", "cider"), why)


def _mean(values: Floats, rows: list[int], **sampling: int) -> dict[str, Any]:
    return estimate(mean_of(values[rows]), len(rows), **sampling)


def _bleu(pairs: Pairs) -> dict[str, Metric]:
    """Corpus BLEU of two orders by sacrebleu's own formula (exponential smoothing, its default)."""
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(max_ngram_order=_ORDER)
    texts = zip(pairs.predictions, pairs.references, strict=True)
    results = [bleu.corpus_score([prediction], [[reference]]) for prediction, reference in texts]
    # Matching and total n-grams (1 to 4) and both lengths of each pair, (items, 10); rows can be summed.
    counts = np.array([[*r.counts, *r.totals, r.sys_len, r.ref_len] for r in results], dtype=np.float64)

    def metric(order: int, rows: list[int], **sampling: int) -> dict[str, Any]:
        smooth: Any = {"smooth_method": "exp", "max_ngram_order": order}

        def of_sums(sums: Floats) -> float:
            *grams, length, expected = np.rint(sums).astype(int).tolist()
            correct, total = grams[:order], grams[_ORDER : _ORDER + order]
            return float(BLEU.compute_bleu(correct, total, length, expected, **smooth).score)

        chosen = counts[rows]
        return estimate(lambda weights: np.array([*map(of_sums, weights @ chosen)]), len(rows), **sampling)

    return {f"bleu{order}": partial(metric, order) for order in (2, 4)}


def why_no_captions() -> str | None:
    """The reason why METEOR and CIDEr cannot be computed on this machine; None if they can."""
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

    # The Java tools read one text per line, with `|||` as separator, so texts must hold neither.
    texts = [" ".join(text.replace("|||", " ").split()) for text in (*predictions, *references)]
    captions: dict[int, Any] = {i: [{"caption": text}] for i, text in enumerate(texts)}
    lines = [words[0] for words in PTBTokenizer().tokenize(captions).values()]
    if len(lines) != len(texts):
        raise OSError(f"the tokenizer gave {len(lines)} of {len(texts)} lines")
    size = len(predictions)
    process = Meteor()  # a Java process: takes seconds to start, ends when `meteor` is garbage-collected

    def chosen(rows: Sequence[int], empty: str) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        return {i: [lines[size + i] or empty] for i in rows}, {i: [lines[i] or empty] for i in rows}

    def meteor(rows: Sequence[int]) -> float:
        return float(process.compute_score(*chosen(rows, _NO_WORDS))[0])

    _, scores = Cider().compute_score(*chosen(range(size), ""))
    return meteor, np.array([float(score) for score in scores])


ASPECTS = ("correctness", "completeness", "conciseness", "relevance", "fluency")
BEST = 5
_JOINED = "judge the file that --joined writes (configs/judge_predictions.yaml)"


class JudgePrediction(Step):
    """Scores a prediction in five aspects, as features `NAME_correctness` and so on (NAME: the step's). An empty
    prediction gets 0 in every aspect, without a request.
    """

    name = "judge_prediction"
    default_prompt = "judge_prediction"
    answer = dict.fromkeys(ASPECTS, "integer")
    adds = "column"
    needs = PAIR

    def asks_about(self, item: Item) -> bool:
        return bool(item.output.get("prediction"))

    def compute(self, item: Item) -> Outcome:
        """Score an empty prediction with 0, without a request; reject an item without one."""
        if item.output.get("prediction") is None:
            return Reject(f"{self.label}: no prediction")
        return self.accept(item, dict.fromkeys(ASPECTS, 0))

    def variables(self, item: Item) -> dict[str, Any]:
        prediction = clean_text(item.output.get("prediction") or "", TEXT_LENGTH)
        return {**pair_variables(item), "prediction": prediction}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        for aspect in ASPECTS:
            if not 0 <= answer[aspect] <= BEST:
                return Retry(f"not_allowed:{aspect}", lost_as="invalid")
        return Done(**{f"{self.label}_{aspect}": float(answer[aspect]) for aspect in ASPECTS})

    @classmethod
    def columns_for(cls, settings: StepSettings) -> tuple[Column, ...]:
        text = f"{{}} of the prediction, 0 to {BEST}."
        scores = (
            Column(f"{settings.label}_{aspect}", "double", text.format(aspect.capitalize()), filterable=True)
            for aspect in ASPECTS
        )
        return (Column("prediction", "string", "The text that was judged."), *scores)


def write_joined(path: Path, rows: Sequence[dict[str, Any]], predictions: Sequence[str]) -> None:
    """JSON lines with id, question, answer (the reference's text), prediction and the reference's other columns.

    Raises InputError for a reference without a question.
    """
    lines = []
    for row, prediction in zip(rows, predictions, strict=True):
        if not isinstance(row.get("question"), str):
            text = f"reference {str(row['id'])!r}: no question"
            raise InputError(text, "a judge must see what was asked: add it to the references")
        joined = {**row, "id": str(row["id"]), "answer": row["text"], "prediction": prediction}
        lines.append(json.dumps(joined, ensure_ascii=False) + "\n")
    write_file(path, "".join(lines).encode())


def read_judged(source: Path, pairs: Pairs) -> dict[str, Floats]:
    """For each judge of a run its scores by aspect and their mean, (pairs,) each; NaN for a missing score.

    Raises InputError when no record scores one of the pairs, or a record scores another prediction.
    """
    row_of = {str(line["id"]): row for row, line in enumerate(pairs.rows)}
    by_column: dict[str, Floats] = {}
    for record in records(source):
        row, features = row_of.get(record["id"]), mapping(record, "features")
        if row is not None and record.get("prediction", pairs.predictions[row]) != pairs.predictions[row]:
            raise InputError(f"{source}: judged another prediction of {record['id']!r}", _JOINED)
        judges = [name.removesuffix(f"_{ASPECTS[0]}") for name in features if name.endswith(f"_{ASPECTS[0]}")]
        for judge in judges if row is not None else ():
            answers = ((aspect, features.get(f"{judge}_{aspect}")) for aspect in ASPECTS)
            scores = {aspect: float(value) for aspect, value in answers if isinstance(value, int | float)}
            if len(scores) == len(ASPECTS):
                for name, score in {**scores, "mean": sum(scores.values()) / len(scores)}.items():
                    by_column.setdefault(f"{judge}_{name}", np.full(len(row_of), np.nan))[row] = score
    if not by_column:
        raise InputError(f"{source}: scores none of these references", _JOINED)
    return by_column


def render(document: dict[str, Any]) -> str:
    """The result of `score` as text: a table of all items, then each group."""
    judged = list(document["not_judged"])
    lines = _table(document, [name for name in document["scales"] if name not in judged])
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
        cells = ["" if n not in entry else "-" if entry[n] is None else f"{entry[n]:.4f}" for n in names]
        rows.append([label, f"{entry['items']:,}" if "items" in entry else "", *cells])
    return aligned(rows)
