"""Conversion of a parse tree to statements, with all checks that need no graph.

A tree is converted from its leaves up: `_BUILD` or `_PLACED` makes the value of a rule of grammar.lark from the values
of its parts; any other rule is a command, which keeps them as its arguments.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import language as lang

# Lark's trees and tokens; the children of a tree are trees, tokens and None.
Tree = Any
Token = Any

MAX_PATTERN = 200
FUNCTIONS = ("lower", "upper", "length")

_MAX_DEPTH = 10
_HUGE = 10**18
_ESCAPE = re.compile(r"""\\(?:(["'\\nt])|u([0-9A-Fa-f]{4}))""")
_PLAIN = {"n": "\n", "t": "\t"}
_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\}|[{}]")


def _of_items(condition: lang.Condition | None) -> lang.Condition | None:
    """The condition, which must not refer to the end nodes of an edge or a path."""
    for comparison in lang.comparisons(condition):
        if comparison.end != "item":
            message = f"{comparison.end.upper()}_FILTER belongs to FIND edges and FIND paths only"
            raise ScriptError("syntax", message, comparison.place)
    return condition


def _set(name: lang.Word, value: Any) -> lang.Command:
    for item in value if isinstance(value, list) else ():
        lang.item_bytes(item)  # raises ScriptError for an item that is too large
    return lang.Command("set", (name, str(value) if isinstance(value, str) else value))


def _whole(digits: Token, largest: int, message: str) -> int:
    """A whole number from 1 to `largest`. Raises ScriptError `limit` with the message."""
    # Any number of more than 18 digits counts as 10**18: larger ones make no difference, and int() of a long text is
    # slow.
    value = int(digits) if len(digits) <= 18 else _HUGE
    if not 1 <= value <= largest:
        raise ScriptError("limit", message)
    return value


def _json_number(digits: Token) -> int | float:
    if (value := lang.number(digits)) is None:
        raise ScriptError("limit", "a number beyond 1e308")
    return value


def _string(at: lang.Place, token: Token) -> str:
    """The characters of a name, a word or a STRING."""
    if token.type != "STRING":
        return str(token)
    text = _ESCAPE.sub(lambda m: chr(int(m[2], 16)) if m[2] else _PLAIN.get(m[1], m[1]), token[1:-1])
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")  # joins surrogate pairs
    except UnicodeDecodeError:
        message = "a \\u escape in this string is half of a surrogate pair"
        raise ScriptError("syntax", message, at) from None


def _ref(at: lang.Place, token: Token) -> lang.Ref:
    name, *entries = token.split(".")
    return lang.Ref(str(token), name, tuple(entries), at)


def _field(at: lang.Place, token: Token) -> lang.Field:
    text = _string(at, token)
    return lang.Field(text, (text,) if token.type == "STRING" else tuple(text.split(".")), at)


def _comparison(
    at: lang.Place, end: str | None, field: lang.Field, relation: tuple[str, Any]
) -> lang.Comparison:
    op, operand = relation
    if op == "IN" and isinstance(operand, lang.Ref):
        op = "IN_VARIABLE"
    values = operand if type(operand) is tuple else (operand,)
    side: lang.End = "item" if end is None else "source" if end == "SOURCE_FILTER" else "target"
    return lang.Comparison(field, op.lower(), values, side, at)


def _regex(at: lang.Place, token: Token) -> str:
    """A pattern. Raises ScriptError `syntax` where Python or RE2 rejects it, or beyond 200 characters."""
    import re2

    pattern = _string(at, token)
    if len(pattern) > MAX_PATTERN:
        raise ScriptError("syntax", f"the pattern is longer than {MAX_PATTERN} characters", at)
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
        raise ScriptError("syntax", message, at) from None
    return pattern


def _call(at: lang.Place, function: Token, argument: lang.Expression) -> lang.Expression:
    if function.lower() not in FUNCTIONS:
        guess = lang.nearest(str(function), (name.upper() for name in FUNCTIONS))
        message = f"no function {function[:40]!r}; there are {', '.join(FUNCTIONS)}"
        raise ScriptError("syntax", message, at, guess)
    return lang.Expression("call", (function.lower(), argument))


def _template(at: lang.Place, token: Token) -> lang.Expression:
    """A STRING in an expression, as alternating texts and `{fields}`."""
    pieces: list[Any] = [""]
    text, end = _string(at, token), 0
    for piece in _PIECE.finditer(text):
        pieces[-1] += text[end : piece.start()]
        end = piece.end()
        if piece[1]:
            pieces += [lang.Field(piece[1], tuple(piece[1].split(".")), at), ""]
        elif piece[0] in ("{{", "}}"):
            pieces[-1] += piece[0][0]
        else:
            message = f"a single {piece[0]}: write {piece[0] * 2} for a brace, or {{field}}"
            raise ScriptError("syntax", message, at)
    pieces[-1] += text[end:]
    return lang.Expression("template", tuple(pieces))


# The value of a rule from the values of its parts; None for an absent clause.
_BUILD: dict[str, Callable[..., Any]] = {
    "set": _set,
    "found": lambda kind, condition, limit: lang.Found(
        kind.lower(), condition if kind == "EDGES" else _of_items(condition), limit
    ),
    "paths": lambda condition, direction, depth, limit: lang.Found(
        "paths", condition, limit, direction or "both", depth or 3
    ),
    "count_found": lambda search, field, by, unique: lang.Command("count", (search, field, None, by, unique)),
    "where": _of_items,
    "typed": lambda kind: (None, kind),
    "labelled": lambda label, kind: (label, kind),
    "forward": lambda kind=None: ("out", kind),
    "backward": lambda kind=None: ("in", kind),
    "either": lambda kind=None: ("both", kind),
    "compares": lambda op, value: ("compares", str(op), value),
    "has_field": lambda field: ("has_field", field),
    "exists": lambda: ("exists",),
    "empty": lambda *words: ("empty", "NOT" not in words),
    "cond": lambda *parts: lang.Compound("or", parts),
    "conj": lambda *parts: lang.Compound("and", parts),
    "negated": lambda signs, condition: lang.Compound("not", (condition,)) if signs % 2 else condition,
    "nots": lambda *signs: len(signs),
    "rel": lambda op, *operand: ("_".join([op, *operand]), ()) if op == "IS" else (str(op), *operand),
    "values": lambda *values: values,
    **dict.fromkeys(("expr", "term"), lambda *parts: lang.Expression("arithmetic", parts)),
    "minus": lambda *parts: lang.Expression("minus", parts),
    "minuses": lambda *signs: len(signs),
    "number": lambda digits: lang.Expression("number", (lang.number(digits),)),
    "read": lambda ref: lang.Expression("variable", (ref,)),
    "bracketed": lambda part: lang.Expression("bracketed", (part,)),
    "json_number": _json_number,
    "json_array": lambda *members: list(members),
    "json_object": lambda *pairs: dict(pairs),
    "constant": {"TRUE": True, "FALSE": False, "NULL": None}.get,
    "pair": lambda key, value: (key, value),
    "types": lambda *words: words,
    "amount": lambda digits: _whole(digits, _HUGE, "LIMIT, TOP and BATCH_SIZE are at least 1"),
    "hops": lambda digits: _whole(digits, _MAX_DEPTH, f"DEPTH and RADIUS go from 1 to {_MAX_DEPTH}"),
}
# Functions for rules whose value has a position in the script, which is their first argument.
_PLACED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("string", "text"), _string),
    **dict.fromkeys(("type", "name", "ptype"), lambda at, token: lang.Word(_string(at, token), at)),
    "ref": _ref,
    "variable": lambda at, token: _ref(at, token[1:]),
    "field": _field,
    "item_field": lambda at, token: lang.Expression("field", (_field(at, token),)),
    "value": lambda at, token: _ref(at, token[1:]) if token.type == "VARREF" else _string(at, token),
    "comparison": _comparison,
    "regex": _regex,
    "call": _call,
    "template": _template,
}


@dataclass(frozen=True)
class Builder:
    """Converts the parse tree of a text to statements; `problems` takes the first error of each faulty command.

    `position_of` gives the position of an offset in the text.
    """

    text: str
    position_of: Callable[[int], lang.Place]
    problems: list[ScriptError]

    def statements(self, tree: Tree) -> tuple[lang.Statement, ...]:
        """The statements of a `start`, `part`, `statements` or `simple` tree."""
        if tree.data == "simple":
            return self._simple(tree)
        if tree.data != "statements":
            return self.statements(tree.children[0]) if tree.children else ()
        built: list[lang.Statement] = []
        before = ""
        kinds = [statement.data for statement in tree.children]
        for position, statement in enumerate(tree.children):
            kind, body = statement.data, statement.children[-1]
            if kind == "plain":
                built.extend(self._simple(body))
            elif kind == "on":
                if before not in ("plain", "on"):
                    self._refuse(statement, "ON must follow a command")
                start, status = statement.meta.start_pos, statement.children[0].lower()
                text, at = self.text[start : statement.meta.end_pos], self.position_of(start)
                built.extend(lang.On(status, simple, text, at) for simple in self._simple(body))
            elif kind == "attempt":
                following = kinds[position + 1 : position + 2]
                if following not in (["rescue"], ["final"]) and not _is_broken(body.children[0]):
                    self._refuse(statement, "TRY without CATCH or FINALLY")
                built.append(lang.Attempt(self.statements(body), None, None))
            else:
                inside = self.statements(body)
                attempt = built[-1] if built else None
                allowed = ("attempt",) if kind == "rescue" else ("attempt", "rescue")
                if isinstance(attempt, lang.Attempt) and before in allowed:
                    built[-1] = attempt._replace(**{kind: inside})
                else:
                    word, context = ("CATCH", "TRY") if kind == "rescue" else ("FINALLY", "TRY or CATCH")
                    self._refuse(statement, f"{word} must stand right after {context}")
                    kind = "stray"
            before = kind
        return tuple(built)

    def _simple(self, tree: Tree) -> tuple[lang.Simple, ...]:
        """The command of a tree; none if it is faulty."""
        if _is_broken(tree):
            return ()
        position = self.position_of(tree.meta.start_pos)
        try:
            command, *into = map(self._build, tree.children)
        except ScriptError as problem:
            problem.place = problem.place or position
            self.problems.append(problem)
            return ()
        if isinstance(command, lang.Found):
            command = lang.Command("find", (command,))
        text = self.text[tree.meta.start_pos : tree.meta.end_pos]
        return (lang.Simple(command, into[0] if into else None, text, position),)

    def _refuse(self, tree: Tree, message: str) -> None:
        self.problems.append(ScriptError("syntax", message, self.position_of(tree.meta.start_pos)))

    def _build(self, tree: Tree | Token | None) -> Any:
        """The value of a rule; keywords in upper case, directions in lower case, other tokens as they are."""
        if tree is None:
            return None
        if not hasattr(tree, "children"):
            if tree.type == "DIR":
                return tree.lower()
            return tree.upper() if tree.type.startswith("_KW_") else tree
        parts = [self._build(child) for child in tree.children]
        if tree.data in _PLACED:
            return _PLACED[tree.data](self.position_of(tree.meta.start_pos), *parts)
        build = _BUILD.get(tree.data)
        return build(*parts) if build else lang.Command(str(tree.data), tuple(parts))


def _is_broken(tree: Tree) -> bool:
    """Whether the tree is a faulty command, which the parser has reported already."""
    return bool(tree.data == "simple" and getattr(tree.children[0], "type", "") == "BROKEN")
