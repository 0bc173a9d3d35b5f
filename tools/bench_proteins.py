#!/usr/bin/env python3
"""Measure the mapping of names to a file of the size of Swiss-Prot: seconds to read it, memory, names a second.

    tools/bench_proteins.py FOLDER --sample FILE [--entries 570000] [--layout fasta|table] [--plain]

The file is synthetic: each entry of FILE (a sample of reviewed proteins) is copied into many of 14,000 organisms. Six
copies in ten keep name and genes, as homologues do; the others get new ones. Accessions and entry names are unique. In
a table each entry has an alternative name, too. A process of its own reads the file and maps names drawn from it, a
third of them with another entry's organism. `--plain` measures the simplest implementation instead: a dictionary from
unchanged names to entries.
"""

import argparse
import random
import resource
import string
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from kgqa_hpc.plugins.literature.proteins import Mapped, Protein, ProteinTable, names_of, read_proteins

SEED = 20261122
ORGANISMS, KEPT = 14_000, 0.6
ASKED = 20_000
_DIGITS = string.digits + string.ascii_uppercase
HEADING = "Entry\tEntry Name\tProtein names\tGene Names\tOrganism\tOrganism (ID)\tSequence\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=Path, required=True, help="FASTA or table, from which it is made")
    parser.add_argument("--entries", type=int, default=570_000)
    parser.add_argument("--layout", choices=["fasta", "table"], default="fasta")
    parser.add_argument("--plain", action="store_true", help="measure dictionaries of objects instead")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.plain)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"synthetic_{options.entries}.{options.layout}"
    if not path.exists():
        write(path, options.sample, options.entries, options.layout)
    again = [sys.executable, __file__, str(options.folder), "--sample", str(options.sample)]
    plain = ["--plain"] if options.plain else []
    return subprocess.run([*again, "--measure", str(path), *plain], check=False).returncode


def write(path: Path, sample: Path, number: int, layout: str) -> None:
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        if layout == "table":
            file.write(HEADING)
        for one in synthetic(list(read_proteins(sample)), number):
            file.write(fasta(one) if layout == "fasta" else row(one))
    new.rename(path)


def synthetic(sample: list[Protein], number: int) -> Iterator[Protein]:
    rng = random.Random(SEED)
    organisms = [f"{name(rng).capitalize()} {name(rng)} (strain {_code(n, 4)})" for n in range(ORGANISMS)]
    for n in range(number):
        base, organism = sample[n % len(sample)], rng.randrange(ORGANISMS)
        own = "" if n < len(sample) or rng.random() < KEPT else f" {n}"
        yield Protein(
            accession=f"Q{_code(n, 5)}",
            name=f"{base.name}{own}",
            entry_name=f"{_code(n, 5)}_{_code(organism, 5)}",
            genes=tuple(f"{gene}{own.strip()}" for gene in base.genes),
            organism=organisms[organism],
            taxon_id=str(100_000 + organism),
            sequence=base.sequence,
        )


def name(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=9))


def _code(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text


def fasta(one: Protein) -> str:
    gene = f" GN={' '.join(one.genes)}" if one.genes else ""
    lines = "\n".join(one.sequence[at : at + 60] for at in range(0, len(one.sequence), 60))
    head = (
        f">sp|{one.accession}|{one.entry_name} {one.name} OS={one.organism} OX={one.taxon_id}{gene} PE=1 SV=1"
    )
    return f"{head}\n{lines}\n"


def row(one: Protein) -> str:
    names = f"{one.name} (Alternative name of {one.entry_name})"
    cells = (
        one.accession,
        one.entry_name,
        names,
        " ".join(one.genes),
        one.organism,
        one.taxon_id,
        one.sequence,
    )
    return "\t".join(cells) + "\n"


def measure(path: Path, plain: bool) -> None:
    """In a process of its own, so that its memory is that of the table alone."""
    started, entries, asked = time.process_time(), Counter[str](), list[tuple[str, str]]()

    def seen() -> Iterator[Protein]:
        for protein in read_proteins(path):
            entries["entries"] += 1
            entries["residues"] += len(protein.sequence)
            if entries["entries"] % 28 == 0 and len(asked) < ASKED:
                asked.append(((protein.genes or (protein.name,))[0], protein.organism))
            yield protein

    table = Plain(seen()) if plain else ProteinTable(seen())
    built = time.process_time() - started
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    mean = entries["residues"] / entries["entries"]
    print(
        f"{path.name}: {path.stat().st_size / 1e6:.0f} MB, {entries['entries']:,} entries of {mean:.0f} residues"
    )
    print(
        f"{'dictionaries' if plain else 'ProteinTable'}: {built:.1f} CPU s to read, {resident:.2f} GB at most"
    )
    pairs = [(what, asked[at - 1][1] if at % 3 == 0 else where) for at, (what, where) in enumerate(asked)]
    started = time.process_time()
    became = Counter(table.map(what, where).outcome for what, where in pairs)
    seconds = time.process_time() - started
    print(
        f"{len(pairs):,} names mapped in {seconds:.2f} CPU s, {len(pairs) / seconds:,.0f} a second: {dict(became)}"
    )


class Plain:
    """The peer: entries as objects in a dictionary of their names, all as they stand."""

    def __init__(self, proteins: Iterator[Protein]) -> None:
        self.by_name: defaultdict[str, list[Protein]] = defaultdict(list)
        for protein in proteins:
            for one in names_of(protein):
                self.by_name[one].append(protein)

    def map(self, name: str, organism: str) -> Mapped:
        everywhere = self.by_name.get(name, ())
        here = [protein for protein in everywhere if protein.organism == organism]
        if len(here) == 1:
            return Mapped("mapped", here[0])
        return Mapped("ambiguous" if here else "homologue" if everywhere else "missing")


if __name__ == "__main__":
    sys.exit(main())
