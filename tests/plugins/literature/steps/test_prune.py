"""Names become "the protein", nothing else does, and both texts are kept."""

import pytest

from kgqa_hpc.plugins.literature.prune import delexicalise, name_finder, pruned_by


@pytest.mark.parametrize(
    ("names", "text", "without"),
    [
        # QAProt, Figure 5, A2, which the paper left as it was.
        (
            ["Complexin-3", "CPLX3"],
            "Deletion of Cplx3 leads to a disorganized outer plexiform layer in the retina.",
            "Deletion of the protein leads to a disorganized outer plexiform layer in the retina.",
        ),
        (["CPLX3"], "Cplx3 binds. Does CPLX3 bind Cplx4?", "The protein binds. Does the protein bind Cplx4?"),
        (["CPLX3"], "The Cplx3 protein and the cplx3 gene.", "The protein and the protein's gene."),
        (["CPLX3"], "What is Cplx3's role?", "What is the protein's role?"),
        (["CPLX3"], "Cplx3-deficient mice", "The protein-deficient mice"),
        (["T"], "T binds DNA; T cells, t", "The protein binds DNA; the protein cells, t"),
        (["large T antigen"], "Of Large T-antigen and T.", "Of the protein and T."),
        (["IL-1β"], "IL-1\u03b2 and IL-1 beta, IL-1-beta", "The protein and the protein, the protein"),
        (["WAS"], "It was WAS.", "It was the protein."),
        (["Insulin"], "nothing here", "nothing here"),
    ],
)
def test_every_name_goes_and_every_other_word_stays(names: list[str], text: str, without: str) -> None:
    result, replaced = delexicalise(text, name_finder(names))
    assert result == without
    assert all(text[m.start : m.end] == m.text for m in replaced)


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("The Cplx3 gene encodes the protein complexin 3.", "The protein's gene encodes the protein."),
        ("The gene CPLX3 encodes complexin 3 (Cplx3).", "The protein's gene encodes the protein."),
        ("Complexin 3 (Cplx3; CPX3), which is small, binds.", "The protein, which is small, binds."),
        ("Cplx3, also known as CPX3, binds Cplx4.", "The protein binds Cplx4."),
        ("A retina protein, Cplx3, binds.", "A retina protein binds."),
        ("Is this protein (Cplx3) small?", "Is this protein small?"),
        ("The synaptic protein complexin 3 is small.", "The synaptic protein is small."),
        ("The binding of protein Cplx3 is low.", "The binding of the protein is low."),
        ("Cplx3 gene expression is high.", "The protein's gene expression is high."),
        ("Complexin 3 (small, not Cplx4) binds.", "The protein (small, not Cplx4) binds."),
    ],
)
def test_what_belongs_to_a_name_goes_with_it(text: str, without: str) -> None:
    assert delexicalise(text, name_finder(["Complexin-3", "CPLX3", "CPX3"]))[0] == without


def test_nothing_is_left_to_find() -> None:
    finder = name_finder(["Complexin-3", "CPLX3"])
    result, replaced = delexicalise("Cplx3/complexin-3 (CPLX3), complexin 3.", finder)
    assert len(replaced) == 4
    assert finder.find(result) == []


@pytest.mark.parametrize(
    ("pair", "term"),
    [
        (("What does it do?", "Not sure."), "not sure"),
        (("Which cells?", "Neurons."), "cells"),
        (("What is the function of PROTEINNAME?", "x"), "proteinname"),
        (("Subcells and unknowns?", "It binds other protein."), None),
    ],
)
def test_placeholders_prune_a_pair_and_are_named(pair: tuple[str, str], term: str | None) -> None:
    assert pruned_by(pair) == term
