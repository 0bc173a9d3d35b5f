"""Whole runs give the records, counts, answers of commands and pages that were recorded (see record.py).

A case of a plugin that was taken out of the package is skipped, and so are the plugin's commands in other cases.
"""

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import CASES, is_taken_out
from tests.golden.observe import observe
from tests.golden.record import DATA, read

SHOWN = 60  # differences that a failure prints
QUICK = ("graphlet", "fact", "mistakes")  # cases of a quick check
CLOSE = 1e-6  # relative; figures of linear algebra vary with its library


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """A line for each difference between two documents: where, old and new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key in old and key in new:
                yield from differences(old[key], new[key], f"{where}/{key}")
            else:
                state, value = ("missing", old[key]) if key in old else ("new", new[key])
                yield f"{where}/{key} is {state}: {str(value)[:200]!r}"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{where}/{number}")
    elif isinstance(old, list) and isinstance(new, list):
        changed = difflib.ndiff(*([str(entry) for entry in entries] for entries in (old, new)))
        yield from (f"{where}: {line[:300]}" for line in changed if line[0] in "+-")
    elif isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, rel_tol=CLOSE):
        return
    elif old != new or type(old) is not type(new):
        yield f"{where}: {str(old)[:300]!r} became {str(new)[:300]!r}"


def summary(lines: list[str]) -> str:
    """How often each field differs, then the first differences."""
    fields = Counter(
        re.sub(r"^(/records/\w+)/[^/: ]+", r"\1/ID", re.split(r": | is ", line)[0]) for line in lines
    )
    counts = [f"{number:6} x {field}" for field, number in fields.most_common(SHOWN)]
    return "\n".join([f"{len(lines)} differences", *counts, "", *lines[:SHOWN]])


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_run_gives_what_it_gave(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if is_taken_out(case.plugin):
        pytest.skip(f"the plugin {case.plugin} was taken out")
    for module in case.needs:
        pytest.importorskip(module, reason=f"{module} IS NOT INSTALLED (make installs all extras)")
    old, new = read(name), observe(name, tmp_path)
    for command in [command for command in old["commands"] if is_taken_out(command.partition(":")[0])]:
        del old["commands"][command]
        del new["commands"][command]
    lines = list(differences(old, new))
    assert not lines, summary(lines)


def test_each_case_has_a_recording_and_each_recording_a_case() -> None:
    assert sorted(path.name for path in DATA.iterdir()) == sorted(f"{name}.json.gz" for name in CASES)


def test_a_difference_is_told_by_id_field_old_and_new_value() -> None:
    old = {
        "records": {"accepted": {"g01": {"answer": "a", "score": 1.0}, "g02": {"answer": "b"}}},
        "page": ["x"],
    }
    new = {"records": {"accepted": {"g01": {"answer": "c", "score": 1.0 + 1e-9}}}, "page": ["x", "y"]}
    assert list(differences(old, new)) == [
        "/page: + y",
        "/records/accepted/g01/answer: 'a' became 'c'",
        "/records/accepted/g02 is missing: \"{'answer': 'b'}\"",
    ]
    assert "1 x /records/accepted/ID/answer" in summary(list(differences(old, new)))
