"""Conversion of a parse tree to a command, with all checks that need no graph.

A tree is converted from its leaves up: `_BUILD` or a method of `CommandBuilder` makes the value of each rule of
grammar.lark from the values of its parts.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import commands as c
from kgqa_hpc.plugins.gasl import words as w
from kgqa_hpc.plugins.gasl.source import Source
from kgqa_hpc.plugins.gasl.values import MAX_ITEM_BYTES, item_bytes, number
from kgqa_hpc.plugins.gasl.words import Field, Literal_, Ref, Word, nearest

# Lark's trees and tokens; the children of a tree are of no one type.
Tree = Any
Token = Any

MAX_PATTERN = 200

_MAX_DEPTH = 10
_WALK_DEPTH, _PATH_DEPTH, _CONNECT_DEPTH = 1, 3, 4
_SHOWN = 10
_ESCAPE = re.compile(r"""\\(?:(["'\\nt])|u([0-9A-Fa-f]{4}))""")
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_PLAIN = {"n": "\n", "t": "\t"}
_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}|[{}]")


def _of_items(condition: w.Condition | None) -> w.Condition | None:
    """The condition, which must not refer to the end nodes of an edge or a path."""
    for comparison in w.comparisons(condition):
        if comparison.end != "item":
            message = f"{comparison.end.upper()}_FILTER belongs to FIND edges and FIND paths only"
            raise ScriptError("syntax", message, comparison.place)
    return condition


def _set(name: Word, value: Any) -> c.Set:
    if isinstance(value, list) and any(item_bytes(item) > MAX_ITEM_BYTES for item in value):
        raise ScriptError("limit", "an item of more than 64 KiB")
    return c.Set(name, str(value) if isinstance(value, str) else value)


def _count(
    source: Ref, field: Field | None, condition: w.Condition | None, by: Field | None, unique: str | None
) -> c.Count:
    return c.Count(source, field, _of_items(condition), by, unique is not None)


def _aggregate(ref: Ref, by: Field, op: str, of: Field | None) -> c.Aggregate:
    return c.Aggregate(ref, by, op.lower(), of)


def _add_field(ref: Ref, name: Word | str, value: w.Expression) -> c.AddField:
    return c.AddField(ref, name.text if isinstance(name, Word) else name, value)


def _update(name: Word, ref: Ref, operation: str | None, condition: w.Condition | None) -> c.Update:
    return c.Update(name, ref, (operation or "replace").lower(), _of_items(condition))


def _at_least_one(digits: Token) -> int:
    value = _int(digits)
    if value < 1:
        raise ScriptError("limit", "LIMIT, TOP and BATCH_SIZE are at least 1")
    return value


def _hops(digits: Token) -> int:
    value = _int(digits)
    if not 1 <= value <= _MAX_DEPTH:
        raise ScriptError("limit", f"DEPTH and RADIUS go from 1 to {_MAX_DEPTH}")
    return value


def _int(digits: Token) -> int:
    """Beyond eighteen digits all numbers are alike, and int() of a long text is slow."""
    return int(digits) if len(digits) <= 18 else 10**18


def _minus(signs: int, operand: w.Expression) -> w.Expression:
    for _ in range(signs if signs < 2 else 2 - signs % 2):  # pairs beyond the first cancel
        operand = w.Minus(operand)
    return operand


def _chain(first_operand: w.Expression, *operations: Any) -> w.Chain:
    pairs = zip(operations[::2], operations[1::2], strict=True)
    return w.Chain(first_operand, tuple((str(sign), operand) for sign, operand in pairs))


def _json_number(digits: Token) -> int | float:
    if (value := number(digits)) is None:
        raise ScriptError("limit", "a number beyond 1e308")
    return value


# The value of a rule from the values of its parts; None for an absent clause.
_BUILD: dict[str, Callable[..., Any]] = {
    "declare": c.Declare,
    "set": _set,
    "found": lambda kind, condition, limit: c.Found(
        kind.lower(), condition if kind == "EDGES" else _of_items(condition), limit=limit
    ),
    "paths": lambda condition, direction, depth, limit: c.Found(
        "paths", condition, direction or "both", depth or _PATH_DEPTH, limit
    ),
    "ask": c.Ask,
    "generate": lambda kind, ref, text: c.Generate(kind.text, ref, text),
    "iterate": lambda ref, size, body: c.Iterate(ref, size, body(ref)),
    "asked": lambda verb, text: partial(c.Ask, verb, instruction=text),
    "counted": lambda *parts: lambda ref: _count(ref, *parts),
    "aggregated": lambda *parts: lambda ref: _aggregate(ref, *parts),
    "count": _count,
    "count_found": lambda source, field, by, unique: _count(source, field, None, by, unique),
    "aggregate": _aggregate,
    "join": c.Join,
    "merge": lambda *refs: c.Merge(refs),
    "compare": c.Compare,
    "group": c.Group,
    "cluster": lambda ref, via: c.Cluster(ref, via or ()),
    "select": lambda ref, *fields: c.Select(ref, fields),
    "rank": lambda ref, by, order, top: c.Rank(ref, by, order != "ASC", top),
    "add_field": _add_field,
    "create": lambda verb, ref, kind: c.Create(
        verb.removeprefix("CREATE_").lower(), ref, kind.text if kind else None
    ),
    "update": _update,
    "walk": lambda ref, follow, direction, depth: c.Walk(
        ref, follow or (), direction or "both", depth or _WALK_DEPTH
    ),
    "connect": lambda start, end, via, direction, depth: c.Connect(
        start, end, via or (), direction or "both", depth or _CONNECT_DEPTH
    ),
    "subgraph": lambda ref, radius, include: c.Subgraph(ref, radius, include or ()),
    "pattern": lambda *parts: c.Pattern(parts[:-1:2], parts[1:-1:2], parts[-1]),
    "typed": lambda kind: c.PatternNode(None, kind),
    "labelled": lambda label, kind: c.PatternNode(label.text, kind),
    "forward": lambda kind=None: c.PatternEdge("out", kind),
    "backward": lambda kind=None: c.PatternEdge("in", kind),
    "either": lambda kind=None: c.PatternEdge("both", kind),
    "check": lambda verb, ref, test: c.Check(verb, ref, *test),
    "compares": lambda op, value: ("compares", str(op), value),
    "has_field": lambda field: ("has_field", "", None, field),
    "exists": lambda: ("exists",),
    "empty": lambda *words: ("not_empty" if "NOT" in words else "empty",),
    "cancel": lambda plan: c.Cancel(plan.text if plan else None),
    "show": lambda ref, limit: c.Show(ref, limit or _SHOWN),
    "debug": c.DebugFound,
    "inspect": c.Inspect,
    "cond": lambda *parts: w.Any_(parts),
    "conj": lambda *parts: w.All(parts),
    "negated": lambda signs, condition: w.Not(condition) if signs % 2 else condition,
    "nots": lambda *signs: len(signs),
    "rel": lambda op, *operand: (
        ("_".join([op, *operand]).lower(), ()) if op == "IS" else (op.lower(), *operand)
    ),
    "values": lambda *values: values,
    "expr": _chain,
    "term": _chain,
    "minus": _minus,
    "minuses": lambda *signs: len(signs),
    "number": lambda digits: w.Number(number(digits)),
    "read": w.Variable,
    "bracketed": lambda part: part._replace(alone=False) if isinstance(part, w.Name) else part,
    "json_number": _json_number,
    "json_array": lambda *members: list(members),
    "json_object": lambda *pairs: dict(pairs),
    "constant": {"TRUE": True, "FALSE": False, "NULL": None}.get,
    "pair": lambda key, value: (key, value),
    "types": lambda *words: words,
    "amount": _at_least_one,
    "hops": _hops,
}


class CommandBuilder:
    """Makes commands of the trees of one source. Raises ScriptError."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._at = source.place(0)  # where the rule that is being built begins

    def command(self, tree: Tree) -> tuple[c.Command, Word | None]:
        """The command of a `simple` tree and the variable after AS."""
        command, *into = map(self._build, tree.children)
        return command, into[0] if into else None

    def _build(self, tree: Tree | Token | None) -> Any:
        """The value of a rule; keywords in upper case, directions in lower case, other tokens as they are."""
        if tree is None:
            return None
        if not hasattr(tree, "children"):
            if tree.type == "DIR":
                return tree.lower()
            return tree.upper() if tree.type.startswith("_KW_") else tree
        parts = [self._build(child) for child in tree.children]
        self._at = self.source.place(tree.meta.start_pos)
        return (_BUILD.get(tree.data) or getattr(self, f"_{tree.data}"))(*parts)

    def _string(self, token: Token) -> str:
        """The characters of a name, a word or a STRING."""
        if token.type != "STRING":
            return str(token)
        text = _ESCAPE.sub(lambda m: chr(int(m[2], 16)) if m[2] else _PLAIN.get(m[1], m[1]), token[1:-1])
        text = _HALVES.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        if _HALF.search(text):
            raise ScriptError("syntax", "a \\u escape in this string is half of a character", self._at)
        return text

    _text = _string

    def _type(self, token: Token) -> Word:
        return Word(self._string(token), self._at)

    _name = _ptype = _type

    def _ref(self, token: Token) -> Ref:
        name, *entries = token.split(".")
        return Ref(str(token), name, tuple(entries), self._at)

    def _variable(self, token: Token) -> Ref:
        return self._ref(token[1:])

    def _field(self, token: Token) -> Field:
        text = self._string(token)
        return Field(text, (text,) if token.type == "STRING" else tuple(text.split(".")), self._at)

    def _item_field(self, token: Token) -> w.Name:
        return w.Name(self._field(token), alone="." not in token)

    def _value(self, token: Token) -> Literal_:
        if token.type == "VARREF":
            return Literal_(str(token), ref=self._variable(token))
        text = self._string(token)
        if token.type == "STRING":
            return Literal_(text)
        if token.type == "NUMBER":
            return Literal_(text, number=number(text))
        return Literal_(text, truth={"true": True, "false": False}.get(text.lower()))

    def _comparison(self, end: str | None, field: Field, relation: tuple[str, Any]) -> w.Comparison:
        op, operand = relation
        side: w.End = "item" if end is None else "source" if end == "SOURCE_FILTER" else "target"
        if isinstance(operand, Ref):
            return w.Comparison(field, "in_variable", ref=operand, end=side, place=self._at)
        values = (operand,) if isinstance(operand, Literal_) else operand
        return w.Comparison(field, op, values, end=side, place=self._at)

    def _regex(self, token: Token) -> Literal_:
        """A pattern. Raises ScriptError `syntax` where Python or RE2 rejects it, or beyond 200 characters."""
        import re2

        pattern = self._string(token)
        if len(pattern) > MAX_PATTERN:
            raise ScriptError("syntax", f"the pattern is longer than {MAX_PATTERN} characters", self._at)
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
            message = f"not a pattern that Python and RE2 share: {reason!r}"
            raise ScriptError("syntax", message, self._at) from None
        return Literal_(pattern)

    def _call(self, function: Token, argument: w.Expression) -> w.Call:
        if function.lower() not in w.FUNCTIONS:
            guess = nearest(str(function), (name.upper() for name in w.FUNCTIONS))
            message = f"no function {function[:40]!r}: lower, upper, length"
            raise ScriptError("syntax", message, self._at, guess)
        return w.Call(function.lower(), argument)

    def _template(self, token: Token) -> w.Template:
        """A STRING in an expression, as alternating texts and `{fields}`."""
        texts, fields = [""], []
        text, end = self._string(token), 0
        for piece in _PIECE.finditer(text):
            texts[-1] += text[end : piece.start()]
            end = piece.end()
            if piece[1]:
                fields.append(Field(piece[1], tuple(piece[1].split(".")), self._at))
                texts.append("")
            elif piece[0] in ("{{", "}}"):
                texts[-1] += piece[0][0]
            else:
                message = f"a {piece[0]} alone: write {piece[0] * 2}, or {{field}}"
                raise ScriptError("syntax", message, self._at)
        texts[-1] += text[end:]
        return w.Template(tuple(texts), tuple(fields))
