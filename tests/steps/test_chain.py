"""Generating and judging: what comes out of an answer, and which prompts a chain takes."""

import json
from dataclasses import replace

import pytest

from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.steps.step import Done, Reject, Retry
from tests.record_runs import chain_of

QUESTION = "Which transporter, when defective, lets copper build up in the liver?"
ANSWER = "ATP7B, which carries copper into the bile; its loss causes Wilson disease."

NO_QUESTION = Reject("judge: invalid question", decided=True)
NO_ANSWER = Reject("judge: invalid answer", decided=True)

ROLES = {"question_entities": ["Copper"], "answer_entities": ["ATP7B"]}


def invalid(reason):
    return Retry(reason, "invalid")


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, Done()),  # the final pair, not the draft
        ({"question": f"Which enzyme degrades 2-{'methyl' * 20}?"}, Done()),
        ({"question_entities": ["2-" + "methyl" * 50] * 4}, Done()),  # names as long as the prompt shows them
        ({"reflection": "x" * 800}, Done()),  # notes that were cut off do not cost the pair
        ({"worth_asking": False, "decline_reason": "Five names without a difference."}, Reject("declined")),
        ({"question": ""}, invalid("empty:question")),
        ({"answer": "Yes."}, invalid("too_short:answer")),
        ({"answer": "x" * 1200}, invalid("too_long:answer")),  # a decoding grammar closed the string there
        ({"question": "x" * 500}, invalid("too_long:question")),
        ({"answer": None}, invalid("wrong_type:answer")),
    ],
)
def test_a_pair_is_taken_declined_or_asked_for_again(item, chain, pair_text, stop, changes, outcome):
    fields = {"question": QUESTION, "answer": ANSWER, **ROLES, **changes}
    assert chain[0].take(item, stop(pair_text(**fields)), 0) == outcome
    output = {name: fields[name] for name in ("question", "answer", *ROLES)}
    assert item.output == (output if outcome == Done() else {})
    assert item.trace[0]["text"] == pair_text(**fields)


def test_a_mended_answer_is_marked(item, chain, pair_text, stop):
    assert chain[0].take(item, stop(f"Here you are: {pair_text()}"), 0) == Done()
    assert item.trace[0]["repaired"]


def with_prompts(**prompts):
    """The steps of a run with this section `prompts:`."""
    return chain_of("generate", "judge", prompts=prompts, anchors={"kind": "graphlet"})


@pytest.mark.parametrize(("allowed", "outcome"), [(True, Done()), (False, invalid("too_long:answer"))])
def test_a_cut_off_answer_is_taken_only_if_the_prompt_allows_it(item, stop, monkeypatch, allowed, outcome):
    step = with_prompts(generate="demo")[0]
    prompt = replace(step.prompt, allow_cut=allowed)
    monkeypatch.setattr(step, "prompts", (prompt,))
    longest = step.prompt.schema["properties"]["answer"]["maxLength"]
    text = json.dumps({"question": "What is so long about this?", "answer": "x" * longest})
    assert step.take(item, stop(text), 0) == outcome


def test_the_judge_sees_the_pair_and_not_the_graphlet(item, chain):
    item.output = {"question": "A\nquestion <|im_end|>?", "answer": ANSWER}
    user = chain[1].request(item, 0).messages[1]["content"]
    assert user == f"Question: A question < |im_end| >?\nAnswer: {ANSWER}"


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, Done()),
        ({"valid_question": False}, NO_QUESTION),
        ({"original_answer_valid": False}, NO_ANSWER),
        ({"valid_question": False, "original_answer_valid": False}, NO_QUESTION),
        ({"valid_question": "true"}, invalid("wrong_type:valid_question")),
        ({"my_answer": ""}, invalid("empty:my_answer")),
        ({"question": "Another question altogether?", "answer": "Another answer altogether."}, Done()),
    ],
)
def test_a_pair_is_accepted_if_both_parts_are_valid(item, chain, verdict_text, stop, changes, outcome):
    item.output = {"question": QUESTION, "answer": ANSWER}
    assert chain[1].take(item, stop(verdict_text(**changes)), 0) == outcome
    assert item.output == {"question": QUESTION, "answer": ANSWER}  # never taken from a judge
    fields = [] if isinstance(outcome, Retry) else [list(chain[1].prompt.schema["properties"])]
    assert [list(verdict) for verdict in item.verdicts.values()] == fields


def test_a_prompt_of_another_step_is_refused():
    with pytest.raises(PromptError, match=r"step generate: filter is a prompt of step judge") as caught:
        with_prompts(generate="filter")
    assert "prompts of step generate: " in caught.value.cure
    assert "p5" in caught.value.cure
    assert "filter" not in caught.value.cure, "only prompts that fit are listed"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("dance", "p5.md line 2: unknown step 'dance'; known: generate, judge"),
        ("judge", "step generate: p5 is a prompt of step judge"),
        ("generate", "p5.md line 3: a prompt of step generate needs the string field question in its schema"),
    ],
)
def test_a_prompt_must_serve_the_step_that_names_it(tmp_path, step, expected):
    (tmp_path / "p5.md").write_text(
        f"---\nstep: {step}\nschema: {{type: object, properties: {{answer: {{type: string, maxLength: 9}}}}, "
        "required: [answer], additionalProperties: false}\nmax_tokens: 100\n---\n"
        "{% block system %}Judge.{% endblock %}{% block user %}It.{% endblock %}\n"
    )
    with pytest.raises(PromptError) as caught:
        with_prompts(folder=str(tmp_path))
    assert expected in caught.value.message


def test_edge_types_reach_the_prompt_by_the_source_unless_the_configuration_says_otherwise(item):
    def user(**prompts):
        return with_prompts(**prompts)[0].request(item, 0).messages[1]["content"]

    assert user().endswith("Edges:\n- ATP7B —causes→ Wilson disease")  # the relations of HPO are specific
    assert user(edge_types=False).endswith("Edges: (1, 0)")


def test_a_judge_is_shown_the_anchor_only_if_its_prompt_asks_for_it(item, chain, pair_text, stop, tmp_path):
    chain[0].take(item, stop(pair_text()), 0)

    shipped = (shipped_prompts() / "filter.md").read_text(encoding="utf-8")
    asks = "{% block user %}\n{% if nodes[0][1] != question %}About {{ nodes[0][1] }}.{% endif %}\n"
    (tmp_path / "strict.md").write_text(shipped.replace("{% block user %}\n", asks), encoding="utf-8")
    _, strict = with_prompts(judge="strict", folder=str(tmp_path))
    assert strict.prompt.variables == {"nodes", "question", "answer"}
    assert strict.request(item, 0).messages[1]["content"].startswith("About Wilson disease.")
