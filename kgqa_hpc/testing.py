"""Helpers to test your own steps and kinds: build an item and an answer, and run a step without a run folder.

    pair = item(question="Who directed Solaris?", answer="Tarkovsky.")
    assert run_step(my_steps.question_length, pair) == Done(words=3)

`run_step` returns the outcome as a worker would see it: columns are checked, and an invalid outcome raises
ExtensionError.
"""

import json
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Node, Relation
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.item import Item, record_problem
from kgqa_hpc.steps.step import Ask, Done, Outcome, Reject, Retry, Step, StepContext

__all__ = ["Ask", "Done", "Reject", "Retry", "answer", "item", "record", "run_step"]

EVIDENCE = Anchor(
    "test-1",
    "graphlet",
    "shape 1",
    (Node("a", "Tarkovsky", "Person"), Node("b", "Solaris", "Film"), Node("c", "Stalker", "Film")),
    (Relation(0, 1, "directed"), Relation(0, 2, "directed")),
    data={"shape": 1},
)


def item(anchor: Anchor = EVIDENCE, **fields: Any) -> Item:
    """An item with these record fields (question, answer …)."""
    return Item(anchor, output=fields)


def answer(**fields: Any) -> Response:
    """An engine's response whose text is a JSON object with these fields."""
    return Response("test", json.dumps(fields), "stop")


def run_step(
    step: type[Step],
    item: Item,
    response: Response | None = None,
    *,
    prompt: str | None = None,
    folder: str | Path | None = None,
    turn: int = 0,
    **settings: Any,
) -> Outcome:
    """Apply a step to an item in place and return the outcome; a step that asks needs `response`.

    `prompt` is the name of a prompt in `folder` or a shipped one; default: the step's own. Keywords are its settings.
    """
    checked = step.Settings.model_validate({"use": step.name, "as": step.name, **settings})
    asks = step.asks_with(checked)
    name = prompt or step.default_prompt
    if asks and (response is None or name is None):
        raise InputError(f"step {step.name} asks a model", "give the response, answer(...), and a prompt")
    kind = KINDS.get(item.anchor.kind)() if item.anchor.kind in KINDS else AnchorKind()
    context = StepContext(0, kind, engine=EngineInfo("test", "1", "test"))
    tested = step(checked, load_prompt(name, folder) if asks and name else None, context)
    if response is None:
        return tested.run(item)
    tested.request(item, 0, turn)  # raises PromptError if the prompt lacks a variable
    return tested.take(item, response, 0, turn)


def record(kind: AnchorKind, anchor: Anchor, **fields: Any) -> dict[str, Any]:
    """The kind's columns of a record with these fields. Raises InputError when they do not fit the declared ones."""
    if problem := record_problem(Item(anchor, output={"question": "?", "answer": "!", **fields}), kind):
        raise InputError(f"anchor kind {kind.name}: {problem}", "mend its `columns` or its `record`")
    return kind.record(anchor, {"question": "?", "answer": "!", **fields})
