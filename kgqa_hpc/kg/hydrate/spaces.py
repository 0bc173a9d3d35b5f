"""The spaces of a recipe: which ids of each are wanted, and the names they have, wherever those stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.hydrate.recipe import Recipe, Space
from kgqa_hpc.kg.hydrate.resolver import Answers, Web
from kgqa_hpc.kg.hydrate.tables import Found, read_names

_EXAMPLES = 5
_TROUBLES = ("not_asked", "not_found", "another_id", "unreadable")


class Spaces:
    """Names by space and id. Tables are read once, for all ids that were wanted before the first question."""

    def __init__(self, recipe: Recipe, cache: Path | None, *, web: bool) -> None:
        self._recipe, self._cache, self._web = recipe, cache, web
        self._wanted: dict[str, set[str]] = {name: set() for name in recipe.spaces}
        self._tables: dict[str, Found] = {}
        self._answers: dict[str, Answers] = {}
        self._webs: dict[str, Web] = {}
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in recipe.spaces}

    def want(self, space: str, keys: Iterable[str]) -> None:
        """These ids will be asked for."""
        self._wanted[space].update(keys)

    def ask(self, space: str, keys: list[str]) -> None:
        """Let a web service, if the space is one and may be asked, answer what it has not yet."""
        described = self._recipe.spaces[space]
        if described.resolver is None:
            return
        answers = self._answers_of(space)
        if not self._web:
            self._counts[space]["not_asked"] += len({key for key in keys if key not in answers.known})
            return
        web = self._webs.setdefault(space, Web(described.resolver, answers))
        web.ask_all(list(dict.fromkeys(keys)), self._counts[space])

    def name(self, space: str, key: str) -> tuple[str, str, str] | None:
        """Name, table and date, or None."""
        described = self._recipe.spaces[space]
        if described.resolver is not None:
            answer = self._answers_of(space).known.get(key)
            if answer is None or not answer.get("name"):
                return None
            return str(answer["name"]), described.resolver.url, str(answer.get("date", ""))
        found = self._table(space, described)
        name = found.names.get(key)
        return None if name is None else (name, found.file, described.date)

    def report(self) -> dict[str, dict[str, Any]]:
        """By space: licence, how many ids were wanted and have a name, conflicts, what went wrong."""
        report = {}
        for name, space in self._recipe.spaces.items():
            found = self._tables.get(name, Found(""))
            counts = self._counts[name]
            report[name] = {
                "licence": space.licence,
                "table": found.file or (space.resolver.url if space.resolver else space.table or space.obo),
                "date": space.date,
                "table_is_missing": found.missing,
                "wanted": len(self._wanted[name]),
                "conflicts": len(found.conflicts),
                "examples_of_conflicts": dict(list(found.conflicts.items())[:_EXAMPLES]),
                "unreachable": counts["unreachable"],
                **{key: counts[key] for key in _TROUBLES if counts[key]},
            }
        return report

    def _table(self, name: str, space: Space) -> Found:
        if name not in self._tables:
            path = self._recipe.path(str(space.table or space.obo))
            self._tables[name] = read_names(space, path, self._wanted[name])
        return self._tables[name]

    def _answers_of(self, space: str) -> Answers:
        if space not in self._answers:
            if self._cache is None:
                raise InputError(
                    f"space {space}: no place for the answers of a web service", "set cache in the recipe"
                )
            name = "".join(letter if letter.isalnum() else "_" for letter in space)
            self._answers[space] = Answers(self._cache / f"{name}.jsonl")
        return self._answers[space]
