"""Kind context, for reasoning: five nodes, each with some neighbours, as the evidence of a question with eight options;
and the steps that write the question.

The type of reasoning, the letter of the correct option and the topics to avoid are fixed when contexts are drawn, in
seeded order, so they do not depend on the order in which items finish. Types and letters come from shuffled blocks that
contain each value once, which balances them exactly. The wrong options come from the model (step `options`) or from the
graph (`graph_options`).
"""

import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
from pydantic import Field

from kgqa_hpc.anchors import family
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.names import named, plain
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import EmptyGraphError
from kgqa_hpc.settings import KindSettings
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, Step

LETTERS = "ABCDEFGH"
# The types of reasoning, each with the number of facts that a question of this type combines.
Type = Literal["mechanistic", "comparative", "causal", "predictive", "integrative"]
TYPES: dict[Type, int] = {"mechanistic": 2, "comparative": 2, "causal": 2, "predictive": 3, "integrative": 3}
COMMON = 0.01  # a word in a larger share of all names is no topic
SEARCHED = 1000  # candidates searched for one with new topics; if none has them, the first is taken


class ContextSettings(KindSettings):
    """Settings of the kind context: number and size of contexts, and topics to avoid."""

    kind: Literal["context"] = "context"
    number: int = Field(1000, ge=1, description="Anchors to draw; all if there are fewer.")
    pieces: int = Field(5, ge=1, le=20, description="Nodes of a context, each with its neighbours.")
    neighbours: int = Field(4, ge=1, le=20, description="Maximum neighbours of each node in the prompt.")
    min_degree: int = Field(2, ge=1, description="Minimum neighbours of a node.")
    types: list[Type] = Field(
        default_factory=lambda: list(TYPES), min_length=1, description="Types of reasoning, used in turn."
    )
    memory: int = Field(20, ge=0, description="Previous contexts whose topics are avoided.")
    refresh: int = Field(20, ge=1, description="Contexts after which the topics to avoid are updated.")
    distractors: Literal["model", "graph"] = Field(
        "model",
        exclude_if=lambda value: value == "model",
        description="Source of the wrong options: step options or step graph_options.",
    )


class ContextAnchors(AnchorKind):
    """Several nodes near each other with some of their neighbours."""

    name = "context"
    Settings = ContextSettings
    group_word = "type"
    whole_graph = True
    columns = (
        Column("choices", dict.fromkeys(LETTERS, "string"), "The eight options."),
        Column("answer_letter", "string", "Letter of the right option."),
        Column("reasoning_type", "string", "Type of reasoning asked for."),
        Column("topics", ["string"], "Topics of the context, which its successors leave out."),
        Column("graph_context_sample_count", "int64", "Pieces of the context."),
        *family.DIFFICULTY,
    )
    sample = Anchor(
        "sample",
        "context",
        "causal",
        (Node("a", "First node", "gene"), Node("b", "Second node", "disease")),
        (Relation(0, 1, "associated_with"),),
        data={
            "type": "causal",
            "letter": "C",
            "topics": ["first"],
            "avoided": ["other"],
            "pieces": [[0, 1]],
            "degree": 1,
            "options": {"subject": 0, "answer": 1, "wrong": [["c", "Third node", "disease"]]},
        },
    )

    def draw(self, source: Source, settings: ContextSettings, seed: int, tools: Tools) -> Drawn:
        """Raises EmptyGraphError if no node has enough neighbours."""
        graph = source.graph
        nodes = np.flatnonzero(graph.degrees() >= settings.min_degree).tolist()
        if not nodes:
            raise EmptyGraphError(f"no node has {settings.min_degree} neighbours", "lower anchors.min_degree")
        nodes.sort(key=lambda node: family.place(seed, str(graph.node_ids[node])))
        drawn = _Drawing(source, settings, seed).contexts(nodes)
        return Drawn(drawn, {}, notes=(f"{len(nodes):,} nodes can be the centre of a context",))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Nodes, relations (`links`, always with edge types), the type of reasoning, and the topics to avoid
        (`avoided`).

        With options from the graph: the names of `subject`, `right` and `wrong`; otherwise they are empty.
        """
        values, data = graph_variables(anchor), anchor.data
        avoided = data.get("avoided", [])  # missing in anchors of earlier versions
        options = data.get("options")
        names = {"subject": "", "right": "", "wrong": []} if options is None else option_names(anchor)
        return {**values, "links": values["relations"], "type": data["type"], "avoided": avoided, **names}

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection unless there are eight different options, a question about the context, and no mention of a
        source.
        """
        question, choices = fields["question"], fields["choices"]
        texts = [question, *choices.values()]
        if not question.rstrip().endswith("?"):
            return "is no question"
        if list(choices) != list(LETTERS) or len({plain(text) for text in choices.values()}) < len(LETTERS):
            return "options are alike"
        if choices[fields["answer_letter"]] != fields["answer"]:
            return "the letter is not that of the answer"
        if not named(" ".join([question, fields["answer"]]), [node.name for node in anchor.nodes]):
            return "names nothing of its context"
        if plain(fields["answer"]) in plain(question):
            return "gives the answer away"
        return next(filter(None, map(family.own_words, texts)), None)

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        data = anchor.data
        return {
            "choices": fields.get("choices"),
            "answer_letter": fields.get("answer_letter"),
            "reasoning_type": data["type"],
            "topics": list(data["topics"]),
            "graph_context_sample_count": len(data["pieces"]),
            **family.difficulty(TYPES[data["type"]], len(data["pieces"]), data["degree"]),
        }


def option_names(anchor: Anchor) -> dict[str, Any]:
    """Names of the subject, the right and the wrong options from the graph. Raises KeyError if the context has none."""
    options = anchor.data["options"]
    names = {"subject": anchor.nodes[options["subject"]].name, "right": anchor.nodes[options["answer"]].name}
    return {**names, "wrong": [name for _, name, _ in options["wrong"]]}


def _rotation(values: Sequence[str], number: int, seed: str) -> Iterator[str]:
    """`number` values in blocks; each block contains all values in a random order."""
    chance = random.Random(seed)
    blocks = (chance.sample(list(values), len(values)) for _ in range(number))
    return islice(chain.from_iterable(blocks), number)


class _Drawing:
    """The drawing of contexts: their nodes, the topics that each avoids, and, if requested, options from the graph."""

    def __init__(self, source: Source, settings: ContextSettings, seed: int) -> None:
        self.graph, self.settings, self.seed = source.graph, settings, seed
        names = self.graph.names
        frequent = known_topics(names.tolist())
        self.topics = lru_cache(maxsize=1 << 16)(lambda node: topic_words(str(names[node])) & frequent)
        self.answers = source.answer_graph()
        self.degrees = self.answers.graph.degrees()[self.answers.positions]
        if settings.distractors == "graph":
            self.shared = family.shared_names(self.answers.graph.names.tolist())
            self.distractors = family.Distractors(self.answers.graph, self.shared, self.answers.every_edge)

    def contexts(self, nodes: list[int]) -> Iterator[Anchor]:
        """Contexts around the nodes in their order; contexts with recent topics are postponed."""
        settings, avoided = self.settings, set[str]()
        used = deque[set[str]](maxlen=settings.memory)
        types = _rotation(settings.types, settings.number, f"{self.seed}/type")
        letters = _rotation(LETTERS, settings.number, f"{self.seed}/letter")
        waiting = list(nodes)
        for at, (kind, letter) in enumerate(zip(types, letters, strict=True)):
            if not waiting:
                return
            if at % settings.refresh == 0:
                avoided = set().union(*used)
            fresh = (n for n, node in enumerate(waiting[:SEARCHED]) if avoided.isdisjoint(self.topics(node)))
            centre = waiting.pop(next(fresh, 0))
            chance = random.Random(f"{self.seed}/{self.graph.node_ids[centre]}")
            near = self._near(centre, avoided, chance)
            topics = set().union(*map(self.topics, near))
            used.append(topics)
            data = {"type": kind, "letter": letter, "topics": sorted(topics)}
            yield self._anchor(near, avoided, chance, data)

    def _near(self, centre: int, avoided: set[str], chance: random.Random) -> list[int]:
        """The centre and nodes within two steps of a chosen node, with new topics if possible."""
        nodes, tries = [centre], 20 * self.settings.pieces
        for tries_left in range(2 * tries, 0, -1):
            if len(nodes) == self.settings.pieces:
                break
            node = chance.choice(_around(self.graph, chance.choice(nodes)))
            node = chance.choice(_around(self.graph, node))
            fresh = tries_left <= tries or avoided.isdisjoint(self.topics(node))
            if fresh and node not in nodes and len(_around(self.graph, node)) >= self.settings.min_degree:
                nodes.append(node)
        return nodes

    def _anchor(
        self, near: list[int], avoided: set[str], chance: random.Random, data: dict[str, Any]
    ) -> Anchor:
        graph = self.graph
        positions: dict[int, int] = {}
        pieces = []
        for node in near:
            around = _around(graph, node)
            piece = [node, *chance.sample(around, min(self.settings.neighbours, len(around)))]
            pieces.append([positions.setdefault(member, len(positions)) for member in piece])
        # Of the avoided topics, the prompt shows only those that this context has.
        data |= {"avoided": sorted(avoided & set().union(*map(self.topics, positions)))}
        data |= {"pieces": pieces, "degree": int(self.degrees[near[0]])}
        if self.settings.distractors == "graph" and (options := self._options(near, positions, chance)):
            data |= {"options": options}
        nodes = tuple(map(graph.node, positions))
        name = family.content_id("context", data["type"], *(node.id for node in nodes))
        relations = graph.relations_between(list(positions))
        return Anchor(name, "context", data["type"], nodes, relations, data=data)

    def _options(
        self, near: list[int], position_of: dict[int, int], chance: random.Random
    ) -> dict[str, Any] | None:
        """Options from the graph: subject and answer (two adjacent nodes) as positions in the context, and the wrong
        options as nodes.

        `position_of`: position in the context by node. The subject is the first of the nodes `near` with a neighbour in
        the context and enough wrong options in the graph; None if there is no such node.
        """
        graph, positions = self.answers.graph, self.answers.positions
        for subject in near:
            at = int(positions[subject])
            joined = set(_around(graph, at))
            candidates = [node for node in position_of if int(positions[node]) in joined]
            for answer in chance.sample(candidates, len(candidates)):
                names = {str(graph.names[positions[node]]) for node in (subject, answer)}
                wrong = self.distractors.draw([at], int(positions[answer]), len(LETTERS) - 1, chance)
                if len(wrong) == len(LETTERS) - 1 and not names & self.shared:
                    ends = {"subject": position_of[subject], "answer": position_of[answer]}
                    return {**ends, "wrong": [list(graph.node(node)) for node in wrong]}
        return None


def _around(graph: Any, node: int) -> list[int]:
    starts, ends = graph.csr()
    around: list[int] = ends[starts[node] : starts[node + 1]].tolist()
    return around


def topic_words(text: str) -> set[str]:
    """The words of a name or a question that may be topics."""
    return {word for word in plain(text).replace(",", " ").split() if len(word) > 3 and word.isalpha()}


def known_topics(names: Sequence[str]) -> set[str]:
    """The words that occur in few of a graph's names, and so distinguish them."""
    counts = Counter(word for name in names for word in topic_words(name))
    return {word for word, times in counts.items() if times <= max(COMMON * len(names), 1)}


class Options(Step):
    """Fills question, answer, the eight choices and the letter of the correct choice.

    The letter comes from the anchor if it has one (contexts: balanced over the run); otherwise it depends on run seed
    and item.
    """

    name = "options"
    default_prompt = "context"
    answer = {"question": "string", "answer": "string", "distractors": "array"}
    adds = "output"
    gives = ("question", "answer", "choices", "answer_letter")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        wrong = list(answer["distractors"])
        if len(wrong) != len(LETTERS) - 1:
            return Retry("not_allowed:distractors", lost_as="invalid")
        if len(set(map(plain, [answer["answer"], *wrong]))) < len(LETTERS):
            return Retry("options are alike", lost_as="invalid")
        return self.fill(item, answer["question"], answer["answer"], wrong)

    def fill(self, item: Item, question: str, right: str, wrong: Sequence[str]) -> Done:
        """Fill question, answer, choices and answer_letter."""
        letter = item.anchor.data.get("letter")
        if letter is None:
            letter = random.Random(f"{self.context.run_seed}/{item.id}").choice(LETTERS)
        options = list(wrong)
        options.insert(LETTERS.index(letter), right)
        choices = dict(zip(LETTERS, options, strict=True))
        pair = {"question": question, "answer": right}
        item.output = {**item.output, **pair, "choices": choices, "answer_letter": letter}
        return Done()


class GraphOptions(Options):
    """Fills question and options of a context: the model writes only the question, the options come from the graph
    (`anchors.distractors: graph`).
    """

    name = "graph_options"
    default_prompt = "graph_options"
    answer = {"question": "string"}

    def asks_about(self, item: Item) -> bool:
        return "options" in item.anchor.data

    def compute(self, item: Item) -> Outcome:
        """Reject a context for which the graph has too few options."""
        return Reject(f"{self.label}: no options in the graph")

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        names = option_names(item.anchor)
        return self.fill(item, answer["question"], names["right"], names["wrong"])
