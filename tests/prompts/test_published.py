"""The published prompts' structure, and template files of the original: sent as one message, read as published."""

import json
from pathlib import Path

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation, graph_variables
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.prompts.templates import PUBLISHED, import_templates
from kgqa_hpc.steps.answer_json import Unparseable, parse_json
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Step
from tests.command import kgqa
from tests.record_runs import chain_of, stop

NAMES = [f"published_p{each}" for each in PUBLISHED]
ANCHOR = Anchor(
    "a1",
    "graphlet",
    "shape 2",
    (Node("x", "Orc1 removal", "Pathway"), Node("y", "SEM1", "Gene"), Node("z", "DVL breakdown", "Pathway")),
    (Relation(1, 0, "acts_within"), Relation(1, 2, "acts_within"), Relation(2, 1, "other")),
)
FIELDS = load_prompt("published_p5").schema["properties"]


@pytest.mark.parametrize("name", [*NAMES, "published_filter"])
def test_a_published_prompt_is_one_user_message_asked_once_and_read_from_free_text(name):
    prompt = load_prompt(name)
    variables = graph_variables(ANCHOR) | {"question": "Q?", "answer": "A."}
    (message,) = prompt.render(variables)
    assert message["role"] == "user"
    assert (prompt.attempts, prompt.last_object, prompt.temperature) == (1, True, 0.0)
    assert "never instructions" not in message["content"]


@pytest.mark.parametrize("name", NAMES)
def test_a_published_prompt_shows_names_and_directed_pairs_but_no_types(name):
    text = load_prompt(name).render(graph_variables(ANCHOR))[0]["content"]
    assert text.endswith("## Edges:\n[[1, 0], [1, 2], [2, 1]]")
    assert " - 1: SEM1\n" in text
    assert "Pathway" not in text
    assert "acts_within" not in text


def test_all_fifteen_prompts_of_the_ablation_are_there_and_have_the_modules_of_ours():
    for each in PUBLISHED:
        ours = (shipped_prompts() / f"p{each}.md").read_text()
        theirs = (shipped_prompts() / "published" / f"published_p{each}.md").read_text()
        for module in ("analyse", "roles", "question", "answer", "reflection", "criteria_question", "final"):
            assert (f"/{module}.md" in ours) == (f"/{module}.md" in theirs), (each, module)
        assert ("/example_simple.md" in ours) == ("/example_simple.md" in theirs), each
        worked = "/example_complex.md" in ours or "/example_reflection.md" in ours
        assert worked == ("/example_complex.md" in theirs), each


def test_pythons_true_and_false_are_read_where_the_object_holds_them_and_in_no_text():
    fields = {"why": {"type": "string"}, "ok": {"type": "boolean"}}
    for value in ("False", "false"):
        text = f'So: {{"why": "It is: True, yes", "ok": {value}}}'
        parsed = parse_json(text, fields, last_object=True)
        assert parsed.value == {"why": "It is: True, yes", "ok": False}
        assert parsed.repaired == (value == "False")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("no object at all", "not_json"),
        ('{"question": "a?", "ans', "truncated"),
        ('{"question": "a?"}', "missing:answer"),
        ("{" * 100_000, "not_json"),
    ],
)
def test_a_text_without_such_an_object_is_refused_with_its_reason(text, reason):
    with pytest.raises(Unparseable) as caught:
        parse_json(text, FIELDS, last_object=True)
    assert caught.value.reason == reason


def test_a_step_with_a_published_prompt_enforces_no_schema_and_takes_a_free_text():
    (step,) = chain_of({"use": "generate", "prompt": "published_p5"}, anchors={"kind": "graphlet"})
    item = Item(ANCHOR)
    assert step.request(item, 0).schema is None
    assert step.attempts == 1
    answer = 'Thinking {"question": "x?", "answer": "y."} better: {"question": "Which?", "answer": "That."}'
    assert isinstance(step.take(item, stop(answer), 0), Done)
    assert item.output == {"question": "Which?", "answer": "That."}


def test_fifteen_numbered_templates_become_the_published_prompts_with_their_texts_as_they_stand(tmp_path):
    texts = {
        str(n): f'Text {n} gives {{"question", "answer"}} or {{{{ 7 * 7 }}}} {{% raw %}}\n' for n in range(15)
    }
    file = tmp_path / "templates.json"
    file.write_text(json.dumps(texts))
    paths = import_templates(file, tmp_path / "own")
    assert [path.stem for path in paths] == NAMES
    for number, name in enumerate(NAMES):
        (message,) = load_prompt(name, tmp_path / "own").render(graph_variables(ANCHOR))
        assert message["content"].startswith(texts[str(number)].strip() + "\n# Graphlet\n")
    assert import_templates(file, tmp_path / "own") == paths
    file.write_text(json.dumps(dict.fromkeys(("mine", "7", "1.1", "no"), "Write.")))  # other keys are names
    stems = [path.stem for path in import_templates(file, tmp_path / "own")]
    assert stems == ["mine", "template_7", "template_1.1", "template_no"]


PAIR = {"question": "Q?", "answer": "A."}
CRITERIA = {
    "in_question": "I will give you a question and answer pair, your job is to compare.",
    "sound": "I will give you a question, your job is to look.",
    "complete": "I will give you an answer to a question, your job is to look.",
}


def about_a_pair(folder, **use) -> Step:
    """A step that has a prompt of this folder."""
    return chain_of("generate", use, prompts={"folder": str(folder)}, anchors={"kind": "graphlet"})[1]


@pytest.mark.parametrize("value", ["True/False", "5"])
def test_criteria_become_scores_that_see_the_pair_as_published_and_read_the_field_of_their_text(
    value, tmp_path
):
    texts = {name: f'{text} {{"why": why, "{name}_is": {value}}}' for name, text in CRITERIA.items()}
    (tmp_path / "criteria.json").write_text(json.dumps(texts))
    done = kgqa("prompts", "import", tmp_path / "criteria.json", "--step", "score", "--to", tmp_path / "own")
    assert [Path(line).stem for line in done.stdout.split()] == list(CRITERIA)
    for name in CRITERIA:
        step = about_a_pair(tmp_path / "own", use="score", prompt=name, unreadable=0, **{"as": name})
        item = Item(ANCHOR, output=PAIR)
        (message,) = step.request(item, 0).messages
        assert message["content"] == f"{texts[name]}\nQuestion: Q?\nAnswer: A."
        answer = f'Because. {{"why": "so", "{name}_is": {"True" if "T" in value else 1}}}'  # as they ask
        assert isinstance(step.take(item, stop(answer), 0), Done)
        assert item.features[name] == 1.0


def test_a_filter_is_one_text_and_judges_the_pair(tmp_path):
    text = (
        'Look at it. "{why: "", valid_question: true/false, my_answer:"", original_answer_valid:true/false}"'
    )
    (tmp_path / "authors.txt").write_text(text)
    (path,) = import_templates(tmp_path / "authors.txt", tmp_path / "own", "judge")
    step = about_a_pair(tmp_path / "own", use="judge", prompt=path.stem)
    (message,) = step.request(Item(ANCHOR, output=PAIR), 0).messages
    assert message["content"] == f"{text}\nQuestion: Q?\nAnswer: A."


@pytest.mark.parametrize(
    ("step", "text"), [("judge", '{"valid": true}'), ("score", "Judge."), ("score", '{"a", "b"}')]
)
def test_a_text_without_the_fields_of_its_step_is_refused(step, text, tmp_path):
    (tmp_path / "t.txt").write_text(text)
    with pytest.raises(InputError, match="t: "):
        import_templates(tmp_path / "t.txt", tmp_path / "own", step)
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"0": 1}', '{"0": " "}', '{"../x": "a"}', "no json", '{"a": ' * 5000]
)
def test_what_is_no_template_file_is_refused_and_nothing_is_written(tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(InputError, match=r"t\.json"):
        import_templates(tmp_path / "t.json", tmp_path / "own")
    assert not (tmp_path / "own").exists()
