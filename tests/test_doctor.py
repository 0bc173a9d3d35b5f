"""kgqa doctor: the right words for good and bad machines, and never a hang."""

import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from kgqa_hpc import __version__, doctor
from kgqa_hpc.doctor import Check, probes
from kgqa_hpc.registry import Registry
from kgqa_hpc.settings import Package
from tests.command import programs

LIMIT = 120.0  # s; generous, for a loaded machine must not decide a test


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fake programs that is the whole PATH, in an environment without launcher or image."""
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI", "SLURM", "APPTAINER", "SINGULARITY", "KGQA_", "CUDA_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("kgqa_hpc.doctor.gpu.LOOK_LIMIT_S", LIMIT)
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    programs(folder, **{name: f"#!/bin/sh\n{script}\n"})


def image(folder: Path, version: str) -> Path:
    """An 'image' and an apptainer that tells its labels."""
    labels = {probes.MPI_LABEL: "Open MPI 5.0.11", probes.VERSION_LABEL: version}
    document = json.dumps({"data": {"attributes": {"labels": labels}}})
    program(folder, "apptainer", f"[ $1 = inspect ] && echo '{document}' || echo apptainer version 1.4.5")
    path = folder / "graph.sif"
    path.touch()
    return path


@pytest.mark.usefixtures("machine")
def test_a_bare_machine_can_run_one_process_and_each_failed_check_has_its_cure() -> None:
    checks = doctor.diagnose(LIMIT)
    assert doctor.exit_code(checks) == 0
    assert {"mpiexec", "slurm", "apptainer", "gpu"} <= {check.name for check in checks if not check.ok}
    assert [check.name for check in checks if not check.ok and not check.fix] == []
    assert [check.name for check in checks if not check.detail] == []
    assert len({check.name for check in checks}) == len(checks)


OLD, FITTING = "echo 'mpirun (Open MPI) 4.1.4'", "echo 'mpiexec (Open MPI) 5.0.3'"
CARDS = "echo 'GPU 0: NVIDIA RTX A6000 (UUID: x)'; echo 'GPU 1: NVIDIA RTX A6000 (UUID: y)'"
DEAF = "echo 'warning one' >&2; echo 'fatal: no controller' >&2; exit 1"
SINFO = "[ $1 = --version ] && echo slurm 22.05.8 || echo 'gpu* 4'"
GRAPH, LLM = "KGQA_GRAPH_IMAGE", "KGQA_LLM_IMAGE"
# Programs and variables (in capitals) of a machine; mark and name of a check; words of its line or its cure.
MACHINES = [
    ({"mpiexec": OLD}, "--", "mpiexec", "is Open MPI 4.1.4 and the MPI library is Open MPI 5"),
    ({"mpiexec": FITTING}, "ok", "mpiexec", "survives dead ranks"),
    ({"OMPI_COMM_WORLD_SIZE": "4", "PMIX_VERSION": "3.2.3"}, "FAIL", "launcher", "mpiexec is Open MPI 4 and"),
    ({"mpiexec": OLD, GRAPH: "IMAGE"}, "FAIL", GRAPH, "the MPI library is Open MPI 5.0.11"),
    ({"mpiexec": OLD, GRAPH: "IMAGE"}, "FAIL", GRAPH, "containers/build.sh --mpi 4.1.4"),
    ({"mpiexec": FITTING, LLM: "IMAGE"}, "ok", LLM, f"kgqa_hpc {__version__}"),
    ({LLM: "OLD IMAGE"}, "--", LLM, f"0.0.1 inside, {__version__} outside"),
    ({LLM: "/none.sif"}, "--", LLM, "no such file"),
    ({"nvidia-smi": CARDS, "CUDA_VISIBLE_DEVICES": "1"}, "ok", "gpu", "2 x NVIDIA RTX A6000, this process sees"),
    ({"sinfo": DEAF}, "--", "slurm", "the controller does not answer: fatal: no controller"),
    ({"sinfo": SINFO}, "ok", "slurm", "slurm 22.05.8; partitions gpu*(4)"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "mark", "name", "words"), MACHINES)
def test_a_machine_is_described_with_its_mismatches(
    machine: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str], mark: str, name: str, words: str
) -> None:
    versions = {"IMAGE": __version__, "OLD IMAGE": "0.0.1"}
    for key, value in setting.items():
        if key.isupper():
            monkeypatch.setenv(key, str(image(machine, versions[value])) if value in versions else value)
        else:
            program(machine, key, value)
    checks = doctor.diagnose(LIMIT)
    (check,) = (check for check in checks if check.name == name)
    assert words in f"{check.detail}\n{check.fix}"
    assert doctor.render([check]).split()[0] == mark
    assert doctor.exit_code(checks) == (mark == "FAIL")


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


def test_a_folder_is_tried_and_left_empty_and_one_that_cannot_hold_files_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (check,) = doctor.PROBES["this folder"](LIMIT)
    assert check.detail.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    (check,) = doctor.PROBES["this folder"](LIMIT)
    assert (check.ok, check.needed) == (False, True)
    assert "cannot commit files" in check.detail
    assert "--bind" in check.fix


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


def test_no_heavy_library_is_imported_and_the_json_form_holds_the_checks() -> None:
    """lmdeploy would load torch, mpi4py may hang, numba takes a second."""
    code = (
        "import sys; from kgqa_hpc import cli; sys.argv = ['kgqa', 'doctor', '--json']\n"
        "try: cli.main()\nexcept SystemExit: pass\n"
        "heavy = ('torch', 'lmdeploy', 'mpi4py', 'numba', 'h5py', 'xllamacpp');"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.stderr == "[]\n"
    document = json.loads(done.stdout)
    assert {"name", "ok", "detail", "fix", "needed"} == set(document[0])
    assert [entry["name"] for entry in document][:2] == ["python", "kgqa_hpc"]


def test_every_engine_in_the_registry_is_asked_or_its_package_and_one_that_cannot_be_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = {
        "fine": "kgqa_hpc.engines.scripted:ScriptedEngine",
        "packaged": "kgqa_hpc.engines.openai.engine:OpenAIEngine",
        "broken": "no_such_module:Engine",
    }
    monkeypatch.setattr(doctor, "ENGINES", Registry("engines", "engine", entries))
    checks = {check.name: check for check in doctor.PROBES["engines"](LIMIT)}
    assert [checks[f"engine {name}"].ok for name in entries] == [True, True, False]
    assert checks["engine packaged"].detail == f"aiohttp {version('aiohttp')}"
    monkeypatch.setattr(Package, "missing", True)
    (check,) = (check for check in doctor.PROBES["engines"](LIMIT) if check.name == "engine packaged")
    assert (check.detail, check.fix) == ("aiohttp is not installed", "pip install 'kgqa_hpc[openai]'")


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
    monkeypatch.setattr(gpu, "_KERNEL", "print('2 x NVIDIA H100, CUDA 13.0')")
    monkeypatch.setattr(gpu, "tiny_model", lambda folder: folder)
    checks = gpu.gpu_checks()
    assert [c.name for c in checks] == ["gpu kernel", "gpu turbomind", "gpu pytorch", "gpu tp 2"]
    assert [c.ok for c in checks] == [True, False, False, False]  # there is no such model
    assert doctor.exit_code(checks) == 1
    assert all("no folder here" in check.detail for check in checks[1:])
