"""The report is one valid, self-contained page that nothing in a dataset can break out of."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from kgqa_hpc.errors import AccountingError, InputError
from kgqa_hpc.report.findings import read_findings
from kgqa_hpc.report.page import _ranks, write_report
from kgqa_hpc.store.run_folder import RunFolder
from tests.dataset.conftest import edit_counts, edit_records, seal
from tests.runs import synthetic

VOID = {"meta", "img", "br", "input"}
EVIL = "</script></p><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}\" onload='x"


class Page(HTMLParser):
    """Checks that tags nest, and collects what a page shows and loads."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inside: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.inside:
            self.inside[self.open[-1]].append(data)
        else:
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    @property
    def data(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.inside["script"][0])
        return document


def shown(run: Any) -> Page:
    """The page of a merged run."""
    return Page(write_report(run.folder).read_text(encoding="utf-8"))


def report(run: Any, *shards: str, **options: Any) -> Page:
    run.merge(*shards, **options)
    return shown(run)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A merged run that no test changes."""
    made = synthetic(tmp_path_factory.mktemp("page"))
    report(made)
    return made


@pytest.fixture
def changed(run: Any, tmp_path: Path) -> Any:
    """A copy of it that a test may change."""
    shutil.copytree(run.folder.path, tmp_path / "run")
    return SimpleNamespace(folder=RunFolder(tmp_path / "run"))


@pytest.fixture(scope="module")
def page(run: Any) -> Page:
    return shown(run)


def test_the_page_nests_and_the_same_dataset_gives_the_same_page(run: Any, page: Page) -> None:
    """tests/golden holds its words."""
    assert Path(run.folder.report / "index.html").is_file()
    # Wilson's interval of 34 of 46, by hand: 0.597 to 0.844
    assert "34 of 46 decided pairs accepted: 73.9 % (95 % interval 59.7 % to 84.4 %)" in page.words
    assert page.source == shown(run).source


def test_the_page_loads_nothing_and_runs_only_its_own_script(page: Page) -> None:
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy
    assert policy.startswith("default-src 'none'")
    for kind in ("script", "style"):
        text = page.inside[kind][-1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not [a for t, a in page.tags if "src" in a or t in ("link", "img", "iframe", "object")]
    assert not [a for _, a in page.tags if "style" in a or any(name.startswith("on") for name in a)]
    assert all(str(a["href"]).startswith("#") for _, a in page.tags if "href" in a)


def test_every_figure_has_a_text_alternative(page: Page) -> None:
    figures = re.findall(r'<svg class="figure"[^>]*role="img"><title>([^<]+)</title>', page.source)
    assert len(figures) == page.source.count('class="figure"') == 7 + 29


def test_the_correlation_of_ranks_is_scipys_and_none_without_variation() -> None:
    questions, degrees = np.array([5, 1, 1, 9, 3, 3, 3]), np.array([2, 2, 1, 7, 8, 1, 4])
    for degree, expected in ((degrees, spearmanr(questions, degrees).statistic), (np.ones(7, int), 0.0)):
        nodes = SimpleNamespace(questions=questions, degrees=degree)
        figure = _ranks(SimpleNamespace(nodes=nodes))  # type: ignore[arg-type]
        assert f"rank correlation {expected:.2f}" in figure


def test_nothing_foreign_becomes_markup(changed: Any) -> None:

    def spoil(record: dict[str, Any]) -> None:
        record |= {"question": EVIL, "answer": EVIL, "reason": EVIL}
        record["nodes"][0]["name"] = EVIL

    edit_records(changed.folder.dataset, spoil, "accepted", "rejected")
    edit_counts(changed.folder.dataset, rejected={EVIL: 12})
    page = shown(changed)
    assert len(page.inside["script"]) == 2
    assert page.data["records"][0]["question"] == EVIL
    assert EVIL in page.text
    assert not [t for t, _ in page.tags if t == "img"]


def test_the_sample_is_even_over_groups_and_bounded_unless_all_records_are_asked_for(
    changed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgqa_hpc.report.findings.SAMPLE", 12)
    accepted = [record["group"] for record in shown(changed).data["records"] if record["accepted"]]
    assert {group: accepted.count(group) for group in accepted} == {"shape 1": 2, "shape 2": 2, "shape 3": 2}
    monkeypatch.setattr("kgqa_hpc.report.findings.SAMPLE_BYTES", 1)
    assert len(shown(changed).data["records"]) == 2
    page = Page(write_report(changed.folder, all_records=True).read_text(encoding="utf-8"))
    assert len(page.data["records"]) == 46
    monkeypatch.setattr("kgqa_hpc.report.findings.ALL_BYTES", 1000)
    with pytest.raises(InputError, match="a page cannot hold all records"):
        write_report(changed.folder, all_records=True)


def test_of_very_many_groups_the_largest_are_shown_and_all_are_counted(changed: Any) -> None:
    groups = json.loads((changed.folder.dataset / "accounting.json").read_text())["groups"]
    one = groups["shape 1"]
    groups |= {f"organism {number:05d}": {**one, "sampled": 5} for number in range(20_000)}
    edit_counts(changed.folder.dataset, groups=groups)
    page = shown(changed)
    assert len(page.source) < 1_000_000
    assert "The 300 largest of 20,003; all are in dataset/accounting.json" in page.words
    assert "the 60 largest of 20,003" in page.words
    assert "shape 1 path-3" in page.words


def test_a_partial_merge_says_so(make_run: Any) -> None:
    page = report(make_run(), "shard-000000", partial=True)
    assert "Partial: 7 of 8 shards were not done" in page.words
    assert "52 waiting" in page.words


def test_without_an_accepted_pair_there_is_a_report(make_run: Any) -> None:
    run = make_run(items=1, shard_size=1, dataset={"z_score": None})
    run.merge()
    (run.folder.dataset / "accepted.jsonl").write_text("")
    seal(run.folder.dataset)
    assert write_report(run.folder).exists()


def test_files_that_do_not_belong_together_are_refused(changed: Any) -> None:
    edit_counts(changed.folder.dataset, accepted=33)
    with pytest.raises(AccountingError, match="do not belong together"):
        read_findings(changed.folder)


def test_notes_that_cannot_be_read_are_left_out(changed: Any) -> None:
    changed.folder.logs.mkdir(exist_ok=True)
    notes = '{"time": 0, "ended": 0}\ngarbage\n{"time": 90, "ended": 60}\n'
    (changed.folder.logs / "history.jsonl").write_text(notes)
    assert "60 items ended in 1.5 minutes" in shown(changed).words


def test_a_link_in_place_of_the_folder_leads_nowhere(changed: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(changed.folder.report)
    changed.folder.report.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link"):
        write_report(changed.folder)
    assert list((tmp_path / "elsewhere").iterdir()) == []
