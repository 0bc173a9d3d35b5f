"""A judge's unreliability and its taste for position and length are measured; planted ones are found, no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.retest import compare_rounds, perturbed, render_retest, retest
from kgqa_hpc.run import Run
from tests.record_runs import config_of, jsonl, made_run

PAIRS = 150
AGAIN: dict[str, Any] = {"perturb": ["same"], "number": 9, "seed": 1}
# Every answer is "Alpha N one. Omega two."; said twice and turned round it holds words that it does not hold as it is.
LONGER = {"holds": ["two. Alpha", "one. Omega"], "accept": 0.95}
TURNED = {"holds": ["two. Alpha"], "accept": 0.15}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose judge accepts half of the pairs by chance, nearly all long ones and few turned ones."""
    folder = tmp_path_factory.mktemp("judged")
    texts = ((f"Which, {n}?", f"Alpha {n} one. Omega two.") for n in range(PAIRS))
    rows = ({"id": f"i{n}", "question": q, "answer": a} for n, (q, a) in enumerate(texts))
    jsonl(folder / "pairs.jsonl", rows)
    engine = {"kind": "scripted", "accept": 0.5, "planted": [LONGER, TURNED]}
    config = config_of({"use": "judge", "as": "coin"}, engine=engine, runtime={"shard_size": 200})
    return made_run(folder, config)


def asked_again(judged: Path, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"perturb": ["same", "order", "longer"], "judges": []}
    return retest(judged, judged.parent / "again", number=PAIRS, seed=1, **(options | changes))


def test_planted_tastes_are_found_with_their_size_and_the_judges_own_chance_is_none(judged: Path) -> None:
    document = asked_again(judged)
    same, turned, longer = (document["judges"]["coin"][name] for name in ("same", "order", "longer"))
    assert longer["items"] == turned["items"] == PAIRS
    assert longer["shift"]["low"] < 0.45 < longer["shift"]["high"]
    assert turned["shift"]["low"] < -0.35 < turned["shift"]["high"]
    assert max(longer["p"], turned["p"]) < 1e-6
    assert same["same"]["low"] < 0.5 < same["same"]["high"]
    assert abs(same["kappa"]) < 0.2
    assert same["shift"]["low"] < 0 < same["shift"]["high"]
    assert same["p"] > 0.05
    assert "coin" in render_retest(document)


def test_asking_again_changes_no_byte_of_the_run_and_resumes(judged: Path) -> None:
    before = {path: path.read_bytes() for path in judged.rglob("*") if path.is_file()}
    assert asked_again(judged) == asked_again(judged, judges=["coin"])
    assert {path: path.read_bytes() for path in judged.rglob("*") if path.is_file()} == before


def test_a_pair_that_no_judge_saw_is_not_drawn(judged: Path, tmp_path: Path) -> None:
    rows = [{"id": f"i{n}", "question": "Which?", "answer": "Alpha." if n else "Which?"} for n in range(4)]
    jsonl(tmp_path / "pairs.jsonl", rows)
    check = {"use": "check", "reject": ["same_text"]}
    run = made_run(tmp_path, config_of(check, {"use": "judge", "as": "coin"}))
    document = retest(run, tmp_path / "again", judges=[], **AGAIN)
    assert document["pairs"] == document["judges"]["coin"]["same"]["items"] == 3


def test_a_judge_whose_verdicts_are_not_merged_yet_is_not_asked_again(tmp_path: Path) -> None:
    jsonl(tmp_path / "pairs.jsonl", [{"id": "i", "question": "Which?", "answer": "Alpha."}])
    run = made_run(tmp_path, config_of({"use": "judge", "as": "coin"}))
    Run(run).judge("filter", name="second")
    with pytest.raises(InputError, match=r"no verdict of 'second'\n.*kgqa merge"):
        retest(run, tmp_path / "again", judges=[], **AGAIN)
    assert retest(run, tmp_path / "again", judges=["coin"], **AGAIN)["judges"].keys() == {"coin"}
    Run(run).merge()
    assert retest(run, tmp_path / "both", judges=[], **AGAIN)["judges"].keys() == {"coin", "second"}


@pytest.mark.plugin("literature")
def test_a_judge_sees_the_fields_of_the_source_again_and_every_answer_is_changed(tmp_path: Path) -> None:
    texts = {"question": "Which?", "answer": "It is.", "answer_with_names": "CAT is."}
    decided = {"document_text": "A CAT is.", "final_decision": "yes", "context": "A CAT is."}
    jsonl(tmp_path / "pairs.jsonl", [{"id": "i", **texts, **decided}])
    run = made_run(tmp_path, config_of("judge_support", "judge_decision"))
    retest(run, tmp_path / "again", perturb=["longer"], judges=[], number=9, seed=1)
    copy = json.loads((tmp_path / "again" / "pairs.jsonl").read_text())
    assert copy["document_text"] == "A CAT is."
    assert (copy["answer"], copy["answer_with_names"]) == ("It is. It is.", "CAT is. CAT is.")


def test_an_unknown_judge_is_refused_with_those_there_are(judged: Path) -> None:
    with pytest.raises(InputError, match="no judge 'dice'"):
        asked_again(judged, judges=["dice"])
    with pytest.raises(InputError, match="there are same, order, longer"):
        asked_again(judged, perturb=["shorter"])


def test_a_perturbation_says_nothing_new_and_loses_nothing() -> None:
    text, turned = "One is it. Two is not. Three.", "Two is not. Three. One is it."
    record = {"id": "r", "question": "Q?", "answer": text, "options": None}
    answers = {"same": text, "order": turned, "longer": f"{text} {text}"}
    for name, copy in zip(answers, perturbed(record, list(answers)), strict=True):
        assert copy == {**record, "id": f"r~{name}", "answer": answers[name]}


def test_options_and_documents_are_turned_and_one_sentence_has_no_other_order() -> None:
    lists = {"options": ["A.", "B.", "C."], "documents": [{"id": "1"}]}
    record = {"id": "r", "question": "Q?", "answer": "B.", **lists}
    assert perturbed(record, ["order"]) == [{**record, "id": "r~order", "options": ["C.", "B.", "A."]}]
    assert perturbed({"id": "r", "question": "Q?", "answer": "One sentence."}, ["order"]) == []


def test_items_without_both_votes_are_left_out() -> None:
    first = [{"id": str(n), "verdicts": {"j": {"ok": True}} if n else {}} for n in range(3)]
    second = [{"id": f"{n}~same", "verdicts": {"j": {"ok": n == 1}}} for n in range(3)]
    entry = compare_rounds(first, second)["j"]["same"]
    assert (entry["items"], entry["to_reject"], entry["to_accept"]) == (2, 1, 0)
