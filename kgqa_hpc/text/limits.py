"""Limits on the size of input files, so that a damaged or hostile file cannot use up memory.

The defaults lie far above real files. An environment variable of the limit's name raises or lowers it.
"""

import os
from dataclasses import dataclass

from kgqa_hpc.errors import InputError


@dataclass(frozen=True)
class Limit:
    """A limit: the environment variable that sets it, and its default."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit now. Raises InputError for a variable that holds no whole number above 0."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not text.isdecimal() or not text.isascii() or int(text) == 0:
            raise InputError(
                f"{self.variable}={text[:40]!r} is not a whole number above 0",
                f"correct or unset it; the default is {self.default}",
            )
        return int(text)

    @property
    def cure(self) -> str:
        return f"is it the right file? if so, set {self.variable} to a larger number"


LINE_BYTES = Limit("KGQA_MAX_LINE_BYTES", 16 << 20)
COLUMNS = Limit("KGQA_MAX_COLUMNS", 10_000)  # each takes about 10 KB of memory
# Largest ratio of unpacked to packed bytes, beyond the first UNPACKED_FREELY bytes. Graph tables reach 3 to 30.
UNPACKED_RATIO = Limit("KGQA_MAX_UNPACKED_RATIO", 80)
UNPACKED_FREELY = 66 << 20
OBO_LINES = Limit("KGQA_MAX_OBO_LINES", 100_000)  # of a term; the Gene Ontology has up to a few hundred
# From the end of an XML record to the end of the next. The largest articles have a few MB and 100,000 tags.
XML_RECORD_BYTES = Limit("KGQA_MAX_XML_RECORD_BYTES", 64 << 20)
XML_TAGS = Limit("KGQA_MAX_XML_TAGS", 2_000_000)
XML_TEXT_BYTES = Limit("KGQA_MAX_XML_TEXT_BYTES", 16 << 20)  # of RDF/XML: between two tags, or within a tag
XML_ENTITY_BYTES = Limit("KGQA_MAX_XML_ENTITY_BYTES", 256)  # of an entity's declaration; OWL's hold an IRI
