"""A step that asks in turns may have a prompt of its own, with a schema of its own, for each turn."""

import json
import sys

import pytest

from tests.command import kgqa
from tests.dataset.conftest import records_of
from tests.project import edit, write_graph

CONFIG = """
plugins: [my_steps.py]
prompts: {folder: prompts}
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 2, shapes: [1]}
engine: {kind: function, call: "turns_engine:answer"}
passes: [{name: main, steps: [generate, {use: reflect, prompt: draft, later_prompts: [revise]}]}]
dataset: {z_score: null}
"""
STEP = '''
from kgqa_hpc.columns import Column
from kgqa_hpc.steps.step import Ask, Done, Step


class Reflect(Step):
    """Ask for doubts, then twice for a grade."""

    name = "reflect"
    answer = {"doubt": "string"}
    later_answers = ({"grade": "integer"},)
    needs = ("question",)
    turns = 3
    columns = (Column("grade", "int64", "Grade of the last turn."), Column("doubt", "string", "Doubt of the first."))

    def variables(self, item):
        return {"question": item.output["question"], "doubt": item.state.get("doubt", "")}

    def accept(self, item, answer):
        if "doubt" in answer:
            item.state = {"doubt": answer["doubt"], "graded": 0}
            return Ask()
        item.state["graded"] += 1
        return Ask() if item.state["graded"] < 2 else Done(grade=answer["grade"], doubt=item.state["doubt"])
'''
ENGINE = """
def answer(messages, schema, seed):
    text = messages[-1]["content"]
    if "doubt" in schema["properties"]:
        return {"doubt": "Is it the only one?"}
    if "grade" in schema["properties"]:
        assert text.strip().endswith("Doubt: Is it the only one?")
        return {"grade": 4}
    empty = {"array": [], "boolean": True, "string": "Alpha comes before beta in this list."}
    return {name: empty[field["type"]] for name, field in schema["properties"].items()}
"""
PROMPT = """---
description: A prompt of one turn.
step: reflect
schema:
  type: object
  properties: {{{name}: {{type: {kind}}}}}
  required: [{name}]
  additionalProperties: false
max_tokens: 100
---
{{% block system %}}
You check questions.
{{% endblock %}}

{{% block user %}}
Question: {{{{ question }}}}
{more}
{{% endblock %}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_graph(tmp_path, nodes=30, edges=60)
    (tmp_path / "run.yaml").write_text(CONFIG)
    (tmp_path / "my_steps.py").write_text(STEP)
    (tmp_path / "turns_engine.py").write_text(ENGINE)
    (tmp_path / "prompts").mkdir()
    draft = PROMPT.format(name="doubt", kind="string, maxLength: 200", more="")
    (tmp_path / "prompts/draft.md").write_text(draft)
    revise = PROMPT.format(name="grade", kind="integer", more="Doubt: {{ doubt }}")
    (tmp_path / "prompts/revise.md").write_text(revise)
    monkeypatch.delitem(sys.modules, "turns_engine", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_turn_asks_with_its_own_prompt_and_the_last_one_repeats(folder):
    kgqa("all", folder / "run.yaml", folder / "run")
    records = records_of(folder / "run/dataset")
    assert [(record["grade"], record["doubt"]) for record in records] == [(4, "Is it the only one?")] * 2
    story = json.loads(kgqa("explain", folder / "run", records[0]["id"], "--json").stdout)
    asked = [request for request in story["requests"] if request["step"] == "reflect"]
    assert [request["prompt"]["name"] for request in asked] == ["draft", "revise", "revise"]
    assert [request["note"] for request in asked] == [None] * 3
    assert "Doubt: Is it the only one?" in asked[2]["messages"][-1]["content"]
    assert {"draft.md", "revise.md"} <= {path.name for path in (folder / "run/prompts").iterdir()}


def test_a_later_prompt_without_the_fields_of_its_turn_is_refused_by_init(folder):
    edit(folder / "prompts/revise.md", "grade", "mark")
    done = kgqa("init", folder / "run.yaml", folder / "run", code=2)
    assert "revise.md" in done.stderr
    assert "grade" in done.stderr


def test_later_prompts_of_a_step_that_asks_once_are_refused(folder):
    edit(folder / "run.yaml", "[generate,", "[{use: generate, later_prompts: [p1_1]},")
    refused = kgqa("init", folder / "run.yaml", folder / "run", code=2).stderr
    assert "later_prompts: step generate does not ask in turns" in refused


def test_a_step_that_reads_other_fields_in_later_turns_needs_their_prompts(folder):
    edit(folder / "run.yaml", ", later_prompts: [revise]", "")
    refused = kgqa("init", folder / "run.yaml", folder / "run", code=2).stderr
    assert "step reflect: draft serves later turns too: " in refused
    assert "name their prompts: later_prompts: [NAME]" in refused
