"""Verdicts become accepted or rejected by the configured rule, and that may change at merge."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import ConfigError, ExtensionError
from kgqa_hpc.registry import FILE_ENTRIES, FileEntry
from kgqa_hpc.steps.decision import Decide, decision
from tests.dataset.conftest import rewrite

JUDGES = {name: lambda verdict: None if verdict["yes"] else "no" for name in "abc"}


def verdicts(text: str) -> dict[str, Any]:
    """'ab' : a and b say yes, of a, b and c."""
    return {name: {"yes": name in text} for name in "abc"}


@given(st.sets(st.sampled_from("abc")), st.integers(1, 3))
def test_rules_are_what_they_are_called(yes: set[str], number: int) -> None:
    said = verdicts("".join(yes))

    def accepts(**settings: Any) -> bool:
        return decision(Decide(**settings), JUDGES).reason(said) is None

    assert accepts() == (len(yes) == 3)
    assert accepts(rule="majority") == (len(yes) >= 2)
    assert accepts(rule="at_least", at_least=number) == (len(yes) >= number)
    assert accepts(rule="weighted", weights={"a": 2, "b": 1, "c": 1}) == (
        2 * ("a" in yes) + len(yes - {"a"}) >= 2
    )


def test_the_reason_names_every_objection_in_the_order_of_the_run() -> None:
    """Half is no majority, a judge that said nothing does not say yes, and without judges everything stands."""
    rule = decision(Decide(judges=["a", "b"], rule="majority"), JUDGES)
    assert (rule.reason(verdicts("a")), rule.reason(verdicts("ab"))) == ("b: no", None)
    assert decision(Decide(judges=["c", "a"]), JUDGES).reason(verdicts("b")) == "a: no; c: no"
    assert decision(Decide(), JUDGES).reason({"a": {"yes": True}}) == "b: no verdict; c: no verdict"
    assert decision(Decide(), {}).reason({}) is None


def test_an_unknown_judge_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'d' is no judge of this run; its judges: a, b, c"):
        decision(Decide(judges=["a", "d"]), JUDGES)


@pytest.mark.parametrize(
    "settings",
    [
        {"rule": "at_least"},
        {"rule": "most"},
        {"options": {"judge": "a"}},
        {"at_least": 2},
        {"rule": "weighted"},
        {"judges": ["a", "a"]},
        {"judges": ["a"], "rule": "at_least", "at_least": 2},
        {"judges": ["a"], "rule": "weighted", "weights": {"b": 1}},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Decide(**settings)


def test_a_rule_of_a_file_decides_and_its_mistakes_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict_first(objections: Any, verdicts: Any, *, judge: str) -> Any:
        return {"a": True, "b": "yes"}[judge] if objections[judge] is None else False

    entry = FileEntry(strict_first, Path("my_rules.py"))
    monkeypatch.setitem(FILE_ENTRIES, "rules", {"strict_first": entry})

    def decide(judge: str) -> Any:
        return decision(Decide(rule="strict_first", options={"judge": judge}), JUDGES)

    assert decide("a").reason(verdicts("a")) is None
    assert decide("a").reason(verdicts("bc")) == "a: no"
    assert decide("c").reason(verdicts("ab")) == "c: no"
    with pytest.raises(ExtensionError, match=r"decision rule strict_first of my_rules.py returned 'yes'"):
        decide("b").reason(verdicts("b"))
    with pytest.raises(ExtensionError, match=r"decision rule strict_first of my_rules.py failed: KeyError"):
        decide("c").reason(verdicts("c"))
    with pytest.raises(ExtensionError, match=r"failed: TypeError.*judge"):
        decision(Decide(rule="strict_first"), JUDGES).reason(verdicts("a"))


def test_a_rule_changes_copies_and_returns_a_bool_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def clearing(objections: Any, verdicts: Any) -> bool:
        for verdict in verdicts.values():
            verdict.clear()
        objections.clear()
        verdicts.clear()
        return False

    def of_numpy(objections: Any, verdicts: Any) -> Any:
        return np.bool_(True)

    entries = {function.__name__: FileEntry(function, Path("mine.py")) for function in (clearing, of_numpy)}
    monkeypatch.setitem(FILE_ENTRIES, "rules", entries)
    stored = verdicts("ab")
    assert decision(Decide(rule="clearing"), JUDGES).reason(stored) == "c: no"
    assert stored == verdicts("ab")
    with pytest.raises(ExtensionError, match=r"returned .*True.* \(<class 'numpy"):
        decision(Decide(rule="of_numpy"), JUDGES).reason(stored)


def test_a_merge_decides_again_and_leaves_alone_what_a_step_rejected(make_run: Any) -> None:
    run = make_run(items=8, shard_size=8, dataset={"z_score": None}).finish()

    def change(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        yes = {"valid_question": True, "original_answer_valid": True}
        for number, record in enumerate(records):
            record |= {"features": {}, "annotations": {}, "records": None, "decided": number != 0}
            record |= {"status": "rejected", "reason": "from another rule", "verdicts": {"judge": yes}}
            record["output"] = {"question": "Q?", "answer": "A."}
        return records

    rewrite(run.folder.result("main", "shard-000000"), change)
    total = merge(run.folder).total
    assert (total.accepted, dict(total.rejected)) == (7, {"from another rule": 1})
