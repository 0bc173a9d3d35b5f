"""The prompts that come with the package: complete, in order, and their answers within every engine's reach; those of
production tell a strong model what it needs, and contradict neither themselves nor the parser.
"""

import dataclasses
import itertools
import re

import pytest
import yaml

from kgqa_hpc.anchors.fact import FactAnchors
from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.config import load_config
from kgqa_hpc.engines.grammar import ebnf, read_form
from kgqa_hpc.plugins.gasl.script import ScriptAnchors
from kgqa_hpc.prompts.files import Folders, lacking, shipped_prompts
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps import STEPS

KIND = GraphletAnchors()
PAIR = {"question": "A question?", "answer": "An answer."}
# What each prompt of the ablation consists of (BioGraphletQA, 3.2.1), beside task and form of the reply.
PARTS = {
    "p1_1": "",
    "p1_2": "example_simple",
    "p2_1": "question answer",
    "p2_2": "question answer example_simple",
    "p3_1": "analyse final",
    "p3_2": "analyse roles final",
    "p3_3": "analyse roles example_simple final",
    "p3_4": "analyse roles question answer final",
    "p3_5": "analyse roles question answer example_simple final",
    "p4_1": "reflection",
    "p4_2": "reflection example_reflection",
    "p4_3": "reflection criteria_question criteria_answer",
    "p4_4": "reflection criteria_question criteria_answer example_reflection",
    "p4_5": "question answer reflection criteria_question criteria_answer example_reflection",
    "p5": "analyse roles question answer reflection criteria_question criteria_answer example_complex final",
}
ABLATION = list(PARTS)
SHIPPED = [*ABLATION, "filter", "demo", "demo_filter"]


def module_text(name):
    text = (shipped_prompts() / "modules" / f"{name}.md").read_text(encoding="utf-8").strip()
    for word, meaning in Folders.with_user(None).words().items():
        text = text.replace(f"{{{{ domain.{word} }}}}", meaning)
    return text


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_prompt_asks_for_what_its_step_reads_in_the_order_of_a_schema_of_every_engine(name):
    prompt = load_prompt(name)
    assert list(lacking(prompt.fields, prompt.step, STEPS.get(prompt.step).answer)) == []
    ebnf(prompt.schema)
    if name not in ("demo", "demo_filter"):  # their model follows the decoding grammar only
        reply = prompt.system[prompt.system.index("# Form of the reply") :]
        example = yaml.safe_load(reply[reply.index("{") :])
        assert list(example) == list(prompt.schema["properties"])


@pytest.mark.parametrize("name", SHIPPED)
def test_only_the_user_message_depends_on_the_item(name):
    prompt = load_prompt(name)
    first = KIND.variables(KIND.sample) | PAIR
    second = {**first, "nodes": [(0, "Other", "Gene")] * 3, "question": "Q2?", "answer": "A2."}
    messages = prompt.render(first), prompt.render(second)
    assert messages[0][0] == messages[1][0] == {"role": "system", "content": prompt.system}
    assert messages[0][1] != messages[1][1]


@pytest.mark.parametrize("name", ABLATION)
def test_a_prompt_of_the_ablation_consists_of_the_published_modules(name):
    system = load_prompt(name).system
    parts = PARTS[name].split()
    every = {part for parts in PARTS.values() for part in parts.split()}
    assert [part for part in parts if module_text(part) in system] == parts
    assert not [part for part in every - set(parts) if module_text(part) in system]
    places = [system.index(module_text(part)) for part in parts]
    assert places == sorted(places)
    assert (module_text("instructions") in system.split("\n")) == bool(set(parts) - {"example_simple"})


# What may stand empty, ask by an incomplete sentence, belong to a model that is too small, or to another pipeline.
FREE = ("plan", "rephrase_medqa", "demo_")


def test_the_grammar_of_every_question_of_ours_makes_it_end_in_a_question_mark():
    bound, published = [], []
    for name in Folders.with_user(None).names():
        if name.startswith("published"):  # they have no form, as they have no schema
            assert "pattern:" not in load_prompt(name).text
            published.append(name)
        if name.startswith((*FREE, "published")):
            continue
        properties = load_prompt(name).schema["properties"]
        pairs = properties.get("pairs", {}).get("items", {}).get("properties")
        question = (pairs or properties).get("question")
        if question is not None:
            assert read_form(question["pattern"]).ends == "?", name
            bound.append(name)
    assert {*ABLATION, "demo", "fact", "path", "puzzle", "script", "hub", "context", "extract"} <= set(bound)
    assert len(published) >= 16


def test_the_demo_asks_with_an_interrogative_and_answers_in_one_sentence_that_ends():
    prompt = load_prompt("demo")
    question, answer = (read_form(prompt.schema["properties"][key]["pattern"]) for key in PAIR)
    assert not prompt.allow_cut
    assert set(question.begins) == {"Which ", "What ", "How "}
    assert question.holds("Which gene is altered?")
    assert not question.holds("Which gene is altered? It is")
    assert not question.holds("The gene is altered?")
    assert answer.holds("It is altered.")
    assert not answer.holds("It is altered")


def test_the_judge_reasons_before_each_verdict():
    question, answer = ["question_reasoning", "valid_question"], ["answer_reasoning", "original_answer_valid"]
    assert list(load_prompt("filter").schema["properties"]) == [*question, "my_answer", *answer]
    assert list(load_prompt("demo_filter").schema["properties"]) == [*question, *answer]


PRODUCTION = ("p5", "path", "fact", "script", "puzzle", "hub", "context")


@pytest.mark.parametrize("name", PRODUCTION)
def test_every_production_prompt_lets_the_model_decline_with_a_reason(name):
    prompt = load_prompt(name)
    fields = list(prompt.schema["properties"])
    assert fields.index("decline_reason") + 1 == fields.index("worth_asking") < fields.index("question")
    assert "worth_asking to false when" in prompt.system


def test_modules_hold_no_prompt_twice():
    texts = [module_text(file.stem) for file in (shipped_prompts() / "modules").glob("*.md")]
    for one, other in itertools.permutations(texts, 2):
        assert one not in other or len(one) < 40


def test_the_text_that_a_run_keeps_is_the_same_prompt(tmp_path):
    for name in SHIPPED:
        prompt = load_prompt(name)
        (tmp_path / f"{name}.md").write_text(prompt.text, encoding="utf-8")
        assert load_prompt(name, tmp_path) == prompt


def test_a_graph_of_another_field_is_not_asked_biomedical_questions():
    for name in SHIPPED:
        text = load_prompt(name, domain="general").text.split("---", 2)[2]
        assert not re.findall("biomed|clinic|patient|drug|gene |disease", text.lower()), name
        assert load_prompt(name, domain="general").sha256 != load_prompt(name).sha256


@pytest.mark.parametrize("name", [name for name in SHIPPED if not name.startswith("demo")])
def test_the_longest_answer_that_a_schema_allows_fits_max_tokens(name):
    """At 3,398 characters for 748 tokens, as the published answers are (docs/guide/prompts.md)."""
    prompt = load_prompt(name)
    size = 0
    for field, kind in prompt.schema["properties"].items():
        each = kind.get("maxLength", 5) if kind["type"] != "array" else 40 * kind["maxItems"]
        size += len(field) + 6 + each
    assert size / (3398 / 748) <= prompt.max_tokens


CONFIGS = shipped_prompts().parent / "configs"


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


@pytest.mark.parametrize("name", ["hub.yaml", "context.yaml"])
def test_what_the_graph_does_not_prove_is_judged(name):
    steps = [step.use for step in load_config(CONFIGS / name).steps]
    assert {"judge", "judge_options", "score"} & set(steps)


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
