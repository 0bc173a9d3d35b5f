"""`kgqa replay RUN ID`: send the recorded requests of an item to the engine again, and show changed answers.

Every request is identical to the recorded one: prompt (with the recorded earlier answers), temperature, seed and
schema. Nothing is written into the run.
"""

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.explain import recorded
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.process import EngineProcess, trial_log
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import kept_prompts, open_run
from kgqa_hpc.runs.chain import build_chain, kind_of, schemas_of
from kgqa_hpc.runs.trust import require_agreed
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Step, retrace, storable
from kgqa_hpc.text.plain_text import plain, shell_word


def replay(folder: Path, anchor_id: str, *, trust: bool = False) -> dict[str, Any]:
    """Repeat the requests of an item; returns both answers of each request and their equality as plain data.

    `anchor_id` is an id or an unambiguous beginning of one. Raises InputError for an unknown id, an item without
    requests, or a run whose prompts have changed; EngineConfigError, EngineError.
    """
    run, config = open_run(folder)
    require_agreed(run, config.plain(), trust=trust)
    anchor, record = recorded(run, config, anchor_id)
    if record is None:
        raise InputError(f"{anchor.id}: was asked nothing yet", f"kgqa run {shell_word(folder)}")
    if not record["trace"]:
        raise InputError(
            f"{anchor.id}: no step asked an engine about it", f"kgqa explain {shell_word(folder)} {anchor.id}"
        )
    prompts = kept_prompts(run)
    chains = {entry.name: build_chain(config, entry.name, prompts=prompts) for entry in config.passes}
    steps = {step.label: step for chain in chains.values() for step in chain}
    item = Item(anchor, output=kind_of(config).start(anchor))
    for entry in record["trace"]:
        step = steps.get(entry["step"])
        digest = step.of(item).prompt_at(entry.get("turn", 0)).sha256 if step and step.asks else ""
        if digest != entry["prompt"]["sha256"]:
            raise InputError(
                f"prompt {entry['prompt']['name']} of step {entry['step']} is not the one that was sent",
                "put back the run's prompts; kgqa explain shows what was answered",
            )
    requests = retrace([*steps.values()], item, record["trace"], record["output"])
    sent = list(zip(record["trace"], requests, strict=False))
    answers = []
    for name, chain in chains.items():
        labels = {step.label for step in chain}
        of_pass = [(entry, request) for entry, request in sent if entry["step"] in labels]
        if of_pass:
            answers += _ask(config, name, chain, of_pass)
    return {"id": anchor.id, "same": all(answer["same"] for answer in answers), "requests": answers}


def _ask(
    config: RunConfig, name: str, chain: Sequence[Step], sent: Sequence[tuple[dict[str, Any], Request]]
) -> list[dict[str, Any]]:
    """Send the requests of one pass, each with its trace entry, to its engine one at a time; return comparisons."""
    steps = {step.label: step for step in chain}
    comparisons = []
    with (
        trial_log() as log,
        EngineProcess(config.engine_of(name), log, config.runtime.engine_stall) as engine,
    ):
        engine.start()
        now = engine.preflight(schemas_of(list(chain))).provenance()
        for entry, request in sent:
            engine.send([request])
            responses: list[Response] = []
            while not responses:
                responses = engine.receive(1.0)
            step, response = steps[entry["step"]], responses[0]
            comparisons.append(_comparison(entry, request, step, response, now))
    return comparisons


def _comparison(
    entry: dict[str, Any], request: Request, step: Step, response: Response, now: dict[str, Any]
) -> dict[str, Any]:
    before = entry["engine"]
    text = storable(step.kept_text(response.text))
    return {
        "step": entry["step"],
        "attempt": entry["attempt"],
        "turn": entry.get("turn", 0),
        "same": text == entry["text"] and response.finish == entry["finish"],
        "recorded": {key: entry[key] for key in ("text", "finish", "tokens")},
        "now": {
            "text": text,
            "finish": response.finish,
            "error": response.error,
            "tokens": {"prompt": response.prompt_tokens, "completion": response.completion_tokens},
        },
        "engine": {key: [before.get(key), now[key]] for key in now if now[key] != before.get(key)},
        "settings": {key: getattr(request, key) for key in ("temperature", "seed", "max_tokens")},
        "messages": list(request.messages),
    }


def render(document: dict[str, Any]) -> str:
    """The differences as text."""
    lines = [document["id"]]
    for request in document["requests"]:
        turn = f", turn {request['turn'] + 1}" if request["turn"] else ""
        head = f"{request['step']}, attempt {request['attempt'] + 1}{turn}"
        for key, (before, now) in request["engine"].items():
            lines.append(f"{head}: the engine's {key} was {before}, is {now}")
        lines.append(f"{head}: {'the same' if request['same'] else 'another'} answer")
        if not request["same"]:
            texts = _pretty(request["recorded"]), _pretty(request["now"])
            lines += difflib.unified_diff(*texts, "recorded", "now", lineterm="", n=1)
    return plain("\n".join(lines))


def _pretty(answer: dict[str, Any]) -> list[str]:
    """The lines of an answer, one field per line if it is JSON, and its finish reason if that is not "stop"."""
    try:
        lines = json.dumps(json.loads(answer["text"]), indent=1, ensure_ascii=False).splitlines()
    except ValueError:
        lines = answer["text"].splitlines()
    return lines if answer["finish"] == "stop" else [*lines, f"({answer['finish']})"]
