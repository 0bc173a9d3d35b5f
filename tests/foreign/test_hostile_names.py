"""Names of any shape and up to any length: nothing that shows, prompts or exports them takes more than linear time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation, graph_variables
from kgqa_hpc.anchors.names import plain as plain_name
from kgqa_hpc.dataset.duplicates import words
from kgqa_hpc.engines.engine import one_line
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.text.plain_text import NAME_LENGTH, clean_text, plain, plain_json, plain_line
from tests.command import kgqa
from tests.foreign.watchdog import watched

LONGEST = 250_000  # characters; a larger field is no name but a file
PIECES = [
    " ", "\t", "\n", "a", "aB", "(", ")", "(a)", "((a)", " (a", " (x(a)", "[", "{{", "{%", "{#", "<|", "`",
    '"', "'", '\\"', "\\'", "\\", "\\u00", "-", "--", "=", ", ", "; ", ". ", "β-", "症", "\u0301", "\u0301\u0316",
    "\u202e", "\u2028", "\x1b[2J", "\ud800", "\U0001f9ec", "%s", "$", "&amp;", "1e", "the ", "ABC (",
    '"a": ', "://", "|", "~", "#", "*",
]  # fmt: skip
P5 = load_prompt("p5")


def prompted(name: str) -> None:
    nodes = tuple(Node(str(number), f"{name}{number}", name) for number in range(3))
    anchor = Anchor("a", "graphlet", "shape 2", nodes, (Relation(0, 1, name), Relation(2, 1, name)))
    text = P5.render(graph_variables(anchor))[1]["content"]
    assert len(text) < 20 * NAME_LENGTH
    assert text.count("\n") == 6


READERS: dict[str, Callable[[str], Any]] = {
    "a prompt": prompted,
    "clean_text": clean_text,
    "plain": plain,
    "plain_line": plain_line,
    "plain_json": lambda name: plain_json(json.dumps(name, ensure_ascii=False)),
    "one_line": one_line,
    "a name to compare": plain_name,
    "words of a question": words,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_name_of_any_length_takes_linear_time(reader: str) -> None:
    for piece in PIECES:
        name = piece * (LONGEST // len(piece))
        with watched(f"{piece!r} in {reader}"):
            READERS[reader](name)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a graph with such names, 8,000 characters each."""
    folder = tmp_path_factory.mktemp("names")
    names = [(piece * (8_000 // len(piece))).encode("utf-8", "replace").decode() for piece in PIECES]
    nodes = [{"id": f"N{n}", "name": f"{name}{n}", "category": [name]} for n, name in enumerate(names)]
    ends = [(a, b) for a in range(len(names)) for b in range(max(a - 2, 0), a)]
    edges = [{"subject": f"N{a}", "object": f"N{b}", "predicate": names[a]} for a, b in ends]
    for name, rows in (("nodes", nodes), ("edges", edges)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    graph = {"source": "kgx", "nodes": "nodes.jsonl", "edges": "edges.jsonl", "min_degree": 1}
    config = {"graph": graph, "anchors": {"per_shape": 2}, "engine": {"kind": "scripted"}}
    (folder / "run.yaml").write_text(json.dumps(config))
    with watched("a whole run", 60):
        kgqa("all", folder / "run.yaml", folder / "run")
    return folder / "run"


VERBS = ["kg find RUN a", "show RUN -n 2", "report RUN"]
VERBS += [f"export RUN --to {form} --out OUT" for form in ("biographletqa", "csv", "triples")]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_bears_such_names(run: Path, tmp_path: Path, verb: str) -> None:
    with watched(verb):
        kgqa(*({"RUN": run, "OUT": tmp_path / "out"}.get(word, word) for word in verb.split()))
