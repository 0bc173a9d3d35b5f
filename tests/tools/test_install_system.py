"""tools/install_system.sh: quiet when all is there, loud and still exit 0 when something is missing."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command import bare

TOOL = Path(__file__).resolve().parents[2] / "tools" / "install_system.sh"
RELEASE = Path("/etc/os-release")
NEEDED = "bash dirname id mktemp rm timeout sleep sed awk grep tail cut flock"


def on_debian_12() -> bool:
    return platform.freedesktop_os_release().get("VERSION_ID") == "12" if RELEASE.exists() else False


def machine_without(folder: Path, **programs: str) -> dict[str, str]:
    return {**bare(folder, NEEDED, **programs), "KGQA_RETRY_PAUSE": "0"}


def install(*components: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("bash") or "bash", TOOL, *components]
    return subprocess.run(command, env=env or dict(os.environ), capture_output=True, text=True, timeout=300)


def test_an_unknown_component_is_refused_and_help_is_the_header() -> None:
    done = install("slurmm")
    assert done.returncode == 2
    assert "unknown component 'slurmm'; known are slurm, apptainer, graph-tool, chromium" in done.stderr
    done = install("--help")
    assert done.returncode == 0
    assert "tools/install_system.sh slurm apptainer" in done.stdout


def test_without_root_the_skip_is_in_capitals_and_the_exit_status_0(tmp_path: Path) -> None:
    done = install("apptainer", env=machine_without(tmp_path, id="echo 1000"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SKIPPED: APPTAINER: installing needs root")
    assert done.stdout.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0 or not on_debian_12(), reason="takes the path of root on Debian 12")
def test_a_failed_download_is_tried_three_times_and_then_skipped_with_its_reason(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    script = f'echo "$@" >> {log}\necho "E: Failed to fetch the list" >&2\nexit 100'
    done = install("slurm", env=machine_without(tmp_path, apt_get=script))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "SKIPPED: SLURM: installation failed: E: Failed to fetch the list\n"
    assert len(log.read_text().splitlines()) == 3


@pytest.mark.skipif(shutil.which("slurmctld") is None, reason="SKIPPED: SLURM IS NOT INSTALLED")
def test_what_is_there_stays_and_takes_one_line() -> None:
    done = install("slurm")
    assert done.returncode == 0
    assert done.stdout.startswith("slurm: ")
    assert done.stdout.endswith("is there\n")
