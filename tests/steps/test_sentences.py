"""Questions worded from sentences: by relation and direction, chained along a path, refused where they cannot be."""

import pytest

from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.run import Run
from kgqa_hpc.steps.pair import SHIPPED, WordSettings, question
from kgqa_hpc.trials.replay import replay
from tests.project import write_tables

OWN = {
    "near_to": "Which {asked} is near {given}?",
    "crosses": "Which {asked} crosses the {given}?",
    "found_in": "What is found in {given}?",
}
SENTENCES = WordSettings(use="word", label="word", template={**SHIPPED["hpo"], **OWN}).template


def way_of(text):
    """The steps of a way that reads `kind relation> kind relation< kind`; `<` goes against the edge."""
    words = text.split()
    ends = zip(words[:-2:2], words[1::2], words[2::2], strict=True)
    return [(source, edge[:-1], edge[-1] == ">", target) for source, edge, target in ends]


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("disease associated_with< gene", "Which gene is associated with Ataxia?"),
        ("gene associated_with> disease", "Which disease is associated with Ataxia?"),
        ("x near_to> blood_vessel", "Which blood vessel is near Ataxia?"),
        (
            "phenotype has_phenotype< disease associated_with< gene",
            "Which gene is associated with a disease that has the phenotype Ataxia?",
        ),
        (
            "x near_to> organ near_to< organ near_to> bone",
            "Which bone is near another organ that is near an organ that is near Ataxia?",
        ),
        ("x crosses> road", "Which road crosses the Ataxia?"),
        ("x crosses> road crosses> river", "Which river crosses a road that crosses the Ataxia?"),
        (
            "disease associated_with< gene associated_with> disease",
            "Which other disease is associated with a gene that is associated with Ataxia?",
        ),
        ("x near_to> x", "Which x is near Ataxia?"),
        ("Gene near_to> Organ near_to> Gene", "Which other Gene is near an Organ that is near Ataxia?"),
        ("gene near_to> organ found_in> bone", "What is found in an organ that is near Ataxia?"),
        ("gene near_to> organ found_in> gene", None),
        ("x unheard_of> y", None),
        ("gene associated_with< x near_to> y", None),
    ],
)
def test_a_way_is_worded_by_its_relations_and_directions(way, text):
    assert question(SENTENCES, "Ataxia", way_of(way)) == text


def _run(folder, relation="causes", **word):
    nodes = [("g", "BRCA {asked} 1", "gene"), ("d", "Ovarian cancer", "disease"), ("p", "Pain", "sign")]
    write_tables(folder, nodes, [("g", "d", relation), ("d", "p", "shows")])
    graph = {"source": "csv", "nodes": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
    return Run.from_config(
        {
            "graph": {**graph, "min_degree": 0},
            "anchors": {"kind": "fact", "number": 10},
            "passes": [{"name": "main", "steps": [{"use": "word", **word}, "verify"]}],
            "dataset": {"z_score": None},
        },
        folder / "run",
    )


@pytest.mark.parametrize("relation", ["causes", "<causes>", "causes---often"])
def test_a_run_without_any_model_is_worded_and_verified(tmp_path, relation):
    causes = {"forward": "Which disease is caused by {given}?", "backward": "Which gene causes {given}?"}
    counts = _run(tmp_path, relation, template={relation: causes}).all()
    pairs = {record["question"]: record["answer"] for record in counts.dataset.records()}
    gene, disease = "BRCA {asked} 1", "Ovarian cancer"
    assert pairs == {f"Which disease is caused by {gene}?": disease, f"Which gene causes {disease}?": gene}
    reasons = (f"word: no sentence for shows {way}" for way in ("backward", "forward"))
    assert counts.dataset.accounting["rejected"] == dict.fromkeys(reasons, 1)


def test_an_item_worded_by_a_sentence_has_no_request_to_replay(tmp_path):
    made = _run(tmp_path, template={"shows": "Which {asked} goes with {given}?"}).all()
    anchor = next(iter(made.dataset.records()))["id"]
    with pytest.raises(InputError, match="no step asked an engine about it"):
        replay(tmp_path / "run", anchor)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ({"template": "hop"}, "did you mean hpo"),
        ({"template": {"causes": "Which gene?"}}, r"template\.causes.*\{given\} once"),
        ({"template": "hpo", "prompt": "fact"}, "takes no prompt"),
        ({}, "engine: is missing"),
    ],
)
def test_a_wrong_template_is_refused_before_a_run_is_made(tmp_path, word, message):
    with pytest.raises(ConfigError, match=message):
        _run(tmp_path, **word)
