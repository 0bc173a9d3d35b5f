"""The state that commands work on: the graph, the model, and the variables with their kinds and bounds."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl import language as lang
from kgqa_hpc.plugins.gasl.graph import Graph

MAX_ITEMS = 100_000
MAX_LOOKS = 5_000_000

_ITEM_BYTES = 256  # bytes of JSON that count as one more item of work
_ERROR_WORK = 1000  # work that a failed command adds, for its search of the nearest name

_UNNAMED = ("result", "category", "value")
# The value of a variable that has only been declared, by its kind.
EMPTY: dict[str, Any] = {"LIST": [], "DICT": {}, "COUNTER": 0}


@dataclass(frozen=True)
class Bounds:
    """Resource limits of one script: `work` counts items read or made and edges visited."""

    work: int = 100_000_000
    bytes: int = 256 * 1024 * 1024


OWN_SCRIPT = Bounds()  # limits of a user's own script


@dataclass(frozen=True)
class Prompt:
    """One prompt for the model. `verb` is PROCESS, CLASSIFY or GENERATE, `instruction` the script's text about it.

    `key` is the item's id or its place in the list, `content` the item, for GENERATE the whole variable.
    `kind` is the word after GENERATE.
    """

    verb: str
    instruction: str
    key: str
    content: Any
    kind: str = ""


# The field of an item that takes the answer, and the member of a model's JSON.
ANSWER_FIELDS = {"PROCESS": "result", "CLASSIFY": "category", "GENERATE": "text"}
# Returns one answer per prompt, in order; None is no answer. Raises ScriptError `model`.
Model = Callable[[Sequence[Prompt]], Sequence[Any]]


def nobody(prompts: Sequence[Prompt]) -> Sequence[Any]:
    """The model of a script that has none: raises ScriptError `model`."""
    raise ScriptError("model", "no model and no answers were given: --engine FILE or --answers FILE")


@dataclass(frozen=True)
class Outcome:
    """The result of a command. `value` is its value (an iterable of items becomes a LIST), or None.

    `skipped` counts items left out, `partial` says that something is missing, `empty` that there was nothing
    to compute from; `notes` go into the step as they are.
    """

    value: Any = None
    skipped: int = 0
    partial: bool = False
    empty: bool = False
    stores: bool = True
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class World:
    """The graph, the model, the variables by name, and the declared kinds of variables.

    `work` is what the script has spent of its bounds, `looks` the number of edges that the command has visited.
    """

    graph: Graph
    ask: Model
    variables: dict[str, Any]
    declared: dict[str, dict[str, str | None]]
    bounds: Bounds
    work: int
    looks: int = 0

    def __post_init__(self) -> None:
        self._sizes = {name: len(lang.to_json(value)) for name, value in self.variables.items()}
        created = [*self.graph.nodes.new, *self.graph.edges.new]
        self._created = sum(len(lang.to_json(item)) for item in created)

    def answers(self, prompts: Sequence[Prompt]) -> list[Any]:
        """The model's answers; one that is nested too deep for a script counts as no answer, None.

        Raises ScriptError `model`, also for another number of answers than of prompts.
        """
        answers = list(self.ask(prompts))
        if len(answers) != len(prompts):
            raise ScriptError("model", f"the model gave {len(answers)} answers to {len(prompts)} prompts")
        return [None if lang.is_deeper(answer, lang.MAX_NESTING) else answer for answer in answers]

    def spend(self, work: int) -> None:
        """Add items and edges to the script's work before they are read. Raises ScriptError `limit` above its bound."""
        self.work += work
        if self.work > self.bounds.work:
            raise ScriptError("limit", f"the script takes more than {self.bounds.work:,} items and edges")

    def look(self, edges: int) -> None:
        """Count edges that a search visits. Raises ScriptError `limit` for too many in one command or in the script."""
        self.looks += edges
        self.spend(edges + 1)
        if self.looks > MAX_LOOKS:
            raise ScriptError("limit", f"the search has looked at {MAX_LOOKS:,} edges")

    def value(self, ref: lang.Ref) -> Any:
        """The value of a name. Raises ScriptError `name` when there is no such variable or entry."""
        value, path = self._followed(ref)
        if path:
            raise ScriptError("name", f"{ref.text[:100]}: no entry {path[0][:100]!r}", ref.place)
        return [lang.as_item(element) for element in value] if isinstance(value, list) else value

    def items(self, ref: lang.Ref) -> list[lang.Item]:
        """The items of a LIST or DICT. Raises ScriptError `name` or `type`."""
        value = self.value(ref)
        items = lang.items_of(value)
        if items is None:
            raise ScriptError("type", f"{ref.text[:100]} is a {lang.kind_of(value)}, not a LIST or DICT")
        return items

    def column(self, ref: lang.Ref) -> list[Any] | None:
        """The values of `$name` for the items of a LIST, with None for a missing value; None if `$name` is no LIST."""
        value, path = self._followed(ref)
        if not isinstance(value, list):
            return None
        items = [lang.as_item(element) for element in value]
        present = lang.names_in(items)
        steps = path or (next((name for name in _UNNAMED if name in present), _UNNAMED[0]),)
        values = [lang.look_up(item, steps) for item in items]
        if items and all(value is lang.MISSING for value in values):
            names = {name for item in items for name in item}
            message = f"no item of ${ref.text[:100]} has {'.'.join(steps)!r}"
            raise ScriptError("name", message, ref.place, lang.nearest(steps[-1], names))
        return [None if value is lang.MISSING else value for value in values]

    def single(self, ref: lang.Ref) -> str | int | float | bool:
        """The single number, text or boolean that `$name` refers to. Raises ScriptError `name` or `type`."""
        value, path = self._followed(ref)
        if path or value is None or isinstance(value, list | dict):
            kind = "null" if value is None else lang.kind_of(value)
            raise ScriptError("type", f"${ref.text[:100]} is {kind}, not a number, text or boolean")
        assert isinstance(value, str | int | float | bool)
        return value

    def _followed(self, ref: lang.Ref) -> tuple[Any, tuple[str, ...]]:
        """The value of a name through entries of DICTs, and the names after a LIST, which are a field of its items."""
        if ref.name not in self.variables:
            message = f"no variable {ref.name[:100]!r}"
            raise ScriptError("name", message, ref.place, lang.nearest(ref.name, self.variables))
        value = self.variables[ref.name]
        count = len(value) if isinstance(value, list | dict) else 1
        self.spend(count + self._sizes[ref.name] // _ITEM_BYTES)
        for position, entry in enumerate(ref.entries):
            if isinstance(value, list):
                return value, ref.entries[position:]
            if not isinstance(value, dict) or entry not in value:
                guess = lang.nearest(entry, value) if isinstance(value, dict) else None
                raise ScriptError("name", f"{ref.text[:100]}: no entry {entry[:100]!r}", ref.place, guess)
            value = value[entry]
        return value, ()

    def created(self, item: lang.Item) -> None:
        """Count a node or an edge that was created. Raises ScriptError `limit`."""
        self._created += len(lang.to_json(item))
        if self._created + sum(self._sizes.values()) > self.bounds.bytes:
            raise self._too_large()

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """The context of one command: undo what it has created and declared if it fails half-way."""
        nodes, edges = len(self.graph.nodes.new), len(self.graph.edges.new)
        self.looks = 0
        created, declared = self._created, dict(self.declared)
        try:
            yield
        except BaseException:
            self.work += _ERROR_WORK + self.graph.forget(nodes, edges)
            self._created = created
            self.declared.clear()
            self.declared.update(declared)
            raise

    def store(self, name: str, value: Any) -> tuple[Any, bool]:
        """Create or replace a variable; a LIST, also in a DICT, keeps its first 100,000 items.

        Returns the value within its bounds, and whether a LIST in it was cut. Raises ScriptError `limit`, or `type`
        for a declared variable of another kind.
        """
        truncated = False
        if isinstance(value, dict):
            value = dict(value)
            for key, part in value.items():
                if isinstance(part, Iterator):
                    value[key], is_cut = self._first(part)
                    truncated |= is_cut
                elif isinstance(part, list):
                    for entry in part:
                        lang.item_bytes(entry)  # raises ScriptError for an item that is too large
                    value[key] = part[:MAX_ITEMS]
                    truncated |= len(part) > MAX_ITEMS
        elif value is not None and not isinstance(value, str | int | float | bool):
            value, truncated = self._first(value)
        declared = self.declared.get(name)
        if declared and declared["kind"] != lang.kind_of(value):
            raise ScriptError("type", f"{name} is declared a {declared['kind']}, not a {lang.kind_of(value)}")
        lang.check_levels(value)
        size = len(lang.to_json(value))
        total = sum(self._sizes.values()) - self._sizes.get(name, 0)
        if total + size + self._created > self.bounds.bytes:
            raise self._too_large()
        self.variables[name], self._sizes[name] = value, size
        return value, truncated

    def _first(self, items: Iterable[Any]) -> tuple[list[lang.Item], bool]:
        """The first 100,000 items, and whether there were more. Raises ScriptError `limit`."""
        first_items: list[lang.Item] = []
        room = self.bounds.bytes - sum(self._sizes.values()) - self._created
        for entry in items:
            if len(first_items) == MAX_ITEMS:
                return first_items, True
            item = lang.as_item(entry)
            room -= (size := lang.item_bytes(item))
            if room < 0:
                raise self._too_large()
            self.spend(1 + size // _ITEM_BYTES)
            first_items.append(item)
        return first_items, False

    def _too_large(self) -> ScriptError:
        size = f"{self.bounds.bytes // 1024**2:,} MiB"
        return ScriptError("limit", f"variables and what was created take more than {size} in all")
