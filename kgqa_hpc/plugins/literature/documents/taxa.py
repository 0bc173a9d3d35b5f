"""Names of organisms in free text: the species of a name, and the group of a species.

The groups are those of QAProt's Table 4 (human, mammals, birds, vertebrates, bacteria, archaea) and the remaining
ones. A given lineage decides; else the genus does, by a list of the most frequent genera of Swiss-Prot and by
the usual endings of bacteria, archaea and fungi. An unknown organism is `other`.
"""

import re
from functools import cache
from importlib.resources import files

# (?<!\s): a run of blanks is looked at once, not from each of its characters.
_BRACKETS = re.compile(r"(?<!\s)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_VIRUS = re.compile(r"virus|phage\b|viroid|virinae|viridae", re.IGNORECASE)
# Short names are those of the model organisms, though other species share them: C. elegans is also
# Cunninghamella elegans.
_COMMON_NAMES = """
homo sapiens: human, humans, man, homo sapiens sapiens
mus musculus: mouse, mice
rattus norvegicus: rat, rats
bos taurus: cow, bovine, cattle
sus scrofa: pig, porcine
ovis aries: sheep
equus caballus: horse
canis lupus: dog
oryctolagus cuniculus: rabbit
gallus gallus: chicken, chick
danio rerio: zebrafish
drosophila melanogaster: fruit fly, d. melanogaster
saccharomyces cerevisiae: baker's yeast, budding yeast, yeast, s. cerevisiae
schizosaccharomyces pombe: fission yeast, s. pombe
arabidopsis thaliana: thale cress, arabidopsis, a. thaliana
oryza sativa: rice
zea mays: maize
nicotiana tabacum: tobacco
xenopus laevis: african clawed frog
caenorhabditis elegans: nematode, c. elegans
escherichia coli: e. coli
bacillus subtilis: b. subtilis
"""
_SPECIES_OF = {
    name: species
    for species, names in (line.split(": ") for line in _COMMON_NAMES.strip().splitlines())
    for name in names.split(", ")
}
_NO_STRAIN = {"strain", "isolate", "str", "subsp", "substr", "serovar"}
# Words for no single organism (answers of QAProt's prompts).
NO_ORGANISM = {"", "all", "unknown", "not sure", "none", "multiple", "various"}

# Narrower groups first; each is part of the wider ones after it.
WIDER = {"human": ("mammals", "vertebrates"), "mammals": ("vertebrates",), "birds": ("vertebrates",)}
_LINEAGE = (
    ("viruses", r"viruses|viroids"),
    ("archaea", r"archaea"),
    ("bacteria", r"bacteria"),
    ("mammals", r"mammalia"),
    ("birds", r"aves"),
    ("vertebrates", r"vertebrata|craniata"),
    ("invertebrates", r"metazoa"),
    ("fungi", r"fungi"),
    ("plants", r"viridiplantae|streptophyta"),
    ("protists", r"eukaryota"),
)
_ENDINGS = (
    ("archaea", re.compile(r"^methano(?!mo)|^halo(?:rubr|arch|coc)|^natr(?:on|ial)")),
    ("bacteria", re.compile(r"(bacter|bacterium|bacteroides|coccus|bacillus|vibrio|spira|spirillum)$")),
    ("bacteria", re.compile(r"(rhizobium|monas|nema|cystis|actinomyces|clostridium|toga|sulfur\w+)$")),
    ("fungi", re.compile(r"(myces|sporium|zyma)$")),
)


def organism_key(organism: str) -> str:
    """The species, in lower case: `Escherichia coli (strain K12)` is `escherichia coli`.

    Common names are known: `Human` is `homo sapiens`.

    A virus keeps its whole name without brackets; `sp.` keeps everything, for the strain is all it has.
    """
    plain = " ".join(_BRACKETS.sub("", organism).lower().split()).strip(" .")
    plain = _SPECIES_OF.get(plain, plain)
    if _VIRUS.search(plain):
        return plain
    words = plain.split()
    if len(words) > 1 and words[1].startswith("sp"):
        return " ".join(organism.lower().split()) if words[1] in ("sp", "sp.", "spp", "spp.") else plain
    return " ".join(words[1:3] if words[:1] == ["candidatus"] else words[:2])


def strain_words(organism: str) -> frozenset[str]:
    """Words after the species: strain, isolate or subspecies, without punctuation."""
    tail = " ".join(re.findall(r"[a-z0-9.-]+", organism.lower())[2:])
    words = (re.sub(r"[^a-z0-9]", "", word) for word in tail.split())
    return frozenset(word for word in words if word) - _NO_STRAIN


@cache
def _genera() -> dict[str, str]:
    """The group of each genus of genera.txt."""
    table = files(__package__).joinpath("genera.txt").read_text(encoding="utf-8")
    pairs = (line.split(":") for line in table.splitlines() if not line.startswith("#"))
    return {genus: group for group, genera in pairs for genus in genera.split()}


def taxon_groups(organism: str, lineage: str = "") -> tuple[str, ...]:
    """The narrowest group and the wider ones it is part of: human, mammals, vertebrates.

    The groups: human, mammals, birds, vertebrates (others), invertebrates, plants, fungi, protists, archaea, bacteria,
    viruses, or other.
    """
    group = _narrowest_group(organism, lineage)
    return (group, *WIDER.get(group, ()))


def _narrowest_group(organism: str, lineage: str) -> str:
    key = organism_key(organism)
    if key == "homo sapiens":
        return "human"
    for group, pattern in _LINEAGE:
        if lineage and re.search(rf"\b(?:{pattern})\b", lineage, re.IGNORECASE):
            return group
    if _VIRUS.search(organism):
        return "viruses"
    if "phytoplasma" in organism.lower():
        return "bacteria"
    genus = key.split()[0].strip("[]'\"") if key else ""
    by_ending = next((group for group, ending in _ENDINGS if ending.search(genus)), "other")
    return _genera().get(genus, by_ending)
