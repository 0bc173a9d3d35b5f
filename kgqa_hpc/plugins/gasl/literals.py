"""Tokens of a script as values: strings with their escapes, numbers, JSON, templates and patterns.

A token without a valid value raises ScriptError with its position.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.source import Place
from kgqa_hpc.plugins.gasl.words import Field, Template

# Lark's trees and tokens; the children of a tree are of no one type.
Tree = Any
Token = Any

LARGEST = 1e308
MAX_PATTERN = 200
MAX_ITEM_BYTES = 64 * 1024

_ESCAPE = re.compile(r"""\\(?:(["'\\nt])|u([0-9A-Fa-f]{4}))""")
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_PLAIN = {"n": "\n", "t": "\t"}
_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}|[{}]")
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def unquote(token: Token, position: Place) -> str:
    """The characters a STRING token stands for. Raises ScriptError when a \\u escape is half a character."""
    text = _ESCAPE.sub(lambda m: chr(int(m[2], 16)) if m[2] else _PLAIN.get(m[1], m[1]), token[1:-1])
    text = _HALVES.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
    if _HALF.search(text):
        raise ScriptError("syntax", "a \\u escape in this string is half of a character", position)
    return text


def number(text: str) -> int | float | None:
    """The value of a JSON number; None for other text, or a number beyond 1e308."""
    if _JSON_NUMBER.fullmatch(text) is None:
        return None
    if text.lstrip("-").isdigit():
        return int(text) if len(text) <= 310 and abs(int(text)) <= int(LARGEST) else None
    value = float(text)
    return value if abs(value) <= LARGEST else None


def small_int(text: str) -> int:
    """An INT token; beyond eighteen digits all are alike, and int() of a long text is slow."""
    return int(text) if len(text) <= 18 else 10**18


def json_value(tree: Tree, position: Place) -> Any:
    """The value of a `json` tree; at most 50 deep, the parser has seen to it."""
    kind, children = tree.data, tree.children
    if kind == "json_array":
        return [json_value(child, position) for child in children]
    if kind == "json_object":
        pairs = (pair.children for pair in children)
        return {unquote(key, position): json_value(value, position) for key, value in pairs}
    if kind == "json_text":
        return unquote(children[0], position)
    if kind == "json_number":
        value = number(children[0])
        if value is None:
            raise ScriptError("limit", "a number beyond 1e308")
        return value
    return {"json_true": True, "json_false": False, "json_null": None}[kind]


def template(token: Token, position: Place) -> Template:
    """A STRING in an expression, as alternating texts and `{fields}`."""
    texts, fields = [""], []
    text, end = unquote(token, position), 0
    for piece in _PIECE.finditer(text):
        texts[-1] += text[end : piece.start()]
        end = piece.end()
        if piece[1]:
            fields.append(Field(piece[1], tuple(piece[1].split(".")), position))
            texts.append("")
        elif piece[0] in ("{{", "}}"):
            texts[-1] += piece[0][0]
        else:
            raise ScriptError("syntax", f"a {piece[0]} alone: write {piece[0] * 2}, or {{field}}", position)
    texts[-1] += text[end:]
    return Template(tuple(texts), tuple(fields))


def check_pattern(pattern: str, position: Place) -> None:
    """Raises ScriptError `syntax` for a pattern that Python or RE2 rejects, or of more than 200 characters."""
    import re2

    if len(pattern) > MAX_PATTERN:
        raise ScriptError("syntax", f"the pattern is longer than {MAX_PATTERN} characters", position)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
        options = re2.Options()
        options.log_errors = False
        re2.compile(pattern, options)
    except (re.error, re2.error, OverflowError, RecursionError) as problem:
        reason = problem.args[0] if problem.args else "not a pattern"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ScriptError(
            "syntax", f"not a pattern that Python and RE2 share: {reason!r}", position
        ) from None
