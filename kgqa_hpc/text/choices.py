"""Options of multiple-choice records by letter, for every step that writes options."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any


def choices_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Options by letter: the member `choices`, or the list `options`; empty for a record without options."""
    choices, options = fields.get("choices"), fields.get("options")
    if isinstance(choices, Mapping):
        return dict(choices)
    return dict(zip(ascii_uppercase, options or (), strict=False))


def right_letter(fields: Mapping[str, Any]) -> str:
    """The letter of the correct option of a multiple-choice record."""
    if isinstance(fields.get("choices"), Mapping):
        return str(fields["answer_letter"])
    return ascii_uppercase[fields["correct_option"]]


def with_choices(question: str, choices: Mapping[str, str], between: str = "\n") -> str:
    """The question followed by its options, `A. …`; the question alone without options."""
    return between.join([question, *(f"{letter}. {text}" for letter, text in choices.items())])
