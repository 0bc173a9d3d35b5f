"""Run folders for tests: `new_run` makes each one.

`make_run` is ready for `kgqa run` with the scripted engine. A `SyntheticRun` has answers whose fate is known,
and `finish` writes its results without any worker.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.config import RunConfig, parse_config
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.runs.trust import effects
from kgqa_hpc.steps.item import Item, end
from kgqa_hpc.steps.step import Done, Retry, Step
from kgqa_hpc.store.partition import partition, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import SHARD, AnchorsFile, write_anchors, write_result

ENGINE = EngineInfo("scripted", "0.1", "scripted-1", digest="abc", quantisation="none")
ATTEMPTS = 3
CONFIG: dict[str, Any] = {
    "seed": 7,
    "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
    "anchors": {"per_shape": 40},
    "prompts": {"generate": "ask", "judge": "check"},
    "engine": {"kind": "scripted"},
}
HEADER = {
    "seed": 7,
    "reduction": {"nodes_before": 500, "nodes": 300, "simple_edges": 900},
    "totals": {"1": 1000, "2": 40, "3": 5000},
}
PROMPTS = {
    "ask": """---
step: generate
schema:
  type: object
  properties: {question: {type: string, maxLength: 900}, answer: {type: string, maxLength: 900}}
  required: [question, answer]
  additionalProperties: false
max_tokens: 300
---
{% block system %}Ask a question.{% endblock %}
{% block user %}{% for number, name, type in nodes %}{{ name }}; {% endfor %}{% endblock %}
""",
    "check": """---
step: judge
schema:
  type: object
  properties:
    question_reasoning: {type: string, maxLength: 900}
    valid_question: {type: boolean}
    my_answer: {type: string, maxLength: 900}
    answer_reasoning: {type: string, maxLength: 900}
    original_answer_valid: {type: boolean}
  required: [question_reasoning, valid_question, my_answer, answer_reasoning, original_answer_valid]
  additionalProperties: false
max_tokens: 200
---
{% block system %}Check a pair.{% endblock %}
{% block user %}{{ question }} | {{ answer }}{% endblock %}
""",
}
# What becomes of item number i, by i % 12.
FATES = {
    5: "bad question",
    6: "bad answer",
    7: "garbage",
    8: "judge truncated",
    9: "engine error",
    10: "second try",
}
LONG, LONG_AND_LOST = 36, 44  # an accepted pair and one the judge lost, both with a far too long answer


def new_run(
    folder: Path, config: RunConfig, anchors: Iterable[dict[str, Any]], header: dict[str, Any]
) -> RunFolder:
    """A run folder with its anchors, as `kgqa init` and `kgqa sample` leave it."""
    plain = config.plain()
    run = RunFolder.create(folder, plain, fingerprint(config), effects(plain))
    write_anchors(run.anchors, anchors, header)
    return run


def read_shard(path: Path) -> list[dict[str, Any]]:
    """The verified anchors of a shard."""
    with AnchorsFile(path, SHARD) as shard:
        return list(shard.rows())


def anchors(count: int) -> Iterator[dict[str, Any]]:
    """Edges between made-up nodes, each with its own id."""
    for number in range(count):
        nodes = tuple(Node(f"N{number}-{k}", f"node {number} {k}", "thing") for k in range(3))
        relations = (Relation(0, 1, "touches"), Relation(1, 2, "is near"))
        yield Anchor(
            f"g01-{number:016x}", "graphlet", "shape 1", nodes, relations, data={"shape": 1}
        ).to_dict()


def make_run(folder: Path, items: int, **sections: Any) -> RunFolder:
    """A run folder that is ready for `kgqa run`; `sections` of the configuration override the defaults."""
    data: dict[str, Any] = {
        "graph": {"source": "hpo"},
        "engine": {"kind": "scripted", "latency": {"batch": 8}},
        "runtime": {"shard_size": 20, "commit_every": 1},
    }
    for name, values in sections.items():
        data[name] = {**data[name], **values} if isinstance(values, dict) and name in data else values
    return new_run(folder, parse_config(data, "the test"), anchors(items), {"seed": 1})


def make_anchor(number: int) -> Anchor:
    """Shapes 1, 2, 3 in turn; an edge of the square of nodes runs against the template, one is doubled."""
    shape = number % 3 + 1
    k = 4 if shape == 3 else 3
    edges = {1: ((0, 1), (1, 2)), 2: ((0, 1), (1, 2), (2, 0)), 3: ((0, 1), (1, 2), (2, 3))}[shape]
    nodes = tuple(Node(f"N:{number}:{i}", f"näme {number}-{i}", "Gene") for i in range(k))
    relations = (*(Relation(b, a, "binds") for a, b in edges), Relation(0, 1, "treats"))
    return Anchor(
        f"g{shape:02d}-{number:016x}", "graphlet", f"shape {shape}", nodes, relations, data={"shape": shape}
    )


def answer(number: int, step: str, attempt: int) -> tuple[str, str]:
    """Text and finish of the engine's answer for item `number`."""
    fate = FATES.get(number % 12, "accepted")
    if fate == "garbage" or (fate == "second try" and attempt == 0):
        return "I would rather not.", "stop"
    if fate == "engine error":
        return "", "error"
    if step == "judge":
        verdict = {"valid_question": fate != "bad question", "original_answer_valid": fate != "bad answer"}
        text = json.dumps(
            {**dict.fromkeys(("question_reasoning", "my_answer", "answer_reasoning"), "why"), **verdict}
        )
        return (text[:20], "length") if fate == "judge truncated" else (text, "stop")
    long = 200 if number in (LONG, LONG_AND_LOST) else 0
    pair = {
        "question": f"What links the nodes of number {number:04d}?",
        "answer": f"It is {'x' * (number % 7 + 20 + long)}.",
    }
    return json.dumps(pair), "stop"


def work_on(item: Item, chain: list[Step]) -> dict[str, Any]:
    """Push one item through the chain as a worker does."""
    number = int(item.id.split("-")[1], 16)
    for step in chain:
        for attempt in range(ATTEMPTS):
            request = step.request(item, attempt)
            text, how = answer(number, step.label, attempt)
            response = Response(request.id, text, how, 100, 10, 50, "no luck" if how == "error" else None)  # type: ignore[arg-type]
            outcome = step.take(item, response, attempt)
            if not isinstance(outcome, Retry):
                break
        if not isinstance(outcome, Done):
            break
    end(item, outcome, step.context.kind, step.label)
    return item.to_record()


class SyntheticRun:
    """A run folder with anchors and shards; `finish` writes results."""

    LONG, LONG_AND_LOST = LONG, LONG_AND_LOST

    def __init__(self, path: Path, items: int, shard_size: int, config: dict[str, Any]) -> None:
        prompts = path.with_name("prompts")
        prompts.mkdir(parents=True, exist_ok=True)
        for name, text in PROMPTS.items():
            (prompts / f"{name}.md").write_text(text)
        config = {**config, "prompts": {**config["prompts"], "folder": str(prompts)}}
        self.config: RunConfig = parse_config(config, "test")
        self.passes = [one.name for one in self.config.passes]
        self.chain = [step for name in self.passes for step in build_chain(self.config, name, ENGINE)]
        self.folder = new_run(path, self.config, (make_anchor(i).to_dict() for i in range(items)), HEADER)
        self.manifest = partition(self.folder, shard_size)
        self.ids = [make_anchor(i).id for i in range(items)]

    def records(self, name: str) -> list[dict[str, Any]]:
        anchors = read_shard(self.folder.shard(name))
        return [work_on(Item(Anchor.from_dict(a)), self.chain) for a in anchors]

    def finish(self, *names: str) -> Self:
        """Write the last pass's results of the named shards; of all when none is named."""
        for name in names or tuple(read_shards_manifest(self.folder).names):
            path = self.folder.result(self.passes[-1], name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_result(path, self.records(name), self.folder.origin(self.passes[-1]).header(name, ""))
        return self

    def merge(self, *names: str, **options: Any) -> Accounting:
        """Finish these shards, or all, and merge the run."""
        from kgqa_hpc.dataset.merge import merge  # late: few tests need its libraries

        return merge(self.finish(*names).folder, **options)


def synthetic(
    folder: Path, items: int = 60, shard_size: int = 8, name: str = "run", **changes: Any
) -> SyntheticRun:
    """A synthetic run in `folder`; `changes` are sections of the configuration."""
    return SyntheticRun(folder / name, items, shard_size, {**CONFIG, **changes})
