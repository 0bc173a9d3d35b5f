"""Step `plan`: a model explores the evidence with graph scripts, turn by turn, until the result suffices.

In each turn the model writes a script (docs/guide/gasl.md), which runs on the item's own nodes and relations, and
sees its result; or it declares the result sufficient and words the question. The answer is the result of execution,
never the model's text.
"""

from typing import Any

import numpy as np

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.anchors.family import wording
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.execute import Result, execute
from kgqa_hpc.plugins.gasl.graph import PropertyGraph, Table
from kgqa_hpc.plugins.gasl.language import to_json
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.script import answers_of
from kgqa_hpc.plugins.gasl.world import Bounds
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Step
from kgqa_hpc.text.plain_text import clean_text

ROUNDS = 10
# Limits of all scripts of an item together. Each turn parses and runs them again: about a millisecond each, and at
# these limits at most two seconds on one core (tests/plugins/gasl/test_plan.py).
BOUNDS = Bounds(work=200_000, bytes=1024**2)
SHOWN = 1500  # largest number of characters of a result in the prompt


class PlanScript(Step):
    """A loop in which a model writes graph scripts; its answers hold `sufficient`, a `script`, and at last the
    `question`.

    Each turn executes the scripts so far and its own as one script. The journal holds only the scripts: after a kill
    they give the same result.
    """

    name = "plan"
    default_prompt = "plan"
    answer = {"sufficient": "boolean", "script": "string", "question": "string"}
    adds = "output"
    gives = ("question", "answer", "script")
    turns = ROUNDS
    columns = (
        Column("script", "string", "The script whose execution gave the answer."),
        Column("rounds", "int64", "Number of turns of the plan."),
    )

    def variables(self, item: Item) -> dict[str, Any]:
        """`rounds`: (script, status, result) of each turn so far."""
        rounds = item.state.get("rounds", [])
        return {"rounds": [tuple(clean_text(part, 2 * SHOWN) for part in round_) for round_ in rounds]}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        rounds, script_before = item.state.get("rounds", []), item.state.get("kept", "")
        answers: list[str] = []
        if answer["sufficient"] and script_before:
            answers = answers_of(run_on(item.anchor, script_before).variables.get("answer"))
        # A script that the model calls sufficient before its execution is executed first.
        if answer["sufficient"] and (answers or not answer["script"].strip()):
            if not answers:
                return Reject(f"{self.label}: no script gave an answer")
            if objection := wording(answer["question"], [], answers):
                return Reject(f"{self.label}: {objection}")
            output = {"question": answer["question"], "answer": "; ".join(answers), "script": script_before}
            item.output = {**item.output, **output}
            item.annotations["rounds"] = len(rounds)
            return Done()
        script = f"{script_before}\n{answer['script']}" if script_before else answer["script"]
        result = run_on(item.anchor, script)
        failed = result.status == "error"
        # Text of a result for the model: the error, or every variable, cut
        content = result.error if result.error is not None else result.variables
        round_ = [answer["script"], result.status, to_json(content).decode()[:SHOWN]]
        item.state = {"rounds": [*rounds, round_], "kept": script_before if failed else script}
        return Ask()


def run_on(anchor: Anchor, script: str) -> Result:
    """Run a script on the nodes and relations of an anchor; errors of the script are in the result."""
    try:
        parsed = parse(script.encode("utf-8", "replace"))
    except ScriptError as problem:
        return Result("error", error=problem.report())
    ids = [node.id for node in anchor.nodes]
    nodes = {"id": ids, "name": [n.name for n in anchor.nodes], "type": [n.type for n in anchor.nodes]}
    sources = [relation.source for relation in anchor.relations]
    targets = [relation.target for relation in anchor.relations]
    ends = {"source": [ids[source] for source in sources], "target": [ids[target] for target in targets]}
    edges = {**ends, "type": [relation.type for relation in anchor.relations]}
    graph = PropertyGraph(
        Table(nodes, {}),
        Table(edges, {}),
        sources=np.array(sources, np.int32),
        targets=np.array(targets, np.int32),
        digest="",
    )
    return execute(parsed, graph, bounds=BOUNDS)
