"""Ratings in both forms give the published figures exactly; other bytes are read or refused with their line."""

import csv
import io
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.analysis import analyse, rating_figures, render
from kgqa_hpc.plugins.evaluation.ratings import (
    CRITERIA,
    Ratings,
    csv_bytes,
    guard,
    read_csv,
    read_ratings,
    unguard,
    with_key,
)
from kgqa_hpc.plugins.evaluation.records import records

QUESTION, ANSWER, COMPLEXITY, SPECIFICITY, COMPLETENESS = CRITERIA
PAIR = ["ID", "Question", "Answer"]

on_one_folder = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def write(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def ratings_of(folder: Path, rows: list[list[object]], *more: str) -> Ratings:
    """The ratings of one table with these rows; `more` are further columns."""
    return read_ratings([write(folder / "r.csv", [*PAIR, *CRITERIA, *more], rows)])


def published() -> list[list[str]]:
    """The scores of the 116 published ratings (id, five scores or blanks), in their order."""
    with (Path(__file__).parent / "data" / "published_scores.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def wide(path: Path, rows: list[list[str]]) -> Path:
    lines = [[row[0], f"q {row[0]}", f"a {row[0]}", *row[1:], "" if row[1] else 1] for row in rows]
    return write(path, [*PAIR, *CRITERIA, "not_qualified"], lines)


def long(path: Path, rows: list[list[str]]) -> Path:
    lines: list[list[object]] = []
    for row in rows:
        pair = [row[0], f"q {row[0]}", f"a {row[0]}"]
        if row[1]:
            scores = zip(CRITERIA, row[1:], strict=True)
            lines += [[*pair, name, f"{score}. some words: 12"] for name, score in scores]
        else:
            lines.append([*pair, "Not qualified to evaluate", "I cannot evaluate this case with confidence."])
    return write(path, [*PAIR, "Evaluation Category", "Score"], lines)


@pytest.mark.parametrize("form", [wide, long])
def test_published_ratings_give_their_means_and_shares(tmp_path: Path, form) -> None:
    document = analyse(read_ratings([form(tmp_path / "r.csv", published()[:58])]))
    assert [document[key] for key in ("ratings", "rated", "not_qualified")] == [58, 53, 5]
    assert [round(document["all"][name], 3) for name in CRITERIA] == [5.0, 4.113, 3.34, 3.132, 4.377]
    shares = [round(100 * document["share_3"][name], 2) for name in CRITERIA]
    assert shares == [100, 90.57, 88.68, 73.58, 92.45]
    assert document["accepted"] is document["rejected"] is None
    answer = document["answer"]["all"]
    assert round(100 * answer["share_3"]["minimum"], 1) == 71.7
    assert answer["count_3"] == {"minimum": 38, "average": 47, "rounded_average": 50}
    text = render(document)  # says where the paper rounded
    assert "47 of 53 (88.68 %)" in text
    assert "50 of 53 (94.34 %)" in text
    document = analyse(read_ratings([form(tmp_path / "r.csv", published())]))
    assert document["rated"] == 106
    assert [round(document["all"][name], 3) for name in CRITERIA] == [4.953, 3.764, 3.377, 3.151, 4.104]


@pytest.mark.parametrize(
    ("rows", "rated", "not_rated", "means"),
    [
        # Not rated, whether the row says so or not.
        ([["1", "q", "a", *[""] * 5], ["2", "q", "a", 5, 4, 3, 2, 1]], 1, 1, [5, 4, 3, 2, 1]),
        ([["1", "q", "a", *[""] * 5]], 0, 1, [None] * 5),
        # Partly rated rows count where they have a score.
        ([["1", "q", "a", 5, "", 3, 2, 4], ["2", "q", "a", 3, 3, "", 4, 4]], 2, 0, [4, 3, 3, 3, 4]),
    ],
)
def test_rows_count_where_they_have_a_score(tmp_path: Path, rows, rated, not_rated, means) -> None:
    document = analyse(ratings_of(tmp_path, rows))
    assert (document["rated"], document["not_rated"], document["not_qualified"]) == (rated, not_rated, 0)
    assert list(document["all"].values()) == means
    assert document["answer"]["all"]["ratings"] == sum(all(row[k] for k in (4, 6, 7)) for row in rows)
    assert f"{rated} of {len(rows)} rated" in render(document)


@pytest.mark.parametrize("sign", [";", "\t"])
def test_other_delimiters_a_byte_order_mark_and_own_criteria_are_read(tmp_path: Path, sign: str) -> None:
    path = tmp_path / "r.csv"
    text = "\ufeffID;Question;Answer;Clarity;shape\n1;q;a;3,75;29\n2;q;a;2.6666666667;1\n"
    path.write_text(text.replace(";", sign), encoding="utf-8")
    assert analyse(read_ratings([path]))["all"] == {"Clarity": pytest.approx(3.2083333)}


def test_a_shown_number_is_no_criterion_beside_the_published_ones(tmp_path: Path) -> None:
    assert ratings_of(tmp_path, [["1", "q", "a", *"55432", 2]], "hops").criteria == CRITERIA


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ID,Question,Answer,Clarity\n1,q,a,4\n1,q,a,5\n", "rated twice"),
        (f"ID,Question,Answer,{QUESTION}\n1,q,a,6\n".encode(), "line 2: '6' is no score"),
        (f"ID,Question,Answer,{QUESTION}\n1,q,a\n".encode(), "line 2: 3 cells"),
        (b"ID,Question,Answer,C\n%b9,q,a,6" % (b"%d,q,a,4\n" * 9 % (*range(9),)), "line 11: '6' is no score"),
        (b"ID,Question,Answer,Words\n1,q,a,fine\n", "no column holds scores"),
        (b"Question,Answer,Clarity\nq,a,4\n", "no column 'id'"),
        (b"ID,Question,Answer,Clarity,accepted\n1,q,a,4,maybe\n", "neither true nor false"),
        (b"ID,Question,Answer,Clarity,Clarity\n1,q,a,4,4\n", "stands there twice"),
        (b"ID,Question,Answer,Clarity,clarity\n1,q,a,4,5\n", "column 'clarity' stands there twice"),
        (b"ID,Question,Answer,Clarity,weight\n1,q,a,4,many\n", "line 2: weight 'many' is no number"),
        (b"", "is empty"),
        (b'ID,Question,Answer,Clarity\n1,"q,a,4\n', "near line"),
        (b"ID,Question,Answer,Evaluation Category,Score\n1,q,a,Clarity,five\n", "'five' is no score"),
        (b"ID,Question,Answer,Evaluation Category,Score\n1,q,a,C,5. x\n1,q,a,C,4. x\n", "a second score"),
        (b"ID,\xff\xfe", "not UTF-8"),
        (f"ID,Question,Answer,{QUESTION}\n1,{'q' * (1 << 21)},a,5\n".encode(), "field larger"),
        (b"x" * (1 << 21), "line 1: field larger"),
        (None, "no such file"),
    ],
)
def test_bad_ratings_are_refused_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes | None, message: str
) -> None:
    monkeypatch.setenv("KGQA_MAX_LINE_BYTES", "1000000")
    path = tmp_path / "r.csv"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_ratings([path])


def test_a_model_is_one_more_annotator_and_in_no_mean(tmp_path: Path) -> None:
    people = read_ratings([wide(tmp_path / "people.csv", published()[:20])])
    model = read_ratings([wide(tmp_path / "model.csv", [[r[0], *["1"] * 5] for r in published()[:20]])])
    document = analyse(people, model)
    assert document["all"] == analyse(people)["all"]
    assert document["agreement"][ANSWER]["judges"] == ["people", "model"]
    assert document["agreement"][ANSWER]["krippendorff_alpha"]["value"] < 0.2
    assert analyse(people, people)["agreement"][ANSWER]["judges"] == ["people", "people (model)"]


def test_annotators_who_agree_make_no_interval_narrower_and_no_comparison_surer(tmp_path: Path) -> None:
    rows: list[list[object]] = [[i, "q", "a", *str(1 + i % 5) * 5, int(i % 7 > 2)] for i in range(20)]
    files = [write(tmp_path / name, [*PAIR, *CRITERIA, "accepted"], rows) for name in ("1.csv", "2.csv")]
    one, both = (analyse(read_ratings(paths)) for paths in (files[:1], files))
    mean, bothes_mean = (document["by_group"]["all"]["criteria"][ANSWER]["mean"] for document in (one, both))
    assert mean == bothes_mean
    share, bothes_share = (document["answer"]["all"]["share_3_minimum_interval"] for document in (one, both))
    assert share == bothes_share
    assert one["accepted_against_rejected"] == both["accepted_against_rejected"]


def test_a_key_tells_accepted_from_rejected_and_what_a_rating_stands_for(tmp_path: Path) -> None:
    ratings = read_ratings([wide(tmp_path / "r.csv", [["1", *"55555"], ["2", *"11111"]])])
    key = write(tmp_path / "k.csv", ["ID", "accepted", "weight"], [["1", "true", 9], ["2", "false", 1]])
    document = analyse(with_key(ratings, key))
    assert (document["accepted"][ANSWER], document["rejected"][ANSWER]) == (5.0, 1.0)
    assert document["by_group"]["all"]["weighted_mean"][ANSWER] == pytest.approx(4.6)
    weighted = f"means of all accepted and rejected pairs, by weight: {QUESTION} 4.600, {ANSWER} 4.600,"
    assert weighted in render(document)
    with pytest.raises(InputError, match="has no item '2'"):
        with_key(ratings, write(tmp_path / "k.csv", ["ID", "accepted"], [["1", "true"]]))
    with pytest.raises(InputError, match="no column 'accepted'"):  # another sheet in place of the key
        with_key(ratings, tmp_path / "r.csv")


def test_accepted_and_rejected_have_their_own_means_and_are_compared(tmp_path: Path) -> None:
    rows: list[list[object]] = [[i, "q", "a", *[5 if i < 20 else 2] * 5, int(i < 20)] for i in range(40)]
    document = analyse(ratings_of(tmp_path, rows, "accepted"))
    assert [document[name][ANSWER] for name in ("all", "accepted", "rejected")] == [3.5, 5, 2]
    comparisons = document["accepted_against_rejected"]
    assert comparisons["minimum of the answer"]["cliffs_delta"] == 1.0
    assert comparisons[ANSWER]["p"] < 1e-6


def test_control_characters_of_an_annotator_do_not_reach_the_terminal(tmp_path: Path) -> None:
    ratings = read_ratings([wide(tmp_path / "r.csv", published()[:3])])
    evil = Ratings(ratings.criteria, tuple(replace(row, annotator="\x1b[31mred") for row in ratings.rows))
    assert "\x1b" not in render(analyse(evil))


def test_figures_are_written_and_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows: list[list[object]] = [[r[0], "q", "a", *r[1:], i % 2] for i, r in enumerate(published())]
    ratings = ratings_of(tmp_path, rows, "accepted")
    first, again = (rating_figures(ratings, tmp_path / name) for name in ("one", "two"))
    assert [p.name for p in first] == ["boxplot.svg", "violins.svg", "answer_scores.svg"]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]
    assert b"accepted (n = " in first[2].read_bytes()


def test_figures_count_the_ratings_that_they_show_and_need_one(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    partly: list[list[object]] = [["1", "q", "a", *"54321", 1], ["2", "q", "a", 5, "", "", "", "", 0]]
    partly.append(["3", "q", "a", 5, 4, 3, 2, "", 1])
    figures = rating_figures(ratings_of(tmp_path, partly, "accepted"), tmp_path)
    assert b">accepted (n = 1)<" in figures[2].read_bytes()
    with pytest.raises(InputError, match="no item is rated"):
        rating_figures(ratings_of(tmp_path, [["1", "q", "a", *[""] * 5]]), tmp_path)


@on_one_folder
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(data)
    for read in (lambda: read_ratings([path]), lambda: list(records(path))):
        try:
            read()
        except InputError as problem:
            assert str(path) in str(problem)


HEADERS = [*PAIR, QUESTION, "Evaluation Category", "Score", "accepted", "not_qualified", "x"]
CELLS = st.one_of(
    st.sampled_from(["", "1", "5", "3. words", "0", "true", "=1", '"', "\n", ",", ";", "nan", "1e5"]),
    st.text(max_size=6),
)


@on_one_folder
@given(
    st.lists(st.sampled_from(HEADERS), min_size=3, max_size=8),
    st.lists(st.lists(CELLS, min_size=3, max_size=8), max_size=6),
)
def test_any_table_is_analysed_or_refused(tmp_path: Path, header: list[str], rows: list[list[str]]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    path = tmp_path / "any.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    with suppress(InputError):
        document = analyse(read_ratings([path]))
        assert 0 <= document["items"] <= document["ratings"] <= len(rows)


@on_one_folder
@given(st.lists(st.lists(st.text(max_size=12), min_size=2, max_size=2).filter(any), max_size=8))
def test_what_is_written_is_read_back_and_is_no_formula(tmp_path: Path, rows: list[list[str]]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(csv_bytes(["a", "b"], rows))
    assert [list(cells.values()) for _, cells in read_csv(path)[1]] == rows
    for text in (text for row in rows for text in row):
        assert unguard(guard(text)) == text
        assert guard(text)[:1] not in set("=+-@\t\r")
