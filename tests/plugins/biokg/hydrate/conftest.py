"""A small graph with planted gaps, its tables, and a web service that misbehaves on demand."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.kg.graph import KnowledgeGraph
from tests.families.conftest import graph_of
from tests.servers import QuietHandler, serving

NODES = [
    ("COMPOUND:1", "Botulinum_toxin", "compound"),  # has a name
    ("COMPOUND:2", "", "compound"),  # in the first table
    ("COMPOUND:3", "", "compound"),  # gap in the first, in the second
    ("COMPOUND:4", "", "compound"),  # the first gives an id for a name
    ("COMPOUND:5", "", "compound"),  # no id at all
    ("GENE:1", "", "gene"),
    ("GENE:2", "", "gene"),
    ("OTHER:1", "left alone", "other"),
]
TABLES = {
    "COMPOUND.tsv": "ID_OREGANO:9\tPUBCHEM\tDRUGBANK\tWIKIPEDIA\n"
    "COMPOUND:2\t CID:20;21 \tDB2\nCOMPOUND:3\t30\tDB3;DB4\nCOMPOUND:4\t40\tDB5\n",
    "GENES.tsv": "ID_OREGANO:2\tNCBI\nGENE:1\t100\nGENE:2\t200\n",
    "pubchem.tsv": "id\tname\n20\tImatinib [CID:20]\n20\tGleevec\n40\tCID:40\n99\tunwanted\n",
    "drugbank.csv": 'id,name\nDB3,"Sal\x07t, old"\nDB5,Five\n',
}


@pytest.fixture
def graph() -> KnowledgeGraph:
    ids, names, types = map(list, zip(*NODES, strict=True))
    made = graph_of(names, types, [(0, "r", 5), (1, "r", 6)])
    return replace(made, node_ids=np.array(ids, dtype=object))


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The folder with class tables and tables of names."""
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


class Service:
    """Answers /ID with {"id", "name"}; `mood` by id tells what it does instead. `clock` is told with each asking."""

    def __init__(self) -> None:
        self.mood: dict[str, str] = {}
        self.asked: list[tuple[float, str]] = []
        self.clock: Callable[[], float] = time.monotonic
        self.over = threading.Event()  # what is silent until then
        self.url = ""

    def answer(self, handler: QuietHandler) -> None:
        key = handler.path[1:]
        self.asked.append((self.clock(), key))
        mood = self.mood.get(key, self.mood.get("*", ""))
        if mood == "dies":
            handler.connection.close()
            return
        if mood == "silent":
            self.over.wait()
        if mood in ("trickles", "headers"):
            self.drip(handler, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n", mood == "headers")
            return
        status = {"fails": 503, "unknown": 404}.get(mood, 200)
        body = {
            "html": b"<html>no</html>",
            "lies": json.dumps({"id": "other", "name": "wrong"}).encode(),
            "huge": b"[" * (2 << 20),
        }.get(mood, json.dumps({"id": key, "name": f"gene {key}"}).encode())
        with contextlib.suppress(OSError):
            handler.reply(status, body)

    def drip(self, handler: QuietHandler, begin: bytes, endless_headers: bool) -> None:
        """A byte or a header line now and then, each long before a timeout of one read."""
        drop = b"X-Again: 1\r\n" if endless_headers else b" "
        with contextlib.suppress(OSError):
            handler.wfile.write(begin + (b"" if endless_headers else b"\r\n"))
            while not self.over.wait(0.05):
                handler.wfile.write(drop)
                handler.wfile.flush()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    handler = type("Handler", (QuietHandler,), {"do_GET": lambda handler: service.answer(handler)})
    with serving(handler) as address:
        service.url = f"{address}/{{id}}"
        yield service
        service.over.set()
