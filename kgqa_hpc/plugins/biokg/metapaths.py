"""Metapaths of the published graphs, for `anchors.patterns`: node types along the paths of a kind of question."""

OREGANO = [
    ["compound", "protein", "gene"],
    ["compound", "gene", "disease"],
    ["compound", "gene", "pathway"],
    ["disease", "gene", "compound"],
    ["disease", "gene", "pathway"],
    ["disease", "compound", "protein"],
    ["gene", "protein", "compound"],
    ["pathway", "gene", "disease"],
    ["compound", "protein", "gene", "disease"],
]
PRIMEKG = [
    ["drug", "gene/protein", "disease"],
    ["drug", "gene/protein", "pathway"],
    ["disease", "gene/protein", "drug"],
    ["disease", "gene/protein", "pathway"],
    ["effect/phenotype", "disease", "drug"],
    ["effect/phenotype", "disease", "gene/protein"],
    ["drug", "disease", "effect/phenotype"],
    ["exposure", "disease", "gene/protein"],
    ["effect/phenotype", "disease", "gene/protein", "drug"],
]
HETIONET = [
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
]
