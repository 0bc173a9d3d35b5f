"""Kind script: questions whose answers are results of graph scripts (docs/guide/gasl.md), each filled in with a node.

The question carries its script; its answer is the variable `answer` after the script ran on the whole named
graph. A number is a property of a release of the graph, so the question names source and version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import (
    DIFFICULTY,
    answer_fields,
    askable,
    content_id,
    difficulty,
    in_turn,
    place,
    shared_names,
    wording,
)
from kgqa_hpc.anchors.queries import QUERY
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import ConfigError, EmptyGraphError, ScriptError
from kgqa_hpc.plugins.gasl.commands import Script
from kgqa_hpc.prompts.safe_text import clean_lines, clean_name
from kgqa_hpc.settings import KindSettings, Settings

ENTITY = "<entity>"  # placeholder for the id of the drawn node in a script
ANSWER = "answer"


class ScriptTemplate(Settings):
    """A script and the description of its result."""

    name: str = Field(description="Short name, under which counts are given.")
    script: str = Field(max_length=20_000, description="The script; <entity> stands for the drawn node's id.")
    asks: str = Field(max_length=1000, description="Description of the variable `answer` for the model.")
    entity: str = Field(description="Type of the nodes that replace <entity>.")


class ScriptSettings(KindSettings):
    """Settings of the kind script: templates and number of questions."""

    kind: Literal["script"] = "script"
    number: int = Field(
        1000, ge=1, description="Number of questions to draw, in equal shares of the scripts."
    )
    scripts: list[ScriptTemplate] = Field(min_length=1, description="Scripts to fill in.")
    max_answers: int = Field(5, ge=1, description="Largest number of answers of a question.")


class ScriptAnchors(AnchorKind):
    """Questions about results of graph scripts."""

    name = "script"
    Settings = ScriptSettings
    group_word = "script"
    whole_graph = True
    gives = ("answer", "answers")
    columns = (
        Column("script", "string", "The script that was run on the graph."),
        Column("answers", ["string"], "Every answer its execution gave."),
        QUERY,
        *DIFFICULTY,
    )
    sample = Anchor(
        "sample",
        "script",
        "diseases",
        (Node("a", "First node", "gene"),),
        data={
            "script": "COUNT x AS answer",
            "asks": "the number of diseases",
            "answers": ["3"],
            "steps": 2,
            "degree": 0,
        },
    )

    def draw(self, source: Source, settings: ScriptSettings, seed: int, tools: Tools) -> Drawn:
        """Raises ConfigError for a script that cannot be read, EmptyGraphError when none gives an answer."""
        from kgqa_hpc.plugins.gasl.graph_files import from_run

        graph, whole = source.graph, source.answer_graph().graph
        for template in settings.scripts:
            _parsed(template, "x")
        whole_graph, shared = from_run(whole, ""), shared_names(whole.names)
        unnamed = source.answer_graph().unnamed
        shares = [
            _questions(
                graph, whole_graph, shared, unnamed, template, settings, seed, _release(whole.attributes)
            )
            for template in settings.scripts
        ]
        anchors = list(in_turn(shares, settings.number))
        if not anchors:
            raise EmptyGraphError("no script gave an answer", "try them with: kgqa gasl run")
        return Drawn(anchors, {}, notes=(f"{len(anchors):,} results of {len(shares)} scripts",))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Beside nodes and relations: the `given` node, what the script `asks`, the `script` and the `answers`."""
        fields, data = graph_variables(anchor), anchor.data
        texts = {"asks": clean_name(data["asks"]), "script": clean_lines(data["script"])}
        answers = [clean_name(answer) for answer in data["answers"]]
        return {**fields, **texts, "given": fields["nodes"][:1], "answers": answers}

    def start(self, anchor: Anchor) -> dict[str, Any]:
        return answer_fields(anchor.data["answers"])

    def worded(self, anchor: Anchor, question: str) -> str:
        """The wording; if the answer is a number, it begins with the graph's source and version, if they are known."""
        release = anchor.data.get("release")
        return f"According to {release}: {question}" if release else question

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection if the answer is not the result of execution, or the wording breaks a rule."""
        if list(fields["answers"]) != list(anchor.data["answers"]):
            return "is not what execution gave"
        return wording(fields["question"], [anchor.nodes[0].name], anchor.data["answers"])

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        data = anchor.data
        nodes = 1 + len(data["answers"])
        return {
            "script": data["script"],
            "answers": list(data["answers"]),
            QUERY.name: _query(data),
            **difficulty(data["steps"], nodes, data["degree"]),
        }


def _parsed(template: ScriptTemplate, node: str) -> tuple[str, Script]:
    """Parse the script with a node in place of <entity>. Raises ConfigError."""
    from kgqa_hpc.plugins.gasl.parser import parse

    text = template.script.replace(ENTITY, json.dumps(node, ensure_ascii=False))
    try:
        return text, parse(text.encode())
    except ScriptError as problem:
        position = f" line {problem.place[0]}" if problem.place else ""
        raise ConfigError(
            f"anchors.scripts {template.name}{position}: {problem}", "kgqa gasl check"
        ) from None


def _query(data: Mapping[str, Any]) -> str | None:
    """The script in SPARQL; None where it has no direct translation, or an older version ran it."""
    from kgqa_hpc.plugins.gasl.parser import parse
    from kgqa_hpc.plugins.gasl.sparql import sparql_of

    if "unnamed" not in data:
        return None
    return sparql_of(parse(data["script"].encode()), ANSWER, data["unnamed"])


def _questions(
    graph: Any,
    whole_graph: Any,
    shared: frozenset[str],
    unnamed: bool,
    template: ScriptTemplate,
    settings: ScriptSettings,
    seed: int,
    release: str,
) -> Iterator[Anchor]:
    """Instantiate the template with each node of its type in `graph`, in seeded order.

    Only questions with an answer in `whole_graph` are yielded.
    """
    from kgqa_hpc.plugins.gasl.execute import execute
    from kgqa_hpc.plugins.gasl.state import State

    nodes = [node for node in range(graph.num_nodes) if graph.node(node).type == template.entity]
    nodes.sort(key=lambda node: place(seed, f"{template.name}/{graph.node_ids[node]}"))
    for position in nodes:
        node = graph.node(position)
        if node.name in shared:
            continue
        text, script = _parsed(template, node.id)
        result = execute(script, whole_graph, State(script.digest, whole_graph.digest))
        answers = answers_of(result.variables.get(ANSWER)) if result.status == "success" else []
        if 1 <= len(answers) <= settings.max_answers and askable(node.name, answers, shared):
            data = {
                "script": text,
                "asks": template.asks,
                "answers": answers,
                "steps": len(result.steps),
                "degree": 0,
                "unnamed": unnamed,
            }
            if release and isinstance(result.variables[ANSWER], int | float):
                data["release"] = release
            yield Anchor(content_id("script", node.id, text), "script", template.name, (node,), data=data)


def _release(attributes: Mapping[str, str | int]) -> str:
    """Source and version of a graph as a question names them; empty for a graph without a version."""
    title, version = attributes.get("title") or attributes.get("source"), attributes.get("version")
    return f"{title}, version {version}" if title and version else ""


def answers_of(value: Any) -> list[str]:
    """A variable as answers: a number or text is one; a list gives the name, key or value of each item."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float | str):
        return [str(value)]
    if not isinstance(value, list):
        return []
    values = [next((item[key] for key in ("name", "key", "value") if key in item), None) for item in value]
    plain_ = [
        str(value_)
        for value_ in values
        if isinstance(value_, str | int | float) and not isinstance(value_, bool)
    ]
    return sorted(set(plain_)) if len(plain_) == len(value) else []
