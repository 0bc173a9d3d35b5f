"""kgqa doctor: the right words for good and bad machines, and never a hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgqa_hpc import __version__, doctor
from kgqa_hpc.doctor import Check, probes

LIMIT = 120.0  # s; generous, for a loaded machine must not decide a test


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fake programs that is the whole PATH, in an environment without launcher or image."""
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI", "SLURM", "APPTAINER", "SINGULARITY", "KGQA_", "CUDA_")):
            monkeypatch.delenv(name)
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("kgqa_hpc.doctor.gpu.LOOK_LIMIT_S", LIMIT)
    return programs


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def one(name: str) -> Check:
    (check,) = (check for check in doctor.diagnose(LIMIT) if check.name == name)
    return check


def image(folder: Path, mpi: str = "Open MPI 5.0.11", version: str = __version__) -> Path:
    """An 'image' and an apptainer that tells its labels."""
    labels = {probes.MPI_LABEL: mpi, probes.VERSION_LABEL: version}
    document = json.dumps({"data": {"attributes": {"labels": labels}}})
    program(folder, "apptainer", f"[ $1 = inspect ] && echo '{document}' || echo apptainer version 1.4.5")
    path = folder / "graph.sif"
    path.touch()
    return path


def test_every_check_that_fails_says_how_to_mend_it(machine: Path) -> None:
    checks = doctor.diagnose(LIMIT)
    assert [check.name for check in checks if not check.ok and not check.fix] == []
    assert len({check.name for check in checks}) == len(checks)


def test_a_bare_machine_can_still_run_one_process(machine: Path) -> None:
    checks = doctor.diagnose(LIMIT)
    assert doctor.exit_code(checks) == 0
    assert {"mpiexec", "slurm", "apptainer", "gpu"} <= {check.name for check in checks if not check.ok}


def test_mpiexec_of_another_mpi_is_named_with_both_versions(machine: Path) -> None:
    program(machine, "mpiexec", "echo 'mpiexec (Open MPI) 4.1.4'")
    check = one("mpiexec")
    assert not check.ok
    assert "mpiexec is Open MPI 4.1.4 and the MPI library is Open MPI 5" in check.detail


def test_a_fitting_mpiexec_is_told_to_survive_dead_ranks(machine: Path) -> None:
    program(machine, "mpiexec", "echo 'mpiexec (Open MPI) 5.0.3'")
    check = one("mpiexec")
    assert check.ok
    assert "survives dead ranks" in check.detail


def test_a_process_started_by_a_foreign_mpiexec_is_a_failure(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("PMIX_VERSION", "3.2.3")
    checks = doctor.diagnose(LIMIT)
    assert doctor.exit_code(checks) == 1
    (check,) = (check for check in checks if check.name == "launcher")
    assert "mpiexec is Open MPI 4 and" in check.detail


def test_an_image_whose_mpi_does_not_fit_is_refused_with_the_reason(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine, "mpiexec", "echo 'mpirun (Open MPI) 4.1.4'")
    monkeypatch.setenv("KGQA_GRAPH_IMAGE", str(image(machine)))
    check = one("KGQA_GRAPH_IMAGE")
    assert (check.ok, check.needed) == (False, True)
    assert "mpiexec is Open MPI 4.1.4 and the MPI library is Open MPI 5.0.11" in check.detail
    assert "containers/build.sh --mpi 4.1.4" in check.fix


def test_an_image_of_this_version_with_a_fitting_mpi_is_fine(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine, "mpiexec", "echo 'mpiexec (Open MPI) 5.0.3'")
    monkeypatch.setenv("KGQA_LLM_IMAGE", str(image(machine)))
    assert one("KGQA_LLM_IMAGE").ok


def test_an_image_of_another_version_is_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_LLM_IMAGE", str(image(machine, version="0.0.1")))
    assert f"0.0.1 inside, {__version__} outside" in one("KGQA_LLM_IMAGE").detail


def test_a_missing_image_is_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGQA_LLM_IMAGE", str(machine / "none.sif"))
    assert "no such file" in one("KGQA_LLM_IMAGE").detail


def test_a_gpu_is_named_with_what_this_process_sees(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        machine,
        "nvidia-smi",
        "echo 'GPU 0: NVIDIA RTX A6000 (UUID: x)'; echo 'GPU 1: NVIDIA RTX A6000 (UUID: y)'",
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert one("gpu").detail == "2 x NVIDIA RTX A6000, this process sees 1"


def test_slurm_without_controller_is_one_line(machine: Path) -> None:
    program(machine, "sinfo", "echo 'warning one' >&2; echo 'fatal: no controller' >&2; exit 1")
    assert one("slurm").detail == "the controller does not answer: fatal: no controller"


def test_slurm_tells_its_partitions(machine: Path) -> None:
    program(machine, "sinfo", "[ $1 = --version ] && echo slurm 22.05.8 || echo 'gpu* 4'")
    assert one("slurm").detail == "slurm 22.05.8; partitions gpu*(4)"


def test_a_hanging_program_is_one_line_and_not_a_hanging_doctor(machine: Path) -> None:
    program(machine, "nvidia-smi", "exec /bin/sleep 600")
    start = time.monotonic()
    checks = {check.name: check for check in doctor.diagnose(2.0)}
    assert time.monotonic() - start < 300  # the program would have slept for 600
    assert not checks["gpu"].ok
    assert "no answer within 2 s" in checks["gpu"].detail


def test_a_probe_stuck_in_the_kernel_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBES", {"dead mount": lambda timeout: time.sleep(600) or []})
    (check,) = doctor.diagnose(0.1)
    assert (check.ok, check.name) == (False, "dead mount")


def test_a_read_only_folder_fails_and_names_the_cure(tmp_path: Path) -> None:
    check = probes._folder("this folder", lambda: tmp_path / "missing")
    assert (check.ok, check.needed) == (False, True)
    assert "cannot commit files" in check.detail
    assert "--bind" in check.fix


def test_nothing_is_left_in_the_folders_it_tried(tmp_path: Path) -> None:
    assert probes._folder("this folder", lambda: tmp_path).detail.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_text_has_a_line_per_check_and_the_fix_below_what_fails() -> None:
    checks = [
        Check("one", True, "fine", "not shown"),
        Check("two", False, "broken\nbadly", "mend it", needed=True),
        Check("three", False, "absent", "get it"),
    ]
    assert doctor.render(checks).splitlines() == [
        "ok   one              fine",
        "FAIL two              broken badly",
        "                      fix: mend it",
        "--   three            absent",
        "                      fix: get it",
    ]


def test_no_heavy_library_is_imported() -> None:
    """lmdeploy would load torch, mpi4py may hang, numba takes a second."""
    code = (
        "import sys; from kgqa_hpc import doctor; doctor.diagnose(60);"
        "heavy = ('torch', 'lmdeploy', 'mpi4py', 'numba', 'h5py', 'xllamacpp');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "[]\n", done.stderr


def test_the_json_form_holds_the_same_checks() -> None:
    command = [sys.executable, "-m", "kgqa_hpc", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    document = json.loads(done.stdout)
    assert {"name", "ok", "detail", "fix", "needed"} == set(document[0])
    assert [entry["name"] for entry in document][:2] == ["python", "kgqa_hpc"]


def test_every_engine_in_the_registry_is_asked_and_one_that_cannot_be_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kgqa_hpc.registry import Registry

    broken = Registry("engines", "engine", {"fine": ENGINE_PATH, "broken": "no_such_module:Engine"})
    monkeypatch.setattr(doctor, "ENGINES", broken)
    names = {check.name: check.ok for check in doctor.PROBES["engines"](LIMIT)}
    assert names["engine fine"] is True
    assert names["engine broken"] is False


def test_asked_for_a_gpu_where_there_is_none_it_says_so_in_one_line_and_fails(tmp_path: Path) -> None:
    """As containers/check/gpu.sh asks: exit 0 would be a GPU that works."""
    environment = {**os.environ, "PATH": str(tmp_path)}  # no nvidia-smi
    done = subprocess.run(
        [sys.executable, "-m", "kgqa_hpc", "doctor", "--gpu"], env=environment, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if "gpu kernel" in line]
    assert lines == ["FAIL gpu kernel       not tried, no GPU: none visible"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("kernel", "limit", "words"),
    [
        ("raise SystemExit('torch sees no GPU')", LIMIT, "torch sees no GPU"),
        ("import time; time.sleep(600)", 0.5, "no answer within 0 s"),
    ],
)
def test_a_card_whose_first_kernel_does_not_run_is_a_failure_and_no_model_is_tried(
    kernel: str, limit: float, words: str, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kgqa_hpc.doctor import gpu

    program(machine, "nvidia-smi", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-0)'")
    monkeypatch.setattr(gpu, "_KERNEL", kernel)
    monkeypatch.setattr(gpu, "KERNEL_LIMIT_S", limit)
    monkeypatch.setattr(gpu, "tiny_model", None)
    (check,) = gpu.gpu_checks()
    assert (check.name, check.ok, check.needed) == ("gpu kernel", False, True)
    assert words in check.detail
    assert check.fix


def test_on_a_card_each_backend_and_two_cards_are_tried_and_what_fails_is_a_failure(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kgqa_hpc.doctor import gpu

    program(machine, "nvidia-smi", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-0)'")
    monkeypatch.setattr(gpu, "_KERNEL", "print('2|NVIDIA H100|13.0')")
    monkeypatch.setattr(gpu, "tiny_model", lambda folder: folder)
    checks = gpu.gpu_checks()
    assert [c.name for c in checks] == ["gpu kernel", "gpu turbomind", "gpu pytorch", "gpu tp 2"]
    assert [c.ok for c in checks] == [True, False, False, False]  # there is no such model
    assert doctor.exit_code(checks) == 1
    assert all("no folder here" in check.detail for check in checks[1:])


ENGINE_PATH = "kgqa_hpc.engines.scripted.engine:ScriptedEngine"
