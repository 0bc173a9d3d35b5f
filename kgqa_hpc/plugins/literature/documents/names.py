"""Names of proteins and genes, as people write them, and which of them can be looked for in text.

A name is a **word** or phrase (`large T antigen`, `Catalase`: any case), a symbol with a digit (`TP53`,
`IL-1β`: any case, `p53` is `P53`), or a symbol of letters (`CAT`, `recA`: this case, and `RecA` for
`recA`). Too short ones, bare numbers, and words of the language are not looked for: `T` and `was` would be
found everywhere. Each is looked for in all its spellings: Greek letters and their words, hyphens before digits,
plurals. `IL-1β` is `IL-1beta`, `IL-1-beta` and `IL1β`, too; `BCL2` is `Bcl-2`, tumors are tumours, `androgen receptor`
has a plural. These rules widen a search, so each is as narrow as its examples.

The stop words were chosen by reading the 500 most frequent matches of UniProt's and HGNC's names in 33,277 abstracts,
and the lower-case ones whole; then the words that give fruit-fly genes their names. A name in capitals (`CAT`, `WAS`,
`MET`) is no word: it is looked for as it stands.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from kgqa_hpc.errors import DocumentFormatError
from kgqa_hpc.text.streams import text_lines

_OF_THE_LANGUAGE = """
a about above add after again age ago aid aim air all also am an and any apt are arm art as ask at atonal
bag bald bar bat be bed been before best bet bib bid big bit both bound brat but by can cap car case
castor cell cells change clot cocoa con cost could cube cue cut dab daily damage data day dead der des
design did dim do does done down drop dusky each early ease echo eco elastic end engrailed era even ever
eye eyes fasciclin fat few fig fine fire first fish fit five flower flu for forked form found four from
full fur gem gene genes genesis get giant go goal good gram grand great groucho had hairy half hand has
have head heart help her here high him hinge his hold hole hook hour how human if impact in is it jerky
job join key kit knot lab lag lame large last late law lead led left less let life light like limb line
link lit little load lobe local long loop low made mal male man many map mast mat may me mean men mice
mid might mile mind mini minor mode mol more most mouse much mug must my name net new next nine no nor
not now nub nude null off old on once one only open or other our out over own pan pants part pass past
patched path paul peak penumbra per period pest pipe plum point pole poor por post prim pro pump quo rat
raw ray real red rep rest rib rigid ring risk role roof rough round run sad salvador same san say scale
scope scraps scribble sea seem self sense set setting seven shank she shop short shot show side simple
sit six size slim slit slow small smooth snail so solo some son spasm spatial speck spin spot spy stand
star start stem step still stop strap string strip sum sun surf tag tail take tan tank tap tar target
task team ten tend term test than that the their them then there these they thin this those three tie
time tip to toll too top tram trap trident trim trio trip tube tune twin twist two type unit up us use
vein vel via vial view was way we web wee well were what when where which white who will wing with wrap
wyatt yellow yes yet you zero
"""
_OF_THE_TRADE = """
adrenoleukodystrophy alpha antibody antigen ara beta chain cofactor complex delta dna domain enzyme
epsilon eta factor fragment fre frey gamma glycoprotein hormone hpf inhibitor isoform kappa kbp kinase
lambda lectin ligand lipoprotein lnc membrane mer molecule mutant omega peptide phosphatase
phosphoprotein polymerase polypeptide polyprotein precursor protease protein proteins putative receptor
rho ribosome rna sigma subunit theta toxin transporter uncharacterized unknown virus zeta
"""
# Compared case-insensitively.
_ABBREVIATED = """
16S 18S 23S ADHD ADP AIDS Ala ALS AMP ANOVA Arg ASD Asn Asp ATP B12 BMI Ca2 cAMP CBT CCl4 cDNA cell-1 cGMP CI
CO2 COPD COVID-19 CPAP CT Cu2 Cys day-1 DDT dec-1 DNA ECG EEG EMG EMT ESI FAD FDA FDG Fe2 Fe3 g-1 GC-MS GDP Gln Glu
Gly GMP GTP H2O H2O2 HCC His HIV HPLC ICU III Ile IQR IVF kg-1 L-1 LED Leu LPS Lys m6A Met mg-1 Mg2 min-1
miRNA mL-1 Mn2 mol-1 MoS2 MRI mRNA MSC NAD NADH NADP NADPH NH3 NIH NMR NO2 NO3 O2 PCA PCB PCI PCR PET PFAS Phe
Pro PTSD qPCR REM RNA ROS rRNA RT-PCR SARS SD SDS SDS-PAGE SEM Ser SERS siRNA SO2 TEM THP-1 Thr TLC TNM TOF
tRNA Trp Tyr USA Val VII VIII WHO XII XIII XRD Zn2
"""
WORDS = frozenset(f"{_OF_THE_LANGUAGE} {_OF_THE_TRADE}".split())
ABBREVIATIONS = frozenset(_ABBREVIATED.split())


def is_stop_word(name: str) -> bool:
    """Whether this spelling almost never means a gene or protein."""
    return name in ABBREVIATIONS or (name.lower() in WORDS and not name.isupper())


_TABLE = """
αalpha βbeta γgamma δdelta εepsilon ζzeta ηeta θtheta ιiota κkappa λlambda μmu πpi ρrho σsigma τtau φphi χchi
ψpsi ωomega
"""
_GREEK = {pair[1:]: pair[0] for pair in _TABLE.split()}
_WORD_OF = {letter: word for word, letter in _GREEK.items()}
_LETTERS = "".join(_GREEK.values())
# A capital or a digit may stand right beside it: `NF-kappaB`, `IFNalpha2`; a small letter makes another word.
_SPELT = re.compile(rf"(?<![a-z])(?i:{'|'.join(_GREEK)})(?![a-z])")
_LETTER = re.compile(f"[{_LETTERS}]")
_BEFORE = re.compile(rf"(?<=\w)[ -]?(?=[{_LETTERS}])")
_BEHIND = re.compile(rf"(?<=[{_LETTERS}])[ -]?(?=(?:[A-Z]|\d+)\b)")
# Signs that are typed for a Greek letter, and look like it.
LOOKALIKES = {"\u00b5": "μ", "ß": "β"}
_AS_MEANT = str.maketrans("".join(LOOKALIKES), "".join(LOOKALIKES.values()))
_BRITISH = {"umor": "umour", "emoglobin": "aemoglobin", "Estrogen": "Oestrogen", "estrogen": "oestrogen"}
_TAIL = rf"\d{{1,3}}[A-Za-z]?(?:-?[{_LETTERS}])?"
_WITHOUT_HYPHEN = re.compile(rf"(IL|[A-Za-z]{{3,}})({_TAIL})")
_WITH_HYPHEN = re.compile(rf"([A-Za-z]{{2,}})-([A-Z]?{_TAIL})")
# The last word of a name, if it takes a plain s: `receptor`, `Kinesin`; not `Notch`, `Ras`, `assembly`.
_PLURAL = re.compile(r"(?:^[A-Z]|[ -][a-z]|^[a-z])[a-z]{2,}[abd-gi-rt-wz]$|(?:^|[ -])[A-Za-z][a-z]*kinase$")


def spellings(name: str) -> list[str]:
    """The name first, then its other spellings, each once. `RecA` is one of `recA`."""
    # Greek letters, joined to their neighbours directly or by a hyphen.
    greek = _SPELT.sub(lambda match: _GREEK[match[0].lower()], name.translate(_AS_MEANT))
    joints = [("", ""), ("", "-"), ("-", ""), ("-", "-")] if _LETTER.search(greek) else []
    variants = [name, *(_BEHIND.sub(behind, _BEFORE.sub(before, greek)) for before, behind in joints)]
    for variant in list(variants):  # `BCL-2` for `BCL2`, `IL6` for `IL-6`, `PDL1` for `PD-L1`
        if match := _WITHOUT_HYPHEN.fullmatch(variant):
            variants.append(f"{match[1]}-{match[2]}")
        elif match := _WITH_HYPHEN.fullmatch(variant):
            variants.append(match[1] + match[2])
    letters = [variant for variant in variants if _LETTER.search(variant)]
    variants += [_LETTER.sub(lambda match: _WORD_OF[match[0]], variant) for variant in letters]
    variants += [variant.replace("κB", "kB") for variant in variants if "κB" in variant]
    for american, british in _BRITISH.items():
        variants += [variant.replace(american, british) for variant in variants if american in variant]
    if name.isalpha() and name[0].islower() and not name.islower():
        variants.append(name[0].upper() + name[1:])
    if _PLURAL.search(name):
        variants += [f"{variant}s" for variant in variants]
    return list(dict.fromkeys(variants))


# Of HGNC's table and of UniProt's; how each column holds its names.
_WHOLE, _BLANKS, _COMMAS, _BARS = None, r"\s+", r"\s*,\s*", r"\s*\|\s*"
COLUMNS = {
    "protein_name": _WHOLE,
    "gene_names": _BLANKS,
    "symbol": _WHOLE,
    "name": _WHOLE,
    "alias_symbols": _COMMAS,
    "previous_symbols": _COMMAS,
    "alias_symbol": _BARS,
    "prev_symbol": _BARS,
}
SHORTEST = 3
LONGEST = 300
_ONE_AND_A_WORD = re.compile(r"[a-zA-Z]-[A-Z][a-z]{2,}")


class Case(Enum):
    """Case rule of a name: exactly as written, or in any case."""

    EXACT = "exact"
    ANY = "any"


@dataclass
class NameCounts:
    """`read = kept + dropped`, distinct names each."""

    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


def read_names(path: Path) -> Iterator[str]:
    """The names of a table (TSV with a header, plain or gzip), as they come.

    Columns that hold names: `protein_name` (whole) and `gene_names` (split at blanks), or HGNC's.
    Raises DocumentFormatError.
    """
    lines = text_lines(path, DocumentFormatError)
    _, header = next(lines, (1, ""))
    titles = [title.strip() for title in header.split("\t")]
    columns = [(number, COLUMNS[title]) for number, title in enumerate(titles) if title in COLUMNS]
    if not columns:
        raise DocumentFormatError(
            f"{path} line 1: no column of names", f"name one of them {' or '.join(list(COLUMNS)[:2])}"
        )
    for _, line in lines:
        cells = line.split("\t")
        for number, split in columns:
            cell = cells[number].strip() if number < len(cells) else ""
            if split is None:
                yield from filter(None, [cell])
            else:
                yield from (name for part in re.split(split, cell) if (name := part.strip(";,")))


def searchable_names(
    names: Iterable[str], shortest: int = SHORTEST, counts: NameCounts | None = None
) -> dict[str, Case]:
    """The spellings of all names that are searched for, with their case rule."""
    counts = counts if counts is not None else NameCounts()
    cases: dict[str, Case] = {}
    for name in dict.fromkeys(names):
        counts.read += 1
        if reason := reason_to_drop(name, shortest):
            counts.dropped[reason] += 1
            continue
        counts.kept += 1
        for spelling in spellings(name):
            if reason_to_drop(spelling, shortest) is None:
                cases.setdefault(spelling, case_of(spelling))
    return cases


def reason_to_drop(name: str, shortest: int = SHORTEST) -> str | None:
    """Reason why a name is not searched for: `too short`, `too long`, `number`, `stop word`; None if it is."""
    letters = sum(c.isalnum() for c in name)
    if letters < shortest:
        return "too short"
    if len(name) > LONGEST:
        return "too long"
    if not any(c.isalpha() for c in name):
        return "number"
    return "stop word" if is_stop_word(name) else None


def case_of(name: str) -> Case:
    """Words, phrases, symbols with a digit, `c-Myc`: any case; symbols of letters alone: as they stand."""
    if any(c.isdigit() for c in name) or len(name.split()) > 1 or _ONE_AND_A_WORD.fullmatch(name):
        return Case.ANY
    word = name.isalpha() and len(name) >= 5 and name[1:].islower()
    return Case.ANY if word or (not name.isalpha() and len(name) >= 8) else Case.EXACT
