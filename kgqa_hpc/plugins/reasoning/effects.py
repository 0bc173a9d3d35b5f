"""Consequences of a change in a graph of signed relations, computed by clingo.

A node goes up, goes down or stays. `raises` transmits a change, `lowers` inverts it; if A `needs` B and B goes down, A
goes down. Every change has a chain of causes that begins at the given change. Causes that agree produce their change;
if causes disagree, every outcome is possible (sign consistency: Siegel et al. 2006; Gebser et al. 2011).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from kgqa_hpc.errors import InputError
from kgqa_hpc.kg.relations import Relation

Effect = Literal["raises", "lowers", "needs"]
_RULES = """
level(N,L) :- given(N,L).
push(T,up) :- raises(S,T), level(S,up).
push(T,down) :- raises(S,T), level(S,down).
push(T,up) :- lowers(S,T), level(S,down).
push(T,down) :- lowers(S,T), level(S,up).
push(S,down) :- needs(S,T), level(T,down).
free(N) :- node(N), not given(N,up), not given(N,down).
{ level(N,L) } :- push(N,L), free(N).
:- level(N,up), level(N,down).
:- free(N), push(N,up), not push(N,down), not level(N,up).
:- free(N), push(N,down), not push(N,up), not level(N,down).
level(N,same) :- node(N), not level(N,up), not level(N,down).
#show outcome/1.
outcome(L) :- asked(N), level(N,L).
#project outcome/1.
"""


def effect_ends(edge: tuple[int, int, str], effect: Effect) -> tuple[int, int]:
    """Cause and effect of an edge, as node numbers."""
    return (edge[1], edge[0]) if effect == "needs" else (edge[0], edge[1])


def conclusions(
    relations: Sequence[Relation], effects: Mapping[str, Effect], changed: int, change: str, asked: int
) -> list[str]:
    """All possible outcomes (up, down, same) for the node `asked` if `changed` goes up or down.

    Raises InputError if clingo is not installed.
    """
    try:
        import clingo
    except ImportError:
        raise InputError("anchor kind puzzle needs clingo", "pip install 'kgqa_hpc[puzzles]'") from None
    nodes = {changed, asked, *(end for relation in relations for end in (relation.source, relation.target))}
    facts = [f"node({node})." for node in sorted(nodes)]
    facts += [f"{effects[edge.type]}({edge.source},{edge.target})." for edge in relations]
    facts += [f"given({changed},{change}).", f"asked({asked})."]
    control = clingo.Control(["0", "--project=project", "--warn=none"])
    control.add("base", [], _RULES + "\n".join(facts))
    control.ground([("base", [])])
    concluded: set[str] = set()
    with control.solve(yield_=True) as handle:
        for model in handle:
            concluded |= {str(symbol.arguments[0]) for symbol in model.symbols(shown=True)}
    return sorted(concluded)
