"""Abstracts as anchors: drawn by the seed, with every mention in its place, whatever order files are read in."""

import json
from pathlib import Path

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Drawn, Source, Tools
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.literature.extract import AbstractAnchors, AbstractSettings
from tests.record_runs import jsonl

SHARED = Path(__file__).parents[4] / "shared" / "data"


def draw(files: list[Path], names: Path, seed: int = 1, **more: object) -> tuple[Drawn, list[Anchor]]:
    settings = AbstractSettings(documents=[str(path) for path in files], names=str(names), **more)
    drawn = AbstractAnchors().draw(Source(), settings, seed, Tools())
    return drawn, list(drawn.anchors)


@pytest.fixture
def names(tmp_path: Path) -> Path:
    (tmp_path / "names.tsv").write_text("gene_names\nTP53 BRCA1\n")
    return tmp_path / "names.tsv"


def documents(path: Path, *texts: str) -> Path:
    return jsonl(path, ({"id": f"{path.stem}{n}", "title": "", "text": text} for n, text in enumerate(texts)))


def test_mentions_stand_where_they_say_and_groups_count_names(tmp_path: Path, names: Path) -> None:
    file = documents(tmp_path / "a.jsonl", "TP53 and BRCA1, and TP53 again.", "Nothing here.", "p53, BRCA1.")
    drawn, anchors = draw([file], names)
    for anchor in anchors:
        text = anchor.data["document"]["text"]
        assert all(text[start:end] == found for start, end, found in anchor.data["mentions"])
    assert drawn.totals == {"2 to 4 names": 1, "1 name": 1}
    assert {anchor.data["document"]["id"] for anchor in anchors} == {"a0", "a2"}


def test_the_draw_depends_on_seed_and_content_alone(tmp_path: Path, names: Path) -> None:
    texts = {name: [f"TP53 in {name}{n}." for n in range(20)] for name in "ab"}
    files = [documents(tmp_path / f"{name}.jsonl", *texts[name]) for name in "ab"]
    first = [anchor.id for anchor in draw(files, names)[1]]
    assert [anchor.id for anchor in draw(files[::-1], names)[1]] == first
    assert [anchor.id for anchor in draw(files, names, number=7)[1]] == first[:7]
    assert [anchor.id for anchor in draw(files, names, seed=2)[1]] != first


def test_documents_without_any_of_the_names_are_bad_input(tmp_path: Path, names: Path) -> None:
    with pytest.raises(InputError, match="none of its names"):
        draw([documents(tmp_path / "a.jsonl", "Nothing.")], names)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="NO REAL FILES: shared/data is not there")
def test_the_real_sample_adds_up() -> None:
    """416 MEDLINE records, HGNC's names."""
    medline = SHARED / "abstracts" / "medline_sample_pubmed21n1298.xml.gz"
    drawn, anchors = draw([medline], SHARED / "proteins" / "hgnc_human_genes.tsv.gz")
    counts = json.loads(drawn.files["abstracts.json"])
    left_out = sum(counts.get(name, 0) for name in ("without text", "retracted", "without a name"))
    assert counts["read"] == left_out + counts["with a name"]
    assert len(anchors) == counts["drawn"] == counts["with a name"] == sum(drawn.totals.values()) > 50
    assert counts["retracted"] > 0
