"""From verdicts to accepted or rejected, by the rule of today's configuration.

The rule is applied when the last judge of an item has spoken. An item whose outcome verdicts alone made (`decided`)
is decided again at every merge, so that the rule may change without asking anybody again. What a step
rejected (a check, a missing answer) stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.settings import Settings

Approves = Callable[[Mapping[str, Any]], str | None]  # a verdict's objection, None when it says yes
MISSING = "no verdict"
RULES = {
    "all": "every judge says yes",
    "majority": "more than half of the judges say yes",
    "at_least": "at least so many judges say yes (`at_least`)",
    "weighted": "the judges that say yes weigh at least half (`weights`)",
}


def first_false(verdict: Mapping[str, Any]) -> str | None:
    """The first false boolean of a verdict as the text `NAME is false`; None when all its booleans are true."""
    return next((f"{name} is false" for name, value in verdict.items() if value is False), None)


class Decide(Settings):
    """How the verdicts of several judges become accepted or rejected."""

    judges: list[str] | None = Field(None, description="Labels of the judges that count; default: all.")
    rule: Literal["all", "majority", "at_least", "weighted"] = Field(
        "all", description="all yes; more than half; at_least so many; weighted: yes weighs at least half."
    )
    at_least: int | None = Field(None, ge=1, description="at_least: how many judges must say yes.")
    weights: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None, description="weighted: what each judge's yes weighs."
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Decide:
        if (self.rule == "at_least") != (self.at_least is not None):
            raise ValueError("at_least and the rule at_least need each other")
        if (self.rule == "weighted") != (self.weights is not None):
            raise ValueError("weights and the rule weighted need each other")
        if self.judges is not None and len(set(self.judges)) != len(self.judges):
            raise ValueError("judges: a judge is named twice")
        if self.judges and self.at_least and self.at_least > len(self.judges):
            raise ValueError(f"at_least {self.at_least} of {len(self.judges)} judges can never be")
        if self.judges and self.weights and (strangers := set(self.weights) ^ set(self.judges)):
            raise ValueError(f"weights and judges differ in {', '.join(sorted(strangers))}")
        return self


@dataclass(frozen=True, slots=True)
class Decision:
    """The judges that count, in the order of the run, what each one's yes weighs, and how much is needed."""

    judges: dict[str, Approves] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    needed: float = 0.0
    above: bool = False  # whether more than `needed` must be reached

    def complete(self, verdicts: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether all judges have spoken."""
        return bool(self.judges) and self.judges.keys() <= verdicts.keys()

    def reason(self, verdicts: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Why the item is rejected: the objections by judge; None when it is accepted.

        A judge that gave no verdict does not say yes.
        """
        objections: dict[str, str] = {}
        for label, approves in self.judges.items():
            verdict = verdicts.get(label)
            objection = MISSING if verdict is None else approves(verdict)
            if objection is not None:
                objections[label] = objection
        if not objections:
            return None
        weight = sum(weight for label, weight in self.weights.items() if label not in objections)
        if weight > self.needed or (weight == self.needed and not self.above):
            return None
        return "; ".join(f"{label}: {objection}" for label, objection in objections.items())


def decision(settings: Decide, judges: Mapping[str, Approves]) -> Decision:
    """The rule applied to the judges of a run, given by label. Raises ConfigError for an unknown judge."""
    names = list(judges) if settings.judges is None else settings.judges
    named = [*names, *(settings.weights or {})]
    if unknown := sorted({name for name in named if name not in judges}):
        known = ", ".join(judges) or "none"
        raise ConfigError(
            f"dataset.decide: {unknown[0]!r} is no judge of this run; its judges: {known}",
            "name the labels (`as:`) of its judging steps",
        )
    counted = {label: approves for label, approves in judges.items() if label in names}
    weights = {label: (settings.weights or {}).get(label, 1.0) for label in counted}
    if settings.at_least is not None and settings.at_least > len(counted):
        raise ConfigError(f"dataset.decide.at_least: {settings.at_least}, of {len(counted)} judges")
    total = sum(weights.values())
    needed = {"all": total, "majority": total / 2, "at_least": settings.at_least, "weighted": total / 2}
    return Decision(counted, weights, float(needed[settings.rule] or 0.0), above=settings.rule == "majority")
