"""Thoughts: told apart from answers, and sampled as the makers of the models advise."""

import pytest

from kgqa_hpc.engines.engine import Generation
from kgqa_hpc.engines.thinking import HARMONY, THINK, THOUGHTS, recorded_sampling, sampling_of


@pytest.mark.parametrize("family", THOUGHTS)
def test_thought_and_answer_are_told_apart(family: str) -> None:
    marks = THOUGHTS[family]
    said = f"{marks.begin}Hm.{marks.end}{marks.then}{{}}"
    assert marks.split(said) == ("Hm.", "{}")
    assert marks.split(said.removeprefix(marks.begin)) == ("Hm.", "{}"), (
        "the prompt ended with the opening mark"
    )
    assert marks.split("{}") == ("", "{}")


def test_a_prompt_that_ends_with_the_opening_mark_needs_no_second_one() -> None:
    assert THINK.after("<|im_start|>assistant\n<think>\n").begin == ""
    assert THINK.after("<|im_start|>assistant\n").begin == "<think>"
    assert HARMONY.after("<|start|>assistant") == HARMONY


@pytest.mark.parametrize(
    ("model", "thinks", "expected"),
    [
        ("Qwen/Qwen3-32B-AWQ", True, (0.6, {"top_p": 0.95, "top_k": 20})),
        ("Qwen/Qwen3-32B-AWQ", False, (0.7, {"top_p": 0.8, "top_k": 20})),
        ("Qwen/Qwen3-32B-AWQ", None, (0.0, {})),
        ("openai/gpt-oss-20b", True, (1.0, {"top_p": 1.0})),
        ("openai/gpt-oss-20b", False, (0.0, {})),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", True, (0.6, {"top_p": 0.95})),
        ("meta-llama/Llama-3.3-70B-Instruct", True, (0.0, {})),
    ],
)
def test_each_family_is_sampled_as_its_maker_advises(
    model: str, thinks: bool | None, expected: tuple[float, dict[str, float]]
) -> None:
    assert sampling_of(model, thinks, None) == expected


def test_the_configuration_comes_before_the_table_and_the_provenance_says_what_was_added() -> None:
    own = Generation(temperature=0.0, top_k=5)
    assert sampling_of("Qwen3-8B", True, own) == (0.0, {"top_p": 0.95, "top_k": 5})
    assert recorded_sampling("Qwen3-8B", True, own) == {"temperature": 0.0, "top_p": 0.95}
    assert recorded_sampling("Llama", True, own) == {}
