"""Steps without a model: checks of a pair (`check`, `verify`, `keep`), and steps from functions (`@kgqa_hpc.step`).

Every fact becomes a feature of the item; the configuration says which facts reject it. The checks address the paper's
limitation that nothing guarantees the use of the graphlet (BioGraphletQA, Limitations). Merge finds exact duplicates,
because only merge reads all pairs of a run (`dataset.duplicates`). The list of graph terms contains only words with
hardly any other meaning; the paper's criterion "graphlet-based terminology" (section 3.2.1) asks a model instead.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.family import SOURCES
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column, Type
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.prompt import Prompt
from kgqa_hpc.settings import StepSettings, later_key
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import PAIR, Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step, StepContext
from kgqa_hpc.text.streams import text_lines

COPIED = 8  # length in words of a sequence that hardly occurs twice by chance

# "node", "edge" and "connection" also occur in anatomy, together with another anatomical word. The paper names
# "connections" as its most frequent fault; 39 of its 116 rated pairs mention a graph in these words.
_GRAPH = re.compile(
    r"\b(?:knowledge graph|(?:sub)?graph(?:let)?s?|vertex|vertices|triples?"
    r"|(?<!lymph )(?<!sinus )(?<!sinoatrial )(?<!sa )(?<!av )(?<!atrioventricular )(?<!sentinel )nodes?(?! of ranvier)"
    r"|nodes and edges|(?:by|via|through|an|the|which|two|three|[2-9]) edges?(?! of)"
    r"|edges? (?:between|joins?|connects?|links?)|multi hop|(?:one|two|three|four|[0-9]) hops?"
    r"|(?<!neural )(?<!neuronal )(?<!synaptic )(?<!vascular )(?<!venous )(?<!brain )connections?"
    r"|(?:directly|indirectly) connected|(?:in|of) the (?:network|path|provided data))\b"
)
_NUMBER = re.compile(r"(?<=\w) ?\((?:node )?[0-9]\)")  # node numbers of the prompt, as in "Ethanol (1)"


def graph_words(question: str, answer: str, names: Iterable[str]) -> list[str]:
    """Distinct words and signs of a pair that refer to a graph or a source, except those inside node names."""
    text = plain(f"{question}\n{answer}")
    for name in sorted(map(plain, names), key=len, reverse=True):
        text = text.replace(name, "something")
    matches = chain.from_iterable(pattern.finditer(text) for pattern in (_GRAPH, _NUMBER, SOURCES))
    return list(dict.fromkeys(match[0].strip() for match in matches))


def rows_of(texts: Iterable[str]) -> frozenset[tuple[str, ...]]:
    """All sequences of COPIED consecutive words in the texts, as a set."""
    every = (re.findall(r"\w+", plain(text)) for text in texts)
    return frozenset(
        tuple(words[start : start + COPIED]) for words in every for start in range(len(words) - COPIED + 1)
    )


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
USUAL: tuple[Rule, ...] = ("same_text", "no_question", "no_sentence", "answer_leak", "few_nodes")
_ENDS = (".", "!", "?", "…", '."', ".”", ".)", "]")


class CheckSettings(StepSettings):
    """Settings of the step check: the facts that reject a pair, and their limits."""

    reject: list[Rule] = Field(
        default_factory=lambda: list(USUAL), description="Facts that reject; the others are only recorded."
    )
    nodes: int = Field(
        2, ge=0, description="Limit of few_nodes: minimum number of the anchor's nodes that a pair names."
    )
    hops: int | None = later_key(
        "Limit of few_hops: minimum hops from question nodes to a node of the answer only; default: 1.", ge=1
    )
    aliases: str | None = later_key("TSV file of more aliases; each line: a node's name, and another name.")
    paths = ("aliases",)


class Check(Step):
    """Computes facts about a pair, and rejects pairs for the configured facts."""

    name = "check"
    Settings = CheckSettings
    adds = "column"
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
        self._aliases = _read_aliases(Path(settings.aliases)) if settings.aliases else {}
        self._shown = rows_of(context.instructions)

    def compute(self, item: Item) -> Outcome:
        question, answer = item.output["question"], item.output["answer"]
        # Maps a node's name to its other names: the graph's synonyms, and those of the file `aliases`.
        aliases = self._aliases
        if synonyms := item.anchor.data.get("synonyms"):
            both = {**synonyms, **aliases}
            aliases = {name: [*synonyms.get(name, ()), *aliases.get(name, ())] for name in both}
        names = [*(node.name for node in item.anchor.nodes), *chain.from_iterable(aliases.values())]
        facts = {
            **self.context.kind.facts(item.anchor, item.output, *((aliases,) if aliases else ())),
            "graph_words": graph_words(question, answer, names),
            "copied_example": not rows_of([question, answer]).isdisjoint(self._shown),
        }
        item.features |= facts
        nodes, hops = self.settings.nodes, self.settings.hops or 1
        holds: dict[Rule, Any] = {
            "same_text": question.casefold().strip(" ?.!") == answer.casefold().strip(" ?.!"),
            "no_question": not question.endswith("?"),
            "no_sentence": not answer.endswith(_ENDS) or answer.endswith("?"),
            "answer_leak": facts.get("answer_leak"),
            "few_nodes": facts.get("nodes_used", nodes) < nodes,
            "few_hops": "hops" in facts and (facts["hops"] or 0) < hops,
            "graph_words": facts["graph_words"],
            "copied_example": facts["copied_example"],
        }
        rejecting = (rule for rule in holds if holds[rule] and rule in self.settings.reject)
        rule = next(rejecting, None)
        return Done() if rule is None else Reject(f"{self.label}: {rule.replace('_', ' ')}")


def _read_aliases(path: Path) -> dict[str, list[str]]:
    """Aliases by name, from a TSV file. Raises InputError with file and line."""
    aliases: dict[str, list[str]] = {}
    for number, line in text_lines(path, InputError):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise InputError(
                f"{path} line {number:,}: is not a name, a tab and another name", "mend or remove it"
            )
        aliases.setdefault(cells[0], []).append(cells[1])
    return aliases


class Verify(Step):
    """Rejects pairs to which the anchor kind objects, with its reason."""

    name = "verify"
    adds = "column"
    needs = PAIR

    def compute(self, item: Item) -> Outcome:
        objection = self.context.kind.objection(item.anchor, item.output)
        return Done() if objection is None else Reject(f"{self.label}: {objection}")


class KeepSettings(StepSettings):
    """Settings of the step keep: the columns to carry over from the source's records."""

    columns: list[str] = Field(
        min_length=1, description="Columns of the source's records to keep, as declared by steps or kinds."
    )

    @field_validator("columns")
    @classmethod
    def _known(cls, columns: list[str]) -> list[str]:
        facts = declared()
        if unknown := [name for name in columns if name not in facts]:
            raise ValueError(f"no step or anchor kind adds {', '.join(unknown)}")
        return columns


class Keep(Step):
    """Declares fields of the source's records as columns."""

    name = "keep"
    Settings = KeepSettings
    adds = "column"

    def compute(self, item: Item) -> Outcome:
        return Done()

    @classmethod
    def columns_for(cls, settings: KeepSettings) -> tuple[Column, ...]:
        facts = declared()
        return tuple(facts[name] for name in settings.columns)


def declared() -> dict[str, Column]:
    """All columns with fixed names that steps and anchor kinds declare, by name."""
    entries = [registry.get(name) for registry in (KINDS, STEPS) for name in registry.names()]
    return {column.name: column for entry in entries for column in entry.columns}


def step(
    function: Callable[[Item], Any] | None = None,
    /,
    *,
    columns: Mapping[str, Type] | None = None,
    needs: Sequence[str] = ("question", "answer"),
    name: str | None = None,
) -> Any:
    """Make a step without requests from a function of the item.

    The function returns the values of its columns as a mapping, or an outcome (`Done`, `Reject` …); None of a function
    without columns is Done. `columns` maps column names to types; `needs` lists the fields that the function reads. The
    step has the function's name and docstring.
    """
    if function is None:
        return lambda inner: step(inner, columns=columns, needs=needs, name=name)
    step_name = name or function.__name__
    bound = function  # a new name, because mypy does not keep the narrowed type inside the method

    def compute(self: Step, item: Item) -> Any:
        value = bound(item)
        if isinstance(value, Mapping):
            return Done(**{str(name): entry for name, entry in value.items()})
        if value is None and not self.columns:
            return Done()
        if isinstance(value, Reject) and not str(value.reason).startswith(f"{self.label}:"):
            return Reject(f"{self.label}: {value.reason or 'no reason given'}")
        return value

    about = (function.__doc__ or f"The function {step_name}.").strip().split("\n")[0]
    members: dict[str, Any] = {
        "name": step_name,
        "adds": "column",
        "needs": tuple(needs),
        "columns": tuple(Column(key, kind, about) for key, kind in (columns or {}).items()),
        "compute": compute,
        "__doc__": function.__doc__ or about,
        "__module__": function.__module__,
    }
    return type(step_name, (Step,), members)
