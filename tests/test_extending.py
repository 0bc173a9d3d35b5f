"""docs/examples/films is a package that works, one file for each entry; so is the file of docs/guide/extending.md."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.by_path import install
from tests.dataset.conftest import records_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "extending.md"
PACKAGE = ROOT / "docs" / "examples" / "films"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return installed(tmp_path)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a finished run, runs/films."""
    site = installed(tmp_path_factory.mktemp("films"))
    kgqa(site, "all", "run.yaml", "runs/films")
    return site


def installed(tmp_path: Path) -> Path:
    """The package, installed as pip would (modules, metadata, entry points), beside the page's files."""
    blocks = re.findall(r"^```(?:python|toml|yaml)\n# (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    files = dict(blocks)
    assert len(files) == len(blocks) == 3
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for name in ("run.yaml", "films.txt"):
        shutil.copy(PACKAGE / name, tmp_path)
    package = tmp_path / "site" / "film_kgqa"
    shutil.copytree(PACKAGE / "film_kgqa", package, ignore=shutil.ignore_patterns("__pycache__"))
    install(package.parent, (PACKAGE / "pyproject.toml").read_text())
    return package.parent


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A new process that finds the package."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *words], cwd=site.parent, env=environment, capture_output=True, text=True
    )


def kgqa(site: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = python(site, "-m", "kgqa_hpc", *words)
    assert done.returncode == code, done.stderr
    return done


def test_a_foreign_source_kind_step_engine_and_export_run_from_graph_to_export(films: Path) -> None:
    site = films
    records = records_of(site.parent / "runs/films/dataset")
    assert len(records) == 3
    assert {record["kind"] for record in records} == {"edge"}
    assert {record["head"] for record in records} <= {"Stanley Kubrick", "Agnes Varda"}
    assert all(1979 in record["years"] for record in records)
    assert records[0]["provenance"]["engine"]["generate"]["name"] == "template"
    page = (site.parent / "runs/films/report/index.html").read_text()
    assert "Years that answers name</h2>\n<p>1979</p>" in page
    for name, text in (("given", "In 1979."), ("wanted", "1979")):
        (site.parent / f"{name}.jsonl").write_text(json.dumps({"id": "1", "text": text}) + "\n")
    done = kgqa(site, "score", "given.jsonl", "wanted.jsonl", "--json")
    assert json.loads(done.stdout)["same_years"] == 1.0
    kgqa(site, "export", "runs/films", "--to", "cards", "--out", "cards")
    assert "[1979]" in (site.parent / "cards/train.txt").read_text()


def test_a_file_named_in_the_configuration_needs_no_package(site: Path) -> None:
    kgqa(site, "all", "steps.yaml", "runs/words")
    records = records_of(site.parent / "runs/words/dataset")
    assert all(record["words"] > 2 for record in records)
    assert len(records) == 3
    done = python(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my_steps_test.py")
    assert done.returncode == 0, done.stdout


def test_doctor_lists_every_entry_and_the_package_it_comes_from(site: Path) -> None:
    # The command asks for 5 s; on a loaded machine what is not asked yet by then is one line without the lists.
    told = python(site, "-c", "from kgqa_hpc.doctor import *; print(render(diagnose(timeout=600)))")
    lines = {line[5:].split("  ")[0].strip(): line for line in told.stdout.splitlines()}
    assert "graphlet" in lines["anchors known"]
    assert "records" in lines["anchors known"]
    entries = (
        "sources films, anchors edge, steps years, engines template, engines house, exports cards, rules no_veto, "
        "sections years_named, metrics same_years"
    )
    for registry, entry in map(str.split, entries.split(", ")):
        assert lines[f"{registry} known"].startswith("ok")
        assert f"{entry} of film-kgqa 1.0" in lines[f"{registry} known"]


def test_a_command_that_cannot_be_used_is_listed_with_its_fault_and_none_replaces_a_shipped_one(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "exits.py").write_text("raise SystemExit(0)\n")
    (site / "wrong.py").write_text("def wrong(words: int | str):\n    pass\n")
    project = """[project]
name = "verbs"
version = "1.0"
[project.entry-points."kgqa_hpc.commands"]
exits = "exits:main"
wrong = "wrong:wrong"
"""
    install(site, project)
    listed = {entry["name"]: entry for entry in json.loads(kgqa(site, "list", "commands", "--json").stdout)}
    assert "'exits' of verbs 1.0 cannot be imported: SystemExit" in listed["exits"]["description"]
    assert "command wrong of verbs 1.0 failed: " in listed["wrong"]["description"]
    shutil.rmtree(site / "verbs-1.0.dist-info")
    install(site, project.replace("exits =", "show ="))
    refused = kgqa(site, "list", "commands", code=2).stderr
    assert "command 'show' of package verbs: kgqa_hpc has one of that name already" in refused
    assert "Usage" in kgqa(site, "show", "--help").stdout


def test_a_wrong_key_of_a_foreign_entry_is_told_with_the_nearest_one(site: Path) -> None:
    config = site.parent / "run.yaml"
    config.write_text(config.read_text().replace("number: 3", "numbr: 3").replace("year: 1979", "yaer: 1979"))
    done = kgqa(site, "init", "run.yaml", "runs/wrong", code=2)
    assert "anchors.numbr: unknown key, did you mean number?" in done.stderr
    assert "engine.yaer: unknown key, did you mean year?" in done.stderr
    assert not (site.parent / "runs/wrong").exists()


def test_a_file_of_a_foreign_source_that_is_wrong_is_one_clear_line(site: Path) -> None:
    (site.parent / "films.txt").write_text("Stanley Kubrick | 2001\nnobody\n")
    done = kgqa(site, "all", "run.yaml", "runs/films", code=2)
    assert "films.txt line 2: is not director | film" in done.stderr


def test_a_run_knows_the_packages_of_its_entries(films: Path, tmp_path: Path) -> None:
    site = shutil.copytree(films.parent, tmp_path, dirs_exist_ok=True) / films.name
    manifest = json.loads((site.parent / "runs/films/manifest.json").read_text())
    entries = manifest["fingerprint"]["entries"]["values"]
    assert list(entries) == ["anchors.edge", "engines.template", "sources.films", "steps.years"]
    assert {(one["package"], one["version"]) for one in entries.values()} == {("film-kgqa", "1.0")}
    recorded = records_of(site.parent / "runs/films/dataset")[0]["provenance"]["entries"]
    assert [text.split(" source ")[0] for text in recorded] == [f"{name} film-kgqa 1.0" for name in entries]
    card = (site.parent / "runs/films/dataset/README.md").read_text()
    assert "| steps.years | film-kgqa 1.0 source" in card
    (site / "film_kgqa" / "years.py").write_text((site / "film_kgqa" / "years.py").read_text() + "\n")
    for verb in ("run", "merge"):
        assert "entries.steps.years.source" in kgqa(site, verb, "runs/films", code=2).stderr
    site.rename(site.with_name("away"))
    done = kgqa(site, "merge", "runs/films", code=2)
    assert "step years: film-kgqa==1.0 is not installed here" in done.stderr
    assert "pip install film-kgqa==1.0" in done.stderr
