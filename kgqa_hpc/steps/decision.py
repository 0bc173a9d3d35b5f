"""How several verdicts become accepted or rejected.

The rule is configuration (`dataset.decide`): it is applied when an item's last judge has spoken and again
at merge, so it may be changed without asking anybody again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from pydantic import Field, model_validator

from kgqa_hpc.settings import Name, Settings


class JudgingStep(Protocol):
    """What this module needs of a step that adds verdicts (steps/step.py)."""

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None: ...


class DecideConfig(Settings):
    """Which judges count, and how many of them must agree."""

    judges: list[Name] | None = Field(None, description="Names of judging steps; default: all of the run.")
    rule: Literal["all", "majority", "at_least", "weighted"] = Field(
        "all", description="all; majority: more than half; at_least: a number; weighted: a share of weights."
    )
    at_least: int | None = Field(None, ge=1, description="Approvals that rule at_least needs.")
    weights: dict[str, float] = Field(
        default_factory=dict, description="Weight of each judge under rule weighted; default 1."
    )
    threshold: float = Field(
        0.5, ge=0, lt=1, description="Rule weighted accepts above this share of all weights."
    )

    @model_validator(mode="after")
    def _complete(self) -> DecideConfig:
        if (self.rule == "at_least") != (self.at_least is not None):
            raise ValueError("rule at_least and the number at_least go together")
        if any(not weight >= 0 for weight in self.weights.values()):
            raise ValueError("weights must not be negative")
        return self


def objections(
    verdicts: Mapping[str, Mapping[str, Any]], judges: Mapping[str, type[JudgingStep]]
) -> dict[str, str | None]:
    """Per judge that has spoken what it objects to, None for an approval. `judges`: classes by label."""
    return {label: judge.objection(verdicts[label]) for label, judge in judges.items() if label in verdicts}


def decide(objections: Mapping[str, str | None], rule: DecideConfig) -> str | None:
    """None when the panel accepts, else the reason of its rejection.

    `objections`: per judge that counts and has spoken what it objects to, None for an approval. One judge's
    reason is its own ("judge: invalid answer"); that of several names those who objected.
    """
    against = {label: objection for label, objection in objections.items() if objection is not None}
    if _accepts(objections, against, rule):
        return None
    if len(objections) == 1:
        label, objection = next(iter(against.items()))
        return f"{label}: {objection}"
    return f"panel: {', '.join(against)} of {len(objections)} judges object"


def _accepts(
    objections: Mapping[str, str | None], against: Mapping[str, str | None], rule: DecideConfig
) -> bool:
    approvals = len(objections) - len(against)
    if rule.rule == "all":
        return not against
    if rule.rule == "majority":
        return 2 * approvals > len(objections) or not objections
    if rule.rule == "at_least":
        return approvals >= (rule.at_least or 0) or not objections
    weight = {label: rule.weights.get(label, 1.0) for label in objections}
    whole = sum(weight.values())
    return (
        whole == 0
        or sum(weight[label] for label in objections if label not in against) > rule.threshold * whole
    )
