"""What is a script and what is not: every faulty command is told of at the word where it stops being one."""

from __future__ import annotations

import pytest

from kgqa_hpc.plugins.gasl.commands import Ask, Attempt, Cancel, Count, Found, Generate, On, Rank, Set, Simple
from kgqa_hpc.plugins.gasl.parser import parse, read_script


def problems(text: str) -> list[tuple[str, int, int, str | None]]:
    found = read_script(text.encode("utf-8"))[1]
    return [(p.kind, *(p.place or (0, 0)), p.nearest) for p in found]


def command(text: str) -> object:
    statement = parse(text.encode("utf-8")).statements[0]
    assert isinstance(statement, Simple)
    return statement.command


@pytest.mark.parametrize(
    ("text", "line", "column", "nearest"),
    [
        ("FNID nodes", 1, 1, "FIND"),
        ("FIND nods", 1, 6, "NODES"),
        ("FIND nodes WITH type drug", 1, 22, None),
        ("COUNT x AS y z", 1, 14, None),
        ("SET x = 1\nSELCT x FIELDS a", 2, 1, "SELECT"),
        ("SET x = 1; SELCT x FIELDS a", 1, 12, "SELECT"),
        ("UPDATE x WITH y OPERATION: apend", 1, 28, "APPEND"),
        ("COUNT x\nON emtpy DO COUNT x", 2, 4, "EMPTY"),
        ("ADD_FIELD a FIELD: b = lowr(c)", 1, 24, "LOWER"),
        ("FIND nodes WITH SOURCE_FILTER type=drug", 1, 17, None),
        ("GRAPHPATTERN authors who write", 1, 14, None),
        ("CLUSTER x WITH criteria: similar names", 1, 26, None),
        ("FIND nodes WHERE name matches '(?=a)'", 1, 31, None),
        ("FIND nodes WHERE name matches '(a)\\1'", 1, 31, None),
        ("FIND nodes WHERE name matches '(?P<a>b)(?P=a)'", 1, 31, None),
        ("FIND nodes WHERE name matches '" + "a" * 201 + "'", 1, 31, None),
        ("ADD_FIELD a FIELD: b = '{x'", 1, 24, None),
        ('SET x = "abc', 1, 9, None),
        ("SET x = [1,]", 1, 12, None),
    ],
)
def test_a_syntax_error_stands_at_the_word_that_does_not_fit(
    text: str, line: int, column: int, nearest: str | None
) -> None:
    assert problems(text) == [("syntax", line, column, nearest)]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("FIND", 1, 5),
        ("FIND   # comment", 1, 5),
        ("FIND nodes WITH type=  \nCOUNT x", 1, 22),
        ("TRY {\n  COUNT x  \n", 2, 10),
        ("COUNT \\\n  x AS  \n", 2, 7),
    ],
)
def test_an_unfinished_command_is_told_of_behind_its_last_character(
    text: str, line: int, column: int
) -> None:
    assert problems(text) == [("syntax", line, column, None)]


def test_every_faulty_command_is_told_of_once() -> None:
    text = "COUNT x AS y z; FIND\nTRY { FND x; COUNT y; FIND }\nCATCH COUNT x y\nSET a = 1"
    assert [place[1:3] for place in problems(text)] == [(1, 14), (1, 21), (2, 7), (2, 28), (3, 15)]


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("TRY COUNT x", 1),
        ("CATCH COUNT x", 1),
        ("FINALLY COUNT x", 1),
        ("ON empty DO COUNT x", 1),
        ("COUNT x; CATCH COUNT y", 10),
        ("TRY COUNT x; FINALLY COUNT y; CATCH COUNT z", 31),
        ("TRY { COUNT x } CATCH COUNT y", 17),
        ("TRY COUNT x CATCH COUNT y", 13),
        ("TRY COUNT x; CATCH COUNT y; ON empty DO COUNT z", 29),
    ],
)
def test_parts_out_of_place_are_syntax_errors_at_their_first_word(text: str, column: int) -> None:
    assert [(p[0], p[2]) for p in problems(text)] == [("syntax", column)]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("COUNT x\nFIND nodes LIMIT 0", 2, 1),
        ("COUNT x; FIND paths DEPTH 11", 1, 10),
        ("SUBGRAPH AROUND x RADIUS 0", 1, 1),
        ("ITERATE x BATCH_SIZE 0 WITH COUNT", 1, 1),
        ("SET x = " + "[" * 51 + "]" * 51, 1, 1),
        ("FIND nodes WITH " + "(" * 51 + "a=1" + ")" * 51, 1, 1),
        ("COUNT x\n" * 1001, 1001, 1),
        ("#" * 262145, 1, 1),
        ('SET x = ["' + "a" * 65536 + '"]', 1, 1),
    ],
)
def test_limits_that_the_text_shows_stand_at_the_first_word_of_the_command(
    text: str, line: int, column: int
) -> None:
    assert problems(text) == [("limit", line, column, None)]


def test_what_is_just_within_the_limits_is_read() -> None:
    assert problems("SET x = " + "[" * 50 + "]" * 50) == []
    assert problems("COUNT x\n" * 1000) == []
    assert problems("#" * 262144) == []
    assert problems("TRY {" * 50 + "COUNT x" + "}; FINALLY COUNT x" * 50) == []


def test_thousands_of_signs_and_nots_are_no_nesting() -> None:
    assert problems("ADD_FIELD a FIELD: b = " + "-" * 20000 + "1") == []
    assert problems("FIND nodes WITH " + "NOT " * 20000 + "a=1") == []


def test_keywords_are_known_in_any_case_and_names_keep_theirs() -> None:
    found = command("fInD NODES wItH Type=Drug as Drugs")
    assert isinstance(found, Found)
    assert found.what == "nodes"


def test_a_keyword_is_a_name_where_no_keyword_fits() -> None:
    assert isinstance(command("RANK rank by count"), Rank)
    assert problems("SELECT fields FIELDS fields, order, limit AS as") == []
    assert problems("SET true = true; SET find = 1") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\"b\'c\\d\ne\tf\u00e9\d"', "a\"b'c\\d\ne\tfé\\d"),
        ("'#;{'", "#;{"),
        ("word-1:x.y", "word-1:x.y"),
        ("TRUE", True),
        ("Null", None),
        ("truest", "truest"),
        ("true-ish", "true-ish"),
        ("-1.5e3", -1500.0),
        ('[1, "a", {"b": [null]}]', [1, "a", {"b": [None]}]),
        (r'"\ud83d\ude00"', "😀"),
    ],
)
def test_values_are_read_as_written(text: str, value: object) -> None:
    made = command(f"SET x = {text}  # note")
    assert isinstance(made, Set)
    assert made.value == value
    assert type(made.value) is type(value)


@pytest.mark.parametrize(
    ("text", "instruction", "into"),
    [
        ("PROCESS x WITH instruction: Name; COUNT y", "Name", None),
        ('PROCESS x WITH instruction:  it\'s "so" {x}  AS y  # note', 'it\'s "so" {x}', "y"),
        ("PROCESS x WITH tell it as y", "tell it as y", None),
        ("PROCESS x WITH known AS a name AS y", "known AS a name", "y"),
        ("PROCESS x WITH C#code # note", "C#code", None),
        ("PROCESS x WITH one \\\ntwo AS y", "one two", "y"),
        ('PROCESS x WITH "one; two" as y', "one; two", "y"),
    ],
)
def test_free_text_runs_to_the_end_of_the_command(text: str, instruction: str, into: str | None) -> None:
    statement = parse(text.encode("utf-8")).statements[0]
    assert isinstance(statement, Simple)
    assert isinstance(statement.command, Ask)
    assert statement.command.instruction == instruction
    assert (statement.into.text if statement.into else None) == into


def test_a_generated_kind_may_be_a_string() -> None:
    assert isinstance(made := command('GENERATE "short report" FROM x'), Generate)
    assert made.kind == "short report"


@pytest.mark.parametrize(
    ("text", "plan"), [("CANCEL", None), ("CANCEL plan-1", "plan-1"), ("CANCEL PLAN 'a b'", "a b")]
)
def test_cancel_names_a_plan(text: str, plan: str | None) -> None:
    assert command(text) == Cancel(plan)


def test_commands_end_at_line_ends_and_semicolons_and_lines_join_at_backslashes() -> None:
    script = parse(b"COUNT \\\n  x; ; COUNT y # COUNT z\r\n\n  # note\nCOUNT z")
    counts = [s for s in script.statements if isinstance(s, Simple) and isinstance(s.command, Count)]
    assert [(s.place.line, s.place.column) for s in counts] == [(1, 1), (2, 8), (5, 1)]


def test_blocks_and_conditions_stand_where_they_were_written() -> None:
    script = parse(b"TRY\n{ COUNT x\n ON empty DO COUNT y }\nFINALLY COUNT z")
    attempt = script.statements[0]
    assert isinstance(attempt, Attempt)
    assert attempt.rescue is None
    on = attempt.body[1]
    assert isinstance(on, On)
    assert (on.place, on.simple.place, on.text) == ((3, 2), (3, 14), "ON empty DO COUNT y")


def test_bytes_that_are_no_text_are_a_syntax_error_at_their_place() -> None:
    assert [(p.kind, p.place) for p in read_script(b"COUNT x\nab\xff")[1]] == [("syntax", (2, 3))]


@pytest.mark.parametrize(
    ("text", "kind", "line", "column"),
    [
        ('{"commands": ["COUNT x",]}', "syntax", 1, 25),
        ('{"commands": [\n"COUNT x"', "syntax", 2, 10),
        ('{"commands": [NaN]}', "syntax", 1, 15),
        ('{"commands": 3}', "syntax", 1, 1),
        ('{"plan_id": "p"}', "syntax", 1, 1),
        ('{"commands": [{"why": "x"}]}', "syntax", 1, 1),
        ('{"commands": [], "config": {"stop_on_error": 1}}', "syntax", 1, 1),
        ('{"commands": ["COUNT x", {"command": "FIND\\n nods"}]}', "syntax", 2, 7),
        ('{"commands": [], "x": ' + "[" * 60 + "]" * 60 + "}", "limit", 1, 1),
    ],
)
def test_a_plan_that_is_none_is_told_of_at_its_place(text: str, kind: str, line: int, column: int) -> None:
    assert [p[:3] for p in problems(text)] == [(kind, line, column)]


def test_a_plan_is_its_commands_and_settings() -> None:
    script = parse(
        b' {"plan_id": "p1", "why": "x", "commands": ["SET a = 1", {"command": "SET b = 2", "why": "y"}],'
        b' "config": {"stop_on_error": false}, "hypothesis": 1}'
    )
    assert script.plan is not None
    assert (script.plan.plan_id, script.plan.stop_on_error, script.plan.continue_on_empty) == (
        "p1",
        False,
        False,
    )
    assert [s.place.line for s in script.statements if isinstance(s, Simple)] == [1, 2]
