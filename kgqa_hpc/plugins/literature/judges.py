"""Judges of texts that a model wrote from documents: pairs of an abstract, options of a question, answers of yes, no or
maybe; and type and form of a question.

Each verdict has several criteria, which all must hold.

The judge of an abstract's pairs sees a pair with its names, as the document has them. Three judges of different
families that must agree are a panel: three such steps over the records of a finished run, with
`dataset.decide: {rule: all}`.

Type and form of a question are columns of its record, by a rule (`question_type`) and by a judge
(`judged_question_type`). The types are those that QAProt counts over its 140 instances (section 3): function and
structure, interactions, localization and expression, disease associations, comparisons. The rule takes the first type,
in the order below, of which a word occurs, so that a comparison of functions is a comparison; without such a word the
type is `other`. The judge chooses among the same types, for `kgqa panel --column question_type --column
judged_question_type`. It rejects nothing: a question with an unreadable verdict has no type.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.plugins.literature.extract import Scope, kept
from kgqa_hpc.prompts.files import MOST
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.decision import first_false
from kgqa_hpc.steps.item import PAIR, Item, choices_of
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, Step
from kgqa_hpc.text.plain_text import TEXT_LENGTH, clean_text

_DOCUMENT = 20_000  # characters of a document that a prompt shows


class JudgeCriteria(Step):
    """A verdict by several criteria, which all must hold; `criteria` maps each to the objection where it does not.

    An item without the text that is judged is rejected, with `without` as the reason.
    """

    adds = "verdict"
    criteria: ClassVar[dict[str, str]]
    without: ClassVar[str]

    def compute(self, item: Item) -> Outcome:
        return Reject(f"{self.label}: {self.without}")

    def variables(self, item: Item) -> dict[str, Any]:
        """The fields in `needs`, as prompt texts."""
        return {name: clean_text(item.output[name], TEXT_LENGTH) for name in self.needs}

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        missed = next((words for name, words in cls.criteria.items() if not verdict[name]), None)
        return missed or first_false(verdict)


class SupportSettings(StepSettings):
    """Settings of the step judge_support: the scope from which a pair must be answerable."""

    scope: Scope = "any"


class JudgeSupport(JudgeCriteria):
    """Verdict on a record and its document by three criteria, which all must hold (QAProt, 3.4)."""

    name = "judge_support"
    Settings = SupportSettings
    default_prompt = "judge_support"
    criteria = {
        "supported": "not supported",
        "answerable": "not answerable",
        "entities_match": "other entities",
    }
    answer = dict.fromkeys(criteria, "boolean")
    needs = PAIR
    without = "no text"  # the record's source did not keep that of its document

    def asks_about(self, item: Item) -> bool:
        return bool(_document_text(item))

    def variables(self, item: Item) -> dict[str, Any]:
        fields = item.output
        pair = {name: fields.get(f"{name}_with_names") or fields[name] for name in PAIR}
        about = {name: fields.get(name) or "" for name in ("protein", "organism")}
        return {
            **{name: clean_text(text, TEXT_LENGTH) for name, text in {**pair, **about}.items()},
            "text": clean_text(_document_text(item), _DOCUMENT),
            "scope": self.settings.scope,
        }


def _document_text(item: Item) -> str:
    """The text of an item's document, from its record or else from its anchor; "" without one."""
    document = item.anchor.data.get("document") or {}
    return item.output.get("document_text") or document.get("text") or ""


class JudgeOptions(JudgeCriteria):
    """Verdict on the options: the right one follows from the source pair, if there is one, and no other is right."""

    name = "judge_options"
    default_prompt = "judge_options"
    criteria = {"entailed": "right option not entailed", "only_one": "another option is right"}
    answer = dict.fromkeys(criteria, "boolean")
    needs = PAIR
    without = "no options"

    def asks_about(self, item: Item) -> bool:
        return bool(choices_of(item.output))

    def variables(self, item: Item) -> dict[str, Any]:
        fields = item.output
        texts = {name: fields.get(name, "") for name in ("source_question", "source_answer", *PAIR)}
        return {
            **{name: clean_text(text, TEXT_LENGTH) for name, text in texts.items()},
            "options": [clean_text(option, TEXT_LENGTH) for option in choices_of(fields).values()],
        }


class JudgeDecision(JudgeCriteria):
    """Verdict on an answer of yes, no or maybe: decision and long answer follow from the context."""

    name = "judge_decision"
    default_prompt = "judge_decision"
    criteria = {
        "decision_follows": "decision does not follow",
        "long_answer_follows": "long answer does not follow",
    }
    answer = dict.fromkeys(criteria, "boolean")
    needs = (*PAIR, "final_decision", "context")
    without = "no context"

    def asks_about(self, item: Item) -> bool:
        return bool(item.output.get("context"))


# Types with the beginnings of their typical words.
_BEGINNINGS = {
    "comparison": "compare compari comparat differ distinguish versus similarit unlike contrast",
    "disease": "disease disorder syndrome cancer tumo patient therap treat clinic patholog symptom risk diagnos",
    "localization": "locali located location subcellular compartment membrane nucleus",
    "expression": "express transcri upregulat downregulat mrna tissue induced",
    "interaction": "interact bind bound partner complex receptor ligand associat",
    "structure": "structur domain motif fold residue sequence amino helix subunit length molecular conserved",
    "function": "function role activit cataly regulat mechanism pathway involved effect",
}
TYPES = {name: tuple(words.split()) for name, words in _BEGINNINGS.items()}
OTHER = "other"
CHOICES = (*TYPES, OTHER)
_FORMS = ("what", "which", "how", "why", "where", "when", "who")
# Verbs that begin a question of yes or no.
_VERBS = "is are was were do does did can could may might will would has"
_WORD = re.compile(r"[^\W\d_]+")


def question_type(question: str) -> str:
    """One of TYPES, or OTHER."""
    words = _WORD.findall(question.lower())
    for name, beginnings in TYPES.items():
        if any(word.startswith(beginnings) for word in words):
            return name
    return OTHER


def question_form(question: str) -> str:
    """The first of what, which, how … in the question; `yes/no` where it begins with a verb; or OTHER."""
    words = _WORD.findall(question.lower())
    if words and words[0] in _VERBS.split():
        return "yes/no"
    return next((word for word in words if word in _FORMS), OTHER)


class QuestionType(Step):
    """Adds type and form of the question to each record, by rule."""

    name = "question_type"
    adds = "column"
    needs = ("question",)
    columns = (
        Column("question_type", "string", f"What it asks for, by rule: {', '.join(CHOICES)}."),
        Column("question_form", "string", f"Its form: {', '.join(_FORMS)}, yes/no or {OTHER}."),
    )

    def compute(self, item: Item) -> Outcome:
        pairs = [(item.annotations, item.output)] if item.records is None else [(r, r) for r in item.records]
        for columns, fields in pairs:
            question = fields["question"]
            columns.update(question_type=question_type(question), question_form=question_form(question))
        return Done()


class JudgedQuestionType(Step):
    """Adds the type of the question to each record, by a model; the column has the step's name."""

    name = "judged_question_type"
    default_prompt = "question_type"
    answer = {"question_type": "string"}
    adds = "column"
    needs = ("question",)
    turns = MOST  # one request per pair; an answer lists at most so many pairs

    def asks_about(self, item: Item) -> bool:
        return bool(_records(item))

    def compute(self, item: Item) -> Outcome:
        """End the step for an item without records."""
        return Done()

    def variables(self, item: Item) -> dict[str, Any]:
        record = _records(item)[item.state.get("typed", 0)]
        return {"question": clean_text(record.get("question") or "", TEXT_LENGTH)}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        if answer["question_type"] not in CHOICES:
            return Retry("not_allowed:question_type", lost_as="invalid")
        return self._typed(item, answer["question_type"])

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        outcome = super().take(item, response, attempt, turn)
        unreadable = isinstance(outcome, Retry) and outcome.lost_as == "invalid"
        return self._typed(item, None) if unreadable else outcome

    def _typed(self, item: Item, type_name: str | None) -> Outcome:
        records, typed = _records(item), item.state.get("typed", 0)
        records[typed][self.label] = type_name
        item.state["typed"] = typed + 1
        return Ask() if typed + 1 < len(records) else Done()

    @classmethod
    def columns_for(cls, settings: StepSettings) -> tuple[Column, ...]:
        text = f"Type of the question, by a judge: {', '.join(CHOICES)}."
        return (Column(settings.label, "string", text),)


def _records(item: Item) -> list[dict[str, Any]]:
    """The single record of an item, or those of its records that are kept."""
    return [item.output] if item.records is None else kept(item)
