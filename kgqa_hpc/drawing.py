"""Parts of figures and pages: layouts of small graphs, and self-contained HTML pages.

A graph of up to 6 nodes gets fixed positions, a larger graph a force-directed layout.

Pages are safe with untrusted names, questions and model answers: untrusted text is escaped in the page (Jinja2
autoescape), or is JSON that the page's script shows as text. The template's content security policy allows only the
page's own style and script, by their hashes, and forbids the page to load or send anything.
"""

import base64
import hashlib
import itertools
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

Edges = Sequence[tuple[int, int]]
ROUNDS = 150


@cache
def few_nodes(edges: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Positions (k, 2) in [-1, 1] of the nodes of a connected graph with at most 6 nodes.

    Few edges cross, and distances in the drawing are close to those in the graph.

    Stress majorisation (Gansner, Koren, North 2004) from every order of the nodes around a circle.
    """
    k = 1 + max(max(edge) for edge in edges)
    distance = np.where(np.eye(k, dtype=bool), 0.0, np.inf)
    for a, b in edges:
        distance[a, b] = distance[b, a] = 1.0
    for via in range(k):
        distance = np.minimum(distance, distance[:, [via]] + distance[[via], :])
    orders = [(0, *order) for order in itertools.permutations(range(1, k)) if order[0] < order[-1]]
    angle = 2 * np.pi * np.argsort(np.array(orders)) / k + 0.3
    # The initial positions are slightly distorted, so that no symmetry keeps nodes on a line.
    layouts = np.stack([np.cos(angle), np.sin(angle) * (1 + 0.05 * np.arange(k))], axis=2)
    diagonal = np.arange(k)
    for _ in range(80):
        apart = np.linalg.norm(layouts[:, :, None] - layouts[:, None], axis=3) + np.eye(k)
        pull = -distance / apart
        pull[:, diagonal, diagonal] = -pull.sum(axis=2)
        layouts = pull @ layouts / k

    def badness(at: np.ndarray) -> tuple[int, float]:
        apart = np.linalg.norm(at[:, None] - at[None], axis=2)
        return crossings(at, edges), round(float(((apart - distance) ** 2).sum()), 3)

    at = min(layouts, key=badness)
    at = at - at.mean(axis=0)
    return at / np.abs(at).max()


def many_nodes(count: int, links: NDArray[np.int64]) -> np.ndarray:
    """Positions (count, 2) around 0 of nodes joined by `links` (m, 2), in ROUNDS rounds of count² steps.

    Nodes repel each other in proportion to their degrees (Jacomy et al. 2014), links attract (Fruchterman and
    Reingold 1991), and gravity towards the centre keeps separate components near. Deterministic.
    """
    turn = np.arange(count) * np.pi * (3 - 5**0.5)  # the golden angle spreads the nodes evenly
    at = np.sqrt((np.arange(count)[:, None] + 0.5) / max(count, 1)) * np.column_stack(
        [np.cos(turn), np.sin(turn)]
    )
    weight = np.sqrt(1.0 + np.bincount(links.ravel(), minlength=count))
    for heat in np.linspace(0.1, 0.002, ROUNDS):
        apart = at[:, None] - at[None]
        push = weight[:, None] * weight / ((apart**2).sum(axis=2) + 1e-6) / max(count, 1)
        force = (push[:, :, None] * apart).sum(axis=1) - weight[:, None] * at
        pull = at[links[:, 0]] - at[links[:, 1]]
        np.subtract.at(force, links[:, 0], pull)
        np.add.at(force, links[:, 1], pull)
        length = np.linalg.norm(force, axis=1, keepdims=True) + 1e-12
        at += force / length * np.minimum(length, heat)
    return at


def crossings(at: np.ndarray, edges: Edges) -> int:
    """Number of pairs of edges that cross, for nodes at the positions `at` (k, 2)."""

    def side(p: int, q: int, r: int) -> bool:
        (px, py), (qx, qy), (rx, ry) = at[p], at[q], at[r]
        return bool((qx - px) * (ry - py) > (qy - py) * (rx - px))

    return sum(
        side(a, b, c) != side(a, b, d) and side(c, d, a) != side(c, d, b)
        for (a, b), (c, d) in itertools.combinations(edges, 2)
        if not {a, b} & {c, d}
    )


def render_page(package: str, name: str, **values: Any) -> str:
    """The template NAME.html.j2 of a package, with NAME.css as `style` and NAME.js as `script`."""
    for part, kind in {"style": "css", "script": "js"}.items():
        text = files(package).joinpath(f"{name}.{kind}").read_text(encoding="utf-8")
        values[part] = Markup(text)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        values[f"{part}_hash"] = f"sha256-{digest}"  # the form of a hash in a content security policy
    return _templates(package).get_template(f"{name}.html.j2").render(values)


@cache
def _templates(package: str) -> Environment:
    """The page templates of a package; each is compiled once in a process."""
    jinja = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["number"] = lambda value: f"{value:,}"
    jinja.filters["percent"] = lambda share: "" if share is None else f"{100 * share:.1f} %"
    return jinja


def json_block(text: str) -> Markup:
    """Escape JSON for a script element, so that it can neither close the element nor open a comment."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
