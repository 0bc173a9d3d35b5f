"""The analysis gives the published figures exactly, for any subset, from both forms of the file."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.analysis import analyse, render
from kgqa_hpc.plugins.evaluation.ratings import CRITERIA, Ratings, read_ratings, with_key

QUESTION, ANSWER, COMPLEXITY, SPECIFICITY, COMPLETENESS = CRITERIA
HERE = Path(__file__).parent / "data"


def write(path: Path, header: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def published() -> list[list[str]]:
    """The scores of the 116 published ratings (id, five scores or blanks), in their order."""
    with (HERE / "published_scores.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def wide(path: Path, rows: list[list[str]]) -> Path:
    lines = [[row[0], f"q {row[0]}", f"a {row[0]}", *row[1:], "" if row[1] else 1] for row in rows]
    return write(path, ["ID", "Question", "Answer", *CRITERIA, "not_qualified"], lines)


def long(path: Path, rows: list[list[str]]) -> Path:
    lines: list[list[object]] = []
    for row in rows:
        pair = [row[0], f"q {row[0]}", f"a {row[0]}"]
        if row[1]:
            lines += [
                [*pair, name, f"{score}. some words: 12"]
                for name, score in zip(CRITERIA, row[1:], strict=True)
            ]
        else:
            lines.append([*pair, "Not qualified to evaluate", "I cannot evaluate this case with confidence."])
    return write(path, ["ID", "Question", "Answer", "Evaluation Category", "Score"], lines)


@pytest.mark.parametrize("form", [wide, long])
def test_the_first_published_set_gives_its_means_and_shares(tmp_path: Path, form) -> None:
    found = analyse(read_ratings([form(tmp_path / "r.csv", published()[:58])]))
    assert (found["ratings"], found["rated"], found["not_qualified"]) == (58, 53, 5)
    assert [round(found["all"][name], 3) for name in CRITERIA] == [5.0, 4.113, 3.34, 3.132, 4.377]
    shares = [round(100 * found["share_3"][name], 2) for name in CRITERIA]
    assert shares == [100, 90.57, 88.68, 73.58, 92.45]
    assert found["accepted"] is None
    assert found["rejected"] is None
    answer = found["answer"]["all"]
    assert round(100 * answer["share_3"]["minimum"], 1) == 71.7
    assert answer["count_3"] == {"minimum": 38, "average": 47, "rounded_average": 50}


@pytest.mark.parametrize("form", [wide, long])
def test_all_published_ratings_give_their_means(tmp_path: Path, form) -> None:
    found = analyse(read_ratings([form(tmp_path / "r.csv", published())]))
    assert found["rated"] == 106
    assert [round(found["all"][name], 3) for name in CRITERIA] == [4.953, 3.764, 3.377, 3.151, 4.104]


def test_it_says_where_the_paper_rounded(tmp_path: Path) -> None:
    text = render(analyse(read_ratings([wide(tmp_path / "r.csv", published()[:58])])))
    assert "47 of 53 (88.68 %)" in text
    assert "50 of 53 (94.34 %)" in text
    assert "94.4" not in text, "a figure of another dataset"


@pytest.mark.parametrize("seed", range(5))
def test_any_subset_gives_its_own_means_and_shares(tmp_path: Path, seed: int) -> None:
    print("seed", seed)
    rows = random.Random(seed).sample(published(), 30)
    marked = [[*row, "true" if i % 3 else "false"] for i, row in enumerate(rows)]
    lines: list[list[object]] = [[r[0], "q", "a", *r[1:]] for r in marked]
    path = write(tmp_path / "r.csv", ["id", "question", "answer", *CRITERIA, "accepted"], lines)
    found = analyse(read_ratings([path]))
    for k, name in enumerate(CRITERIA):
        for group, keep in (("all", ("true", "false")), ("accepted", ("true",)), ("rejected", ("false",))):
            scores = [int(r[k + 1]) for r in marked if r[1] and r[6] in keep]
            assert found[group][name] == pytest.approx(sum(scores) / len(scores), abs=1e-12)
        scores = [int(r[k + 1]) for r in marked if r[1]]
        assert found["share_3"][name] == pytest.approx(sum(s >= 3 for s in scores) / len(scores), abs=1e-12)


def test_a_row_without_scores_is_not_rated_whether_it_says_so_or_not(tmp_path: Path) -> None:
    rows: list[list[object]] = [["1", "q", "a", "", "", "", "", "", ""], ["2", "q", "a", 5, 4, 3, 2, 1, ""]]
    path = write(tmp_path / "r.csv", ["ID", "Question", "Answer", *CRITERIA, "not_qualified"], rows)
    found = analyse(read_ratings([path]))
    assert (found["rated"], found["not_rated"], found["not_qualified"]) == (1, 1, 0)


def test_no_rating_at_all_is_told_and_not_a_crash(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", ["ID", "Question", "Answer", *CRITERIA], [["1", "q", "a", *[""] * 5]])
    found = analyse(read_ratings([path]))
    assert found["rated"] == 0
    assert set(found["all"].values()) == {None}
    assert "0 of 1 rated" in render(found)


def test_partly_rated_rows_count_where_they_have_a_score(tmp_path: Path) -> None:
    rows: list[list[object]] = [["1", "q", "a", 5, "", 3, 2, 4], ["2", "q", "a", 3, 3, "", 4, 4]]
    path = write(tmp_path / "r.csv", ["ID", "Question", "Answer", *CRITERIA], rows)
    found = analyse(read_ratings([path]))
    assert found["all"] == {QUESTION: 4.0, ANSWER: 3.0, COMPLEXITY: 3.0, SPECIFICITY: 3.0, COMPLETENESS: 4.0}
    assert found["answer"]["all"]["ratings"] == 1


def test_semicolons_a_byte_order_mark_and_own_criteria_are_read(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("\ufeffID;Question;Answer;Clarity;shape\n1;q;a;4;29\n2;q;a;2.5;1\n", encoding="utf-8")
    found = analyse(read_ratings([path]))
    assert found["all"] == {"Clarity": 3.25}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ID,Question,Answer,Clarity\n1,q,a,4\n1,q,a,5\n", "rated twice"),
        (f"ID,Question,Answer,{CRITERIA[0]}\n1,q,a,6\n", "line 2: '6' is no score"),
        (f"ID,Question,Answer,{CRITERIA[0]}\n1,q,a\n", "line 2: 3 cells"),
        ("ID,Question,Answer,Words\n1,q,a,fine\n", "no column holds scores"),
        ("Question,Answer,Clarity\nq,a,4\n", "no column 'id'"),
        ("ID,Question,Answer,Clarity,accepted\n1,q,a,4,maybe\n", "neither true nor false"),
        ("ID,Question,Answer,Clarity,Clarity\n1,q,a,4,4\n", "stands there twice"),
        ("ID,Question,Answer,Clarity,clarity\n1,q,a,4,5\n", "column 'clarity' stands there twice"),
        ("", "is empty"),
        ('ID,Question,Answer,Clarity\n1,"q,a,4\n', "near line"),
        ("ID,Question,Answer,Evaluation Category,Score\n1,q,a,Clarity,five\n", "'five' is no score"),
        ("ID,Question,Answer,Evaluation Category,Score\n1,q,a,C,5. x\n1,q,a,C,4. x\n", "a second score"),
    ],
)
def test_bad_ratings_are_refused_with_their_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=told):
        read_ratings([path])


def test_bytes_that_are_no_text_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(b"ID,\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_ratings([tmp_path / "r.csv"])
    with pytest.raises(InputError, match="no such file"):
        read_ratings([tmp_path / "none.csv"])


def test_a_model_is_one_more_annotator_and_in_no_mean(tmp_path: Path) -> None:
    people = read_ratings([wide(tmp_path / "people.csv", published()[:20])])
    model = read_ratings([wide(tmp_path / "model.csv", [[r[0], *["1"] * 5] for r in published()[:20]])])
    found = analyse(people, model)
    assert found["all"] == analyse(people)["all"]
    assert found["agreement"][ANSWER]["judges"] == ["people", "model"]
    assert found["agreement"][ANSWER]["krippendorff_alpha"]["value"] < 0.2


def test_a_model_of_an_annotators_name_is_still_another_one(tmp_path: Path) -> None:
    ratings = read_ratings([wide(tmp_path / "same.csv", published()[:20])])
    assert analyse(ratings, ratings)["agreement"][ANSWER]["judges"] == ["same", "same (model)"]


def test_a_key_tells_accepted_from_rejected_and_what_a_rating_stands_for(tmp_path: Path) -> None:
    ratings = read_ratings([wide(tmp_path / "r.csv", [["1", *"55555"], ["2", *"11111"]])])
    key = write(tmp_path / "k.csv", ["ID", "accepted", "weight"], [["1", "true", 9], ["2", "false", 1]])
    found = analyse(with_key(ratings, key))
    assert found["accepted"][ANSWER] == 5.0
    assert found["rejected"][ANSWER] == 1.0
    assert found["by_group"]["all"]["weighted_mean"][ANSWER] == pytest.approx(4.6)
    with pytest.raises(InputError, match="has no item '2'"):
        with_key(ratings, write(tmp_path / "k.csv", ["ID", "accepted"], [["1", "true"]]))


def test_accepted_against_rejected_is_tested(tmp_path: Path) -> None:
    rows: list[list[object]] = [[i, "q", "a", *[5 if i < 20 else 2] * 5, int(i < 20)] for i in range(40)]
    path = write(tmp_path / "r.csv", ["ID", "Question", "Answer", *CRITERIA, "accepted"], rows)
    found = analyse(read_ratings([path]))["accepted_against_rejected"]
    assert found["minimum of the answer"]["cliffs_delta"] == 1.0
    assert found[ANSWER]["p"] < 1e-6


def test_control_characters_of_an_annotator_do_not_reach_the_terminal(tmp_path: Path) -> None:
    ratings = read_ratings([wide(tmp_path / "r.csv", published()[:3])])
    from dataclasses import replace

    evil = Ratings(ratings.criteria, tuple(replace(row, annotator="\x1b[31mred") for row in ratings.rows))
    assert "\x1b" not in render(analyse(evil))


def test_figures_are_written_and_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from kgqa_hpc.plugins.evaluation.figures import rating_figures

    rows: list[list[object]] = [[r[0], "q", "a", *r[1:], i % 2] for i, r in enumerate(published())]
    path = write(tmp_path / "r.csv", ["ID", "Question", "Answer", *CRITERIA, "accepted"], rows)
    ratings = read_ratings([path])
    first = rating_figures(ratings, tmp_path / "one")
    again = rating_figures(ratings, tmp_path / "two")
    assert [p.name for p in first] == ["boxplot.svg", "violins.svg", "answer_scores.svg"]
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]
    assert b"accepted (n = " in first[2].read_bytes()
