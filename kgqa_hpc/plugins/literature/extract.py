"""Questions about the proteins that an abstract names, their organism and their entry in Swiss-Prot (QAProt, 3.1-3.3).

The anchor kind `abstract`: documents that name a protein or gene. They are read by read.py
(deletions and versions applied), names found by exact matching with word boundaries. All documents are counted in
stats/abstracts.json: read = usable (drawn or not) + without text + retracted + without a name.

One item gives many records: up to ten pairs for each protein, each with its organism scope. Checks without a model
reject single records, not the item: a protein that does not occur in the text, a question that mentions its source, a
repeated question. A pair whose scope names an organism keeps it; a pair with the scope All or Not sure gets the
document's main organism. Pairs without an organism are left out and counted.

The mapping is offline, against a file that the user has, and adds accession, sequence, taxonomy and functional classes.
A record whose name is ambiguous, known of other organisms only, withdrawn or missing is rejected with this outcome as
reason; unlike in QAProt, the first of several hits is never taken.
"""

import heapq
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Source, Tools, short_digest
from kgqa_hpc.anchors.family import own_words, place
from kgqa_hpc.anchors.names import plain
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.settings import listed
from kgqa_hpc.plugins.literature import proteins
from kgqa_hpc.plugins.literature.document import QuotableText
from kgqa_hpc.plugins.literature.names import NameFinder, read_names, searchable_names
from kgqa_hpc.plugins.literature.read import document_files, read_documents
from kgqa_hpc.settings import KindSettings, StepSettings
from kgqa_hpc.steps.item import PAIR, Item
from kgqa_hpc.steps.step import Done, Outcome, Step
from kgqa_hpc.text.plain_text import clean_text

TEXT = 20_000  # characters of a document that a prompt shows; an abstract has 2,000
NAMES = 100  # distinct names kept per document


class AbstractSettings(KindSettings):
    """Settings of literature anchors: the documents, and the names they must contain."""

    kind: Literal["abstract"] = "abstract"
    documents: list[str] = Field(min_length=1, description="Files or folders: MEDLINE, JATS, JSONL, Parquet.")
    names: str | list[str] = Field(description="Tables of names (docs/guide/documents.md).")
    number: int | None = Field(None, ge=1, description="Documents to draw; default: all.")
    min_length: int = Field(3, ge=1, description="Minimum letters and digits of a name.")
    retracted: bool = Field(False, description="Include retracted publications.")
    paths = ("documents", "names")


class AbstractAnchors(AnchorKind):
    """Documents, grouped by the number of distinct names in them."""

    name = "abstract"
    Settings = AbstractSettings
    needs_graph = False
    group_word = "names"
    columns = (
        Column("document_id", "string", "Id of the document; of a MEDLINE record the PMID."),
        Column("document_title", "string", "Its title."),
        Column("document_text", "string", "Its text, from which the pair was made."),
    )
    sample = Anchor(
        "sample",
        "abstract",
        "1 name",
        data={
            "document": {"id": "1", "title": "A title.", "text": "ATP7B carries copper."},
            "mentions": [[0, 5, "ATP7B"]],
            "names": ["ATP7B"],
        },
    )

    def draw(self, source: Source, settings: AbstractSettings, seed: int, tools: Tools) -> Drawn:
        """The documents with a name in seeded order; at most `number` are held in memory.

        Raises DocumentFormatError, and InputError when no document has a name.
        """
        counts, groups = Counter[str](), Counter[str]()
        anchors = _anchors(settings, counts, groups)
        keyed = ((place(seed, anchor.id), anchor.id, anchor) for anchor in anchors)
        chosen = sorted(keyed) if settings.number is None else heapq.nsmallest(settings.number, keyed)
        if not chosen:
            problem = f"{settings.names}: none of its names stands in a document"
            raise InputError(problem, "check names and documents")
        counts["drawn"] = len(chosen)
        file = json.dumps(dict(sorted(counts.items())), indent=1).encode() + b"\n"
        note = ", ".join(f"{number:,} {label}" for label, number in sorted(counts.items()))
        anchors = (anchor for _, _, anchor in chosen)
        return Drawn(anchors, dict(groups), {"abstracts.json": file}, (note,))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        document = anchor.data["document"]
        return {
            "title": clean_text(document["title"], TEXT),
            "text": clean_text(document["text"], TEXT),
            "names": [clean_text(name) for name in anchor.data["names"]],
        }

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        document = anchor.data["document"]
        return {f"document_{name}": document[name] for name in ("id", "title", "text")}

    def files(self, settings: AbstractSettings) -> list[Path]:
        """Every document file, and the table of names."""
        return [*document_files([Path(path) for path in settings.documents]), *listed(settings.names)]


def _anchors(settings: AbstractSettings, counts: Counter[str], groups: Counter[str]) -> Iterator[Anchor]:
    """The usable documents in the order of the files; documents are counted in `counts`, anchors in `groups`."""
    names = (name for table in listed(settings.names) for name in read_names(table))
    finder = NameFinder(searchable_names(names, settings.min_length))
    for document in read_documents(settings.documents):
        counts["read"] += 1
        if not document.text:
            counts["without text"] += 1
        elif document.retracted and not settings.retracted:
            counts["retracted"] += 1
        elif mentions := finder.find(document.text):
            counts["with a name"] += 1
            different = list(dict.fromkeys(mention.text for mention in mentions))[:NAMES]
            number = len(different)
            group = "1 name" if number == 1 else "2 to 4 names" if number < 5 else "5 names and more"
            groups[group] += 1
            # The id follows from the content: another version of a record is another anchor.
            content = json.dumps([document.id, document.title, document.text], ensure_ascii=False)
            data = {
                "document": {"id": document.id, "title": document.title, "text": document.text},
                "mentions": [list(mention) for mention in mentions],
                "names": different,
            }
            yield Anchor(f"d-{short_digest(content).hex()}", AbstractAnchors.name, group, data=data)
        else:
            counts["without a name"] += 1


PER_PROTEIN = 10  # QAProt, 3.2 and its prompt
# Words that refer to the source, which a reader of the question does not see.
_SOURCE = re.compile(
    r"\b(?:abstract|article|paper|authors?|manuscript|(?:this|the|present|current|our) (?:study|studies|text|work|"
    r"report|review|findings?|results?|data|passage))\b"
)


Scope = Annotated[
    Literal["any", "sequence"],
    Field(
        exclude_if=lambda scope: scope == "any",
        description="`sequence`: only pairs that the protein's sequence alone could answer (QAProt).",
    ),
]


class ExtractSettings(StepSettings):
    """Settings of an extraction step: scope and number of pairs."""

    scope: Scope = "any"
    per_protein: int = Field(
        PER_PROTEIN, ge=1, description="Maximum pairs per protein; further ones are rejected."
    )


class Extract(Step):
    """Turns a document into records, one for each pair of the model's answer; a rejected pair has a reason."""

    name = "extract"
    Settings = ExtractSettings
    default_prompt = "extract"
    answer = {"pairs": "array"}
    adds = "output"
    gives = ("question", "answer", "protein", "organism_scope")
    many = True
    columns = (
        Column("protein", "string", "The protein, as the document names it."),
        Column(
            "organism_scope",
            "string",
            "Organism that the pair holds for, as stated: a name, All, or Not sure.",
        ),
    )

    def variables(self, item: Item) -> dict[str, Any]:
        return {"scope": self.settings.scope}

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        quotable, most = QuotableText(item.anchor.data["document"]["text"]), self.settings.per_protein
        seen, questions = Counter[str](), set[str]()
        schema = self.prompt.schema["properties"]["pairs"]["items"]["properties"]
        # The grammar cuts a text at its maximum length.
        cut_at = {} if self.prompt.allow_cut else {name: schema[name].get("maxLength") for name in PAIR}
        item.records = []
        for pair in answer["pairs"]:
            fields = {name: pair[name] for name in self.gives}
            protein, question = plain(fields["protein"]), plain(fields["question"])
            texts, trouble = (question, fields["answer"]), None
            if quotable.find(fields["protein"]) is None:
                trouble = "protein not in the text"
            elif any(len(fields[name]) == length for name, length in cut_at.items()):
                trouble = "cut off"
            elif any(_SOURCE.search(plain(words)) or own_words(words) for words in texts):
                trouble = "speaks of its source"
            elif question in questions:
                trouble = "question repeated"
            elif seen[protein] >= most:
                trouble = f"more than {most} of a protein"
            else:
                seen[protein] += 1
                questions.add(question)
            item.records.append({**fields, "reason": trouble and f"{self.label}: {trouble}"})
        return Done()


def kept(item: Item) -> list[dict[str, Any]]:
    """Records of the item that no step has rejected so far."""
    return [record for record in item.records or () if record["reason"] is None]


class Organism(Step):
    """Adds the organism to each record; one request for each document that has records."""

    name = "organism"
    default_prompt = "organism"
    answer = {"organism": "string"}
    adds = "column"
    columns = (
        Column("organism", "string", "Organism of the protein."),
        Column("main_organism", "string", "The one organism that the document is about."),
    )

    def asks_about(self, item: Item) -> bool:
        return bool(kept(item))

    def compute(self, item: Item) -> Outcome:
        """End the step for a document without records."""
        return Done()

    def accept(self, item: Item, answer: dict[str, Any]) -> Outcome:
        main = answer["organism"].strip(' ."')
        item.annotations["main_organism"] = main
        for record in kept(item):
            scope = record["organism_scope"].strip()
            record["organism"] = main if scope.lower() in proteins.NO_ORGANISM else scope
            if record["organism"].lower() in proteins.NO_ORGANISM:
                record["reason"] = f"{self.label}: unknown"
        return Done()


class MapSettings(StepSettings):
    """Settings of the step map_protein: the protein file."""

    proteins: str = Field(description="Swiss-Prot as FASTA or as UniProt's table, plain or gzip.")
    paths = ("proteins",)


class MapProtein(Step):
    """Adds the Swiss-Prot entry to each record, or rejects it with the outcome: `map_protein: ambiguous`."""

    name = "map_protein"
    Settings = MapSettings
    adds = "column"
    columns = (
        Column("accession", "string", "UniProt accession of the protein."),
        Column("protein_name", "string", "Its recommended name."),
        Column("organism", "string", "Organism of the entry."),
        Column("organism_stated", "string", "The organism as the model stated it."),
        Column("sequence", "string", "Amino acid sequence."),
        Column("taxonomy", ["string"], "Groups of the organism, the narrowest first."),
        Column("functions", ["string"], "Functional classes, by the protein's name."),
        Column("mapping", "string", "What became of the names: mapped, ambiguous, homologue, …"),
        Column("candidates", ["string"], "Accessions that the names could have meant."),
    )

    @cached_property
    def _table(self) -> proteins.ProteinTable:
        return proteins.ProteinTable(proteins.read_proteins(Path(self.settings.proteins)))

    def compute(self, item: Item) -> Outcome:
        """Map all records; the first record reads the file. Raises DocumentFormatError."""
        for record in kept(item):
            mapped = self._table.map(record["protein"], record.get("organism") or "")
            record |= {"mapping": mapped.outcome, "organism_stated": record.get("organism")}
            if mapped.candidates:
                record["candidates"] = list(mapped.candidates)
            if (protein := mapped.protein) is None:
                record["reason"] = f"{self.label}: {mapped.outcome}"
                continue
            record |= {
                "accession": protein.accession,
                "protein_name": protein.name,
                "organism": protein.organism,
                "sequence": protein.sequence,
                "taxonomy": list(proteins.taxon_groups(protein.organism, protein.lineage)),
                "functions": list(proteins.function_classes(protein.name)),
                "names": proteins.names_of(protein),
            }
            if not protein.sequence:
                record["reason"] = f"{self.label}: no sequence"
        return Done()
