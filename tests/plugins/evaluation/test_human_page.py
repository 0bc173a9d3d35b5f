"""The rating page: keyboard, progress, saving, export, several annotators, and nothing foreign ever runs."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.drawing import json_block
from kgqa_hpc.plugins.evaluation.analysis import analyse
from kgqa_hpc.plugins.evaluation.human_sample import draw_sample, write_page
from kgqa_hpc.plugins.evaluation.ratings import read_csv, read_ratings

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE = 300_000  # milliseconds: a loaded machine is slow, not wrong


@pytest.fixture
def page_file(merged_run: Path, tmp_path: Path) -> Path:
    sheet = tmp_path / "sheet.csv"
    draw_sample(merged_run, sheet, number=12, seed=3)
    write_page(sheet, tmp_path / "page.html", title="<b>Pairs</b> & more")
    return tmp_path / "page.html"


def test_the_page_is_one_file_without_address_the_same_for_a_sheet(page_file: Path, tmp_path: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    markup = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|<link|<img|\bsrc=|url\(|@import", markup)
    assert "default-src &#39;none&#39;" in markup or "default-src 'none'" in markup
    assert "unsafe" not in markup
    write_page(tmp_path / "sheet.csv", tmp_path / "again.html", title="<b>Pairs</b> & more")
    assert (tmp_path / "again.html").read_bytes() == page_file.read_bytes()
    assert "<" not in json_block('{"q": "</script><!--<script>"}')  # items cannot end the block they stand in


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip("SKIPPED: NO CHROMIUM AT /usr/bin/chromium, THE RATING PAGE IS NOT DRIVEN")
    sync_api = pytest.importorskip("playwright.sync_api", reason="SKIPPED: NO PLAYWRIGHT, PAGE NOT DRIVEN")
    with sync_api.sync_playwright() as driver:
        options: Any = {"executable_path": str(CHROMIUM), "args": ["--no-sandbox"], "timeout": PATIENCE}
        running = driver.chromium.launch(**options)
        yield running
        running.close()


@pytest.fixture
def page(browser: Any, page_file: Path) -> Iterator[Any]:
    """The page in a fresh profile; at the end there was no console message, no request, no dialog."""
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    page.on("dialog", lambda dialog: (wrong.append("dialog"), dialog.dismiss()))
    page.on("request", lambda r: None if r.url.startswith(("file:", "blob:")) else wrong.append(r.url))
    page.goto(page_file.as_uri())
    yield page
    context.close()
    assert wrong == []


def _start(page: Any, name: str) -> None:
    page.fill("#annotator", name)
    page.press("#annotator", "Enter")
    page.wait_for_selector("#item:not([hidden])")


def _reload(page: Any) -> None:
    """Reload until the page goes on: on a loaded machine Chromium may show it a storage without the last writes."""
    for _ in range(20):
        page.reload()
        if page.is_visible("#item"):  # the script has run before the page counts as loaded
            return
    raise AssertionError("the page does not go on after a reload")


def _await_saved(page: Any, items: int) -> None:
    """Wait until the page sees so many items with all scores in its storage, which tabs share with a delay."""
    count = """() => Object.values(localStorage).filter((text) => text.startsWith("{")).flatMap(
      (text) => Object.values(JSON.parse(text).ratings)).filter((one) => Object.keys(one.scores).length === 5).length"""
    for _ in range(PATIENCE // 50):
        if page.evaluate(count) == items:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"the page does not see {items} saved items")


def _export(page: Any, target: Path) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.keyboard.press("e")
    download.value.save_as(target)
    with target.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_ten_items_by_keyboard_reload_go_on_export_analyse(page: Any, tmp_path: Path) -> None:
    _start(page, "Ada L.")
    for _ in range(6):
        page.keyboard.type("54321")
        page.keyboard.press("Enter")
    _reload(page)
    assert page.input_value("#annotator") == "Ada L."
    assert page.inner_text("#place").startswith("Item 7 of 12")
    assert page.inner_text("#count") == "6 of 12 rated"
    for _ in range(3):
        page.keyboard.type("33333")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("q")
    assert page.inner_text("#count") == "9 of 12 rated · 1 not qualified"
    _export(page, tmp_path / "ratings.csv")
    ratings = read_ratings([tmp_path / "ratings.csv"])
    document = analyse(ratings)
    assert [document[key] for key in ("rated", "not_qualified", "annotators")] == [9, 1, {"Ada L.": 9}]
    assert document["all"]["Scientific Validity of the Question"] == pytest.approx((6 * 5 + 3 * 3) / 9)
    assert document["all"]["Answer Completeness"] == pytest.approx((6 * 1 + 3 * 3) / 9)
    rows = [cells for _, cells in read_csv(tmp_path / "sheet.csv")[1]]
    pairs = {cells["id"]: (cells["question"], cells["answer"]) for cells in rows}
    assert {r.id: (r.question, r.answer) for r in ratings.rows} == pairs


def test_the_pair_stays_in_sight_while_its_last_scale_is_scored(page: Any) -> None:
    page.set_viewport_size({"width": 1280, "height": 600})
    _start(page, "A")
    page.keyboard.type("5432")
    page.wait_for_function("window.scrollY > 0")
    inside = "(e) => { const b = e.getBoundingClientRect(); return [b.top, b.bottom]; }"
    names = ("header", "#pair", "fieldset.current")
    header, pair, scale = (page.eval_on_selector(name, inside) for name in names)
    assert header[1] <= pair[0] + 1
    assert pair[1] <= scale[0] + 1
    assert scale[1] <= page.evaluate("innerHeight")


def test_markup_in_pairs_and_title_shows_as_text(page: Any) -> None:
    _start(page, "B")
    assert page.title() == "<b>Pairs</b> & more"
    seen = ""
    for _ in range(12):
        seen += page.text_content("#question") + page.text_content("#answer")
        page.keyboard.press("ArrowRight")
    assert "<script>" in seen
    assert "<img src=x onerror" in seen
    assert page.evaluate("document.querySelectorAll('#item img, #item script, h1 b').length") == 0


def test_each_annotator_has_ratings_of_their_own(page: Any, tmp_path: Path) -> None:
    _start(page, "first")
    page.keyboard.type("11111")
    _start(page, "second")
    assert page.inner_text("#count") == "0 of 12 rated"
    page.keyboard.type("55555")
    second = _export(page, tmp_path / "second.csv")
    _start(page, "first")
    assert page.inner_text("#count") == "1 of 12 rated"
    first = _export(page, tmp_path / "first.csv")
    assert (first[0]["Question Complexity"], second[0]["Question Complexity"]) == ("1", "5")
    assert (first[0]["annotator"], second[0]["annotator"]) == ("first", "second")
    agreement = analyse(read_ratings([tmp_path / "first.csv", tmp_path / "second.csv"]))["agreement"]
    assert agreement["Question Complexity"]["voted_twice"] == 1


def test_ratings_in_two_tabs_of_a_browser_are_all_saved(page: Any, tmp_path: Path) -> None:
    _start(page, "Ada")
    other = page.context.new_page()
    other.goto(page.url)
    _start(other, "Ada")
    page.keyboard.type("54321")
    _await_saved(other, 1)
    other.keyboard.press("ArrowRight")
    other.keyboard.type("11111")
    assert other.inner_text("#count") == "2 of 12 rated"
    _await_saved(page, 2)
    page.keyboard.press("ArrowRight")
    rows = _export(page, tmp_path / "ratings.csv")
    assert [row["Answer Completeness"] for row in rows[:3]] == ["1", "1", ""]


def test_keys_in_the_comment_are_text_and_escape_leaves_it(page: Any, tmp_path: Path) -> None:
    _start(page, "C")
    page.keyboard.press("c")
    page.keyboard.type('=1+1, "quoted" 5 q')
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("4")
    rows = _export(page, tmp_path / "r.csv")
    assert rows[0]["comment"] == '\'=1+1, "quoted" 5 q'
    assert rows[0]["Scientific Validity of the Answer"] == "4"
    assert rows[0]["Scientific Validity of the Question"] == ""


def test_not_qualified_clears_scores_a_score_clears_not_qualified_and_all_fits_a_phone(page: Any) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    _start(page, "D")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.keyboard.type("12345")
    page.keyboard.press("q")
    assert page.is_checked("#not-qualified")
    assert page.locator("input[type=radio]:checked").count() == 0
    page.keyboard.press("3")
    assert not page.is_checked("#not-qualified")
    assert page.locator("input[type=radio]:checked").count() == 1
