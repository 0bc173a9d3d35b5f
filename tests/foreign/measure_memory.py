"""Forks a process per line of standard input, {reader, files, settings}, and answers {mib, said}: its peak memory.

`reader`: a graph source, or documents, script, configuration, cells, records. The address space is limited to 6 GiB.
"""

import json
import os
import resource
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba  # noqa: F401  imported once, before the first fork

import kgqa_hpc.kg.settings
import kgqa_hpc.plugins.biokg.sources.rdf
from kgqa_hpc.errors import KgqaError
from kgqa_hpc.kg.settings import graph_config


def graph(source: str, files: dict[str, str]) -> None:
    kgqa_hpc.kg.settings.load_graph(graph_config({"source": source, **files}))


def documents(path: str) -> None:
    from kgqa_hpc.plugins.literature.documents.read import read_documents

    deque(read_documents([Path(path)]), maxlen=0)


def script(path: str) -> None:
    from kgqa_hpc.plugins.gasl.cli import read_input
    from kgqa_hpc.plugins.gasl.parser import read_script

    read_script(read_input(Path(path)))


def configuration(path: str) -> None:
    from kgqa_hpc.config import load_config

    load_config(Path(path))


def cells(path: str) -> None:
    from kgqa_hpc.plugins.evaluation.ratings import read_csv

    deque(read_csv(Path(path), "id")[1], maxlen=0)


def records(path: str) -> None:
    from kgqa_hpc.plugins.evaluation.records import records as read

    deque(read(Path(path)), maxlen=0)


READERS: dict[str, Callable[[str], None]] = {
    "documents": documents,
    "script": script,
    "configuration": configuration,
    "cells": cells,
    "records": records,
}


def read(order: dict[str, Any]) -> str:
    try:
        if order["reader"] in READERS:
            READERS[order["reader"]](*order["files"].values())
        else:
            graph(order["reader"], order["files"])
    except (KgqaError, MemoryError) as problem:
        return f"{type(problem).__name__}: {problem}"[:300]
    return "read"


def main() -> None:
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
            said = "crashed"
            try:
                said = read(json.loads(line))
            finally:
                mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
                os.write(writer, json.dumps({"mib": mib, "said": said}).encode())
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        print(os.read(reader, 4096).decode() or json.dumps({"mib": -1, "said": "killed"}), flush=True)
        os.close(reader)


if __name__ == "__main__":
    main()
