#!/usr/bin/env python3
"""Measure the time of reading hostile model answers against their length: it should stay linear up to the limit.

    tools/bench_answers.py                        every family, ours and Python's json
    tools/bench_answers.py --peer json_repair     the package json-repair beside it (pip install json-repair)
    tools/bench_answers.py --family "a fence and spaces" --json

Each family is one kind of invalid answer, grown to LONGEST characters: the reader searches and repairs texts up
to that length and refuses longer ones. Printed is the processor time of the fastest of several readings. The
exponent is the slope of log time over log length, from LONGEST / 8 on: 1 is linear, 2 quadratic. A peer that
takes more than --patience seconds for one text is stopped.
"""

import argparse
import importlib
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kgqa_hpc.steps.answer_json import SALVAGEABLE, Unparseable, parse_json

LONGEST = SALVAGEABLE - 100
LENGTHS = (LONGEST // 16, LONGEST // 8, LONGEST // 4, LONGEST // 2, LONGEST)
PAIR = {"question": {"type": "string"}, "answer": {"type": "string"}}
AT_LEAST = 0.02  # s of processor time that one measurement lasts, by repeating it


def repeated(piece: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """Texts of about n characters, mostly of one piece."""
    return lambda n: before + piece * max((n - len(before) - len(after)) // len(piece), 1) + after


FAMILIES: dict[str, Callable[[int], str]] = {
    "an honest answer": repeated("a word, ", '{"question": "Which?", "answer": "', '"}'),
    "a fence and spaces": repeated(" ", "```", "x"),
    "fences": repeated("```json\n"),
    "nested braces": repeated("{"),
    "closed braces": repeated("{}"),
    "nested lists": repeated("[", '{"question": '),
    "nested objects": repeated('{"a":'),
    "braces and quotes": repeated('{"'),
    "quotes": repeated('"', '{"question": ', "}"),
    "single quotes": repeated("'a' ", '{"question": \'', "'}"),
    "unclosed strings": repeated('"a', '{"question": '),
    "a string that never ends": repeated("x", '{"question": "'),
    "backslashes": repeated("\\", '{"question": "', '"}'),
    "escaped quotes": repeated('\\"', '{"question": "'),
    "half escapes": repeated("\\u00", '{"question": "', '", "answer": "y"}'),
    "lone surrogates": repeated("\\ud800", '{"question": "', '", "answer": "y"}'),
    "keys": repeated('"question": ', "{", "}"),
    "commas": repeated(",", '{"question": ', "}"),
    "digits": repeated("9", '{"question": ', ', "answer": "y"}'),
    "thoughts": repeated("<think></think>"),
    "thoughts that never end": repeated("<think>"),
    "thoughts that end before they begin": repeated("</think>"),
    "small objects": repeated('{"a": 1} '),
    "comments": repeated("/*", '{"question": "One?", "answer": "y" ', "}"),
    "keys in an answer": repeated("{'a':", '{"question": "", "answer": ', "}"),
    "a key behind spaces": repeated(" ", '{"a"', 'x"question": 1'),
    "a bare key behind spaces": repeated(" ", "{,", "questio"),
    "spaces around quotes": repeated('"' + " " * 60 + "x", '{"question": "', '", "answer": "y",}'),
    "wide characters": repeated("\u202e“症\U0001f9ec", '{"question": “', "”}"),
}


class Impatient(Exception):
    """A reading took too long."""


def ours(text: str) -> None:
    with suppress(Unparseable):
        parse_json(text, PAIR)


def plain_json(text: str) -> None:
    with suppress(ValueError, RecursionError):
        json.loads(text)


def peer(name: str) -> Callable[[str], None]:
    """The reader of another package, json_repair.loads; its exceptions are ignored."""
    loads = importlib.import_module(name).loads

    def read(text: str) -> None:
        with suppress(ValueError, RecursionError, IndexError, TypeError):
            loads(text)

    return read


def seconds(read: Callable[[str], None], text: str, patience: float) -> float | None:
    """Processor seconds of one reading, the best of three measurements; None when it exceeds `patience`."""
    best = float("inf")
    try:
        for _ in range(3):
            times, began = 0, time.process_time()
            signal.setitimer(signal.ITIMER_PROF, patience)
            while (took := time.process_time() - began) < AT_LEAST or not times:
                read(text)
                times += 1
            signal.setitimer(signal.ITIMER_PROF, 0)
            best = min(best, took / times)
            if took > 1:
                break  # long enough for a single measurement
    except Impatient:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return best


def exponent(lengths: list[int], times: list[float | None]) -> float | None:
    """The slope of log time over log length, without the first length, where constant costs dominate."""
    known = [(n, t) for n, t in zip(lengths, times, strict=True) if t is not None][1:]
    if len(known) < 3:
        return None
    return round(float(np.polyfit(*np.log(np.array(known)).T, 1)[0]), 2)


def measure(
    family: str, readers: dict[str, Callable[[str], None]], patience: float, shrink: int
) -> dict[str, Any]:
    """One family: lengths, and for each reader its seconds and exponent, None where it was stopped."""
    texts = [FAMILIES[family](length // shrink) for length in LENGTHS]
    lengths = [len(text) for text in texts]
    row: dict[str, Any] = {"family": family, "lengths": lengths}
    for name, read in readers.items():
        times: list[float | None] = []
        for text in texts:  # after a timeout, skip longer texts
            times.append(None if None in times else seconds(read, text, patience))
        row[name] = {"seconds": times, "exponent": exponent(lengths, times)}
    return row


def line(row: dict[str, Any], readers: list[str], patience: float) -> str:
    mine = row["ours"]["seconds"][-1]
    cells = [f"{row['family']:<26} {row['lengths'][-1]:>7,}"]
    for name in readers:
        last, slope = row[name]["seconds"][-1], row[name]["exponent"]
        cells.append(f"{last * 1000:>10.2f} ms" if last is not None else f"   > {patience:>5.0f} s ")
        cells.append(f"{'' if slope is None else slope:>5}")
        if name != "ours":
            cells.append(
                f"{last / mine:>9.1f}"
                if last is not None and mine
                else f"{'> ' if mine else ''}{patience / mine:>7.0f}"
            )
    return " ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peer", action="append", default=[], help="json_repair; any module with loads(text)"
    )
    parser.add_argument("--family", action="append", choices=FAMILIES, help="measure only these families")
    parser.add_argument(
        "--shrink", type=int, default=1, help="factor that divides all lengths, for a quick run"
    )
    parser.add_argument("--patience", type=float, default=20.0, help="s for one text (default 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _bark)
    readers = {"ours": ours, "json": plain_json} | {name: peer(name) for name in options.peer}
    rows = []
    if not options.json:
        heads = "".join(
            f"{name:>13} {'exp':>5}" + (f"{'ratio':>10}" if name != "ours" else "") for name in readers
        )
        print(f"{'family':<26} {'length':>7} {heads}")
    for family in options.family or FAMILIES:
        rows.append(measure(family, readers, options.patience, options.shrink))
        if not options.json:
            print(line(rows[-1], list(readers), options.patience), flush=True)
    worst = max((row["ours"]["exponent"] or 0.0, row["family"]) for row in rows)
    if options.json:
        print(json.dumps({"rows": rows, "largest_exponent": worst[0]}))
    else:
        print(f"largest exponent of ours: {worst[0]} ({worst[1]})")


def _bark(number: int, frame: FrameType | None) -> None:
    raise Impatient


if __name__ == "__main__":
    main()
