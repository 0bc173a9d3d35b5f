"""Step `plan`: a model explores the evidence with graph scripts, turn by turn, until the result suffices.

In each turn the model writes a script (docs/guide/gasl.md), which runs on the item's own nodes and relations, and
sees its result; or it declares the result sufficient and words the question. The answer is the result of execution,
never the model's text.
"""

import hashlib
import json
from typing import Any

import numpy as np

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.anchors.family import wording
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.execute import Result, State, execute
from kgqa_hpc.plugins.gasl.graph import PropertyGraph, Table
from kgqa_hpc.plugins.gasl.language import to_json
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.script import answers_of
from kgqa_hpc.plugins.gasl.world import Bounds
from kgqa_hpc.prompts.prompt import Prompt
from kgqa_hpc.prompts.safe_text import clean_text
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Step, StepContext

ROUNDS = 10
# Limits of all scripts of an item together: under two seconds on one core (tests/plugins/gasl/test_plan.py).
BOUNDS = Bounds(work=200_000, bytes=1024**2)
KEPT_BYTES = 64 * 1024**2  # bytes of stored states from which next turns continue
SHOWN = 1500  # largest number of characters of a result in the prompt


class PlanScript(Step):
    """A loop in which a model writes graph scripts; its answers hold `sufficient`, a `script`, and at last the
    `question`.

    Executed scripts are kept, and each turn continues from their state. The journal holds only the scripts:
    after a kill they are executed again, with the same result.
    """

    name = "plan"
    default_prompt = "plan"
    answer = {"sufficient": "boolean", "script": "string", "question": "string"}
    adds = "output"
    gives = ("question", "answer", "script")
    turns = ROUNDS
    columns = (
        Column("script", "string", "The script whose execution gave the answer."),
        Column("rounds", "int64", "Turns the plan took."),
    )

    def __init__(self, settings: Any, prompt: Prompt | None, context: StepContext) -> None:
        super().__init__(settings, prompt, context)
        # Script and state after it by item, up to KEPT_BYTES in all; the least recently used are dropped first.
        self._kept: dict[str, tuple[str, bytes]] = {}

    def variables(self, item: Item) -> dict[str, Any]:
        """`rounds`: (script, status, result) of each turn so far."""
        rounds = item.state.get("rounds", [])
        return {"rounds": [tuple(clean_text(part, 2 * SHOWN) for part in round_) for round_ in rounds]}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        rounds, script_before = item.state.get("rounds", []), item.state.get("kept", "")
        answers: list[str] = []
        if answer["sufficient"] and script_before:
            result = self._run(item.anchor, script_before, script_before)
            answers = answers_of(result.variables.get("answer"))
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
        result = self._run(item.anchor, script_before, script)
        failed = result.status == "error"
        # Text of a result for the model: the error, or every variable, cut
        content = result.error if result.error is not None else result.variables
        round_ = [answer["script"], result.status, to_json(content).decode()[:SHOWN]]
        item.state = {"rounds": [*rounds, round_], "kept": script_before if failed else script}
        return Ask()

    def _run(self, anchor: Anchor, before: str, script: str) -> Result:
        """The result of a script that begins with `before`, continued from the state after `before`."""
        kept_script, data = self._kept.pop(anchor.id, ("", b""))
        state = State.from_dict(json.loads(data)) if data and kept_script == before else State("", "")
        result = run_on(anchor, script, state)
        if result.status != "error":
            kept_script, data = script, to_json(state.to_dict())
        self._kept[anchor.id] = kept_script, data
        while sum(len(data) for _, data in self._kept.values()) > KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return result


def run_on(anchor: Anchor, script: str, state: State | None = None) -> Result:
    """Run a script on the nodes and relations of an anchor; errors of the script are in the result.

    `state`: the state after the beginning of the script; it becomes the state after the whole script.
    """
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
        digest=hashlib.sha256(anchor.id.encode()).hexdigest(),
    )
    return execute(parsed, graph, state or State("", ""), bounds=BOUNDS)
