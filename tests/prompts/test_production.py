"""Production prompts tell a strong model what it needs, and contradict neither themselves nor the parser."""

import dataclasses
import json

import pytest

from kgqa_hpc.anchors.fact import FactAnchors
from kgqa_hpc.anchors.hub import HubAnchors
from kgqa_hpc.config import load_config
from kgqa_hpc.plugins.gasl.script import ScriptAnchors
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.answer_json import parse_json

CONFIGS = shipped_prompts().parent / "configs"
SCRIPT = 'FIND nodes WITH id="a" AS gene\nGRAPHWALK FROM gene AS near\nCOUNT near AS answer'
LONG_NAME = "(2S)-2-amino-" + "methyl" * 19 + "-oxide"


def test_a_script_stands_on_lines_of_its_own_as_it_was_executed():
    kind = ScriptAnchors()
    anchor = dataclasses.replace(kind.sample, data={**kind.sample.data, "script": SCRIPT})
    user = load_prompt("script").render(kind.variables(anchor))[1]["content"]
    assert f"How it was found:\n{SCRIPT}\n" in user


def test_the_script_prompt_leaves_source_and_version_to_the_kind_that_writes_them():
    kind = ScriptAnchors()
    counted = dataclasses.replace(kind.sample, data={**kind.sample.data, "release": "hpo 2025-01-16"})
    assert kind.worded(counted, "How many?") == "According to hpo 2025-01-16: How many?"
    assert (
        "the data and their version are written before your question: do not name them"
        in load_prompt("script").system
    )


def test_p5_tells_the_limits_that_its_schema_enforces_and_allows_two_sentences():
    prompt = load_prompt("p5")
    fields = prompt.schema["properties"]
    limits = {name: (fields[name]["minLength"], fields[name]["maxLength"]) for name in ("question", "answer")}
    (low, high), (shortest, longest) = limits["question"], limits["answer"]
    assert f"A question has {low} to {high} characters, an answer {shortest} to {longest:,}." in prompt.system
    assert "one or two sentences" in prompt.system


def test_an_entity_with_a_long_name_loses_no_item():
    answer = {
        "analysis": "x", "decline_reason": "", "worth_asking": True, "draft_question": "x", "draft_answer": "x",
        "reflection": "x", "question": f"Which enzyme degrades {LONG_NAME}?", "answer": "An enzyme that is meant.",
        "question_entities": [LONG_NAME] * 4, "answer_entities": ["an enzyme"],
    }  # fmt: skip
    assert len(LONG_NAME) == 133
    assert parse_json(json.dumps(answer), load_prompt("p5").schema["properties"]).value == answer


@pytest.mark.parametrize("name", ["hub.yaml", "context.yaml"])
def test_what_the_graph_does_not_prove_is_judged(name):
    steps = [step.use for step in load_config(CONFIGS / name).steps]
    assert {"judge", "judge_options", "score"} & set(steps)


def test_links_of_a_hub_and_the_edge_of_a_fact_show_their_direction():
    hub, fact = HubAnchors(), FactAnchors()
    shown = load_prompt("hub").render(hub.variables(hub.sample))[1]["content"]
    assert any("—" in line and "→" in line for line in shown.splitlines())
    variables = fact.variables(fact.sample)
    ways = [load_prompt("fact").render({**variables, "out": out})[1]["content"] for out in (True, False)]
    assert ways[0] != ways[1]


def test_a_fact_prompt_lists_every_answer_and_asks_for_all():
    kind = FactAnchors()
    names = ["First", "Second", "Third"]
    anchor = dataclasses.replace(kind.sample, data={**kind.sample.data, "answers": names})
    prompt = load_prompt("fact")
    assert "If there are several answers, ask for all of them" in prompt.system
    user = prompt.render(kind.variables(anchor))[1]["content"]
    assert all(f"- {number}: {name} (" in user for number, name in enumerate(names, 1))


def test_examples_with_another_number_of_options_are_announced_to_the_model():
    prompt = load_prompt("rephrase_medqa")
    assert "The examples may have another number of options" in prompt.system
    assert prompt.schema["properties"]["wrong"]["minItems"] == 4
    assert prompt.schema["properties"]["reasoning"]["maxItems"] == 5
