"""Variants of a study (BioGraphletQA, section 3.2.1): anchors with a variant, and families of steps and kinds.

An item of a study is an anchor with a variant: its id is `ANCHOR~VARIANT`, and its data has the key `variant`. Items of
the same variant are adjacent, so that a prefix cache processes each prompt once. A step that differs between variants
is a family in the chain; the item's variant selects the member.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step

MARK = "~"  # separator of anchor id and variant name; names do not contain it


def with_variants(anchors: Iterable[Anchor], names: Sequence[str]) -> Iterator[Anchor]:
    """Copies of all anchors for each variant: first all anchors of the first variant, in order, then the next."""
    drawn = list(anchors)
    for name in names:
        for anchor in drawn:
            yield replace(anchor, id=f"{anchor.id}{MARK}{name}", data={**anchor.data, "variant": name})


def _delegated(name: str) -> Any:
    """A method that calls the method `name` of the member for its first argument, an anchor or item."""

    def method(self: Any, subject: Any, *arguments: Any, **options: Any) -> Any:
        return getattr(self.of(subject), name)(subject, *arguments, **options)

    return method


class StepFamily(Step):
    """One step in several variants; an item's variant selects the member.

    Class attributes are those of the first variant. An item whose variant has no member passes unchanged;
    another pass processes it.
    """

    def __init__(self, members: Mapping[str, Step]) -> None:
        self._by_variant = dict(members)
        leading = next(iter(self._by_variant.values()))
        super().__init__(leading.settings, leading.prompt if leading.asks else None, leading.context)
        for name in ("name", "answer", "adds", "gives", "needs", "turns"):
            setattr(self, name, getattr(leading, name))

    @property
    def members(self) -> tuple[Step, ...]:
        return tuple(self._by_variant.values())

    def of(self, item: Item) -> Step:
        return self._by_variant[item.anchor.data["variant"]]

    def asks_about(self, item: Item) -> bool:
        return item.anchor.data["variant"] in self._by_variant and self.of(item).asks_about(item)

    def run(self, item: Item) -> Outcome:
        return self.of(item).run(item) if item.anchor.data["variant"] in self._by_variant else Done()

    request = _delegated("request")
    take = _delegated("take")
    variables = _delegated("variables")


class KindFamily(AnchorKind):
    """Several anchor kinds in one study; `anchor.kind` selects the member."""

    def __init__(self, members: Sequence[AnchorKind]) -> None:
        self._by_name = {kind.name: kind for kind in members}
        leading = members[0]
        self.name, self.gives, self.sample = "+".join(self._by_name), leading.gives, leading.sample  # type: ignore[misc]
        self.whole_graph = any(kind.whole_graph for kind in members)  # type: ignore[misc]
        self.columns = tuple({c.name: c for kind in members for c in kind.columns}.values())  # type: ignore[misc]

    def of(self, anchor: Anchor) -> AnchorKind:
        return self._by_name[anchor.kind]

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of all kinds; null for columns that the anchor's kind does not have."""
        return {column.name: None for column in self.columns} | self.of(anchor).record(anchor, fields)

    variables = _delegated("variables")
    start = _delegated("start")
    facts = _delegated("facts")
    worded = _delegated("worded")
    objection = _delegated("objection")
