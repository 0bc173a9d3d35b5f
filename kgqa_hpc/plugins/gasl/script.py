"""Kind script: questions whose answers are results of graph scripts (docs/guide/gasl.md), each filled in with a node.

The question carries its script; its answer is the variable `answer` after the script ran on the whole named graph. An
answer that is a number depends on the release of the graph, so its question names source and version.

A script whose every command has a direct translation is also given as SPARQL: walks from one node. Translated are
FIND nodes WITH id, GRAPHWALK of depth 1, UPDATE with a filter on id or type, and COUNT or SELECT of names at the
end. A set of nodes is a function that returns, for a variable, the lines that restrict it to the set.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from pydantic import Field

from kgqa_hpc.anchors import family
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Source, Tools, graph_variables
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import ConfigError, EmptyGraphError, ScriptError
from kgqa_hpc.kg.relations import LABEL, RELATIONS, iri
from kgqa_hpc.plugins.gasl import language as lang
from kgqa_hpc.plugins.gasl.language import Comparison, Found, Ref, Word
from kgqa_hpc.settings import KindSettings, Settings
from kgqa_hpc.text.plain_text import clean_lines, clean_name

ENTITY = "<entity>"  # placeholder for the id of the drawn node in a script
ANSWER = "answer"
_Pattern = Callable[[str], list[str]]


class ScriptTemplate(Settings):
    """A script and the description of its result."""

    name: str = Field(description="Name of the template, by which items are counted.")
    script: str = Field(max_length=20_000, description="The script; <entity> stands for the drawn node's id.")
    asks: str = Field(max_length=1000, description="Description of the variable `answer` for the model.")
    entity: str = Field(description="Type of the nodes that replace <entity>.")


class ScriptSettings(KindSettings):
    """Settings of the kind script: templates and number of questions."""

    kind: Literal["script"] = "script"
    number: int = Field(1000, ge=1, description="Anchors to draw, in equal shares of the scripts.")
    scripts: list[ScriptTemplate] = Field(min_length=1, description="Scripts to fill in.")
    max_answers: int = Field(5, ge=1, description="Maximum answers of a question.")


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
        family.QUERY,
        *family.DIFFICULTY,
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
        from kgqa_hpc.plugins.gasl.execute import execute
        from kgqa_hpc.plugins.gasl.graph import from_run

        for template in settings.scripts:
            _parsed(template, "x")
        answers = source.answer_graph()
        property_graph, shared = from_run(answers.graph, ""), family.shared_names(answers.graph.names)
        # Source and version of the graph as a question names them, if the graph has a version
        attributes = answers.graph.attributes
        title, version = attributes.get("title") or attributes.get("source"), attributes.get("version")
        release = {"release": f"{title}, version {version}"} if title and version else {}

        def questions(template: ScriptTemplate) -> Iterator[Anchor]:
            """The anchors of a template: its nodes, in seeded order, for which the script gives an answer."""
            nodes = map(source.graph.node, range(source.graph.num_nodes))
            fitting = (node for node in nodes if node.type == template.entity and node.name not in shared)
            for node in sorted(fitting, key=lambda node: family.place(seed, f"{template.name}/{node.id}")):
                text, script = _parsed(template, node.id)
                result = execute(script, property_graph)
                value = result.variables.get(ANSWER)
                texts = answers_of(value) if result.status == "success" else []
                if 1 <= len(texts) <= settings.max_answers and family.askable(node.name, texts, shared):
                    data: dict[str, Any] = {"script": text, "asks": template.asks, "answers": texts}
                    data |= {"steps": len(result.steps), "degree": 0, "unnamed": answers.unnamed}
                    data |= release if isinstance(value, int | float) else {}
                    name = family.content_id("script", node.id, text)
                    yield Anchor(name, "script", template.name, (node,), data=data)

        shares = [questions(template) for template in settings.scripts]
        anchors = list(family.in_turn(shares, settings.number))
        if not anchors:
            raise EmptyGraphError("no script gave an answer", "try them with: kgqa gasl run")
        return Drawn(anchors, {}, notes=(f"{len(anchors):,} results of {len(settings.scripts)} scripts",))

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """Beside nodes and relations: the `given` node, what the script `asks`, the `script` and the `answers`."""
        fields, data = graph_variables(anchor), anchor.data
        texts = {"asks": clean_name(data["asks"]), "script": clean_lines(data["script"])}
        answers = [clean_name(answer) for answer in data["answers"]]
        return {**fields, **texts, "given": fields["nodes"][:1], "answers": answers}

    def start(self, anchor: Anchor) -> dict[str, Any]:
        return family.answer_fields(anchor.data["answers"])

    def worded(self, anchor: Anchor, question: str) -> str:
        """The wording; if the answer is a number, it begins with the graph's source and version, if they are known."""
        release = anchor.data.get("release")
        return f"According to {release}: {question}" if release else question

    def objection(self, anchor: Anchor, fields: Mapping[str, Any]) -> str | None:
        """An objection if the answer is not the result of execution, or the wording breaks a rule."""
        if list(fields["answers"]) != list(anchor.data["answers"]):
            return "is not what execution gave"
        return family.wording(fields["question"], [anchor.nodes[0].name], anchor.data["answers"])

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        from kgqa_hpc.plugins.gasl.parser import parse

        data, query = anchor.data, None
        if "unnamed" in data:  # anchors of earlier versions lack it
            query = _sparql_of(parse(data["script"].encode()), ANSWER, data["unnamed"])
        nodes = 1 + len(data["answers"])
        return {
            "script": data["script"],
            "answers": list(data["answers"]),
            family.QUERY.name: query,
            **family.difficulty(data["steps"], nodes, data["degree"]),
        }


def _parsed(template: ScriptTemplate, node: str) -> tuple[str, lang.Script]:
    """Parse the script with a node in place of <entity>. Raises ConfigError."""
    from kgqa_hpc.plugins.gasl.parser import parse

    text = template.script.replace(ENTITY, json.dumps(node, ensure_ascii=False))
    try:
        return text, parse(text.encode())
    except ScriptError as problem:
        position = f" line {problem.place[0]}" if problem.place else ""
        text = f"anchors.scripts {template.name}{position}: {problem}"
        raise ConfigError(text, "test it with: kgqa gasl check") from None


def answers_of(value: Any) -> list[str]:
    """A variable as answers: a number or text is one; a list gives the name, key or value of each item."""
    members = [value]
    if isinstance(value, list):
        members = [
            next((item[key] for key in ("name", "key", "value") if key in item), None) for item in value
        ]
    if any(isinstance(member, bool) or not isinstance(member, int | float | str) for member in members):
        return []
    return sorted(set(map(str, members)))


def _sparql_of(script: lang.Script, answer: str, unnamed: bool) -> str | None:
    """The query for the final value of a script's variable `answer`; None for a script without a direct translation."""
    sets: dict[str, _Pattern] = {}
    numbers = count(1)
    query: str | None = None
    for statement in script.statements:
        if not isinstance(statement, lang.Simple):
            return None
        name, into = statement.command.name, statement.into.text if statement.into else None
        pattern: _Pattern | None = None
        query = None
        match name, statement.command.arguments:
            case "find", (Found("nodes", Comparison(field, "=", (str(node),)), None),):
                pattern = _single(node) if field.steps == ("id",) else None
            case "count", (Ref(_, ref, ()), None, None, None, _) if ref in sets:
                inner = " ".join(sets[ref]("?node"))
                counted = f"{{ SELECT (COUNT(DISTINCT ?node) AS ?answer) WHERE {{ {inner} }} }}"
                query = family.select([counted])
            case "select", (Ref(_, ref, ()), *fields) if ref in sets:
                if ("name",) in [field.steps for field in fields]:
                    pattern = sets[ref]
            case "walk", (Ref(_, ref, ()), follow, direction, None | 1) if ref in sets:
                pattern = _walked(sets[ref], follow or (), direction or "both", unnamed, numbers)
            case "update", (Word(into), Ref(_, ref, ()), None | "REPLACE" | "FILTER", condition) if (
                ref in sets
            ):
                pattern = _filtered(sets[ref], condition)
        if into is None or (pattern is None and (query is None or into != answer)):
            return None
        if pattern is not None:
            sets[into] = pattern
            query = family.select(pattern("?answer")) if into == answer else None
    return query


def _single(node: str) -> _Pattern:
    return lambda variable: [f"VALUES {variable} {{ {iri('node', node)} }}"]


def _walked(
    base: _Pattern, follow: Sequence[Word], direction: str, unnamed: bool, numbers: Iterator[int]
) -> _Pattern:
    """Nodes one edge away from a set, and not in it."""
    types = [word.text for word in follow]
    kinds = [] if lang.ANY_TYPE in types else [iri("relation", kind) for kind in types]

    def edge(source: str, target: str, variable: str) -> str:
        if kinds:
            return f"{source} {'|'.join(kinds) if len(kinds) > 1 else kinds[0]} {target} ."
        return f'{source} {variable} {target} . FILTER(STRSTARTS(STR({variable}), "{RELATIONS}"))'

    def pattern(variable: str) -> list[str]:
        number = next(numbers)
        before, relation = f"?from{number}", f"?relation{number}"
        ways = [edge(before, variable, relation), edge(variable, before, relation)]
        ways = {"out": ways[:1], "in": ways[1:], "both": ways}[direction]
        joined = ways[0] if len(ways) == 1 else " UNION ".join(f"{{ {branch} }}" for branch in ways)
        name = [f"{variable} {LABEL} [] ."] if unnamed else []
        inside = " ".join(base(variable))
        return [*base(before), joined, *name, f"FILTER NOT EXISTS {{ {inside} }}"]

    return pattern


def _filtered(base: _Pattern, condition: lang.Condition | None) -> _Pattern | None:
    """A set with conditions on id and type."""
    tests: list[tuple[str, str, str]] = []
    for part in lang.conjuncts(condition):
        match part:
            case Comparison(field, "=" | "!=" as op, (str(value),)) if field.steps in (("id",), ("type",)):
                tests.append((field.steps[0], op, value))
            case _:
                return None

    def pattern(variable: str) -> list[str]:
        lines = base(variable)
        for field, op, text in tests:
            if field == "id":
                lines.append(f"FILTER({variable} {op} {iri('node', text)})")
            else:
                held = f"EXISTS {{ {variable} a {iri('type', text)} }}"
                lines.append(f"FILTER {held if op == '=' else f'NOT {held}'}")
        return lines

    return pattern
