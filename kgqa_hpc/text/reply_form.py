"""Parser of reply forms in a prompt's instructions: `{"question", "answer"}`, `{why: "", valid: true/false, score: 5}`.

Such forms are seldom valid JSON, so they are split at commas and colons.
"""

from __future__ import annotations

_QUOTES = " \t\n\"'"


def reply_form(text: str) -> dict[str, str] | None:
    """The type (string, boolean, integer) of each field of the last form in a text; None without a form."""
    for group in reversed(text.split("}")[:-1]):
        parts = [part.partition(":") for part in group.rpartition("{")[2].split(",")]
        named = [part for part in parts if part[1]] or parts
        fields = {name.strip(_QUOTES): _type(value.strip(_QUOTES)) for name, _, value in named}
        if (len(fields) > 1 or named[0][1]) and all(name.isidentifier() for name in fields):
            return fields
    return None


def _type(value: str) -> str:
    if value.lower().startswith(("true", "false")):
        return "boolean"
    return "integer" if value.isdecimal() else "string"
