"""OBO, the flat format of biomedical ontologies: terms as nodes, `is_a` and `relationship` as edges.

Edges point from child to parent. A node's type is its namespace, else the file's default-namespace. Obsolete
terms and edges to them, typedefs and instances are skipped, as are xref, intersection_of, disjoint_from and
similar tags. Exact synonyms are the node property `synonyms`, joined by bars. A term that an edge names but the
file lacks (common in excerpts) is an unknown node, reported with its line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.assemble import Assembly, Buffer
from kgqa_hpc.kg.graph import SYNONYMS, KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings
from kgqa_hpc.text.streams import OBO_LINES, text_lines

_ESCAPES = {"n": "\n", "t": "\t", "W": " "}
_EXACT = re.compile(r'"((?:[^"\\]|\\.)*)"\s+EXACT\b')
_ESCAPED = re.compile(r"\\(.)")


class OboSettings(SourceSettings):
    """Settings of the source obo: one ontology."""

    path: str = Field(description="The .obo file.")
    obsolete: Literal["drop", "keep"] = Field("drop", description="Obsolete terms.")
    paths = ("path",)


class Obo:
    """Ontologies in OBO format."""

    name = "obo"
    specific_relations = True
    licence = ""
    description = "An ontology in OBO format: terms, is_a and relationships."
    Settings = OboSettings

    def read(self, settings: OboSettings) -> KnowledgeGraph:
        """The graph of the file; nodes and edges keep its order."""
        path = Path(settings.path)
        assembly = Assembly(settings)
        buffer, obsolete = Buffer(assembly, path.name), list[str]()
        paragraphs = stanzas(path)
        header = next(paragraphs)
        namespace = header.first("default-namespace") or "term"
        for stanza in paragraphs:
            if stanza.kind != "Term":
                continue
            if stanza.first("is_obsolete") == "true":
                obsolete.append(stanza.first("id"))
                if settings.obsolete == "drop":
                    continue
            _add_term(buffer, stanza, namespace, path.name)
        buffer.flush()
        attributes: dict[str, str | int] = {"source": self.name, "files": path.name}
        if version := header.first("data-version"):
            attributes["version"] = version
        if imports := [value for tag, value, _ in header.tags if tag == "import"]:
            attributes["imports_not_read"] = ", ".join(imports)
        left_out = obsolete if settings.obsolete == "drop" else ()
        return assembly.finish({**attributes, "obsolete_terms": len(obsolete)}, left_out=left_out)


@dataclass
class Stanza:
    """A stanza of an OBO file: its kind ("" for the header), its first line, and the (tag, value, line) of each tag."""

    kind: str
    line: int
    tags: list[tuple[str, str, int]] = field(default_factory=list)

    def first(self, tag_name: str) -> str:
        """The first value of a tag without comment and modifiers; "" if the tag is missing."""
        return next((plain(value) for tag, value, _ in self.tags if tag == tag_name), "")

    def exact_synonyms(self) -> list[str]:
        """Synonyms of scope EXACT: broad, narrow and related ones are names of other things."""
        matches = (_EXACT.match(value) for tag, value, _ in self.tags if tag == "synonym")
        texts = (_ESCAPED.sub(r"\1", match[1]) for match in matches if match)
        return list(dict.fromkeys(text for text in texts if text and "|" not in text))


def _add_term(buffer: Buffer, stanza: Stanza, namespace: str, file: str) -> None:
    term = stanza.first("id")
    if not term:
        raise GraphFormatError(
            f"{file} line {stanza.line:,}: the term has no id", "add it or delete the term"
        )
    synonyms = stanza.exact_synonyms()
    properties = {SYNONYMS: synonyms} if synonyms else {}
    buffer.node(stanza.line, term, stanza.first("name"), stanza.first("namespace") or namespace, properties)
    for tag, value, line in stanza.tags:
        if tag == "is_a":
            buffer.edge(line, term, plain(value), "is_a")
        elif tag == "relationship":
            kind, _, parent = plain(value).partition(" ")
            if not parent.strip():
                raise GraphFormatError(
                    f"{file} line {line:,}: a relationship without a term: {value[:60]!r}", "mend the line"
                )
            buffer.edge(line, term, parent.split()[0], kind)


def stanzas(path: Path) -> Iterator[Stanza]:
    """The header, then each stanza of the file."""
    stanza, limit = Stanza("", 1), OBO_LINES.value
    for number, line in text_lines(path):
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            yield stanza
            stanza = Stanza(text[1:-1].strip(), number)
        elif text and not text.startswith("!"):
            tag, colon, value = text.partition(":")
            if not colon:
                raise GraphFormatError(
                    f"{path.name} line {number:,}: not `tag: value`: {text[:60]!r}", "is it an OBO file?"
                )
            if len(stanza.tags) == limit:
                raise GraphFormatError(
                    f"{path.name} line {number:,}: a term of more than {limit:,} lines", OBO_LINES.cure
                )
            stanza.tags.append((tag.strip(), value.strip(), number))
    yield stanza


def plain(value: str) -> str:
    """A value without its comment (` ! …`) and modifiers (` {…}`), escapes resolved."""
    parts: list[str] = []
    letters = iter(value)
    for letter in letters:
        if letter == "\\":
            following = next(letters, "")
            parts.append(_ESCAPES.get(following, following))
        elif (letter == "!" and (not parts or parts[-1].isspace())) or (
            letter == "{" and parts and parts[-1].isspace() and "}" in value
        ):
            break
        else:
            parts.append(letter)
    return "".join(parts).strip()
