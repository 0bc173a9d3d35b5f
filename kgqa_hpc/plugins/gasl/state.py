"""The state of a script after each command: plain JSON, from which the script continues after a kill.

Steps are kept whole: to go on, the script is walked through again with the steps that are done taken from
here, so the place in nested TRY blocks need not be stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.gasl.values import to_json
from kgqa_hpc.store.atomic import write_file
from kgqa_hpc.text.opener import read_bytes

FORMAT = 1


@dataclass
class State:
    """Variables, declarations, created nodes and edges, and the finished steps of one script on one graph.

    `script` and `graph` are their digests, `work` the work that the steps have used of the script's limits. The
    next script on the same variables and the same graph starts from `after(script)`.
    """

    script: str
    graph: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, dict[str, str | None]] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    work: int = 0

    def after(self, script: str) -> State:
        """The initial state of a next script, with the variables and the graph of this one."""
        return State(script, self.graph, [], self.variables, self.declared, self.nodes, self.edges)

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON; its parts are those of the state, not copies."""
        return {"format": FORMAT, **vars(self)}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> State:
        """Raises ValueError when the document is not a state of this format."""
        if document.get("format") != FORMAT:
            raise ValueError(f"format is {document.get('format')!r}, not {FORMAT}")
        kinds = {"script": str, "graph": str, "steps": list, "variables": dict, "declared": dict}
        kinds |= {"nodes": list, "edges": list}
        for name, kind in kinds.items():
            if not isinstance(document.get(name), kind):
                raise ValueError(f"`{name}` is missing or not what it must be")
        work = document.get("work", 0)  # missing in files of earlier versions
        if type(work) is not int or work < 0:
            raise ValueError("`work` is not what it must be")
        return cls(**{name: document[name] for name in kinds}, work=work)


def save(path: Path, state: State) -> None:
    """Write the state, whole or not at all. Raises DiskFull or StoreError."""
    write_file(path, to_json(state.to_dict()))


def load(path: Path, script: str, graph: str) -> State:
    """Read the state from a file; a new state if the file is missing.

    Raises InputError when it is of another script or graph, or no state at all.
    """
    try:
        document = json.loads(read_bytes(path))
        state = State.from_dict(document)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise InputError(f"{path}: its folder does not exist", "create it first") from None
        return State(script, graph)
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None
    except (ValueError, AttributeError, RecursionError) as problem:
        raise InputError(f"{path}: is not the state of a script: {problem}", "give another file") from None
    for noun, mine, theirs in (("script", script, state.script), ("graph", graph, state.graph)):
        if mine != theirs:
            raise InputError(
                f"{path}: is the state of another {noun}",
                f"give the {noun} it was made with, or another --state file",
            )
    return state
