"""Conversion of a parse tree to statements and commands, with all checks that need no graph.

TRY, CATCH, FINALLY and ON are put together here; the commands themselves are in build_commands.py.
"""

from __future__ import annotations

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.build_commands import CommandBuilder
from kgqa_hpc.plugins.gasl.commands import Attempt, On, Simple, Statement
from kgqa_hpc.plugins.gasl.literals import Tree
from kgqa_hpc.plugins.gasl.source import Source


class Builder:
    """Builds the statements of one source; `problems` holds the first error of each faulty command."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[ScriptError] = []
        self._commands = CommandBuilder(source)

    def statements(self, tree: Tree) -> tuple[Statement, ...]:
        """The statements of a `start`, `part` or `statements` tree."""
        if tree.data == "simple":
            return self._simple(tree)
        if tree.data != "statements":
            return self.statements(tree.children[0]) if tree.children else ()
        built: list[Statement] = []
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

    def _attempt(self, parts: list[Tree]) -> Attempt:
        if len(parts) == 1 and not self._is_broken(parts[0].children[1].children[0]):
            self._refuse(parts[0], "TRY without CATCH or FINALLY")
        built = {part.data: self.statements(part.children[1]) for part in parts}
        return Attempt(built["attempt"], built.get("rescue"), built.get("final"))

    def _stray(self, tree: Tree) -> None:
        word = "CATCH" if tree.data == "rescue" else "FINALLY"
        context = "TRY" if tree.data == "rescue" else "TRY or CATCH"
        self._refuse(tree, f"{word} must stand right after {context}")
        self.statements(tree.children[1])

    def _on(self, tree: Tree, follows: bool) -> list[On]:
        status, inner = tree.children
        if not follows:
            self._refuse(tree, "ON must follow a command")
        position = self.source.place(tree.meta.start_pos)
        return [On(status.lower(), simple, self._text(tree), position) for simple in self._simple(inner)]

    def _simple(self, tree: Tree) -> tuple[Simple, ...]:
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
        return (Simple(command, into, self._text(tree), position),)

    def _text(self, tree: Tree) -> str:
        return self.source.text[tree.meta.start_pos : tree.meta.end_pos]

    def _refuse(self, tree: Tree, message: str) -> None:
        self.problems.append(ScriptError("syntax", message, self.source.place(tree.meta.start_pos)))

    def _is_broken(self, tree: Tree) -> bool:
        """Whether the tree is a faulty command, which `problems` lists already."""
        while tree.data in ("plain", "on"):
            tree = tree.children[-1]
        return bool(tree.data == "simple" and getattr(tree.children[0], "type", "") == "BROKEN")
