"""What `kgqa status` says, on folders whose state is known."""

import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.cluster import slurm
from kgqa_hpc.status.log_files import write_state
from kgqa_hpc.status.pass_totals import PassTotals, acceptance_words
from kgqa_hpc.status.render import WATCH_EVERY, metrics, render, watch
from kgqa_hpc.status.snapshot import compose, load_totals, survey, to_document
from kgqa_hpc.store.journal import Journal, remove_journals
from kgqa_hpc.store.partition import partition, read_shards_manifest, shard_name
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import create_sealed
from tests.command import kgqa, programs
from tests.runs import make_run
from tests.status.conftest import checked, done, look, rows, state, write_rows


def test_shards_items_and_verdicts_are_counted_from_the_results(run: RunFolder) -> None:
    done(run, "shard-000000", "shard-000003")
    done(run, "shard-000001", verdict="rejected")
    write_state(run.logs, "w0", state(open_shards=2))
    now = survey(run.path)
    assert now["shards"] == {"total": 5, "done": 3, "in_work": 2, "quarantined": 0}
    assert now["items"] == {"total": 100, "ended": 60}
    assert now["verdicts"] == {"accepted": 40, "rejected": 20, "invalid": 0, "failed": 0, "waiting": 40}
    assert now["acceptance"]["share"] == pytest.approx(40 / 60)
    text = render(now)
    assert "shards    3 of 5 done · 2 in work · 0 quarantined" in text
    assert "items     60 of 100" in text
    assert "accepted 40 (66.7 %, 54 to 77 %) · rejected 20 · waiting 40" in text


def test_saved_sums_are_used_and_thrown_away_when_a_result_is_gone_or_damaged(run: RunFolder) -> None:
    done(run, "shard-000000", "shard-000001")
    names = read_shards_manifest(run).names
    (totals,) = load_totals(run, names)
    totals.refresh(run)
    run.status_file.write_bytes(to_document(run, {}, [totals], names))
    (again,) = load_totals(run, names)
    assert again == totals
    run.result("main", "shard-000000").unlink()
    again.refresh(run)
    assert (again.items, list(again.by_shard)) == (20, ["shard-000001"])
    path = run.result("main", "shard-000001")
    path.write_bytes(path.read_bytes()[:-1])
    fresh = PassTotals("main")
    fresh.refresh(run)
    assert (fresh.items, fresh.by_shard) == (0, {})
    done(run, "shard-000000")
    run.status_file.write_text('{"totals": [{"pass_name": "main", "items": "zz"')
    assert survey(run.path)["shards"]["done"] == 1


def test_the_saved_sums_of_ten_thousand_shards_stay_small_and_exact(run: RunFolder) -> None:
    names = [shard_name(position) for position in range(10_000)]
    totals = PassTotals("main", by_shard={name: (n % 7, n, 0) for n, name in enumerate(names) if n % 3})
    document = to_document(run, {}, [totals, PassTotals("last", by_shard=dict.fromkeys(names, ()))], names)
    assert len(document) < 120_000
    totals.by_shard = dict.fromkeys(names[::2], ())
    document = to_document(run, {}, [totals], names)
    assert len(document) < 20_000
    run.status_file.write_bytes(document)
    assert load_totals(run, [*names, shard_name(10_000)]) == [totals], "also after the run has grown"
    assert load_totals(run, []) == [PassTotals("main")]


def test_journaled_items_count_as_progress_and_headers_do_not(run: RunFolder) -> None:
    with journal(run, "shard-000000", 0) as open_one:
        assert survey(run.path)["journal_answers"] == 0
        open_one.append({"id": "i0"})
        assert survey(run.path)["journal_answers"] == 1


def test_watching_shows_the_run_until_it_is_complete(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [f"shard-{number:06d}" for number in range(5)]
    done(run, *shards[:2])

    def go_on(seconds: float) -> None:
        done(run, shards[2 + len(waited)])
        waited.append(seconds)

    waited: list[float] = []
    monkeypatch.setattr("kgqa_hpc.status.render.time.sleep", go_on)
    watch(lambda: survey(run.path))
    assert waited == [WATCH_EVERY] * 3
    told = capsys.readouterr().out
    assert "5 of 5 done" in told
    assert "100 of 100 · complete" in told
    assert "exclude each other" in kgqa("status", run.path, "--watch", "--json", code=2).stderr


def test_prometheus_gets_each_number_once_with_the_runs_name(run: RunFolder) -> None:
    done(run, "shard-000000")
    text = metrics(survey(run.path))
    assert 'kgqa_shards_done{run="oregano",pass="main"} 1' in text
    assert 'kgqa_items{run="oregano",verdict="accepted"} 20' in text
    samples = [line.split(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples))


def test_queue_state_is_of_this_runs_jobs_only(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = "12|12|kgqa-run|RUNNING|1-02:03:04|None", "12|12_3|kgqa-run|PENDING|2:00|Dependency"
    squeue = "\n".join(f"echo '{row}'" for row in (*jobs, "99|99|other|RUNNING|1:00|None"))
    monkeypatch.setenv("PATH", programs(tmp_path, squeue=squeue))
    slurm.record_job(run.logs, "12", "run")
    slurm.record_job(run.logs, "12", "run")
    assert (run.logs / "jobs.jsonl").read_bytes().count(b"\n") == 1
    now = survey(run.path, slurm.queue_state(run.logs))
    assert [job["id"] for job in now["queue"]] == ["12", "12_3"]
    assert "12 kgqa-run running, 1-02:03:04 left · 12_3 kgqa-run pending (Dependency)" in render(now)


def test_without_slurm_or_jobs_there_is_no_queue(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert slurm.queue_state(run.logs) is None
    slurm.record_job(run.logs, "12", "run")
    monkeypatch.setenv("PATH", "/nowhere")
    assert slurm.queue_state(run.logs) is None


def journal(run: RunFolder, shard: str, number: int, pass_name: str = "main") -> Journal:
    run.results(pass_name).mkdir(parents=True, exist_ok=True)
    path = run.results(pass_name) / f"{shard}.w{number}.journal"
    return Journal(path, run.origin(pass_name).header(shard, "any"))


def item(number: int, status: str) -> dict[str, Any]:
    return {"id": f"i{number}", "status": status, "reason": None, "trace": [], "at": [2, 0]}


def test_finished_items_count_although_no_worker_lives_and_no_shard_is_sealed(run: RunFolder) -> None:
    with journal(run, "shard-000000", 0) as open_one:
        for number, fate in enumerate(["accepted", "open", "rejected", "accepted"]):
            open_one.append(item(number, fate))
    with journal(run, "shard-000000", 1) as open_one:  # a successor; the first one's item again
        open_one.append(item(0, "accepted"))
        open_one.append(item(1, "invalid"))
    now = look(run)
    assert now["verdicts"] == {"accepted": 2, "rejected": 1, "invalid": 1, "failed": 0, "waiting": 96}
    assert "accepted 2 (66.7 %, 21 to 94 %)" in render(now)


def test_counts_are_the_same_read_on_from_sums_and_never_fall_when_a_shard_is_sealed(
    run: RunFolder,
) -> None:
    names = read_shards_manifest(run).names
    seen = 0
    open_one = journal(run, "shard-000000", 0)
    for number in range(20):
        open_one.append(item(number, "accepted"))
        totals = load_totals(run, names)
        for each in totals:
            each.refresh(run)
        now = checked(compose(run, read_shards_manifest(run), totals, [], None))
        run.status_file.write_bytes(to_document(run, now, totals, names))
        assert now["items"]["ended"] == number + 1 >= seen
        seen = now["items"]["ended"]
    done(run, "shard-000000")
    assert survey(run.path)["items"]["ended"] == 20
    open_one.close()
    remove_journals(run.results("main"), "shard-000000")
    assert survey(run.path)["items"]["ended"] == 20


def test_several_passes_count_each_item_once(tmp_path: Path) -> None:
    passes = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
    run = make_run(tmp_path / "run", 40, passes=passes)
    partition(run, 20)
    for shard in ("shard-000000", "shard-000001"):
        write_rows(run, shard, [rows("invalid")[0], *rows("open")[1:]], "draft")
    now = look(run)
    assert (now["items"], now["verdicts"]["invalid"]) == ({"total": 40, "ended": 2}, 2)
    with journal(run, "shard-000001", 0, "check") as open_one:
        open_one.append(item(1, "accepted"))
    assert look(run)["items"]["ended"] == 3
    write_rows(run, "shard-000000", [rows("invalid")[0], *rows()[1:]], "check")
    now = look(run)
    assert now["verdicts"] == {"accepted": 20, "rejected": 0, "invalid": 2, "failed": 0, "waiting": 18}


def test_absurd_numbers_on_the_disk_neither_stop_nor_overflow_the_status(run: RunFolder) -> None:
    trace = [{"step": "generate", "tokens": {"prompt": 2**70, "completion": 10**30, "cached": None}}]
    write_rows(run, "shard-000000", rows(trace=trace))
    header = {**run.origin("main").header("shard-000001", ""), "counts": {"accepted": 20}, "rows": 20}
    header |= {"tokens": {"prompt": 2**63}, "reasons": {"x": "2"}, "requests": None, "repaired": -1.5}
    with create_sealed(run.result("main", "shard-000001"), "result", header=header) as file:
        file.create_group("records")
    write_state(run.logs, "w0", state(ended=2**70, up="x", in_flight=None, silent=[], open_shards=-1))
    now = look(run)
    assert now["passes"][0]["tokens"]["prompt"] < 2**53
    assert render(now)
    assert json.loads(to_document(run, now, [], []))


def test_no_share_is_shown_while_a_second_judge_is_at_work() -> None:
    counts, one = {"accepted": 3, "rejected": 141}, {"records": {}}
    two = [one, one]
    assert acceptance_words({"verdicts": counts, "complete": False, "passes": two}) == "accepted 3 so far"
    assert "%" in acceptance_words({"verdicts": counts, "complete": True, "passes": two})
    assert "%" in acceptance_words({"verdicts": counts, "complete": False, "passes": [one]})


def test_where_items_yield_lists_their_records_are_counted_not_the_items(run: RunFolder) -> None:
    records = [{"question": "a", "reason": None}, {"question": "b", "reason": "no"}, {"reason": "no"}]
    write_rows(run, "shard-000000", rows(records=records))
    now = survey(run.path)
    assert now["passes"][0]["records"] == {"accepted": 20, "rejected": 40}
    assert "accepted 20 of 60 records" in render(now)
