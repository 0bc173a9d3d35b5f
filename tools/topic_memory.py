#!/usr/bin/env python3
"""How varied reasoning questions are with topic memory and without: python tools/topic_memory.py

    tools/topic_memory.py                                 1,000 contexts of the bundled graph, a scripted writer
    tools/topic_memory.py --engine cpu --number 40        the embedded model with its short prompt

Contexts are drawn by the ordinary anchor kind and asked about with the ordinary step and prompt; only `memory` differs.
The scripted writer has a model's weakness: of the things its prompt shows it asks about the one with the most
familiar word (the most frequent in names of the graph), but for those whose words the prompt says were asked about
lately. Every question that can be read is measured, before any check, so that a check does not favour a column.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import orjson

from kgqa_hpc.anchors.anchor import Anchor, Source, Tools
from kgqa_hpc.anchors.names import named
from kgqa_hpc.config import RunConfig, load_config, parse_config
from kgqa_hpc.engines import ENGINES
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import load_graph
from kgqa_hpc.plugins.evaluation.diversity import measures
from kgqa_hpc.plugins.evaluation.topic import find_topics
from kgqa_hpc.plugins.reasoning.context import known_topics, topic_words
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps.item import Item

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "context.yaml"
Write = Callable[[list[Request]], list[Response]]
_SHOWN = re.compile(r"^- \d+: (.+) \(.+\)$", re.MULTILINE)
_LATELY = re.compile(r"^Asked about lately.*: (.+)$", re.MULTILINE)


def favourites(graph: KnowledgeGraph) -> Write:
    """A writer that asks about the node with the most frequent word, unless its prompt lists it as asked recently."""
    familiar = Counter(word for name in graph.names for word in topic_words(name))

    def best_known(name: str) -> tuple[int, str]:
        return max((familiar[word] for word in topic_words(name)), default=0), name

    def text(request: Request) -> str:
        prompt = request.messages[-1]["content"]
        lately = {word for line in _LATELY.findall(prompt) for word in line.split(", ")}
        names = _SHOWN.findall(prompt)
        subject = max(names, key=lambda name: (topic_words(name).isdisjoint(lately), best_known(name)))
        wrong = [f"wrong answer {number}" for number in range(7)]
        question = f"What would have to happen before {subject} can be seen?"
        answer = {"analysis": "-", "question": question, "answer": "right answer", "distractors": wrong}
        answer |= {"decline_reason": "", "worth_asking": True}
        return orjson.dumps(answer).decode()

    return lambda requests: [Response(one.id, text(one), "stop") for one in requests]


def embedded(config: RunConfig) -> Write:
    """The model that comes with the project."""
    engine = ENGINES.get(config.engine.kind)(config.engine)
    return lambda requests: list(engine.generate(Mailbox.holding(requests)))


def config_of(engine: str, number: int, memory: int) -> RunConfig:
    """configs/context.yaml with this engine; a writer that can read a long prompt gets the long one."""
    plain = load_config(CONFIG).plain()
    plain["anchors"] |= {"number": number, "memory": memory}
    if engine != "cpu":
        plain["engine"] = {"kind": "scripted"}
        plain["anchors"] |= {"neighbours": 4}
        plain["passes"][0]["steps"] = ["options"]
    return parse_config(plain, str(CONFIG))


def questions(config: RunConfig, anchors: Sequence[Anchor], write: Write) -> list[tuple[str, set[str]]]:
    """The question of `write` about each anchor, as the step parses it, with the words of the nodes that it names.

    Unreadable answers are left out.
    """
    step = build_chain(config, "main")[0]
    items = [Item(anchor) for anchor in anchors]
    responses = {one.id: one for one in write([step.request(item, 0) for item in items])}
    found = []
    for item in items:
        step.take(item, responses[step.request(item, 0).id], 0)
        if (question := item.output.get("question")) is not None:
            names = [node.name for node in item.anchor.nodes]
            about = (topic_words(names[place]) for place in named(question, names))
            found.append((question, set().union(*about)))
    return found


def repeats(subjects: Sequence[set[str]], window: int = 20) -> float:
    """Share of questions of which a topic was one of the `window` before; of those that have a topic."""
    told = [(at, topics) for at, topics in enumerate(subjects) if topics]
    again = sum(any(topics & old for old in subjects[max(at - window, 0) : at]) for at, topics in told)
    return again / len(told)


def row(asked: list[tuple[str, set[str]]], known: set[str]) -> dict[str, Any]:
    """The measures of one column. `known` are the words that can be a topic."""
    texts, subjects = [text for text, _ in asked], [words & known for _, words in asked]
    found = measures(texts, find_topics(texts))
    topics = Counter(topic for one in subjects for topic in one)
    return {
        "questions": len(texts),
        "distinct-1": found["distinct"]["1"],
        "distinct-2": found["distinct"]["2"],
        "self-BLEU": found["self_bleu"],
        "Vendi score": found["vendi"],
        "topics, different / all": len(topics) / topics.total(),
        "a topic of the 20 before": repeats(subjects),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=["scripted", "cpu"], default="scripted")
    parser.add_argument("--number", type=int, default=1000)
    parser.add_argument("--memory", type=int, nargs="+", default=[0, 20, 40])
    arguments = parser.parse_args()
    configs = [config_of(arguments.engine, arguments.number, memory) for memory in arguments.memory]
    assert configs[0].graph is not None
    graph = reduce_to(load_graph(configs[0].graph), configs[0].graph).graph
    known = known_topics(graph.names.tolist())
    write = embedded(configs[0]) if arguments.engine == "cpu" else favourites(graph)
    columns = {}
    for memory, config in zip(arguments.memory, configs, strict=True):
        began = time.process_time()
        drawn = kind_of(config).draw(Source(graph), config.anchors, config.seed, Tools())
        columns[f"memory {memory}"] = row(questions(config, list(drawn.anchors), write), known)
        print(f"memory {memory}: {time.process_time() - began:.0f} s of CPU", file=sys.stderr)
    print(f"{arguments.engine} writer, {arguments.number:,} contexts of a graph of {graph.num_nodes:,} nodes")
    print(f"{'':<26}" + "".join(f"{name:>12}" for name in columns))
    for name in next(iter(columns.values())):
        print(f"{name:<26}" + "".join(f"{one[name]:>12,.4g}" for one in columns.values()))


if __name__ == "__main__":
    main()
