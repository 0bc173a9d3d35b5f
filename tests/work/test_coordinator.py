"""The lead: taken by one, taken over when it dies, and what it does meanwhile."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kgqa_hpc.cluster.stop import Stop
from kgqa_hpc.config import RunConfig
from kgqa_hpc.runs import open_run
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.journal import Journal
from kgqa_hpc.store.lease import Heartbeat, Leases
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_result
from kgqa_hpc.terminal import Progress
from kgqa_hpc.work.coordinator import Coordinator, Reporter
from kgqa_hpc.work.session import Logbook, Session
from tests.runs import make_run
from tests.store.conftest import age, claimed

MakeLead = Callable[[str], Coordinator]
EXPIRY = 600.0  # nothing expires by itself, however long a test is held up


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run", 60, runtime={"lease": EXPIRY})


@pytest.fixture
def make_lead(run: RunFolder) -> Iterator[MakeLead]:
    config: RunConfig = open_run(run.path)[1]
    log = cast(Logbook, SimpleNamespace(write=lambda event, **facts: None))
    hearts: list[Heartbeat] = []

    def make(worker: str) -> Coordinator:
        heart = Heartbeat(EXPIRY)
        heart.start()
        hearts.append(heart)
        return Coordinator(Session(run, config, worker, Stop(None), log, heart, {}))

    yield make
    for heart in hearts:
        heart.stop()


def write_done(run: RunFolder, *shards: str) -> None:
    """Results of these shards of 20 items."""
    partition(run, 20)
    rows = [{"id": f"i{n}", "status": "accepted", "reason": None, "trace": []} for n in range(20)]
    for shard in shards:
        write_result(run.result("main", shard), rows, run.origin("main").header(shard, ""))


def test_one_leads_another_takes_over_when_it_resigns_or_dies(run: RunFolder, make_lead: MakeLead) -> None:
    first, second, third = (make_lead(name) for name in "abc")
    assert first.take()
    assert not second.take()
    assert first.take(), "it keeps the role"
    first.resign()
    assert second.take()
    assert not third.take()
    age(Leases(run.leases(".lead"), "c", EXPIRY).path("lead"), seconds=2 * EXPIRY)
    assert third.take()


def test_slurm_is_asked_for_the_queue_once_a_minute_and_at_the_end(
    run: RunFolder, make_lead: MakeLead, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead, calls = make_lead("a"), []
    monkeypatch.setattr(
        "kgqa_hpc.cluster.slurm.queue_state", lambda logs: calls.append(logs) or [{"id": "7"}]
    )
    for _ in range(3):
        lead.duties()
    assert len(calls) == 1
    assert json.loads(run.status_file.read_text())["queue"] == [{"id": "7"}]
    lead.duties(last=True)
    assert len(calls) == 2


def test_a_status_file_of_another_form_does_not_end_a_worker(run: RunFolder, make_lead: MakeLead) -> None:
    assert make_lead("a").take()
    other = make_lead("b")
    other._session.facts["size"] = 2
    reporter = Reporter(other._session, other, cast(Progress, SimpleNamespace()))
    for text in ("[1]", '{"items": 1, "verdicts": 2}', '{"items": {}, "verdicts": {}, "workers": []}', "{"):
        run.status_file.write_text(text)
        assert reporter._report_once()
        assert reporter._seen is None
    written = json.dumps(survey(run.path))
    run.status_file.write_text(written)
    assert reporter._report_once()
    assert reporter._seen == json.loads(written)


def test_expired_leases_and_leftovers_beside_results_go_and_living_leases_stay(
    run: RunFolder, make_lead: MakeLead
) -> None:
    write_done(run, "shard-000000")
    for shard in ("shard-000000", "shard-000001"):
        Journal(run.results("main") / f"{shard}.w0.journal", {"shard": shard}).close()
    workers = Leases(run.leases("main"), "w", EXPIRY)
    claimed(workers, "shard-000001")
    age(workers.path("shard-000001"), seconds=2 * EXPIRY)
    living = claimed(workers, "shard-000002")
    lead = make_lead("a")
    lead.take()
    lead.duties()
    assert workers.holder("shard-000001") is None
    assert living.renew()
    assert [path.name for path in run.results("main").glob("*.journal")] == ["shard-000001.w0.journal"]


@pytest.mark.parametrize("verify", [False, True])
def test_a_result_that_another_set_aside_meanwhile_is_no_result(
    run: RunFolder, make_lead: MakeLead, set_aside: Callable[[Path], None], verify: bool
) -> None:
    write_done(run, "shard-000000")
    lead = make_lead("a")
    lead.take()
    set_aside(run.result("main", "shard-000000"))
    if verify:
        assert lead.verify(["shard-000000"]) == 1
    else:
        lead.duties()
    assert survey(run.path)["shards"]["done"] == 0
    assert not list(run.path.glob("quarantine/*"))
