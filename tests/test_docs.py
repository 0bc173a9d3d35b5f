"""The documentation is true: every command and option is described, every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from kgqa_hpc import __version__
from kgqa_hpc.cli import app
from tests.by_path import load

pytestmark = pytest.mark.plugin("biokg", "evaluation", "gasl", "literature", "reasoning")
ROOT = Path(__file__).parents[1]
REFERENCE = load(ROOT / "tools" / "reference_doc.py")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", ["commands", "record"])
def test_the_generated_pages_are_what_the_tool_writes(name: str) -> None:
    page = getattr(REFERENCE, f"{name}_page")()
    assert (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8") == page, (
        "write them anew: python tools/reference_doc.py"
    )


def test_each_command_and_option_has_a_help_text() -> None:
    for name, command in REFERENCE.commands(typer.main.get_command(app)).items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"kgqa {name} {parameter.name}"


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
