"""Metapaths of the bundled graph sources: sequences of node types that give meaningful questions.

Each metapath is a kind of scientific question and was chosen by hand (symptom, disease, drug: "Which drug treats the
disease that has this symptom?"); arbitrary sequences, such as gene, process, gene, give questions of no interest.
`anchors.patterns: NAME` selects a list.
"""

from typing import Any

from kgqa_hpc.registry import did_you_mean

METAPATHS: dict[str, list[list[str]]] = {
    "hpo": [
        ["phenotype", "disease", "gene"],
        ["gene", "disease", "phenotype"],
        ["disease", "gene", "disease"],
        ["gene", "disease", "gene"],
        ["phenotype", "disease", "gene", "disease"],
    ],
    "hetionet": [
        ["Compound", "Gene", "Disease"],
        ["Compound", "Gene", "Pathway"],
        ["Disease", "Gene", "Compound"],
        ["Disease", "Gene", "Pathway"],
        ["Symptom", "Disease", "Compound"],
        ["Compound", "Disease", "Symptom"],
        ["Side Effect", "Compound", "Disease"],
        ["Pharmacologic Class", "Compound", "Disease"],
        ["Symptom", "Disease", "Gene"],
        ["Pathway", "Gene", "Disease"],
        ["Symptom", "Disease", "Gene", "Compound"],
    ],
    "primekg": [
        ["drug", "gene/protein", "disease"],
        ["drug", "gene/protein", "pathway"],
        ["disease", "gene/protein", "drug"],
        ["disease", "gene/protein", "pathway"],
        ["effect/phenotype", "disease", "drug"],
        ["effect/phenotype", "disease", "gene/protein"],
        ["drug", "disease", "effect/phenotype"],
        ["exposure", "disease", "gene/protein"],
        ["effect/phenotype", "disease", "gene/protein", "drug"],
    ],
    "oregano": [
        ["compound", "protein", "gene"],
        ["compound", "gene", "disease"],
        ["compound", "gene", "pathway"],
        ["disease", "gene", "compound"],
        ["disease", "gene", "pathway"],
        ["disease", "compound", "protein"],
        ["gene", "protein", "compound"],
        ["pathway", "gene", "disease"],
        ["compound", "protein", "gene", "disease"],
    ],
}


def shipped_metapaths(value: Any) -> Any:
    """The metapaths of a source, if `value` is its name; other values unchanged.

    Raises ValueError for an unknown name.
    """
    if isinstance(value, str) and value not in METAPATHS:
        names = ", ".join(METAPATHS)
        raise ValueError(
            f"no metapaths are shipped for {value!r}{did_you_mean(value, METAPATHS)}; for {names}"
        )
    return METAPATHS[value] if isinstance(value, str) else value
