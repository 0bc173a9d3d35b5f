"""The documentation is true: commands, options, keys and errors are described, links lead somewhere, tutorials run."""

import ast
import inspect
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer

from kgqa_hpc import __version__, errors
from kgqa_hpc.cli import app
from kgqa_hpc.config import RunConfig, RuntimeConfig
from kgqa_hpc.kg.sources import SOURCES
from tests.by_path import load
from tests.command import kgqa

ROOT = Path(__file__).parents[1]
REFERENCE = load(ROOT / "tools" / "reference_doc.py")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = [page for page in sorted((ROOT / "docs" / "tutorial").glob("*.md")) if page.stem != "2-cluster"]
ERRORS = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
every_plugin = pytest.mark.plugin("batch_api", "biokg", "evaluation", "gasl", "literature", "reasoning")


@every_plugin
@pytest.mark.parametrize("name", ["commands", "record", "config"])
def test_the_generated_pages_are_what_the_tool_writes(name: str) -> None:
    config_doc = load(ROOT / "tools" / "config_doc.py")
    page = config_doc.page() if name == "config" else getattr(REFERENCE, f"{name}_page")()
    assert (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8") == page, (
        "write them anew: python tools/reference_doc.py, python tools/config_doc.py > docs/reference/config.md"
    )


@every_plugin
def test_each_command_and_option_has_a_help_text() -> None:
    for name, command in REFERENCE.commands(typer.main.get_command(app)).items():
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"kgqa {name} {parameter.name}"


@every_plugin
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_paths_in_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if target.startswith(("http:", "https:")):
            continue
        aim = page.parent / target if target else page
        assert aim.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", aim.read_text(encoding="utf-8"), flags=re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, f"{page.name} links to {target}#{anchor}"
    for named in re.findall(
        r"(?<![\w/.])((?:configs|slurm|tools|containers|docs)/[\w./-]+\.(?:yaml|sbatch|sh|py|md|def))", text
    ):
        assert (ROOT / named).exists(), f"{page.name} names {named}"


@every_plugin
def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/guide/python.md is one notebook from top to bottom."""
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


@every_plugin
def test_every_section_and_source_is_on_the_page_of_keys() -> None:
    page = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    keys = ["exclude_edge_types", "unknown_nodes", "duplicate_nodes", "unnamed_nodes", "window", "licence"]
    for name in (*RunConfig.model_fields, *RuntimeConfig.model_fields, *keys):
        assert f"- `{name}`" in page
    for source in SOURCES.names():
        assert f"source: {source}" in page or SOURCES.origin(source) != "kgqa_hpc"


def test_the_drawn_tree_of_errors_names_each_with_its_exit_code() -> None:
    """1 failed, 2 bad input, 75 requeue."""
    drawn = set(re.findall(r"^[│├└─\s]*([A-Z]\w+)", errors.__doc__ or "", flags=re.MULTILINE))
    assert {kind.__name__ for kind in ERRORS} <= drawn
    for kind in ERRORS:
        expected = 2 if issubclass(kind, errors.InputError) else 75 if kind is errors.StoppedEarly else 1
        assert kind("message").exit_code == expected
    assert str(errors.InputError("line 3: no target", "add one")) == "line 3: no target\n       add one"


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_each_command_of_a_tutorial_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```bash\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    errors = ""
    for part in re.split(r"^(kgqa .*)\n", "".join(blocks), flags=re.MULTILINE):
        if part.startswith("kgqa "):
            errors += kgqa("-q", *shlex.split(part)[1:]).stderr
        else:
            subprocess.run(["bash", "-euo", "pipefail", "-c", part], check=True)
    if page.stem == "1-own-graph":
        lines = (tmp_path / "runs/facts/dataset/accepted.jsonl").read_text("utf-8").splitlines()
        pairs = {record["question"]: record["answer"] for record in map(json.loads, lines)}
        assert pairs["Which city is the capital of Hungary?"] == "Budapest"
        assert "You write quiz questions" not in errors
        card = (tmp_path / "upload/README.md").read_text("utf-8")
        assert "pretty_name: Rivers and capitals" in card


def test_each_cell_of_the_notebook_runs_into_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "tutorial" / "notebook.ipynb").read_text("utf-8"))
    names: dict[str, object] = {"__name__": "notebook"}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"], "outputs are not kept: they would grow old"
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    assert shown[0] == 45
    assert all("<" in value._repr_html_() for value in shown[1:])
