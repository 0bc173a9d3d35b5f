"""Decisions: the rule of `dataset.decide` that turns the verdicts of several judges into accepted or rejected.

The rule is applied when the last judge of an item has answered. An item that verdicts alone decided (`decided`) is
decided again at every merge, so the rule may change without another request. An item that a step rejected (a check, a
missing answer) stays rejected.

A rule is a function (objections, verdicts, **options) -> bool. `objections` holds for each judge, by label, its
objection as text, or None for an approval; `verdicts` holds the verdicts by label; `options` are those of the
configuration. Packages add rules by the entry points `kgqa_hpc.rules` (docs/guide/extending.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from kgqa_hpc.errors import ConfigError, ExtensionError
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import Settings

Approves = Callable[[Mapping[str, Any]], str | None]  # returns a verdict's objection, None for an approval
Objections = Mapping[str, str | None]
Verdicts = Mapping[str, Mapping[str, Any]]
MISSING = "no verdict"
_FUNCTIONS = {"all": "all_approve", "majority": "majority", "at_least": "at_least", "weighted": "weighted"}
RULES = Registry("rules", "decision rule", {name: f"{__name__}:{f}" for name, f in _FUNCTIONS.items()})


def all_approve(objections: Objections, verdicts: Verdicts) -> bool:
    """Every judge approves."""
    return not any(objections.values())


def majority(objections: Objections, verdicts: Verdicts) -> bool:
    """More than half of the judges approve."""
    return 2 * list(objections.values()).count(None) > len(objections)


def at_least(objections: Objections, verdicts: Verdicts, *, number: int) -> bool:
    """At least `number` judges approve (the key `at_least`)."""
    return list(objections.values()).count(None) >= number


def weighted(objections: Objections, verdicts: Verdicts, *, weights: Mapping[str, float]) -> bool:
    """The approving judges have at least half of the weight (`weights`, default 1)."""
    weight = {label: weights.get(label, 1.0) for label in objections}
    approving = sum(weight[label] for label, text in objections.items() if text is None)
    return 2 * approving >= sum(weight.values())


def first_false(verdict: Mapping[str, Any]) -> str | None:
    """The first false boolean of a verdict as the text `NAME is false`; None when all its booleans are true."""
    return next((f"{name} is false" for name, value in verdict.items() if value is False), None)


class Decide(Settings):
    """Settings of the decision over the verdicts of several judges."""

    judges: list[str] | None = Field(None, description="Labels of the judges that count; default: all.")
    rule: str = Field(
        "all", description="Decision rule: all, majority, at_least, weighted, or a rule of a package."
    )
    at_least: int | None = Field(None, ge=1, description="Rule at_least: number of judges that must approve.")
    weights: dict[str, Annotated[float, Field(gt=0)]] | None = Field(
        None, description="Rule weighted: weight of each judge, by label."
    )
    options: dict[str, Any] | None = Field(None, description="Keyword arguments of a package's rule.")

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if self.rule not in RULES:
            raise ValueError(RULES.unknown(self.rule))
        if (self.rule == "at_least") != (self.at_least is not None):
            raise ValueError("set at_least if and only if the rule is at_least")
        if (self.rule == "weighted") != (self.weights is not None):
            raise ValueError("set weights if and only if the rule is weighted")
        if self.options is not None and RULES.ships(self.rule):
            raise ValueError(f"options: the rule {self.rule} has no options")
        if self.judges is not None and len(set(self.judges)) != len(self.judges):
            raise ValueError("judges: a judge is named twice")
        if self.judges and self.at_least and self.at_least > len(self.judges):
            raise ValueError(f"at_least is {self.at_least}, but there are only {len(self.judges)} judges")
        if self.judges and self.weights and (strangers := set(self.weights) ^ set(self.judges)):
            labels = ", ".join(sorted(strangers))
            raise ValueError(f"weights and judges must name the same labels; they differ in {labels}")
        return self


@dataclass(frozen=True, slots=True)
class Decision:
    """A rule applied to judges: `judges` by label in the order of the run, `rule` by name and as a function."""

    judges: dict[str, Approves] = field(default_factory=dict)
    name: str = "all"
    rule: Callable[[Objections, Verdicts], bool] = all_approve

    def reason(self, verdicts: Verdicts) -> str | None:
        """The reason why the item is rejected (the objections by judge); None when it is accepted.

        A judge without a verdict objects. The rule gets copies. Raises ExtensionError when it fails or returns no bool.
        """
        if not self.judges:
            return None
        objections: dict[str, str | None] = {
            label: approves(verdicts[label]) if label in verdicts else MISSING
            for label, approves in self.judges.items()
        }
        copies = {label: dict(verdict) for label, verdict in verdicts.items()}
        with RULES.calling(self.name):
            accepted = self.rule(dict(objections), copies)
        if not isinstance(accepted, bool):
            raise ExtensionError(
                f"{RULES.entry(self.name)} returned {accepted!r:.80} ({type(accepted)})",
                "return Python's True or False",
            )
        if accepted:
            return None
        texts = [f"{label}: {text}" for label, text in objections.items() if text is not None]
        return "; ".join(texts) or f"decision rule {self.name}"


def decision(settings: Decide, judges: Mapping[str, Approves]) -> Decision:
    """The rule applied to the judges of a run, given by label. Raises ConfigError for an unknown judge or rule."""
    names = list(judges) if settings.judges is None else settings.judges
    named = [*names, *(settings.weights or {})]
    if unknown := sorted({name for name in named if name not in judges}):
        labels = ", ".join(judges) or "none"
        raise ConfigError(
            f"dataset.decide: {unknown[0]!r} is no judge of this run; its judges: {labels}",
            "name the labels (`as:`) of its judging steps",
        )
    counted = {label: approves for label, approves in judges.items() if label in names}
    if settings.at_least is not None and settings.at_least > len(counted):
        raise ConfigError(
            f"dataset.decide.at_least is {settings.at_least}, but only {len(counted)} judges count"
        )
    of_rule: dict[str, dict[str, Any]] = {
        "at_least": {"number": settings.at_least},
        "weighted": {"weights": settings.weights},
    }
    options = of_rule.get(settings.rule, settings.options or {})
    return Decision(counted, settings.rule, partial(RULES.get(settings.rule), **options))
