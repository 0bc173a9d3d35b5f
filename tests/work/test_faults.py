"""The disk fails, or the process dies, at any file-system call of a whole run: clear words, and nothing is
lost.

tests/store enumerates every call of each commit; here calls are drawn at random over a run from its first
partition to its last result, with everything that happens between.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.work.rig import Nursery, records, result_files, seeded

ITEMS = 60
CALLS = 700  # of a run of this size, roughly; a fault beyond its last call does not strike
WORDS = {
    "ENOSPC": "No space left on device",
    "EDQUOT": "Disk quota exceeded",
    "EROFS": "Read-only file system",
    "EIO": "Input/output error",
}


def prepare(folder: Path) -> RunFolder:
    return make_run(folder, ITEMS, runtime={"shard_size": 20, "commit_every": 0, "lease": 1})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    nursery = Nursery(folder / "output.log")
    run = prepare(folder / "run")
    try:
        assert nursery.code(nursery.start(run)) == 0
    finally:
        nursery.end()
    return result_files(run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(WORDS))
def test_a_disk_that_refuses_ends_the_run_with_words_and_it_resumes(
    tmp_path: Path, nursery: Nursery, undisturbed: dict[str, bytes], kind: str
) -> None:
    draw = seeded()
    run = prepare(tmp_path / "run")
    for _ in range(4):
        call = draw.randrange(1, CALLS)
        said = len(nursery.output())
        code = nursery.code(nursery.start(run, f"{kind}@{call}"))
        output = nursery.output()[said:]
        assert code in (0, 1), f"call {call}: {output}"
        assert "Traceback" not in output, f"call {call}: {output}"
        if code == 1:
            assert WORDS[kind] in output, f"call {call}: {output}"
    assert nursery.code(nursery.start(run)) == 0, nursery.output()[-2000:]
    assert result_files(run) == undisturbed


@pytest.mark.slow
def test_a_process_that_dies_at_any_call_leaves_a_run_that_resumes(
    tmp_path: Path, nursery: Nursery, undisturbed: dict[str, bytes]
) -> None:
    draw = seeded()
    run = prepare(tmp_path / "run")
    deaths = 0
    for _ in range(8):
        # Most of a run is over soon: begin again, so that calls of all its parts are met.
        if len(records(run)) == ITEMS:
            run = prepare(tmp_path / f"run-{deaths}")
        code = nursery.code(nursery.start(run, f"KILL@{draw.randrange(1, CALLS)}"))
        assert code in (0, -signal.SIGKILL), nursery.output()[-2000:]
        deaths += code != 0
    assert nursery.code(nursery.start(run)) == 0, nursery.output()[-2000:]
    assert result_files(run) == undisturbed


@pytest.mark.slow
def test_a_write_that_is_cut_short_is_finished(
    tmp_path: Path, nursery: Nursery, undisturbed: dict[str, bytes]
) -> None:
    draw = seeded()
    run = prepare(tmp_path / "run")
    for _ in range(4):
        assert nursery.code(nursery.start(run, f"SHORT@{draw.randrange(1, CALLS)}")) == 0, nursery.output()
        assert result_files(run) == undisturbed
        for path in run.results("main").glob("*.h5"):
            path.unlink()
