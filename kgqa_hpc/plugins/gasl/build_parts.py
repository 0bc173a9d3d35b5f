"""The parts that commands share: names, types, bounds, conditions, expressions and patterns of nodes."""

from __future__ import annotations

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import commands as c
from kgqa_hpc.plugins.gasl import words as w
from kgqa_hpc.plugins.gasl.literals import Token, Tree, check_pattern, number, small_int, template, unquote
from kgqa_hpc.plugins.gasl.source import Place, Source
from kgqa_hpc.plugins.gasl.words import Field, Literal_, Ref, Word, nearest

_MAX_DEPTH = 10


class PartBuilder:
    """Turns parts of a tree into names, conditions and expressions. Raises ScriptError."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def part(self, tree: Tree, name: str) -> Tree | None:
        return next((child for child in tree.children if getattr(child, "data", None) == name), None)

    def at(self, token: Token) -> Place:
        return self.source.place(int(token.start_pos or 0))

    def string(self, token: Token) -> str:
        """The characters of a name, a word or a STRING."""
        return unquote(token, self.at(token)) if token.type == "STRING" else str(token)

    def word(self, token: Token) -> Word:
        return Word(self.string(token), self.at(token))

    def type(self, tree: Tree) -> Word:
        return self.word(tree.children[0])

    def types(self, tree: Tree, clause: str) -> tuple[Word, ...]:
        clause_tree = self.part(tree, clause)
        return tuple(self.type(child) for child in clause_tree.children[0].children) if clause_tree else ()

    def text(self, tree: Tree) -> str:
        return self.string(tree.children[0])

    def ref(self, tree: Tree) -> Ref:
        return self._ref(tree.children[0], str(tree.children[0]))

    def _ref(self, token: Token, text: str) -> Ref:
        name, *entries = text.split(".")
        return Ref(text, name, tuple(entries), self.at(token))

    def field(self, tree: Tree) -> Field:
        token = tree.children[0]
        text = self.string(token)
        return Field(text, (text,) if token.type == "STRING" else tuple(text.split(".")), self.at(token))

    def field_of(self, tree: Tree) -> Field | None:
        field_tree = self.part(tree, "field")
        return self.field(field_tree) if field_tree else None

    def at_least_one(self, token: Token) -> int:
        value = small_int(token)
        if value < 1:
            raise ScriptError("limit", "LIMIT, TOP and BATCH_SIZE are at least 1")
        return value

    def bounded(self, token: Token) -> int:
        value = small_int(token)
        if not 1 <= value <= _MAX_DEPTH:
            raise ScriptError("limit", f"DEPTH and RADIUS go from 1 to {_MAX_DEPTH}")
        return value

    def limit(self, tree: Tree) -> int | None:
        limit_tree = self.part(tree, "limit")
        return self.at_least_one(limit_tree.children[0]) if limit_tree else None

    def depth(self, tree: Tree, default: int) -> int:
        depth_tree = self.part(tree, "depth")
        return self.bounded(depth_tree.children[0]) if depth_tree else default

    def direction(self, tree: Tree) -> c.Direction:
        direction_tree = self.part(tree, "direction")
        return direction_tree.children[0].lower() if direction_tree else "both"

    def literal(self, tree: Tree) -> Literal_:
        token = tree.children[0]
        if token.type == "VARREF":
            return Literal_(str(token), ref=self._ref(token, token[1:]))
        if token.type == "STRING":
            return Literal_(self.string(token))
        if token.type == "NUMBER":
            return Literal_(str(token), number=number(token))
        truth = {"true": True, "false": False}.get(token.lower())
        return Literal_(str(token), truth=truth)

    # conditions

    def condition(self, clause: Tree | None, ends: bool = False) -> w.Condition | None:
        """The condition of a WITH or WHERE clause; `ends`: it may refer to the end nodes of an edge or a path."""
        return self._any(clause.children[0], ends) if clause else None

    def _any(self, tree: Tree, ends: bool) -> w.Condition:
        parts = tuple(self._all(child, ends) for child in tree.children)
        return parts[0] if len(parts) == 1 else w.Any_(parts)

    def _all(self, tree: Tree, ends: bool) -> w.Condition:
        parts = tuple(self._single(child, ends) for child in tree.children)
        return parts[0] if len(parts) == 1 else w.All(parts)

    def _single(self, tree: Tree, ends: bool) -> w.Condition:
        negated = False
        while tree.data == "negated":  # a loop, for there may be thousands; pairs cancel
            negated = not negated
            tree = tree.children[0]
        if tree.data == "nested":
            condition = self._any(tree.children[0], ends)
        else:
            condition = self._comparison(tree, ends)
        return w.Not(condition) if negated else condition

    def _comparison(self, tree: Tree, ends: bool) -> w.Comparison:
        *end, field, relation = tree.children
        which: w.End = "item"
        if end:
            token = end[0].children[0]
            which = "source" if token.upper() == "SOURCE_FILTER" else "target"
            if not ends:
                message = f"{token.upper()} belongs to FIND edges and FIND paths only"
                raise ScriptError("syntax", message, self.at(token))
        op = relation.data.removeprefix("rel_")
        name, values = self.field(field), relation.children
        if op == "compare":
            return w.Comparison(name, str(values[0]), (self.literal(values[1]),), end=which)
        if op == "in_variable":
            return w.Comparison(name, op, ref=self._ref(values[0], values[0][1:]), end=which)
        if op == "matches":
            pattern = self.string(values[0])
            check_pattern(pattern, self.at(values[0]))
            return w.Comparison(name, op, (Literal_(pattern),), end=which)
        return w.Comparison(name, op, tuple(self.literal(value) for value in values), end=which)

    # expressions

    def expression(self, tree: Tree) -> w.Expression:
        """The value of an ADD_FIELD."""
        chain = self._chain(tree)
        alone = isinstance(chain, w.Name) and len(chain.field.steps) == 1 and not self._has_brackets(tree)
        return w.Name(chain.field, alone=True) if alone and isinstance(chain, w.Name) else chain

    def _has_brackets(self, tree: Tree) -> bool:
        while tree.data in ("expr", "term"):
            tree = tree.children[0]
        return bool(tree.data == "inner")

    def _chain(self, tree: Tree) -> w.Expression:
        below = self._chain if tree.data == "expr" else self._factor
        first_operand, *operations = tree.children
        pairs = zip(operations[::2], operations[1::2], strict=True)
        operands = tuple((str(sign.children[0]), below(operand)) for sign, operand in pairs)
        return w.Chain(below(first_operand), operands) if operands else below(first_operand)

    def _factor(self, tree: Tree) -> w.Expression:
        signs = 0
        while tree.data == "minus":  # a loop, for there may be thousands; pairs beyond the first cancel
            signs += 1
            tree = tree.children[0]
        factor = self._plain_factor(tree)
        for _ in range(signs if signs < 2 else 2 - signs % 2):
            factor = w.Minus(factor)
        return factor

    def _plain_factor(self, tree: Tree) -> w.Expression:
        token = tree.children[0]
        if tree.data == "inner":
            return self._chain(token)
        if tree.data == "template":
            return template(token, self.at(token))
        if tree.data == "variable":
            return w.Variable(self._ref(token, token[1:]))
        if tree.data == "call":
            if token.lower() not in w.FUNCTIONS:
                guess = nearest(str(token), (name.upper() for name in w.FUNCTIONS))
                raise ScriptError(
                    "syntax", f"no function {token[:40]!r}: lower, upper, length", self.at(token), guess
                )
            return w.Call(token.lower(), self._chain(tree.children[1]))
        if tree.data == "name":
            return w.Name(Field(str(token), tuple(token.split(".")), self.at(token)))
        return w.Number(number(token))

    # patterns

    def pattern_node(self, tree: Tree) -> c.PatternNode:
        kind = self.part(tree, "ptype")
        label = str(tree.children[0]) if tree.data == "pnode_label" else None
        return c.PatternNode(label, self.word(kind.children[0]) if kind else None)

    def pattern_edge(self, tree: Tree) -> c.PatternEdge:
        directions: dict[str, c.Direction] = {"forward": "out", "backward": "in", "either": "both"}
        kind = self.part(tree, "ptype")
        return c.PatternEdge(directions[tree.data], self.word(kind.children[0]) if kind else None)
