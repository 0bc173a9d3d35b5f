"""Write a question and its answer from an anchor (`generate`), or a question whose answer is known (`word`).

Questions from sentences, without a model: `word: {template: ...}`.

    template:
      associated_with:
        forward: "Which disease is associated with {given}?"     # {given} is the edge's source
        backward: "Which gene is associated with {given}?"       # {given} is the edge's target
      treats: "Which {asked} has to do with {given}?"            # the same in both directions

The question of a path nests the templates of its edges: every "Which TYPE REST?" but the outermost becomes "a TYPE that
REST", as in "Which gene is associated with a disease that has the phenotype Ataxia?".
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from kgqa_hpc.errors import PromptError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.settings import Settings, StepSettings, later_key
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step

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


def _both(value: Any) -> Any:
    return {"forward": value, "backward": value} if isinstance(value, str) else value


Sentences = dict[str, Annotated[BothWays, BeforeValidator(_both)]]


def shipped_sentences(value: Any) -> Any:
    """Question templates of a bundled graph, if `value` is its name; other values unchanged. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if value not in SHIPPED:
        raise ValueError(
            f"no shipped template {value!r}{did_you_mean(value, SHIPPED)}; there are {', '.join(SHIPPED)}"
        )
    return SHIPPED[value]


def way_of(variables: Mapping[str, Any]) -> Way | None:
    """The edges from the given node to the answer, from the variables of an anchor kind; None for kinds without."""
    way: Way | None = variables.get("way")
    if way is None and {"relation", "out", "asked"} <= variables.keys():
        return [("", variables["relation"], variables["out"], variables["asked"])]
    return way


def question(sentences: Mapping[str, BothWays], known_name: str, way: Way) -> str | None:
    """The question about `given` over the edges of `way`; None if a template is missing or cannot be nested."""
    subject = known_name
    for number, (_, relation, out, asked) in enumerate(way):
        kind, both_ways = asked.replace("_", " "), sentences.get(relation)
        sentence = None if both_ways is None else both_ways.forward if out else both_ways.backward
        if sentence is None:
            return None
        text = sentence.replace("{asked}", kind).replace("{relation}", relation.replace("_", " "))
        if number == len(way) - 1:
            return text.replace("{given}", subject)
        head = f"Which {kind} "
        if not text.startswith(head):
            return None
        clause = text.removeprefix(head).rstrip().removesuffix("?").rstrip()
        subject = f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind} that {clause.replace('{given}', subject)}"
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


Template = Annotated[
    Sentences, BeforeValidator(shipped_sentences, json_schema_input_type=str | dict[str, Any])
]


class WordSettings(StepSettings):
    """Settings of the step word: a prompt for a model, or a template."""

    template: Template | None = later_key("Question template for each relation, or hpo; replaces the prompt.")


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
        if settings.template is not None and way_of(kind.variables(kind.sample)) is None:
            raise PromptError(
                f"step {self.label}: anchors of kind {kind.name} cannot be worded by a template",
                "templates word kinds fact and path; give this kind a prompt",
            )

    @classmethod
    def asks_with(cls, settings: Any) -> bool:
        return settings.template is None

    @classmethod
    def notes_on(cls, settings: Any, relations: Collection[str]) -> Iterator[str]:
        for name in settings.template or ():
            if name not in relations:
                hint = did_you_mean(name, relations)
                yield f"{settings.label}.template: {name} is no relation of the graph{hint}"

    def compute(self, item: Item) -> Outcome:
        """Fill the template with the node's name as the graph spells it."""
        way = way_of(self.context.kind.variables(item.anchor)) or []
        text = question(self.settings.template, item.anchor.nodes[0].name, way)
        if text is None:
            edges = (f"{relation} {'forward' if out else 'backward'}" for _, relation, out, _ in way)
            return Reject(f"{self.label}: no sentence for {', then '.join(edges)}")
        item.output = {**item.output, "question": text}
        return Done()

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        item.output = {**item.output, "question": self.context.kind.worded(item.anchor, answer["question"])}
        return Done()
