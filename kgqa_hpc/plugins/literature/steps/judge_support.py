"""Judge of a pair against its source document by three criteria, all of which must hold (QAProt, 3.4).

The pair is shown with its names, as the document has them. Three judges of different families that must
agree are a panel: three such steps over the records of a finished run, with `dataset.decide: {rule: all}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from kgqa_hpc.plugins.literature.steps.extract import Scope
from kgqa_hpc.prompts.safe_text import TEXT_LENGTH, clean_text
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps.decision import first_false
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR
from kgqa_hpc.steps.step import Step

CRITERIA = {
    "supported": "not supported",
    "answerable": "not answerable",
    "entities_match": "other entities",
}
_DOCUMENT = 20_000


class SupportSettings(StepSettings):
    """Settings of the judge: the scope from which a pair must be answerable."""

    scope: Scope = Field(
        "any",
        exclude_if=lambda scope: scope == "any",
        description="`sequence`: a pair that the protein's sequence could not answer is not answerable (QAProt).",
    )


class JudgeSupport(Step):
    """A verdict of three booleans on one record and its document."""

    name = "judge_support"
    Settings = SupportSettings
    default_prompt = "judge_support"
    answer = dict.fromkeys(CRITERIA, "boolean")
    adds = "verdict"
    needs = PAIR

    def variables(self, item: Item) -> dict[str, Any]:
        fields = item.output
        pair = {name: fields.get(f"{name}_with_names") or fields[name] for name in PAIR}
        about = {name: fields.get(name) or "" for name in ("protein", "organism")}
        return {
            **{name: clean_text(text, TEXT_LENGTH) for name, text in {**pair, **about}.items()},
            "text": clean_text(fields.get("document_text") or "", _DOCUMENT),
            "scope": self.settings.scope,
        }

    @classmethod
    def objection(cls, verdict: Mapping[str, Any]) -> str | None:
        missed = next((words for name, words in CRITERIA.items() if not verdict[name]), None)
        return missed or first_false(verdict)
