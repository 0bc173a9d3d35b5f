"""Pairs in the form of a benchmark, MedQA or PubMedQA: steps that rephrase a finished pair, and exports for LinkBERT.

The record keeps the original pair (`source_question`, `source_answer`) for comparison.

MedQA: a case with five options, one of them right, and a reason for each. The model writes the right option and four
wrong ones in separate fields, and the order of the options is drawn afterwards. So the label follows from the draw, not
from a letter that a model wrote: the published converter set the label for only one of the five letters. The reasons
are sorted in the drawn order, so that `reasoning` is a rationale by letter.

PubMedQA: a question for yes, no or maybe, with a long answer and a context: the quotes that the step `ground` has
verified in the pair's documents. Without quotes the context is empty (the source answer would reveal the long answer),
and `judge_decision` rejects the question.

Examples in the prompt are those questions of the user's benchmark file that are most similar to the pair, by BM25
(BioGraphletQA, 3.4, stage 6). MedQA: JSON Lines with `question`, `options` {"A": …} and `answer_idx`. PubMedQA: its own
JSON object of items by PMID (`ori_pqal.json`) with `QUESTION`, `LONG_ANSWER` and `final_decision`, and `CONTEXTS` where
it has them. Plain or gzip. Use the training part: questions of a prompt must not occur in the test part. As published,
examples of MedQA do not show which option is right.

The exports are for LinkBERT's fine-tuning scripts: JSON Lines in SPLIT.json, as in its data/mc/medqa_usmle_hf and
data/seqcls/pubmedqa_hf. The scripts need the splits train, dev and test (`dataset.split`).
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any, ClassVar

import orjson
from pydantic import Field

from kgqa_hpc.anchors.anchor import short_digest
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.dataset.files import TRAIN, ExportSource
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.errors import InputError
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.pair import PAIR, pair_variables
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step
from kgqa_hpc.text.plain_text import TEXT_LENGTH, clean_text
from kgqa_hpc.text.streams import TextStream, json_lines, parse_json


class Examples:
    """The items of a benchmark file as texts of one line each. Raises InputError naming the file and the item."""

    def __init__(self, path: Path) -> None:
        from kgqa_hpc.plugins.literature.bm25 import Shard, add_documents, analyzer, new_index

        texts: list[str] = []
        for location, item in _items(path):
            if (text := _line(item) if isinstance(item, dict) else None) is None:
                problem = f"{path} {location}: is no item of MedQA or PubMedQA"
                raise InputError(problem, "see docs/guide/documents.md")
            texts.append(clean_text(text, TEXT_LENGTH))
        if not texts:
            raise InputError(f"{path}: holds no item", "name the benchmark's training file")
        index, self._analyzer, self._texts = new_index(None, stem=False), analyzer(stem=False), texts
        add_documents(index, ((str(k), text, str(k).encode()) for k, text in enumerate(texts)))
        self._items = Shard(index)

    def like(self, text: str, number: int) -> list[str]:
        """The `number` items most similar to the text, best first, ties in their order."""
        words = sorted(set(self._analyzer.analyze(text)))
        if not words or not number:
            return []
        hits = islice(self._items.ranked(dict.fromkeys(words, 1.0), number), number)
        ranked = sorted((-score, int(self._items.stored(address))) for score, address in hits)
        return [self._texts[position] for _, position in ranked]


def _items(path: Path) -> Iterator[tuple[str, Any]]:
    with TextStream(path, InputError) as stream:
        data = stream.readall()
    try:
        whole = parse_json(data)
    except orjson.JSONDecodeError:
        whole = None  # JSON Lines, or a damaged file, which the reader of lines reports
    if isinstance(whole, dict) and "question" not in whole:
        yield from ((f"item {key}", item) for key, item in whole.items())
        return
    for number, item in json_lines(io.BytesIO(data), path):
        yield f"line {number:,}", item


def _line(item: dict[str, Any]) -> str | None:
    """An item of MedQA or PubMedQA on one line; None for anything else."""
    question, options = item.get("question"), item.get("options")
    if isinstance(options, dict) and isinstance(question, str) and item.get("answer_idx") in options:
        return f"{question} {' '.join(f'({letter}) {text}' for letter, text in options.items())}"
    fields = [item.get(name) for name in ("QUESTION", "LONG_ANSWER", "final_decision")]
    if not all(isinstance(field, str) for field in fields):
        return None
    (question, answer, decision), contexts = fields, item.get("CONTEXTS") or []
    context = f"Context: {' '.join(map(str, contexts))} " if isinstance(contexts, list) and contexts else ""
    return f"{context}Question: {question} Long answer: {answer} Decision: {decision}"


SOURCE = (
    Column("source_question", "string", "The question before rephrasing."),
    Column("source_answer", "string", "The answer before rephrasing."),
)


class RephraseSettings(StepSettings):
    """Settings of a rephrasing step: benchmark and number of the examples."""

    benchmark: str | None = Field(None, description="Training file of the benchmark; default: no examples.")
    examples: int = Field(5, ge=0, le=20, description="Examples in each prompt.")
    paths = ("benchmark",)
    imitates = "benchmark"


class Rephrase(Step):
    """A step that replaces question and answer of a pair; `gives` includes both."""

    Settings: ClassVar[type[StepSettings]] = RephraseSettings
    adds = "output"
    needs = PAIR

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        self._examples: Examples | None = None

    def variables(self, item: Item) -> dict[str, Any]:
        """The pair, its verified quotes where it has any, and the examples."""
        pair = pair_variables(item)
        query, number = f"{pair['question']} {pair['answer']}", self.settings.examples
        examples = [] if self._examples is None else self._examples.like(query, number)
        quotes = [clean_text(quote, TEXT_LENGTH) for quote in quotes_of(item.output)]
        return {**pair, "examples": examples, "quotes": quotes}

    def request(self, item: Item, attempt: int, turn: int = 0) -> Request:
        """The request; the first call reads the benchmark, because prompts are checked without it."""
        if self._examples is None and self.settings.benchmark:
            self._examples = Examples(Path(self.settings.benchmark))
        return super().request(item, attempt, turn)


def quotes_of(fields: dict[str, Any]) -> list[str]:
    """The verified quotes of a pair's documents, best document first, each once."""
    documents = fields.get("documents") or []
    quotes = [quote["text"] for document in documents for quote in document.get("snippets") or []]
    return list(dict.fromkeys(quotes))


def replaced(item: Item, question: str, answer: str, **more: Any) -> dict[str, Any]:
    """The item's fields with a new question and answer; the previous pair becomes source_question and source_answer."""
    source = {"source_question": item.output["question"], "source_answer": item.output["answer"]}
    return {**item.output, **source, "question": question, "answer": answer, **more}


WRONG = 4
_SUMMARY = re.compile(
    r"\b(?:all|none|any|both|neither)(?: of)? (?:the )?(?:above|these|options|answers|others)\b"
    r"|\b(?:both )?(?:options? )?[a-e] (?:and|or) [a-e]\b"
)
_SMALL = {"a", "an", "the", "of", "in", "and", "to", "by"}


class RephraseMedqa(Rephrase):
    """Turns a pair into a case with five options in random order; `correct_option` is the right one's index, from 0."""

    name = "rephrase_medqa"
    default_prompt = "rephrase_medqa"
    answer = {"question": "string", "correct": "string", "wrong": "array", "reasoning": "string|array"}
    gives = ("question", "answer", "options", "correct_option", "reasoning")
    example = {"options": ["One.", "Two.", "Three.", "Four.", "Five."], "correct_option": 0}
    columns = (
        *SOURCE,
        Column("options", ["string"], "The five options in their order."),
        Column("correct_option", "int64", "Position of the right option, from 0."),
        Column("reasoning", "string", "Why each option is right or wrong, in the order of the options."),
    )

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        """Replace the pair by the question with its options in drawn order."""
        right, wrong, reasons = answer["correct"], answer["wrong"], answer["reasoning"]
        trouble = options_trouble(right, wrong)
        if isinstance(reasons, list) and len(reasons) != WRONG + 1:
            trouble = trouble or "number of reasons"
        if trouble:
            return Retry(trouble, lost_as="invalid")
        # The order depends only on the seed, the item and the options' texts.
        seed = f"{self.context.run_seed}/{item.id}/{self.label}"
        options = sorted([right, *wrong], key=lambda text: short_digest(f"{seed}/{text}"))
        if isinstance(reasons, list):
            reason_of = dict(zip([right, *wrong], reasons, strict=True))
            lettered = zip(ascii_uppercase, options, strict=False)
            reasons = "\n".join(f"{letter}. {option}: {reason_of[option]}" for letter, option in lettered)
        drawn = {"options": options, "correct_option": options.index(right), "reasoning": reasons}
        item.output = replaced(item, answer["question"], right, **drawn)
        return Done()


class RephraseMedqaGraph(RephraseMedqa):
    """Turns a pair into a case with five options whose wrong ones come from the graph (`anchors.distractors: graph`).

    The model writes no options.
    """

    name = "rephrase_medqa_graph"
    default_prompt = "rephrase_medqa_graph"
    answer = {"question": "string", "reasoning": "string|array"}

    def asks_about(self, item: Item) -> bool:
        data = item.anchor.data
        return "wrong" in data and options_trouble(data["right"], data["wrong"]) is None

    def compute(self, item: Item) -> Outcome:
        """Reject a pair for which the graph has no usable options."""
        return Reject(f"{self.label}: no options in the graph")

    def variables(self, item: Item) -> dict[str, Any]:
        """In addition: the names of the `right` option and of the `wrong` ones."""
        data = item.anchor.data
        return {**super().variables(item), "right": data.get("right", ""), "wrong": data.get("wrong", [])}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        data = item.anchor.data
        return super().accept(item, {**answer, "correct": data["right"], "wrong": data["wrong"]})


def options_trouble(right: str, wrong: Sequence[str]) -> str | None:
    """A problem of the options that is visible without a model; None if there is none."""
    if len(wrong) != WRONG:
        return "number of options"
    forms = []
    for option in (right, *wrong):  # words sorted: options with the same words are alike
        words = re.findall(r"\w+", plain(option))
        forms.append(tuple(sorted(word for word in words if word not in _SMALL)))
    if not all(forms):
        return "empty option"
    if len(set(forms)) < len(forms):
        return "options alike"
    if any(_SUMMARY.search(plain(option)) for option in (right, *wrong)):
        return "option about options"
    return None


DECISIONS = ("yes", "no", "maybe")
# Beginnings of questions without a yes or no; none of the benchmark's 1,000 labelled questions has one.
_OPEN = re.compile(r"(?:what|which|who|whom|whose|when|where|why|how)\b", re.IGNORECASE)


class PubmedqaSettings(RephraseSettings):
    """Settings of the step rephrase_pubmedqa: three examples by default, as published."""

    examples: int = Field(3, ge=0, le=20, description="Examples in each prompt.")


class RephrasePubmedqa(Rephrase):
    """Turns a pair into a question for yes, no or maybe (`final_decision`); the answer is the long answer."""

    name = "rephrase_pubmedqa"
    Settings = PubmedqaSettings
    default_prompt = "rephrase_pubmedqa"
    answer = {"question": "string", "long_answer": "string", "final_decision": "string"}
    gives = ("question", "answer", "final_decision", "context")
    example = {"final_decision": "yes", "context": "A sentence of an article."}
    columns = (
        *SOURCE,
        Column("final_decision", "string", "yes, no or maybe."),
        Column("context", "string", "Verified quotes that the question is answered from; empty without any."),
    )

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        decision = answer["final_decision"].strip().lower()
        if decision not in DECISIONS:
            return Retry("decision", lost_as="invalid")
        if _OPEN.match(answer["question"]) or not answer["question"].endswith("?"):
            return Retry("no yes-or-no question", lost_as="invalid")
        context = " ".join(quotes_of(item.output))
        fields = {"final_decision": decision, "context": context}
        item.output = replaced(item, answer["question"], answer["long_answer"], **fields)
        return Done()


Line = Callable[[str, int, dict[str, Any]], dict[str, Any]]
_BESIDE_ENDINGS = ("id", "sent1", "sent2", "label")


class LinkbertMedqa:
    """Lines with id, sent1 (question), sent2 (empty), ending0 … ending4, and label (number of the right ending)."""

    name = "linkbert-medqa"

    def write(self, source: ExportSource, folder: Path) -> None:
        """Raises InputError for records without options or with different numbers of options.

        LinkBERT's loader expects the endings of train.json in every record and reads a missing one as "None".
        """
        numbers = {len(line) - len(_BESIDE_ENDINGS) for _, line in _written(source, folder, self._line)}
        if len(numbers) > 1:
            many = " and ".join(map(str, sorted(numbers)))
            raise InputError(f"records have {many} options", "export those with one number of options")

    def _line(self, split: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
        options, label = record.get("options"), record.get("correct_option")
        if not options or label is None or not 0 <= label < len(options):
            problem = f"{record['id']} has no options with a right one"
            raise InputError(problem, "the step rephrase_medqa adds them")
        endings = {f"ending{position}": option for position, option in enumerate(options)}
        texts = {"id": f"{split}-{number:05d}", "sent1": record["question"], "sent2": ""}
        return {**texts, **endings, "label": label}


class LinkbertPubmedqa:
    """Lines with id, sentence1 (question), sentence2 (context), and label (yes, no or maybe)."""

    name = "linkbert-pubmedqa"

    def write(self, source: ExportSource, folder: Path) -> None:
        """Raises InputError for records without a decision, or for a decision that no record of train has.

        LinkBERT's loader numbers the labels in train.json and fails at a label that is not there.
        """
        labels = {(split, line["label"]) for split, line in _written(source, folder, self._line)}
        if missing := {label for _, label in labels if (TRAIN, label) not in labels}:
            problem = f"no record of train says {' or '.join(sorted(missing))}"
            raise InputError(problem, "give train a larger share, or export more records")

    def _line(self, split: str, number: int, record: dict[str, Any]) -> dict[str, Any]:
        if not record.get("final_decision"):
            raise InputError(f"{record['id']} has no yes, no or maybe", "the step rephrase_pubmedqa adds it")
        texts = {"sentence1": record["question"], "sentence2": record["context"]}
        return {"id": record["id"], **texts, "label": record["final_decision"]}


def _written(source: ExportSource, folder: Path, line_of: Line) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the file of each part of the split; yields the part and the line of every record."""
    for split in source.splits:
        with (folder / f"{split}.json").open("wb") as file:
            for number, record in enumerate(source.records(split)):
                line = line_of(split, number, record)
                file.write(orjson.dumps(line) + b"\n")
                yield split, line
