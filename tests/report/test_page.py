"""The report is one valid, self-contained page that nothing in a dataset can break out of."""

from __future__ import annotations

import base64
import builtins
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import AccountingError, InputError
from kgqa_hpc.report.findings import read_findings
from kgqa_hpc.report.page import write_report
from kgqa_hpc.store.results import read_result, write_result

VOID = {"meta", "img", "br", "line", "circle"}
EVIL = "</p><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}\" onload='x"


class Page(HTMLParser):
    """Checks that tags nest, and collects what a page shows and loads."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def images(self) -> list[str]:
        return [str(attrs["src"]) for tag, attrs in self.tags if tag == "img"]


def report(run: Any, **options: Any) -> Page:
    run.finish()
    merge(run.folder, **options)
    return Page(write_report(run.folder).read_text(encoding="utf-8"))


def test_the_page_nests_and_shows_the_numbers_of_the_accounting(make_run: Any) -> None:
    run = make_run()
    page = report(run)
    text = " ".join(page.text.split())
    assert "60 sampled = 34 accepted + 12 rejected + 9 invalid + 5 failed" in text
    assert "judge: invalid question" in text
    assert "1 path-3" in text
    assert "5,000" in text
    assert "scripted-1" in text
    limits = json.loads((run.folder.dataset / "accounting.json").read_text())["lengths"]
    assert f"answers of {limits['answer']['minimum']} to {limits['answer']['maximum']} characters" in text


def test_the_page_loads_nothing_from_anywhere(make_run: Any) -> None:
    page = report(make_run())
    assert len(page.images) == 4
    for source in page.images:
        kind, data = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        figure = base64.b64decode(data).decode()
        assert "<svg" in figure
        assert not re.search(r"<(script|image|foreignObject)|href=\"(?!#)", figure)
    names = {name for _, attrs in page.tags for name in attrs}
    assert not names & {"href", "srcset", "action", "background"}
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "object", "embed", "form"}
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv"))
    assert "default-src 'none'" in str(policy)


def test_whatever_a_graph_or_a_model_writes_stays_text(make_run: Any) -> None:
    run = make_run(items=9, shard_size=9, dataset={"z_score": None})
    run.finish()
    path = run.folder.result("main", "shard-000000")
    records = read_result(path)
    path.unlink()
    for record in records:
        record["output"] = {"question": EVIL, "answer": EVIL} if record["output"] else {}
        record["reason"] = EVIL if record["reason"] else None
        for entry in record["trace"]:
            entry["engine"] = {**entry["engine"], "model": EVIL}
    write_result(path, records, run.folder.origin("main").header("shard-000000", ""))
    merge(run.folder)
    page = Page(write_report(run.folder).read_text(encoding="utf-8"))
    assert "script" not in {tag for tag, _ in page.tags}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert page.text.count(EVIL) >= 3
    assert all(source.startswith("data:") for source in page.images)


def test_a_dozen_samples_come_with_their_graphlets(make_run: Any) -> None:
    run = make_run()
    page = report(run)
    samples = read_findings(run.folder).samples
    assert len(samples) == 12
    assert len({record["id"] for record in samples}) == 12
    assert {record["graphlet_id"] for record in samples} == {1, 2, 3}
    for record in samples:
        assert record["question"] in page.text
        assert f"kgqa explain RUN {record['id']}" in page.text


def test_the_same_dataset_gives_the_same_page(make_run: Any) -> None:
    run = make_run()
    report(run)
    first = (run.folder.report / "index.html").read_bytes()
    write_report(run.folder)
    assert (run.folder.report / "index.html").read_bytes() == first


def test_node_usage_counts_accepted_questions_per_node(make_run: Any) -> None:
    run = make_run()
    report(run)
    findings = read_findings(run.folder)
    assert sum(findings.usage.values()) == sum(len(r["nodes"]) for r in _accepted(run))
    assert findings.names["N:10:1"] == "näme 10-1"


def _accepted(run: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder.dataset / "accepted.jsonl").read_text().splitlines()]


def test_a_partial_and_an_empty_dataset_have_a_page_too(make_run: Any) -> None:
    run = make_run(items=18, shard_size=9)
    run.finish("shard-000001")
    merge(run.folder, partial=True)
    text = Page(write_report(run.folder).read_text(encoding="utf-8")).text
    assert "Partial: 1 of 2 shards" in text
    assert "9 waiting" in " ".join(text.split())
    empty = make_run(items=1, name="empty")
    empty.folder.results("main").mkdir(parents=True)
    lost = {"id": empty.ids[0], "status": "failed", "reason": "generate: engine died"}
    lost |= {"output": {}, "verdicts": {}, "trace": []}
    header = empty.folder.origin("main").header("shard-000000", "")
    write_result(empty.folder.result("main", "shard-000000"), [lost], header)
    merge(empty.folder)
    assert "engine died" in Page(write_report(empty.folder).read_text(encoding="utf-8")).text


def test_the_pace_is_drawn_from_the_notes_that_can_be_read(make_run: Any) -> None:
    run = make_run()
    run.folder.logs.mkdir()
    notes = '{"time": 1000.0, "ended": 0}\nnonsense\n{"time": 4600.0, "ended": 60}\n{"time": 46'
    (run.folder.logs / "history.jsonl").write_text(notes)
    page = report(run)
    assert len(page.images) == 5
    assert "60 items ended in 1.00 hours, pauses included: 1,440 a day." in page.text


def test_shapes_stand_in_the_order_of_their_ids(make_run: Any) -> None:
    run = make_run()
    report(run)
    path = run.folder.dataset / "accounting.json"
    document = json.loads(path.read_text())
    nothing = {**document["shapes"]["1"], "accepted": 0}
    document["shapes"] = {"1": document["shapes"]["1"], "10": nothing, "11": nothing, **document["shapes"]}
    path.write_text(json.dumps(document))
    assert list(read_findings(run.folder).accounting["shapes"]) == ["1", "2", "3", "10", "11"]


def test_without_a_dataset_the_error_says_what_comes_first(make_run: Any) -> None:
    with pytest.raises(InputError, match="no dataset yet") as caught:
        write_report(make_run().folder)
    assert "kgqa merge" in caught.value.cure


def test_without_matplotlib_the_error_has_the_line_that_installs_it(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match="needs matplotlib") as caught:
        write_report(make_run().folder)
    assert caught.value.cure == "pip install 'kgqa_hpc[report]'"


def test_files_that_do_not_belong_together_are_refused(make_run: Any) -> None:
    run = make_run()
    report(run)
    other = make_run(items=30, name="other")
    report(other)
    Path(other.folder.dataset / "accounting.json").replace(run.folder.dataset / "accounting.json")
    with pytest.raises(AccountingError, match="do not belong together"):
        write_report(run.folder)
