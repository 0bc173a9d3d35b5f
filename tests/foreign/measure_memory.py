"""Forks a process per line of standard input, {reader, files, freely}, and answers {mib, said}: its peak memory.

`reader`: a graph source, or documents, script, configuration, cells, records; `freely`: bytes that any file may
unpack to. The address space is limited to 6 GiB.
"""

import json
import os
import resource
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba  # noqa: F401  imported once, before the first fork

import kgqa_hpc.plugins.biokg.rdf  # noqa: F401  as numba
from kgqa_hpc.config import load_config
from kgqa_hpc.errors import KgqaError
from kgqa_hpc.kg.settings import graph_config, load_graph
from kgqa_hpc.plugins.evaluation.ratings import read_csv
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.gasl.cli import read_input
from kgqa_hpc.plugins.gasl.parser import read_script
from kgqa_hpc.plugins.literature.read import read_documents
from kgqa_hpc.text import streams

READERS: dict[str, Callable[[Path], Any]] = {
    "documents": lambda path: read_documents([path]),
    "script": lambda path: read_script(read_input(path)),
    "configuration": load_config,
    "cells": lambda path: read_csv(path, "id")[1],
    "records": records,
}


def read(order: dict[str, Any]) -> str:
    streams.UNPACKED_FREELY = order["freely"]
    try:
        if order["reader"] in READERS:
            content = READERS[order["reader"]](Path(*order["files"].values()))
            if isinstance(content, Iterator):
                deque(content, maxlen=0)
        else:
            load_graph(graph_config({"source": order["reader"], **order["files"]}))
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
