"""The tree of errors: what it draws is what it is, and each error ends in the right exit code."""

from __future__ import annotations

import inspect
import re

import pytest

from kgqa_hpc import errors

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]


def test_the_drawn_tree_names_every_error() -> None:
    drawn = set(re.findall(r"^[│├└─\s]*([A-Z]\w+)", errors.__doc__ or "", flags=re.MULTILINE))
    assert {c.__name__ for c in CLASSES} <= drawn


@pytest.mark.parametrize("kind", CLASSES)
def test_exit_codes_are_1_failed_2_bad_input_75_requeue(kind: type[errors.KgqaError]) -> None:
    expected = 2 if issubclass(kind, errors.InputError) else 75 if kind is errors.StoppedEarly else 1
    assert kind("message").exit_code == expected


def test_the_cure_stands_on_its_own_line_under_the_message() -> None:
    assert str(errors.InputError("edges.csv line 3: no target", "add one")) == (
        "edges.csv line 3: no target\n       add one"
    )
