"""What the kernel does to a run: it kills a process that takes too much memory, and makes a file system read-only."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import environment, kgqa
from tests.runs import anchors, make_run, new_run
from tests.work.rig import records, result_files

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LIMIT = 700 << 20
# Version of the cgroups, their folder, the file of the limit, and that with the count of kills.
CGROUPS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.oom_control"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.events"),
)


class Cgroup:
    """A cgroup whose processes have `LIMIT` bytes together."""

    def __init__(self, folder: Path, kills: str) -> None:
        self.folder, self._kills = folder, folder / kills

    def run(self, module: str, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        script = f'echo $$ > {self.folder}/cgroup.procs && exec "$0" -m "$@"'
        return subprocess.run(
            ["sh", "-c", script, sys.executable, module, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment(PYTHONPATH=str(ROOT), **variables),
        )

    def kills(self) -> int:
        counts = dict(line.split() for line in self._kills.read_text().splitlines())
        return int(counts["oom_kill"])


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    for folder, limit, kills in CGROUPS:
        group = folder / f"kgqa-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(LIMIT))
            yield Cgroup(group, kills)
            return
        except OSError:
            continue
        finally:
            group.rmdir()
    pytest.skip("needs the right to make a cgroup with a memory limit")


def greedy_run(folder: Path) -> RunFolder:
    config = {
        "graph": {"source": "hpo"},
        "engine": {"kind": "function", "call": "tests.faults.greedy:answer"},
        "runtime": {"shard_size": 10, "commit_every": 0, "lease": 1},
    }
    return new_run(folder, parse_config(config, "the test"), anchors(60), {"seed": 1})


@pytest.mark.parametrize("victim", ["engine", "worker"])
def test_a_process_that_the_kernel_kills_for_its_memory_costs_no_item(
    tmp_path: Path, cgroup: Cgroup, victim: str
) -> None:
    calm, killed = greedy_run(tmp_path / "calm"), greedy_run(tmp_path / "killed")
    kgqa("run", calm.path, "--trust-config", GREEDY=str(tmp_path / "no file"))
    marker = tmp_path / victim
    marker.touch()
    ended = cgroup.run("tests.faults.greedy", killed.path, GREEDY=str(marker))
    assert cgroup.kills() == 1, ended.stderr
    assert not marker.exists()
    assert ended.returncode == {"engine": 0, "worker": -9}[victim], ended.stderr
    if victim == "worker":
        again = cgroup.run("tests.faults.greedy", killed.path, GREEDY=str(marker))
        assert again.returncode == 0, again.stderr
    assert records(killed) == records(calm)
    assert len(records(calm)) == 60


# $1: a prepared run, $2: where to copy the finished one, $3: an empty folder, $4: Python. 77: no right to mount.
DISK = """
truncate -s 64M $3/image && mkfs.ext4 -q $3/image && mkdir $3/disk || exit 77
mount -o loop,errors=remount-ro $3/image $3/disk || exit 77
device=$(basename $(df --output=source $3/disk | tail -1))
test -w /sys/fs/ext4/$device/trigger_fs_error || exit 77
cp -r $1 $3/disk/run && sync
$4 -m kgqa_hpc run $3/disk/run & worker=$!
until ls $3/disk/run/results/main/*.h5 >/dev/null 2>&1; do sleep 0.02; done
echo 1 > /sys/fs/ext4/$device/trigger_fs_error
wait $worker; code=$?
$4 -m kgqa_hpc status $3/disk/run || exit 3
umount $3/disk && mount -o loop $3/image $3/disk || exit 4
$4 -m kgqa_hpc run $3/disk/run || exit 5
cp -r $3/disk/run $2
umount $3/disk
exit $code
"""


def test_a_disk_that_fails_and_becomes_read_only_ends_a_run_in_a_line_and_loses_none(tmp_path: Path) -> None:
    runtime = {"shard_size": 20, "commit_every": 0, "lease": 1}
    slow = {"latency": {"batch": 2, "per_request_s": 0.05}}
    calm, run = (make_run(tmp_path / name, 60, runtime=runtime, engine=slow) for name in ("calm", "run"))
    kgqa("run", calm.path)
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", DISK, "sh", run.path, tmp_path / "saved", tmp_path, sys.executable],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(PYTHONPATH=str(ROOT)),
    )
    if ended.returncode == 77 or not shutil.which("unshare"):
        pytest.skip("needs the right to mount a disk")
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, said
    assert "Read-only file system" in said
    assert "Traceback" not in said
    assert result_files(RunFolder(tmp_path / "saved")) == result_files(calm)
