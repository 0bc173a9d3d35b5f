"""docs/guide/gasl.md is true: its examples, run as one script, give the results that stand below them."""

import json
import re
from collections.abc import Callable

import pytest

from kgqa_hpc.plugins.gasl.execute import Result
from kgqa_hpc.plugins.gasl.parser import _grammar, _keywords
from tests.plugins.gasl.conftest import PAGE, short

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
