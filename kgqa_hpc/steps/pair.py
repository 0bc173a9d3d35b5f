"""Steps on a pair of question and answer: write it (`generate`), word the question of a known answer (`word`), ask a
model whether it is correct (`judge`) or how good it is (`score`).

A judge never changes the texts of the pair. A score rejects only with a `minimum`; the six criteria of the prompt study
(BioGraphletQA, section 3.2.1) are six `score` steps.

Questions from sentences, without a model: `word: {template: ...}`.

    template:
      associated_with:
        forward: "Which disease is associated with {given}?"     # {given} is the edge's source
        backward: "Which gene is associated with {given}?"       # {given} is the edge's target
      treats: "Which {asked} has to do with {given}?"            # with graph.symmetric_edge_types

The question of a path nests the templates of its edges: every "Which TYPE REST?" but the outermost becomes "a TYPE that
REST", as in "Which gene is associated with a disease that has the phenotype Ataxia?".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import Response
from kgqa_hpc.errors import PromptError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.settings import Settings, StepSettings, later_key
from kgqa_hpc.steps.decision import first_false
from kgqa_hpc.steps.item import PAIR, Item, choices_of, with_choices
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step
from kgqa_hpc.text.plain_text import TEXT_LENGTH, clean_name, clean_text

# Edges as (type of the start, relation, whether the edge points away from it, type of the end).
Way = Sequence[tuple[str, str, bool, str]]

SHIPPED: dict[str, dict[str, Any]] = {
    "hpo": {
        "associated_with": {
            "forward": "Which disease is associated with {given}?",
            "backward": "Which gene is associated with {given}?",
        },
        "has_phenotype": {
            "forward": "Which phenotype is a feature of {given}?",
            "backward": "Which disease has the phenotype {given}?",
        },
        "is_a": {
            "forward": "Which phenotype includes {given} as a more specific term?",
            "backward": "Which phenotype is a more specific term for {given}?",
        },
    }
}


def _has_given(text: str | None) -> str | None:
    if text is not None and (text.count("{given}") != 1 or not text.rstrip().endswith("?")):
        raise ValueError("must be a question with {given} once, such as Which gene causes {given}?")
    return text


Sentence = Annotated[str | None, AfterValidator(_has_given)]


class BothWays(Settings):
    """Question templates of one relation, for both directions."""

    forward: Sentence = Field(None, description="Question template if the given node is the edge's source.")
    backward: Sentence = Field(None, description="Question template if the given node is the edge's target.")


def _shipped(value: Any) -> Any:
    """The question templates of the bundled graph that `value` names; a value that is no text is unchanged.

    Raises ValueError for an unknown name.
    """
    if not isinstance(value, str):
        return value
    if value not in SHIPPED:
        raise ValueError(
            f"no shipped template {value!r}{did_you_mean(value, SHIPPED)}; there are {', '.join(SHIPPED)}"
        )
    return SHIPPED[value]


_BOTH_ALIKE = BeforeValidator(
    lambda text: {"forward": text, "backward": text} if isinstance(text, str) else text
)
Template = Annotated[
    dict[str, Annotated[BothWays, _BOTH_ALIKE]],
    BeforeValidator(_shipped, json_schema_input_type=str | dict[str, Any]),
]


def way_of(variables: Mapping[str, Any]) -> Way | None:
    """The edges from the given node to the answer, from the variables of an anchor kind; None for kinds without."""
    way: Way | None = variables.get("way")
    if way is None and {"relation", "out", "asked"} <= variables.keys():
        return [("", variables["relation"], variables["out"], variables["asked"])]
    return way


def question(sentences: Mapping[str, BothWays], known_name: str, way: Way) -> str | None:
    """The question about `given` over the edges of `way`; None if a template is missing or cannot be nested.

    A nested phrase brings its own article: "the {given}" becomes "a river that flows through Austria". The nodes of a
    path differ, so a type that comes again is "another TYPE", or at the end "Which other TYPE".
    """
    subject, types = known_name, [way[0][0]] if way else []
    for number, (_, relation, out, asked) in enumerate(way):
        kind, both_ways = asked.replace("_", " "), sentences.get(relation)
        sentence = None if both_ways is None else both_ways.forward if out else both_ways.backward
        if sentence is None:
            return None
        text = sentence.replace("{asked}", kind).replace("{relation}", relation.replace("_", " "))
        head, again = f"Which {kind} ", number > 0 and asked in types
        if number > 0:
            text = re.sub(r"\b(?:the|an?) \{given\}", "{given}", text)
        if (again or number < len(way) - 1) and not text.startswith(head):
            return None
        if number == len(way) - 1:
            text = f"Which other {kind} {text.removeprefix(head)}" if again else text
            return text.replace("{given}", subject)
        clause = text.removeprefix(head).rstrip().removesuffix("?").rstrip().replace("{given}", subject)
        subject = f"{'another' if again else 'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind} that {clause}"
        types.append(asked)
    return None


# Fields of reasoning before the answer; only the trace keeps them, in its raw text (docs/guide/prompts.md).
THINKING = ("analysis", "decline_reason", "worth_asking", "draft_question", "draft_answer", "reflection")


class Generate(Step):
    """Fills the record's question and answer, and all further fields of its prompt."""

    name = "generate"
    default_prompt = "p5"
    answer = {"question": "string", "answer": "string"}
    adds = "output"
    gives = ("question", "answer")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {name: value for name, value in answer.items() if name not in THINKING}
        return Done()


class WordSettings(StepSettings):
    """Settings of the step word: a prompt for a model, or a template."""

    template: Template | None = later_key("Question template of each relation, or hpo; replaces the prompt.")


class Word(Step):
    """Fills the record's question; the answer comes from the anchor kind and stays unchanged."""

    name = "word"
    Settings = WordSettings
    answer = {"question": "string"}
    adds = "output"
    gives = ("question",)
    needs = ("answer",)

    def __init__(self, settings: Any, prompt: Any, context: Any) -> None:
        super().__init__(settings, prompt, context)
        kind = context.kind
        # Templates by the cleaned names of relations, as they stand in the variables of an anchor.
        self._sentences = {clean_name(name): text for name, text in (settings.template or {}).items()}
        if settings.template is not None and way_of(kind.variables(kind.sample)) is None:
            raise PromptError(
                f"step {self.label}: anchors of kind {kind.name} cannot be worded by a template",
                "templates word kinds fact and path; give this kind a prompt",
            )

    @classmethod
    def asks_with(cls, settings: Any) -> bool:
        return settings.template is None

    @classmethod
    def notes_on(cls, settings: Any, relations: Mapping[str, set[str]]) -> Iterator[str]:
        for name, both_ways in (settings.template or {}).items():
            facts = relations.get(name, set())
            sentences = (("forward", both_ways.forward), ("backward", both_ways.backward))
            if vague := [way for way, text in sentences if way in facts and text and "{asked}" not in text]:
                yield (
                    f"{settings.label}.template: {name} {' and '.join(vague)} leads to several types of nodes, each"
                    " with answers of its own: write {asked} for the type"
                )
            if "mixed" in facts and both_ways.forward == both_ways.backward:
                yield (
                    f"{settings.label}.template: {name} has the same sentence for both directions, but its answers are"
                    " those of one: name it in graph.symmetric_edge_types"
                )
            if name not in relations:
                hint = did_you_mean(name, relations)
                yield f"{settings.label}.template: {name} is no relation of the graph{hint}"

    def compute(self, item: Item) -> Outcome:
        """Fill the template with the node's name as the graph spells it."""
        way = way_of(self.context.kind.variables(item.anchor)) or []
        text = question(self._sentences, item.anchor.nodes[0].name, way)
        if text is None:
            edges = (f"{relation} {'forward' if out else 'backward'}" for _, relation, out, _ in way)
            return Reject(f"{self.label}: no sentence for {', then '.join(edges)}")
        item.output = {**item.output, "question": text}
        return Done()

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {**item.output, "question": self.context.kind.worded(item.anchor, answer["question"])}
        return Done()


class JudgeSettings(StepSettings):
    """Settings of the step judge."""

    gate: bool = Field(False, description="Reject an item at once if this judge objects.")


class Judge(Step):
    """A verdict on question and answer; it approves if all its booleans are true (BioGraphletQA, section 3.3)."""

    name = "judge"
    Settings = JudgeSettings
    default_prompt = "filter"
    answer = {"valid_question": "boolean", "original_answer_valid": "boolean"}
    adds = "verdict"
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        return pair_variables(item)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        super().accept(item, answer)
        objection = self.objection(answer)
        if objection and self.settings.gate:
            return Reject(f"{self.label}: {objection}")
        return Done()

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        if not verdict.get("valid_question"):
            return "invalid question"
        return first_false(verdict) if verdict.get("original_answer_valid") else "invalid answer"


def pair_variables(item: Item) -> dict[str, Any]:
    """The prompt variables of a judge: question (with its options, if any) and answer, each on one line."""
    question = with_choices(item.output["question"], choices_of(item.output), " ")
    return {
        "question": clean_text(question, TEXT_LENGTH),
        "answer": clean_text(item.output["answer"], TEXT_LENGTH),
    }


UNREADABLE = "unreadable"  # annotation with the labels of the scores that could not be parsed


class ScoreSettings(StepSettings):
    """Settings of the step score."""

    minimum: float | None = Field(
        None, description="Reject items below this score; default: reject none. A boolean counts as 0 or 1."
    )
    inverted: bool = Field(False, description="Invert a boolean score: false counts as 1.")
    unreadable: float | None = Field(
        None, description="Score of an unreadable answer, instead of losing the item (one attempt)."
    )


class Score(Step):
    """The number or boolean `score` of the answer as a filterable column with the name of the step."""

    name = "score"
    Settings = ScoreSettings
    answer = {"score": "boolean|integer|number"}
    adds = "column"
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        return pair_variables(item)

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        value = float(answer["score"])
        if self.settings.inverted:
            value = 1.0 - value
        minimum = self.settings.minimum
        if minimum is not None and value < minimum:
            item.annotations[self.label] = value
            return Reject(f"{self.label}: below {minimum:g}")
        return Done(**{self.label: value})

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        outcome = super().take(item, response, attempt, turn)
        if (
            isinstance(outcome, Retry)
            and outcome.lost_as == "invalid"
            and self.settings.unreadable is not None
        ):
            item.features[self.label] = self.settings.unreadable
            item.annotations.setdefault(UNREADABLE, []).append(self.label)
            return Done()
        return outcome

    @classmethod
    def columns_for(cls, settings: ScoreSettings) -> tuple[Column, ...]:
        return (Column(settings.label, "double", f"Score of the step {settings.label}.", filterable=True),)
