"""Random scripts never crash, loop or eat memory: they end in a result or in one error."""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from kgqa_hpc.plugins.gasl.execute import Result
from kgqa_hpc.plugins.gasl.parser import read_script
from kgqa_hpc.plugins.gasl.world import Prompt

# Productions of a rule, separated by |; a rule in angle brackets is drawn in its turn. ⏎ ␍ ␀ are control characters.
RULES = r"""
script:<line>|<line>⏎<script>|<line>⏎<script>|<line>; <script>|<start>⏎<script>
start:FIND nodes WITH type=drug AS drugs⏎FIND edges AS links⏎COUNT links FIELD type AS types⏎SET a = 3
  |SUBGRAPH AROUND drugs RADIUS 1 AS near⏎SET b = [1, {"id": "p1", "x": null}]⏎SET c = {"k": [1]}
line:<simple>|<simple>|<simple>|<simple>|<simple>|<flow>|# note|<simple> <junk>
flow:<simple>⏎ON <status> DO <simple>|TRY <simple>⏎CATCH <simple>
  |TRY { <script> }⏎CATCH { <script> }⏎FINALLY <simple>|TRY {⏎<script>⏎}⏎FINALLY { <simple> }
as:| AS <name>| AS <name>
status:success|error|empty|partial
simple:<making><as>|<making><as>|<making><as>|<plainly>
plainly:DECLARE <name> AS <kind>|SET <name> = <json>|UPDATE <name> WITH <ref> OPERATION: <operation><where>
  |REQUIRE <ref> count <cmp> <word>|ASSERT <ref> has field: <field>|ASSERT <ref> is not empty
  |SHOW <ref> LIMIT <int>|INSPECT <ref>|CANCEL <word>
making:<find>|<find>|PROCESS <ref> WITH instruction: tell <text>|CLASSIFY <ref> WITH "kind"
  |GENERATE report FROM <ref> WITH <text>|ITERATE <ref> BATCH_SIZE <int> WITH <body>|COUNT <ref><counted>
  |COUNT <find><per>|AGGREGATE <ref> <by_op>|JOIN <ref> WITH <ref> ON <field>
  |JOIN <ref> WITH <ref> ON <field>/<field>|MERGE <ref>, <ref>|COMPARE <ref> WITH <ref> ON <field>
  |GROUP <ref> BY <field>|CLUSTER <ref><via>|SELECT <ref> FIELDS <field>, <field>
  |RANK <ref> BY <field> <way> TOP <int>|ADD_FIELD <ref> FIELD: <plain> = <expr>|CREATE_NODES FROM <ref>
  |CREATE_EDGES FROM <ref> WITH TYPE: <word>|CREATE_GROUPS FROM <ref>
  |GRAPHWALK FROM <ref> FOLLOW <word> DIRECTION <dir> DEPTH <int>
  |GRAPHCONNECT <ref> TO <ref><via> DEPTH <int>|SUBGRAPH AROUND <ref> RADIUS <int>
  |GRAPHPATTERN (<word>)-[<word>]->(x:)<--() IN <ref>|GRAPHPATTERN ()--()--()--()|DEBUG <find>
find:FIND nodes WITH <cond>|FIND edges WHERE <cond> LIMIT <int>|FIND edges WITH SOURCE_FILTER <test>
  |FIND paths WITH <cond> DIRECTION <dir> DEPTH <depth>
  |FIND paths WITH SOURCE_FILTER <test> DEPTH <depth> LIMIT <int>|PATH
body:COUNT<counted>|AGGREGATE <by_op>|PROCESS tell <text>
counted:| FIELD <field><per>| FIELD <field><where><per>|<where>
per:| BY <field>| GROUP BY <field> UNIQUE| UNIQUE
by_op:BY <field> WITH <op>|BY <field> WITH <op> OF <field>
op:count|sum|avg|min|max
where:| WHERE <cond>
via:| VIA <word>
way:|ASC|ORDER DESC
operation:replace|filter|delete|merge|append
cond:<test>|<test>|NOT <cond>|<test> AND <cond>|(<cond>) OR <test>
test:<field> <cmp> <word>|<field> contains <word>|<field> matches <pattern>|<field> in (<word>, <word>)
  |<field> in $<ref>|<field> is null|<field> is not null
expr:<term>|<term> + <expr>|<term> / <term>|(<expr>) * <term>|-<term>
term:<word>|<field>|<name>|$<ref>|length(<expr>)|upper(<field>)|"{<plain>}!"
json:1|"x"|[]|{}|[1, "a", null, {"id": "p1"}]|{"a": <json>}|[<json>]|word
plain:name|year|x|result
kind:LIST|DICT|COUNTER
dir:out|in|both
int:1|2|7|0|99|1000000000000000000000
depth:1|2|3
cmp:=|!=|<|<=|>|>=
text:it|what # why|'it' {x|the AS a
junk:}|{|"|AS|\|␀|é|$|FIND|)|WITH (|-->|␍
ref:a|b|c|drugs|links|types|near|near.nodes|a.b|last|nothing
name:a|b|c|drugs|links|last
field:id|name|type|year|weight|source|target|value|key|items|properties|count|entity_type|result|category
  |depth|length|nodes|relations|x_1|nope|"a b"|properties.year|near.nodes|fields|a.b.c
word:drug|gene|PERSON|targets|studies|associates|any|true|null|p1|d1|1975|-0.5|1e308|9e999|"Ana Ruiz"|'x'|$a
  |$drugs.name|$types.gene|$b|""|"\u00e9{name}"|"{"|0|007|99999999999999999999999999|Zürich
pattern:"^Ana"|"(a+)+$"|"("|"(?=a)"|"[^a]*"|Ruiz|"a{1,900}"
"""
GRAMMAR: dict[str, list[str]] = {}
for rule in re.sub(r"\n  \|", "|", RULES).strip("\n").splitlines():
    productions = rule.partition(":")[2].translate({ord("⏎"): "\n", ord("␍"): "\r", ord("␀"): "\0"})
    GRAMMAR[rule.partition(":")[0]] = productions.split("|")
DEEPEST = 12


def draw(chance: random.Random, rule: str = "script", depth: int = 0) -> str:
    """A text of a rule; deep down the shortest production is taken, so it ends."""
    text = GRAMMAR[rule][0] if depth > DEEPEST else chance.choice(GRAMMAR[rule])
    names = re.compile(rf"<({'|'.join(GRAMMAR)})>")
    return names.sub(lambda name: draw(chance, name[1], depth + 1), text)


def spoil(chance: random.Random, script: str) -> str:
    """The script with a few characters lost, doubled or swapped."""
    characters = list(script)
    for _ in range(chance.randrange(4)):
        if not characters:
            break
        position, other = chance.randrange(len(characters)), chance.randrange(len(characters))
        change = chance.randrange(3)
        if change == 0:
            del characters[position]
        elif change == 1:
            characters.insert(position, characters[other])
        else:
            characters[position], characters[other] = characters[other], characters[position]
    return "".join(characters)


def answer(prompts: list[Prompt]) -> list[object]:
    """Answers of every kind, none among them."""
    choices = ("text", 5, None, [1, 2], {"a": {"b": 1}}, True)
    return [choices[(len(prompt.key) + number) % len(choices)] for number, prompt in enumerate(prompts)]


def statuses(run: Callable[..., Result], seeds: range, spoiled: bool) -> Counter[str]:
    """How often scripts end in each status, and in `read` if they could be read; every result is well formed."""
    ends: Counter[str] = Counter()
    for seed in seeds:
        chance = random.Random(seed)
        script = draw(chance)
        script = spoil(chance, script) if spoiled else script
        print(f"seed {seed}\n{script}\n")
        result = run(script, ask=answer)
        ends[result.status] += 1
        ends["read"] += bool(result.steps)
        assert (result.error is None) == (result.status != "error")
        text = json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False)
        document = json.loads(text.encode("utf-8"))
        for step in document["steps"]:
            assert step["status"] in {"success", "empty", "partial", "error", "skipped"}
            assert min(step["line"], step["column"]) >= 1
        errors = [step["error"] for step in result.steps if "error" in step]
        assert result.error is None or not result.steps or result.error in errors
        for error in filter(None, [result.error, *errors]):
            assert error["kind"] in {"syntax", "limit", "name", "type", "assert", "model"}
            assert min(error["line"], error["column"]) >= 1
    return ends


@pytest.mark.parametrize(("spoiled", "readable"), [(False, 120), (True, 40)])
def test_random_scripts_end_in_a_result(run: Callable[..., Result], spoiled: bool, readable: int) -> None:
    ends = statuses(run, range(int(os.environ.get("KGQA_FUZZ", 400))), spoiled)
    assert set(ends) >= {"success", "partial", "error"}
    assert ends["read"] > readable, "the generator no longer reaches the executor"


def test_random_bytes_are_refused_or_read() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        letters = b"FIND nodes;\n\\#\"'{}[]()<>-=$,.:_\x00\xff\xc3\xa9 1e"
        data = bytes(chance.choice(letters) for _ in range(300))
        print(f"seed {seed}\n{data!r}")
        script, problems = read_script(data)
        assert (script is None) == bool(problems)
