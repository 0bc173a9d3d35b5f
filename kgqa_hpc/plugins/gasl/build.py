"""Conversion of a parse tree to statements and commands, with all checks that need no graph.

One method for each command of the grammar; TRY, CATCH, FINALLY and ON are put together from them. The parts that
commands share are in build_parts.py.
"""

from __future__ import annotations

from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import commands as c
from kgqa_hpc.plugins.gasl.build_parts import PartBuilder
from kgqa_hpc.plugins.gasl.literals import MAX_ITEM_BYTES, Tree, json_value, unquote
from kgqa_hpc.plugins.gasl.source import Source
from kgqa_hpc.plugins.gasl.values import item_bytes
from kgqa_hpc.plugins.gasl.words import Word

_WALK_DEPTH, _PATH_DEPTH, _CONNECT_DEPTH = 1, 3, 4
_SHOWN = 10
# Commands whose parts have the same order in the text as in their fields.
_AS_WRITTEN = {"join": c.Join, "compare": c.Compare, "group": c.Group, "inspect": c.Inspect}


class _CommandBuilder(PartBuilder):
    """Turns the children of a `simple` tree into a command. Raises ScriptError."""

    def command(self, children: list[Any]) -> tuple[c.Command, Word | None]:
        """The command and the variable after AS."""
        tree, *clauses = children
        if tree.data == "debug_found":
            into = self.part(tree, "into")
            return c.DebugFound(self._found(tree)), self.word(into.children[0]) if into else None
        if kind := _AS_WRITTEN.get(tree.data):
            read = {"ref": self.ref, "field": self.field}
            command = kind(*(read[child.data](child) for child in tree.children))
        else:
            command = getattr(self, f"_{tree.data}")(tree)
        return command, self.word(clauses[0].children[0]) if clauses else None

    def _declare(self, tree: Tree) -> c.Declare:
        name, kind, *description = tree.children
        text = unquote(description[0], self.at(description[0])) if description else None
        return c.Declare(self.word(name), kind.children[0].upper(), text)

    def _set(self, tree: Tree) -> c.Set:
        name, value = tree.children
        value_ = json_value(value, self.at(name)) if hasattr(value, "data") else str(value)
        if isinstance(value_, list) and any(item_bytes(item) > MAX_ITEM_BYTES for item in value_):
            raise ScriptError("limit", "an item of more than 64 KiB")
        return c.Set(self.word(name), value_)

    def _found(self, tree: Tree) -> c.Found:
        element = self.part(tree, "what")
        kind = element.children[0].lower() if element else "paths"
        condition = self.condition(self.part(tree, "filter"), ends=kind != "nodes")
        depth = self.depth(tree, _PATH_DEPTH)
        return c.Found(kind, condition, self.direction(tree), depth, self.limit(tree))

    def _ask(self, tree: Tree) -> c.Ask:
        verb, ref, task = tree.children
        return c.Ask(verb.children[0].upper(), self.ref(ref), self.text(task.children[0]))

    def _generate(self, tree: Tree) -> c.Generate:
        kind, ref, *text = tree.children
        return c.Generate(self.type(kind).text, self.ref(ref), self.text(text[0]) if text else None)

    def _iterate(self, tree: Tree) -> c.Iterate:
        ref, size, body = tree.children
        return c.Iterate(self.ref(ref), self.at_least_one(size), self._body(self.ref(ref), body))

    def _body(self, ref: c.Ref, tree: Tree) -> c.Ask | c.Count | c.Aggregate:
        if tree.data == "asked":
            verb, task = tree.children
            return c.Ask(verb.children[0].upper(), ref, self.text(task.children[0]))
        if tree.data == "counting":
            return self._counted(tree, ref)
        return self._aggregated(tree, ref)

    def _count(self, tree: Tree) -> c.Count:
        return self._counted(tree, self.ref(tree.children[0]))

    def _count_found(self, tree: Tree) -> c.Count:
        return self._counted(tree, self._found(tree))

    def _counted(self, tree: Tree, source: c.Ref | c.Found) -> c.Count:
        by = self.part(tree, "by")
        return c.Count(
            source,
            self.field_of(tree),
            self.condition(self.part(tree, "where")),
            self.field(by.children[0]) if by else None,
            self.part(tree, "unique") is not None,
        )

    def _aggregate(self, tree: Tree) -> c.Aggregate:
        return self._aggregated(tree, self.ref(tree.children[0]))

    def _aggregated(self, tree: Tree, ref: c.Ref) -> c.Aggregate:
        by, op, of = (self.part(tree, name) for name in ("field", "op", "of"))
        assert by is not None
        assert op is not None
        return c.Aggregate(
            ref, self.field(by), op.children[0].lower(), self.field(of.children[0]) if of else None
        )

    def _merge(self, tree: Tree) -> c.Merge:
        return c.Merge(tuple(self.ref(child) for child in tree.children))

    def _cluster(self, tree: Tree) -> c.Cluster:
        return c.Cluster(self.ref(tree.children[0]), self.types(tree, "via"))

    def _select(self, tree: Tree) -> c.Select:
        ref, *fields = tree.children
        return c.Select(self.ref(ref), tuple(self.field(field) for field in fields))

    def _rank(self, tree: Tree) -> c.Rank:
        order, top = self.part(tree, "order"), self.part(tree, "top")
        ascending = order is not None and order.children[0].children[0].upper() == "ASC"
        count = self.at_least_one(top.children[0]) if top else None
        return c.Rank(self.ref(tree.children[0]), self.field(tree.children[1]), not ascending, count)

    def _add_field(self, tree: Tree) -> c.AddField:
        ref, name, value = tree.children
        return c.AddField(self.ref(ref), self.word(name).text, self.expression(value))

    def _create(self, tree: Tree) -> c.Create:
        creator, ref, *kind = tree.children
        element = creator.children[0].lower().removeprefix("create_")
        return c.Create(element, self.ref(ref), self.type(kind[0]).text if kind else None)

    def _update(self, tree: Tree) -> c.Update:
        name, ref = tree.children[:2]
        operation = self.part(tree, "operation")
        verb = operation.children[0].lower() if operation else "replace"
        return c.Update(self.word(name), self.ref(ref), verb, self.condition(self.part(tree, "where")))

    def _walk(self, tree: Tree) -> c.Walk:
        ref = self.ref(tree.children[0])
        return c.Walk(ref, self.types(tree, "follow"), self.direction(tree), self.depth(tree, _WALK_DEPTH))

    def _connect(self, tree: Tree) -> c.Connect:
        source, right = (self.ref(child) for child in tree.children[:2])
        depth = self.depth(tree, _CONNECT_DEPTH)
        return c.Connect(source, right, self.types(tree, "via"), self.direction(tree), depth)

    def _subgraph(self, tree: Tree) -> c.Subgraph:
        radius = self.bounded(tree.children[1])
        return c.Subgraph(self.ref(tree.children[0]), radius, self.types(tree, "include"))

    def _pattern(self, tree: Tree) -> c.Pattern:
        nodes: list[c.PatternNode] = []
        edges: list[c.PatternEdge] = []
        within = self.part(tree, "within")
        for child in tree.children:
            if child.data.startswith("pnode"):
                nodes.append(self.pattern_node(child))
            elif child is not within:
                edges.append(self.pattern_edge(child))
        ref = self.ref(within.children[0]) if within else None
        return c.Pattern(tuple(nodes), tuple(edges), ref)

    def _check(self, tree: Tree) -> c.Check:
        checker, ref, test = tree.children
        verb, name = checker.children[0].upper(), str(test.data)
        if name == "compares":
            comparison, value = test.children
            return c.Check(verb, self.ref(ref), name, str(comparison), self.literal(value))
        if name == "has_field":
            return c.Check(verb, self.ref(ref), name, field=self.field(test.children[0]))
        negated = any(token.upper() == "NOT" for token in test.children)
        return c.Check(verb, self.ref(ref), "not_empty" if negated else name)

    def _cancel(self, tree: Tree) -> c.Cancel:
        return c.Cancel(self.word(tree.children[0]).text if tree.children else None)

    def _show_value(self, tree: Tree) -> c.Show:
        return c.Show(self.ref(tree.children[1]), self.limit(tree) or _SHOWN)


class Builder:
    """Builds the statements of one source; `problems` holds the first error of each faulty command."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[ScriptError] = []
        self._commands = _CommandBuilder(source)

    def statements(self, tree: Tree) -> tuple[c.Statement, ...]:
        """The statements of a `start`, `part` or `statements` tree."""
        if tree.data == "simple":
            return self._simple(tree)
        if tree.data != "statements":
            return self.statements(tree.children[0]) if tree.children else ()
        built: list[c.Statement] = []
        trees = tree.children
        position = 0
        while position < len(trees):
            kind = trees[position].data
            if kind == "attempt":
                parts = self._parts(trees, position)
                built.append(self._attempt(parts))
                position += len(parts)
                continue
            if kind in ("rescue", "final"):
                self._stray(trees[position])
            elif kind == "on":
                follows = position > 0 and trees[position - 1].data in ("plain", "on")
                built.extend(self._on(trees[position], follows))
            else:
                built.extend(self._simple(trees[position].children[0]))
            position += 1
        return tuple(built)

    def _parts(self, trees: list[Tree], position: int) -> list[Tree]:
        """The TRY at a position with the CATCH and the FINALLY right behind it."""
        parts = [trees[position]]
        for kind in ("rescue", "final"):
            following = trees[position + len(parts) : position + len(parts) + 1]
            if following and following[0].data == kind:
                parts.append(following[0])
        return parts

    def _attempt(self, parts: list[Tree]) -> c.Attempt:
        if len(parts) == 1 and not self._is_broken(parts[0].children[1].children[0]):
            self._refuse(parts[0], "TRY without CATCH or FINALLY")
        built = {part.data: self.statements(part.children[1]) for part in parts}
        return c.Attempt(built["attempt"], built.get("rescue"), built.get("final"))

    def _stray(self, tree: Tree) -> None:
        word = "CATCH" if tree.data == "rescue" else "FINALLY"
        context = "TRY" if tree.data == "rescue" else "TRY or CATCH"
        self._refuse(tree, f"{word} must stand right after {context}")
        self.statements(tree.children[1])

    def _on(self, tree: Tree, follows: bool) -> list[c.On]:
        status, inner = tree.children
        if not follows:
            self._refuse(tree, "ON must follow a command")
        position = self.source.place(tree.meta.start_pos)
        return [c.On(status.lower(), simple, self._text(tree), position) for simple in self._simple(inner)]

    def _simple(self, tree: Tree) -> tuple[c.Simple, ...]:
        """The command of a tree; none if it is faulty."""
        if self._is_broken(tree):
            return ()
        position = self.source.place(tree.meta.start_pos)
        try:
            command, into = self._commands.command(tree.children)
        except ScriptError as problem:
            problem.place = problem.place or position
            self.problems.append(problem)
            return ()
        return (c.Simple(command, into, self._text(tree), position),)

    def _text(self, tree: Tree) -> str:
        return self.source.text[tree.meta.start_pos : tree.meta.end_pos]

    def _refuse(self, tree: Tree, message: str) -> None:
        self.problems.append(ScriptError("syntax", message, self.source.place(tree.meta.start_pos)))

    def _is_broken(self, tree: Tree) -> bool:
        """Whether the tree is a faulty command, which `problems` lists already."""
        while tree.data in ("plain", "on"):
            tree = tree.children[-1]
        return bool(tree.data == "simple" and getattr(tree.children[0], "type", "") == "BROKEN")
