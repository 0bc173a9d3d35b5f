"""The documentation is true: every command and option is described, every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from kgqa_hpc import __version__
from kgqa_hpc.cli import app

pytestmark = pytest.mark.plugin("biokg", "evaluation", "gasl", "literature", "reasoning")
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _commands(group: Any, prefix: str = "") -> dict[str, Any]:
    """Every command by its words: "status", "index build"."""
    found: dict[str, Any] = {}
    for name in group.list_commands(None):  # those of plugins, too
        command = group.get_command(None, name)
        inner = hasattr(command, "commands")
        found |= _commands(command, f"{prefix}{name} ") if inner else {f"{prefix}{name}": command}
    return found


COMMANDS = _commands(typer.main.get_command(app))


def _section(name: str) -> str:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    found = re.search(rf"^## kgqa {name}$(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference/commands.md has no section for kgqa {name}"
    return found[1]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_and_option_is_documented(name: str) -> None:
    section = _section(name)
    assert COMMANDS[name].help
    for parameter in COMMANDS[name].params:
        for option in (o for o in parameter.opts if o.startswith("--")):
            assert f"`{option}`" in section, f"kgqa {name} {option}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_option_is_documented_that_does_not_exist(name: str) -> None:
    known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert set(re.findall(r"^\| `(--[a-z-]+)`", _section(name), flags=re.MULTILINE)) <= known


def test_the_options_before_the_verb_are_documented() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8").split("\n## ")[0]
    for parameter in typer.main.get_command(app).params:
        for option in (o for o in parameter.opts if o != "--help"):
            assert f"`{option}`" in text, option


def test_no_section_describes_a_command_that_does_not_exist() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## kgqa (.+)$", text, flags=re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_in_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for named in re.findall(
        r"(?<![\w/.])((?:configs|slurm|tools|containers|docs)/[\w./-]+\.(?:yaml|sbatch|sh|py|md|def))", text
    ):
        assert (ROOT / named).exists(), f"{page.name} names {named}"


def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guide/python.md is one notebook from top to bottom."""
    pytest.importorskip("igraph", reason="IGRAPH IS NOT INSTALLED (extra: bench)")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "guide" / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert len(examples) >= 5
    namespace: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "docs/guide/python.md", "exec"), namespace)


def test_images_in_the_docs_have_this_version() -> None:
    names = re.findall(r"\b\w+_(\d+\.\d+\.\d+)\.sif", (ROOT / "docs" / "guide" / "containers.md").read_text())
    assert set(names) == {__version__}
