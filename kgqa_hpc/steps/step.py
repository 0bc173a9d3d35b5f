"""Base class of steps: a step sends a request about an item to an engine, reads the answer, and returns an outcome.

The author of a step defines the fields of its answer, the variables of its prompt, and the effect of an answer on the
item; this module turns that into requests and outcomes. A step owns no engine and no queue. The worker asks the step
for a request, passes it the response, and acts on the outcome:

    Done            the item goes to the next step; after the last one: end(item, …)
    Ask             the same step asks again, with what it has put into item.state
    Retry           ask again with attempt + 1; when attempts are used up: end(item, …)
    Reject          end(item, …)

`take` writes output, verdicts and one trace entry per answer, and leaves the status alone; `end` sets it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from kgqa_hpc.anchors.anchor import AnchorKind, short_digest
from kgqa_hpc.columns import Column
from kgqa_hpc.engines.engine import EngineInfo, Request, Response
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.prompts.prompt import Prompt
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.answer_json import Fields, Unparseable, parse_json
from kgqa_hpc.steps.decision import Decision, first_false
from kgqa_hpc.steps.item import Ask, Done, Item, Outcome, Reject, Retry, apply_columns, require_outcome

__all__ = ["Ask", "Done", "Outcome", "Reject", "Retry", "Step", "StepContext"]

ADDS = ("output", "verdict", "column")
TRACE_TEXT = 100_000  # characters of a raw answer that are kept


@dataclass(slots=True)
class StepContext:
    """Data shared by the steps of a chain: seed, anchor kind, decision rule, and, once the chain runs, the engine.

    `instructions` holds the system texts of the prompts that write records, for steps with `sees_instructions`.
    """

    run_seed: int
    kind: AnchorKind
    edge_types: bool = False
    decision: Decision = field(default_factory=Decision)
    engine: EngineInfo | None = None
    instructions: tuple[str, ...] = ()


class Step:
    """A step of a chain. Requests and answers do not change its state.

    `answer`: required fields of the prompt's schema, with their JSON types; a step without them has no prompt and
    computes from the item. `adds`: the kind of result: record fields (output), a verdict, or columns. `gives`: record
    fields that the step fills, with `many` in each of the records that it makes of an item; `needs`: record fields that
    it reads. `columns`: additional columns of its records.
    `turns`: largest number of turns; `later_answers`: fields of the answers in later turns, if they differ from
    `answer`. `example`: values of `gives` for tests of the prompts of later steps, if a plain text does not fit.
    """

    registry: ClassVar[str] = "steps"
    name: ClassVar[str]
    Settings: ClassVar[type[StepSettings]] = StepSettings
    default_prompt: ClassVar[str | None] = None
    answer: ClassVar[Mapping[str, str]] = {}
    later_answers: ClassVar[tuple[Mapping[str, str], ...]] = ()
    adds: ClassVar[Literal["output", "verdict", "column"]] = "column"
    gives: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    many: ClassVar[bool] = False
    columns: ClassVar[tuple[Column, ...]] = ()
    sees_instructions: ClassVar[bool] = False  # whether the step reads `instructions` of its context
    turns: int = 1
    example: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Any, prompt: Prompt | None, context: StepContext) -> None:
        self.settings = settings
        self.label: str = settings.label
        self.context = context
        # The prompt of each turn; the last one serves all further turns. The chain appends the prompts of later turns.
        # Empty for a step without requests.
        self.prompts: tuple[Prompt, ...] = () if prompt is None else (prompt,)
        self._columns = self.columns_for(settings)

    # Methods that the author of a step overrides.

    def variables(self, item: Item) -> dict[str, Any]:
        """Variables of the prompt, in addition to the anchor's. Rendering cleans every text."""
        return {}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        """Store the answer's fields in the item and return the outcome; the default stores them as a verdict.

        Not called for an answer that does not match the schema, or by which the model declines to write a record.
        """
        if self.adds == "verdict":
            item.verdicts[self.label] = answer
            return Done()
        raise TypeError(f"step {self.name} has no method accept() for its answers: define it")

    def kept_text(self, text: str) -> str:
        """The part of an answer's text that the trace stores; by default the whole text."""
        return text

    def restore(self, item: Item, output: Mapping[str, Any]) -> None:
        """Restore the fields of an item whose answers `kept_text` shortened, from its recorded `output`."""

    def compute(self, item: Item) -> Outcome:
        """Do the work of a step without a prompt, and return the outcome."""
        raise TypeError(f"step {self.name} asks no model and has no method compute(): define it")

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        """The objection in a verdict of this step; None for an approval. By default all booleans must be true."""
        return first_false(verdict)

    @classmethod
    def columns_for(cls, settings: Any) -> tuple[Column, ...]:
        """The columns of a step with these settings; by default `columns`."""
        return cls.columns

    @classmethod
    def asks_with(cls, settings: Any) -> bool:
        """Whether a step with these settings asks an engine, and so needs a prompt."""
        return bool(cls.answer)

    @classmethod
    def notes_on(cls, settings: Any, relations: Mapping[str, set[str]]) -> Iterable[str]:
        """Notes for the user on settings that do not fit a graph with these edge types; called after sampling.

        Facts of an edge type: `mixed` if its edges join the same types of nodes in both directions, some without the
        opposite edge; `forward`, `backward` if its targets, its sources are nodes of several types.
        """
        return ()

    # Methods that the worker calls.

    @property
    def asks(self) -> bool:
        """Whether the step needs an engine."""
        return bool(self.prompts)

    def asks_about(self, item: Item) -> bool:
        """Whether the step needs the engine for this item; if not, `compute` does the work."""
        return self.asks

    @property
    def prompt(self) -> Prompt:
        """The prompt of the first turn."""
        return self.prompts[0]

    def prompt_at(self, turn: int) -> Prompt:
        """The prompt of a turn, from 0."""
        return self.prompts[min(turn, len(self.prompts) - 1)]

    @property
    def members(self) -> "tuple[Step, ...]":
        """This step alone; for a StepFamily, its steps by variant (steps/variants.py)."""
        return (self,)

    def of(self, item: Item) -> "Step":
        """The step of the family that processes this item."""
        return self

    @property
    def attempts(self) -> int | None:
        """Largest number of attempts per item according to the prompt; None: the run's `runtime.attempts` apply."""
        return self.prompt.attempts if self.asks else None

    def request(self, item: Item, attempt: int, turn: int = 0) -> Request:
        """The request to the engine, equal for equal item, attempt, turn and run seed on any machine.

        Attempts after the first use the prompt's retry temperature.
        """
        prompt = self.prompt_at(turn)
        values = self.variables(item)
        if not prompt.variables <= values.keys():  # most judges need no variables of the anchor
            of_anchor = self.context.kind.variables(item.anchor)
            if not self.context.edge_types and "relations" in of_anchor:
                of_anchor["relations"] = []
            values = of_anchor | values
        return Request(
            id=f"{item.id}/{self._position(turn)}/{attempt}",
            messages=prompt.render(values),
            max_tokens=prompt.max_tokens,
            schema=None if prompt.last_object else prompt.schema,
            **self._sampling(item, attempt, turn),
        )

    def _position(self, turn: int) -> str:
        return f"{self.label}#{turn}" if turn else self.label

    def _sampling(self, item: Item, attempt: int, turn: int) -> dict[str, Any]:
        """Seed and temperature of a request; the trace of its answer records the same values."""
        prompt, temperature = self.prompt_at(turn), self.settings.temperature
        if attempt or temperature is None:
            temperature = prompt.retry_temperature if attempt else prompt.temperature
        seed = seed_of(self.context.run_seed, item.id, self._position(turn), attempt)
        return {"seed": seed, "temperature": temperature}

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        """Process the response to `request(item, attempt, …)`. Raises no exception for any text of a model.

        Not for aborted responses (finish `abort`): the caller queues their items again.
        """
        prompt = self.prompt_at(turn)
        entry = self._trace_entry(item, response, attempt, turn)
        item.trace.append(entry)
        if response.finish != "stop":
            return unusable(response)
        try:
            parsed = parse_json(response.text, self._fields(prompt), last_object=prompt.last_object)
        except Unparseable as problem:
            return Retry(problem.reason, lost_as="invalid")
        entry["repaired"] = parsed.repaired
        # A record field whose text has the grammar's maximum length was cut off. Field names of the answer count too:
        # those of a rephrased pair (correct, wrong) differ from the record's.
        names = {*self.gives, *(self.answer if self.adds == "output" else ())}
        cut_off = [] if prompt.allow_cut else [name for name in parsed.filled if name in names]
        if cut_off:
            return Retry(f"too_long:{cut_off[0]}", lost_as="invalid")
        answer = {prompt.rename.get(name, name): value for name, value in parsed.value.items()}
        if self.adds == "output" and answer.get("worth_asking") is False:  # docs/guide/prompts.md
            return Reject("declined")
        outcome = self._checked(self.accept, item, answer)
        if isinstance(outcome, Ask) and turn + 1 >= self.turns:
            return Reject(f"{self.label}: no end after {self.turns} turns")
        return outcome

    def _fields(self, prompt: Prompt) -> Fields:
        """The schema's fields, without `maxLength` for fields in which the model only reasons."""
        fields = dict(prompt.schema["properties"])
        for name in fields.keys() - {*self.gives, *self.answer}:
            fields[name] = {key: value for key, value in fields[name].items() if key != "maxLength"}
        return fields

    def run(self, item: Item) -> Outcome:
        """Apply a step without a prompt to the item."""
        outcome = self._checked(self.compute, item)
        if isinstance(outcome, Ask):
            raise ExtensionError(
                f"{self.entry} asks on item {item.id}, but has no prompt", "give it `answer` and a prompt"
            )
        return outcome

    def _checked(self, method: Callable[..., Outcome], item: Item, *arguments: Any) -> Outcome:
        """The checked outcome of the author's `method`; once all judges have answered, that of the decision rule.

        The item keeps nothing of a method that raises an exception or stores a value that does not fit its column.
        """
        before = item.results()
        try:
            outcome = require_outcome(method(item, *arguments), item, self.entry)
            problem = apply_columns(outcome, item, self._columns, before["annotations"])
        except BaseException:
            item.take_back(before)
            raise
        if problem is not None:
            item.take_back(before)
            return Retry(problem, lost_as="failed")
        decision = self.context.decision
        judged = bool(decision.judges) and decision.judges.keys() <= item.verdicts.keys()
        if isinstance(outcome, Done) and self.adds == "verdict" and judged:
            item.decided = True
            reason = decision.reason(item.verdicts)
            return Done() if reason is None else Reject(reason, decided=True)
        return outcome

    @property
    def entry(self) -> str:
        """The names of the step and its package, for messages."""
        from kgqa_hpc.steps import STEPS

        return STEPS.entry(self.name)

    def _trace_entry(self, item: Item, response: Response, attempt: int, turn: int) -> dict[str, Any]:
        """The trace entry of one response; `repaired` is set later, after parsing."""
        prompt, engine = self.prompt_at(turn), self.context.engine
        return {
            "step": self.label,
            "attempt": attempt,
            **({"turn": turn} if turn else {}),
            "prompt": prompt.identity(),
            "engine": engine.provenance() if engine else {},
            **self._sampling(item, attempt, turn),
            "text": storable(self.kept_text(response.text)),
            **({"thought": storable(response.thought)} if response.thought else {}),
            "finish": response.finish,
            "error": None if response.error is None else storable(response.error),
            "repaired": False,
            "tokens": {
                "prompt": response.prompt_tokens,
                "completion": response.completion_tokens,
                "cached": response.cached_tokens,
            },
        }


def seed_of(run_seed: int, item_id: str, step: str, attempt: int) -> int:
    """A seed of 31 bits, derived from run seed, item, step and attempt only."""
    return int.from_bytes(short_digest(f"{run_seed}/{item_id}/{step}/{attempt}", 4), "big") >> 1


def storable(text: str) -> str:
    """`text` cut to a maximum length and without lone surrogates, so that any file can store it."""
    if len(text) > TRACE_TEXT:
        text = f"{text[:TRACE_TEXT]}… ({len(text)} characters, cut)"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def unusable(response: Response) -> Retry:
    """The outcome of a response that is incomplete or an error."""
    if response.finish in ("length", "refusal"):
        return Retry("truncated" if response.finish == "length" else "refused", lost_as="invalid")
    if response.finish == "abort":
        return Retry("aborted", lost_as="failed")
    too_long = any(word in (response.error or "").lower() for word in ("context", "too long"))
    return Retry("prompt too long" if too_long else "engine error", lost_as="failed")


def retrace(
    chain: Sequence[Step], item: Item, trace: Sequence[Mapping[str, Any]], output: Mapping[str, Any]
) -> list[Request]:
    """Rebuild the requests of `trace`, in its order; `item` is new and receives the recorded answers again.

    `output` is the recorded output of the item, for steps whose answers are not complete in the trace. `chain` holds
    the steps of all passes. The result is shorter than the trace if the chain no longer has one of its steps.
    """
    requests: list[Request] = []
    for step in chain:
        if len(requests) == len(trace):
            break
        if trace[len(requests)]["step"] != step.label:
            if not step.asks_about(item):
                step.run(item)
            continue
        while len(requests) < len(trace) and (entry := trace[len(requests)])["step"] == step.label:
            attempt, turn, tokens = entry["attempt"], entry.get("turn", 0), entry["tokens"]
            requests.append(step.request(item, attempt, turn))
            counts = (tokens["prompt"], tokens["completion"], tokens["cached"])
            answer = Response(requests[-1].id, entry["text"], entry["finish"], *counts, entry["error"])
            step.take(item, answer, attempt, turn)
            step.restore(item, output)
        item.state = {}
    return requests
