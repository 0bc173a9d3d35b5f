"""The history of an item is read from the run's files, whether the item is finished or not."""

from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.dataset.explain import explain, render
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.store.journal import open_next
from kgqa_hpc.store.shards import write_result
from tests.runs import SyntheticRun, read_shard, synthetic


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    """A finished run that is not merged. Read by tests, changed by none."""
    return synthetic(tmp_path_factory.mktemp("explain")).finish()


def prompts_of(run: SyntheticRun) -> Path:
    return run.folder.path.with_name("prompts")


def test_a_finished_item_tells_its_prompts_answers_verdicts_and_place(run: SyntheticRun) -> None:
    story = explain(run.folder.path, run.ids[10])
    assert (story["state"], story["status"], story["reason"]) == ("finished", "accepted", None)
    assert story["where"]["shard"] == "shard-000001"
    assert story["where"]["record"] == "results/main/shard-000001.h5"
    requests = [(request["step"], request["attempt"]) for request in story["requests"]]
    assert requests == [("generate", 0), ("generate", 1), ("judge", 0), ("judge", 1)]
    first, second, *_, judged = story["requests"]
    assert first["text"] == "I would rather not."
    assert second["messages"][1]["content"] == "näme 10-0; näme 10-1; näme 10-2;"
    assert judged["messages"][1]["content"].startswith("What links the nodes of number 0010? | It is")
    assert story["verdicts"]["judge"]["original_answer_valid"] is True
    assert story["versions"]["run"] == run.folder.manifest().digest
    text = render(story)
    parts = ["näme 10-1", "attempt 2", "Check a pair.", "I would rather not.", "shard-000001"]
    assert all(part in text for part in [run.ids[10], *parts])


def test_a_prompt_that_has_changed_or_is_gone_is_not_shown_as_if_it_had_been_sent_and_hides_nothing_else(
    make_run: Any,
) -> None:
    run = make_run().finish()
    file = prompts_of(run) / "check.md"
    file.write_text(file.read_text().replace("Check a pair.", "Be kind."))
    generate, judge = explain(run.folder.path, run.ids[0])["requests"]
    assert generate["messages"]
    assert judge["messages"] is None
    assert "has changed since" in judge["note"]
    (prompts_of(run) / "ask.md").unlink()
    story = explain(run.folder.path, run.ids[0])
    assert "no such prompt" in story["requests"][0]["note"]
    assert story["requests"][0]["text"].startswith('{"question"')
    assert "cannot be shown" in render(story)
    assert "Be kind." not in render(story)


def test_an_item_in_a_journal_is_read_where_it_got_farthest_and_a_finished_one_is_not_in_flight(
    make_run: Any,
) -> None:
    run = make_run()
    folder = run.folder.results("main")
    folder.mkdir(parents=True)
    header = run.folder.origin("main").header("shard-000001", run.manifest.entry("shard-000001").sha256)
    whole = next(r for r in run.records("shard-000001") if r["id"] == run.ids[10])
    half = {**whole, "status": "open", "trace": whole["trace"][:2], "verdicts": {}}
    states = []
    for record in (half, whole):
        journal, _ = open_next(folder, "shard-000001", header)
        journal.append({**record, "at": [0, 0]})
        journal.close()
        states.append(explain(run.folder.path, run.ids[10])["state"])
    assert states == ["in flight", "finished"]
    with (folder / "shard-000001.w1.journal").open("ab") as file:
        file.write(b"0000 torn")
    story = explain(run.folder.path, run.ids[10])
    assert (story["state"], story["status"]) == ("finished", "accepted")
    assert story["where"]["record"] == "results/main/shard-000001.w1.journal"
    assert len(story["requests"]) == 4


def test_an_item_between_passes_is_in_flight_and_one_that_ended_in_the_first_is_not(
    make_run: Any,
) -> None:
    run = make_run(passes=[{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}])
    path, records = run.folder.result("draft", "shard-000000"), run.records("shard-000000")
    path.parent.mkdir(parents=True)
    header = run.folder.origin("draft").header("shard-000000", "")
    write_result(path, records, header)
    states = {r["status"]: explain(run.folder.path, r["id"])["state"] for r in records}
    assert states["accepted"] == states["rejected"] == "in flight"  # the judge of the next pass decides
    assert states["invalid"] == "finished"
    path.unlink()
    write_result(
        path, [{**r, "status": "open", "verdicts": {}, "trace": r["trace"][:1]} for r in records], header
    )
    story = explain(run.folder.path, run.ids[0])
    assert (story["state"], story["status"]) == ("in flight", "open")
    assert story["where"]["record"] == "results/draft/shard-000000.h5"


def test_an_item_nobody_asked_yet_is_waiting(make_run: Any) -> None:
    run = make_run()
    run.finish("shard-000000")
    story = explain(run.folder.path, run.ids[59])
    assert (story["state"], story["status"], story["requests"]) == ("waiting", "open", [])
    assert story["anchor"] == Anchor.from_dict(read_shard(run.folder.shard("shard-000007"))[3]).to_dict()
    run.folder.shards_manifest.unlink()
    assert explain(run.folder.path, run.ids[59])["state"] == "waiting"
    assert "waiting" in render(story)


def test_a_length_outlier_is_told_as_the_dataset_has_it(make_run: Any) -> None:
    run = make_run().finish()
    assert explain(run.folder.path, run.ids[run.LONG])["status"] == "accepted"
    merge(run.folder)
    story = explain(run.folder.path, run.ids[run.LONG])
    assert (story["status"], story["reason"]) == ("rejected", "length")


def test_a_beginning_that_only_one_id_has_is_enough(make_run: Any) -> None:
    run = make_run(items=12)
    assert explain(run.folder.path, run.ids[11][:-1] + run.ids[11][-1])["id"] == run.ids[11]
    assert explain(run.folder.path, "g03-000000000000000b")["id"] == run.ids[11]
    with pytest.raises(InputError, match="4 items begin so"):
        explain(run.folder.path, "g03-")


@pytest.mark.parametrize("wanted", ["g01-00000000000000ff", "nonsense", "", "é"])
def test_an_unknown_id_is_bad_input_with_the_nearest_ones(make_run: Any, wanted: str) -> None:
    run = make_run(items=12)
    with pytest.raises(InputError, match="no such item among the 12") as caught:
        explain(run.folder.path, wanted)
    assert "g01-0000000000000000" in caught.value.cure


def test_a_damaged_result_is_an_error_and_not_a_story(make_run: Any) -> None:
    run = make_run().finish()
    path = run.folder.result("main", "shard-000001")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptFile):
        explain(run.folder.path, run.ids[10])


STEERING = "\x1b[31m \x9b2J \x1b]0;title\x07 \u202egnp \u2066 \r \x7f \ufeff"


def everywhere(value: Any) -> Any:
    """Every text of a document with characters that steer a terminal."""
    if isinstance(value, dict):
        return {f"{name}": everywhere(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner) for inner in value]
    return f"{value} {STEERING}" if isinstance(value, str) else value


def test_nothing_foreign_steers_a_terminal(run: SyntheticRun) -> None:
    story = explain(run.folder.path, run.ids[0])
    story["verdicts"] = {STEERING: everywhere(story["verdicts"]["judge"])}
    story["output"][STEERING] = STEERING
    evil = {**everywhere({k: v for k, v in story.items() if k != "anchor"}), "anchor": story["anchor"]}
    evil["anchor"] = everywhere(story["anchor"])
    text = render(evil)
    assert "title" in text
    assert not set(text) & set("\x1b\x9b\x07\u202e\u2066\r\x7f\ufeff")


def test_names_are_shown_as_they_are_and_each_turn_of_a_step_apart(run: SyntheticRun) -> None:
    story = explain(run.folder.path, run.ids[10])
    story["anchor"]["nodes"][0][1] = "[bold]p53[/bold] :smile:"
    story["requests"].append({**story["requests"][0], "turn": 1})
    text = render(story)
    for words in ("[bold]p53[/bold] :smile:", " generate, attempt 1 ", " generate, turn 2, attempt 1 "):
        assert words in text
