"""The rows of conformance.txt, scripts on the toy graph with what they give, computed by hand; and the examples of
docs/guide/gasl.md, which give, run as one script, the results that stand below them.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgqa_hpc.plugins.gasl.execute import Result
from kgqa_hpc.plugins.gasl.parser import _grammar, _keywords, read_script
from kgqa_hpc.plugins.gasl.world import Prompt
from tests.plugins.gasl.conftest import ANSWERS, PAGE, short

KINDS = ("syntax", "limit", "name", "type", "assert", "model")


class Row(NamedTuple):
    before: list[str]
    script: str
    observations: list[str]
    name: str


def rows() -> Iterator[Any]:
    text = Path(__file__).with_suffix(".txt").with_stem("conformance").read_text(encoding="utf-8")
    numbered = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line]
    before: list[str] = []
    section, command = "", "%"
    for position, (number, line) in enumerate(numbered):
        for _, following in numbered[position + 1 :]:
            if not following.startswith("    "):
                break
            line += f" {following.strip()}"
        if line.startswith("== "):
            section, before, command = line[3:], [], "%"
        elif line.startswith("| "):
            before.append(line[2:])
        elif line.startswith("> "):
            command = line[2:]
        elif section and not line.startswith("    "):
            script, observations = line.split(" => ")
            script = command.replace("%", script).replace("⏎", "\n")
            row = Row([*before], script, observations.split(" ;; "), section)
            yield pytest.param(row, id=f"line {number}")
            if section.endswith("…"):
                before.append(script)


def answers(prompts: Sequence[Prompt]) -> list[Any]:
    """The answers of the guide's examples; for another instruction, the instruction itself."""
    asked = [(prompt.kind or prompt.instruction, prompt.key) for prompt in prompts]
    entries = [(ANSWERS.get(text, {"*": text}), key) for text, key in asked]
    return [entry.get(key, entry.get("*")) for entry, key in entries]


def as_text(value: Any) -> str:
    """A value as JSON, which keeps kinds apart, with decimals to nine places."""
    return json.dumps(json.loads(json.dumps(value), parse_float=lambda digits: round(float(digits), 9)))


@pytest.mark.parametrize("row", list(rows()))
def test_a_script_gives_what_its_row_says(row: Row, run: Callable[..., Result]) -> None:
    text = "\n".join([*row.before, row.script])
    result, setup = run(text, ask=answers), run("\n".join(row.before), ask=answers)
    variables, steps = result.variables, result.steps[len(setup.steps) :]
    assert setup.error is None, row.name
    error = None
    for observation in row.observations:
        word, _, rest = observation.partition(" ")
        if word in KINDS:
            error = result.error
            assert error is not None, row.name
            position = f"{error['line'] - len(row.before)}:{error['column']}"
            assert " ".join(filter(None, (error["kind"], position, error["nearest"]))) == observation
            assert error["kind"] != "syntax" or (result.steps, variables) == ([], {})
        elif word == "problems":
            problems = [problem.place or (0, 0) for problem in read_script(text.encode())[1]]
            assert [f"{line}:{column}" for line, column in problems] == rest.split()
        elif word == "status":
            assert result.status == rest
        elif word == "steps":
            assert [step["status"] for step in steps] == rest.split()
        elif word == "skipped":
            assert steps[-1]["skipped"] == int(rest)
        elif word == "last" and not rest.startswith("="):
            expected = json.loads(rest)
            assert as_text({name: steps[-1][name] for name in expected}) == as_text(expected)
        elif word == "no":
            assert rest not in variables
        elif word == "values":
            assert as_text([item["v"] for item in variables["r"]]) == as_text(json.loads(rest))
        else:
            name, expected = (word, rest[2:]) if rest.startswith("= ") else ("r", observation)
            assert as_text(short(variables[name])) == as_text(json.loads(expected))
    assert result.error == error, row.name


EXAMPLES = re.findall(r"^```gasl\n(.*?)^```\n```json\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", range(len(EXAMPLES)), ids=[code.split(" ")[0] for code, _ in EXAMPLES])
def test_an_example_gives_what_stands_below_it(example: int, run: Callable[..., Result]) -> None:
    result = run("\n".join(code for code, _ in EXAMPLES[: example + 1]))
    assert result.error is None
    for name, expected in json.loads(EXAMPLES[example][1]).items():
        assert short(result.variables[name]) == expected


def test_every_command_has_an_example() -> None:
    words = set(_keywords(_grammar().parse_interactive("")))
    shown = " ".join(code for code, _ in EXAMPLES).upper()
    assert len(words) > 30
    assert {word for word in words if not re.search(rf"\b{word}\b", shown)} == set()
