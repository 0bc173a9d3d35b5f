"""The scripted engine: answers follow from the request, faults and the times of a GPU from the configuration."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.scripted import Batch, Cost, GpuModel, ScriptedEngine, ScriptedSettings
from kgqa_hpc.errors import EngineConfigError
from tests.engines.asking import BOOLEAN, QA, TEXT, an_object, answers_of, user, valid

JUDGE = an_object(question_reasoning=TEXT, valid_question=BOOLEAN, original_answer_valid=BOOLEAN)
PROMPT = "Nodes:\n- 0: Ataxia {n}\n- 1: Scoliosis (phenotype)\n\nEdges: 0-1"


def request(number: int, schema: dict[str, Any] | None = QA, seed: int = 0) -> Request:
    messages = (
        {"role": "system", "content": "Be exact."},
        {"role": "user", "content": PROMPT.format(n=number)},
    )
    return Request(f"r{number}-{seed}", messages, seed=seed, schema=schema)


def answers(requests: list[Request], **settings: object) -> dict[str, Response]:
    return answers_of(ScriptedEngine(ScriptedSettings.model_validate(settings)), requests)


def answer_to(prompt: str, **more: Any) -> str:
    return answers([user(prompt, id="r", **more)])["r"].text


def test_the_answer_follows_from_the_content_the_seed_and_the_model_alone() -> None:
    many = answers([request(n) for n in range(200)])
    alone = answers([Request("other", request(7).messages, seed=0, schema=QA)])
    assert alone["other"].text == many["r7-0"].text
    assert len({a.text for a in many.values()}) == 200
    texts = {answers([request(1, seed=s)])[f"r1-{s}"].text for s in range(5)}
    texts |= {answers([request(1)], model="other")["r1-0"].text}
    assert len(texts) == 6


def test_questions_and_answers_name_nodes_and_have_published_lengths() -> None:
    got = [json.loads(a.text) for a in answers([request(n) for n in range(500)]).values()]
    questions = [len(g["question"]) for g in got]
    lengths = [len(g["answer"]) for g in got]
    assert 79 <= min(questions) <= 130 <= statistics.mean(questions) <= 330 <= max(questions) <= 395
    assert 59 <= min(lengths) <= 250 <= statistics.mean(lengths) <= 800 <= max(lengths) <= 996
    assert all("Ataxia" in g["answer"] or "Scoliosis" in g["answer"] for g in got)
    assert all("(phenotype)" not in g["question"] for g in got)


@pytest.mark.parametrize("share", [0.0, 0.45, 1.0])
def test_the_judge_accepts_the_configured_share(share: float) -> None:
    got = [
        json.loads(a.text) for a in answers([request(n, JUDGE) for n in range(2000)], accept=share).values()
    ]
    accepted = sum(g["valid_question"] and g["original_answer_valid"] for g in got) / len(got)
    assert accepted == pytest.approx(share, abs=0.05)


def test_free_text_ends_with_the_object_whose_form_the_prompt_shows() -> None:
    form = 'Reply as JSON: {why: "", "valid_question": true/false, "score": 5}\n{"draft"} is no form.'
    value = json.loads(answer_to(f"{PROMPT}\n{form}").splitlines()[-1])
    kinds = {name: type(field) for name, field in value.items()}
    assert kinds == {"why": str, "valid_question": bool, "score": int}
    assert '{"' not in answers([request(1, None)])["r1-0"].text


@pytest.mark.parametrize(
    "prompt",
    ['Write the question "What is A?", its answer "B".', "What is A? Write this question about A again."],
)
def test_a_question_to_copy_is_copied(prompt: str) -> None:
    assert json.loads(answer_to(prompt, schema=QA))["question"] == "What is A?"


PATTERNS = ["^(Which|How) [^?]*[?]$", "^[^ ,am]+[.!]$", "^.*[.]$", "^(.|\\n)*$"]


def bounded(
    form: dict[str, Any], low: str, high: str, lows: Any, more: Any
) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(lows, more).map(lambda b: {**form, low: b[0], high: b[0] + b[1]})


STRINGS = bounded({"type": "string"}, "minLength", "maxLength", st.integers(0, 30), st.integers(0, 60))
FORMED = st.tuples(st.sampled_from(PATTERNS), st.integers(0, 30), st.integers(12, 60)).map(
    lambda b: {"type": "string", "pattern": b[0], "minLength": b[1], "maxLength": b[1] + b[2]}
)
NUMBERS = st.tuples(st.integers(-9, 9), st.integers(0, 20), st.sampled_from(["integer", "number"])).map(
    lambda b: {"type": b[2], "minimum": b[0], "maximum": b[0] + b[1]}
)
ENUMS = st.lists(st.text(), min_size=1, max_size=4).map(lambda texts: {"type": "string", "enum": texts})
PLAIN = st.sampled_from([BOOLEAN, {"type": "integer"}])
SCHEMAS = st.recursive(
    STRINGS | FORMED | NUMBERS | ENUMS | PLAIN,
    lambda inner: (
        st.dictionaries(st.text(min_size=1, max_size=8), inner, min_size=1, max_size=4).map(
            lambda p: an_object(**p)
        )
        | bounded({"type": "array"}, "minItems", "maxItems", st.integers(0, 3), st.integers(0, 3)).flatmap(
            lambda form: inner.map(lambda items: {**form, "items": items})
        )
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(SCHEMAS, st.integers(0, 2**31 - 1), st.text(max_size=200))
def test_answers_are_valid_for_any_schema_of_a_prompt(schema: dict[str, Any], seed: int, prompt: str) -> None:
    assert valid(json.loads(answer_to(prompt, seed=seed, schema=schema)), schema)


def test_faults_strike_at_their_rates_and_a_retry_has_another_fate() -> None:
    got = answers([request(n) for n in range(2000)], faults={"garbage": 0.2, "truncate": 0.1, "error": 0.1})
    finishes = [a.finish for a in got.values()]
    assert finishes.count("error") == pytest.approx(200, abs=60)
    assert finishes.count("length") == pytest.approx(200, abs=60)
    broken = [a for a in got.values() if a.finish == "stop" and not _is_pair(a.text)]
    assert len(broken) == pytest.approx(400, abs=80)
    again = answers([request(n, seed=1) for n in range(2000)], faults={"error": 0.1})
    errors = {n for n in range(2000) if got[f"r{n}-0"].finish == "error"}
    assert sum(again[f"r{n}-1"].finish == "error" for n in errors) < len(errors) / 2


def _is_pair(text: str) -> bool:
    try:
        return set(json.loads(text)) == {"question", "answer"}
    except ValueError:
        return False


def test_deadly_faults_need_a_process_of_their_own(tmp_path: Path) -> None:
    config = ScriptedSettings.model_validate({"faults": {"crash": 0.1}})
    with pytest.raises(EngineConfigError, match="process of its own"):
        ScriptedEngine(config)
    ScriptedEngine(config, tmp_path / "memory")


GPU = [  # the model's figures, the costs of requests, when each ends
    # Prefill is serial, decoding parallel.
    ({"batch": 4, "prefill_tokens_per_s": 1000, "decode_tokens_per_s": 10}, [(500, 0, 20)] * 2, [2.5, 3.0]),
    # Cached tokens are not read again.
    ({"batch": 1, "prefill_tokens_per_s": 1000}, [(1000, 900, 1)], [0.1]),
    # A waiting request takes a place at the moment it falls free.
    ({"batch": 2, "decode_tokens_per_s": 1}, [(0, 0, 5), (0, 0, 2), (0, 0, 1)], [5.0, 2.0, 3.0]),
    # Beyond saturation sequences share the speed: four at half speed until 4, two at full speed from then on.
    (
        {"batch": 4, "decode_tokens_per_s": 1, "saturation": 2},
        [(0, 0, tokens) for tokens in (2, 2, 4, 6)],
        [4.0, 4.0, 6.0, 8.0],
    ),
]


@pytest.mark.parametrize(("gpu", "costs", "times"), GPU)
def test_requests_end_when_the_gpu_would_have_answered_them(
    gpu: dict[str, Any], costs: list[tuple[int, int, int]], times: list[float]
) -> None:
    batch: Batch[int] = Batch(GpuModel(**gpu))
    for number, cost in enumerate(costs):
        batch.add(number, Cost(*cost), now=0.0)
    ends: dict[int, float] = {}
    while (now := batch.next_time()) is not None:
        ends |= dict.fromkeys(batch.pop_ready(now), now)
    assert ends == {n: pytest.approx(time) for n, time in enumerate(times)}


def test_looking_late_does_not_slow_the_gpu_down_and_clear_takes_out_what_runs_and_what_waits() -> None:
    batch: Batch[int] = Batch(GpuModel(batch=1, per_request_s=0.5))
    for n in range(5):
        batch.add(n, Cost(0, 0, 1, stretch=2.0), now=0.0)
    assert batch.pop_ready(2.5) == [0, 1]
    assert batch.busy_sequence_s == 2.0, "the time that sequences held a place"
    assert batch.next_time() == 3.0
    assert batch.clear() == [2, 3, 4]
    assert (batch.next_time(), len(batch)) == (None, 0)
