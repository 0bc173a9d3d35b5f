"""The symbolic gate: what can be said against a pair without asking a model.

Every fact is kept as a feature of the item; which of them reject is configuration. It answers the paper's
limitation that nothing guarantees the use of the graphlet (BioGraphletQA, Limitations). Exact duplicates are found by
merge, which alone sees all pairs of a run (`dataset.duplicates`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.prompt import Prompt
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step, StepContext
from kgqa_hpc.steps.wording import graph_words, is_copied, rows_of

Rule = Literal[
    "same_text",
    "no_question",
    "no_sentence",
    "answer_leak",
    "few_nodes",
    "few_hops",
    "graph_words",
    "copied_example",
]
RULES: tuple[Rule, ...] = get_args(Rule)
USUAL: tuple[Rule, ...] = ("same_text", "no_question", "no_sentence", "answer_leak", "few_nodes")
_ENDS = (".", "!", "?", "…", '."', ".”", ".)", "]")


class CheckSettings(StepSettings):
    """Which facts reject."""

    reject: list[Rule] = Field(
        default_factory=lambda: list(USUAL), description="Facts that reject; the others are only recorded."
    )
    nodes: int = Field(2, ge=0, description="few_nodes: fewer named nodes of the anchor than so many.")
    hops: int | None = Field(
        None,
        ge=1,
        exclude_if=lambda value: value is None,
        description="few_hops: fewer hops than so many from the question to what only the answer names; default 1.",
    )
    aliases: str | None = Field(
        None,
        exclude_if=lambda value: value is None,
        description="A TSV file with a name and another name of the same node in each line.",
    )
    paths = ("aliases",)


class Check(Step):
    """Computes facts about a pair and rejects it for those that are configured."""

    name = "check"
    Settings = CheckSettings
    adds = "feature"
    needs = PAIR
    sees_instructions = True
    columns = (
        Column("nodes_used", "int64", "Nodes of the anchor that question and answer name together."),
        Column("node_share", "double", "The same as a share of the anchor's nodes."),
        Column("question_nodes", ["int64"], "Positions of the nodes that the question names."),
        Column("answer_nodes", ["int64"], "Positions of the nodes that the answer names."),
        Column("hops", "int64", "Most hops from the question's nodes to one that only the answer names."),
        Column("answer_leak", "bool", "Whether the question gives the answer away."),
        Column("graph_words", ["string"], "Words of the pair that speak of a graph."),
        Column(
            "copied_example", "bool", "Whether eight words in a row stand in the prompt that asked for it."
        ),
    )

    def __init__(self, settings: Any, prompt: Prompt | None, context: StepContext) -> None:
        super().__init__(settings, prompt, context)
        self._aliases = _read_aliases(Path(settings.aliases)) if settings.aliases else None
        self._shown = rows_of(context.instructions)

    def compute(self, item: Item) -> Outcome:
        question, answer = item.output["question"], item.output["answer"]
        kind, known = self.context.kind, (() if self._aliases is None else (self._aliases,))
        facts = {
            **kind.facts(item.anchor, item.output, *known),
            "graph_words": graph_words(question, answer, [node.name for node in item.anchor.nodes]),
            "copied_example": is_copied([question, answer], self._shown),
        }
        item.features |= facts
        found = _findings(question, answer, facts, self.settings)
        for rule in RULES:
            if rule in found and rule in self.settings.reject:
                return Reject(f"{self.label}: {rule.replace('_', ' ')}")
        return Done()


def _read_aliases(path: Path) -> dict[str, list[str]]:
    """Other names by name. Raises InputError with file and line."""
    found: dict[str, list[str]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(
            f"{path}: cannot be read: {problem}", "a UTF-8 file: NAME, tab, OTHER NAME"
        ) from None
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise InputError(
                f"{path} line {number:,}: is not a name, a tab and another name", "mend or remove it"
            )
        found.setdefault(cells[0], []).append(cells[1])
    return found


class Verify(Step):
    """Rejects what the anchor kind objects to, with its reason."""

    name = "verify"
    adds = "annotation"
    needs = PAIR

    def compute(self, item: Item) -> Outcome:
        objection = self.context.kind.objection(item.anchor, item.output)
        return Done() if objection is None else Reject(f"{self.label}: {objection}")


def _findings(question: str, answer: str, facts: dict[str, Any], settings: CheckSettings) -> set[str]:
    found = set()
    if question.casefold().strip(" ?.!") == answer.casefold().strip(" ?.!"):
        found.add("same_text")
    if not question.endswith("?"):
        found.add("no_question")
    if not answer.endswith(_ENDS) or answer.endswith("?"):
        found.add("no_sentence")
    if facts.get("answer_leak"):
        found.add("answer_leak")
    if facts.get("nodes_used", settings.nodes) < settings.nodes:
        found.add("few_nodes")
    if "hops" in facts and (facts["hops"] or 0) < (settings.hops or 1):
        found.add("few_hops")
    return found | {rule for rule in ("graph_words", "copied_example") if facts.get(rule)}
