"""The page in a real browser: nothing breaks, nothing is loaded, everything can be reached by keyboard."""

import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from kgqa_hpc.report.page import write_report
from tests.dataset.conftest import edit_counts, edit_records
from tests.runs import synthetic

CHROMIUM = os.environ.get("KGQA_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
try:
    from playwright.sync_api import Page, sync_playwright
except ImportError:
    CHROMIUM = None

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="PLAYWRIGHT OR CHROMIUM IS MISSING: PAGE NOT LOOKED AT"
)
LONG = "a-very-long-prompt-name-that-somebody-chose-without-thinking-of-tables"
WIDTHS = (1400, 768, 400)
PATIENCE = 300_000  # milliseconds: a loaded machine is slow, not wrong


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose questions name their nodes, one of them with markup in it."""
    run = synthetic(tmp_path_factory.mktemp("page"))
    run.merge()

    def name_nodes(record: dict[str, Any]) -> None:
        record["nodes"][1]["name"] = "<script>alert(1)</script>"
        record["question"] = f"Is {record['nodes'][0]['name']} like {record['nodes'][1]['name']}?"

    rows = json.loads((run.folder.dataset / "accounting.json").read_text())["requests"]
    for row in rows:
        row["prompt"]["name"] = LONG
        row |= {"requests": 1_234_567_890}
    edit_records(run.folder.dataset, name_nodes, "accepted", "rejected")
    edit_counts(run.folder.dataset, requests=rows)
    return write_report(run.folder)


class Look:
    """A page that is open, and what it complained of or asked for."""

    def __init__(
        self, browser: Any, file: Path, width: int = 1400, scheme: str = "light", hash: str = ""
    ) -> None:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append("a dialog"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"file://{file}{hash}")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_complained_of_loaded_or_wider_than_the_window(
    browser: Any, page_file: Path, width: int, scheme: str
) -> None:
    look = Look(browser, page_file, width, scheme)
    for side in ("accepted", "rejected"):
        look.page.click(f"#{side}-list .card > button")
    assert "<script>alert(1)</script>" in look.page.inner_text("#accepted-list .card")
    assert look.complaints == []
    assert len(look.requests) == 1
    assert look.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_no_table_breaks_words_into_letters(browser: Any, page_file: Path, width: int) -> None:
    cells = Look(browser, page_file, width).page.evaluate(
        """() => [...document.querySelectorAll("th, td")].map(cell => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            const lines = new Set([...range.getClientRects()].map(r => Math.round(r.bottom / 4)));
            const words = cell.innerText.split(/[\\s\\u00ad-]+/).filter(Boolean);
            return [cell.innerText, words.length, lines.size, cell.parentElement.clientHeight];
        })"""
    )
    assert len(cells) > 100
    # Letters one below the other would be more lines than words.
    assert [cell for cell in cells if cell[2] > cell[1] + 1] == []
    assert max(cell[3] for cell in cells) < 120


def test_a_table_fits_a_wide_window_and_else_shows_that_there_is_more(browser: Any, page_file: Path) -> None:
    """Dark at the edge behind which columns are hidden, and no longer when they are scrolled to."""
    wide = "[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth)"
    assert Look(browser, page_file, 1400).page.evaluate(f"{wide}.length") == 0
    page = Look(browser, page_file, 400).page
    page.evaluate(f"{wide}[0].id = 'hidden'")
    assert _edges(page) == (False, True)
    page.evaluate("const box = document.getElementById('hidden'); box.scrollLeft = box.scrollWidth")
    assert _edges(page) == (True, False)


@pytest.mark.parametrize("width", [*WIDTHS, 360])
def test_words_of_the_flow_stand_whole_beside_their_bands(browser: Any, page_file: Path, width: int) -> None:
    page = Look(browser, page_file, width).page
    bands, words = page.evaluate(
        "[...document.querySelectorAll('.flow svg')].map(svg => svg.getBoundingClientRect().toJSON())"
    )
    assert (bands["top"], bands["height"]) == (words["top"], words["height"])
    assert 100 < bands["width"] <= words["left"] - bands["left"] + 0.5
    rights = page.evaluate(
        "[...document.querySelectorAll('.flow text')].map(text => text.getBoundingClientRect().right)"
    )
    assert len(rights) > 10
    assert max(rights) <= words["right"] <= width


def _edges(page: Page) -> tuple[bool, bool]:
    """Whether the left and the right edge of the table `hidden` are dark, below its last line."""
    page.evaluate("document.getElementById('hidden').style.paddingBottom = '40px'")
    image = Image.open(io.BytesIO(page.locator("#hidden").screenshot())).convert("L")
    dark = [image.getpixel((x, image.height - 30)) < 230 for x in (0, image.width - 1)]
    return dark[0], dark[1]


def test_a_name_lights_its_node_and_edges_by_mouse_and_by_keyboard(browser: Any, page_file: Path) -> None:
    page = Look(browser, page_file).page
    page.click("#accepted-list .card > button")
    page.hover("#accepted-list .card p mark >> nth=0")
    assert page.locator("#accepted-list .graph g.on circle").count() == 1
    assert page.locator("#accepted-list .graph g.on path").count() >= 1
    page.mouse.move(0, 0)
    assert page.locator(".graph g.on").count() == 0
    page.focus("#accepted-list .card p mark >> nth=1")
    assert page.locator("#accepted-list .graph g.on circle").count() == 1


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("An indication of CAT, a cat and CATs: CAT's", ["CAT", "cat", "CAT"]),
        ("From İstanbul the İCAT to the CAT", ["İstanbul", "CAT"]),
        ("TNF-α und TNF-αβ, 日本の名前です", ["TNF-α", "名前"]),
    ],
)
def test_whole_names_are_marked_and_no_part_of_a_word(
    browser: Any, page_file: Path, text: str, marks: list[str]
) -> None:
    page = Look(browser, page_file).page
    nodes = [{"name": name} for name in ("CAT", "İSTANBUL", "tnf-Α", "名前")]
    found = page.evaluate(
        "([text, nodes]) => { const line = marked(text, nodes);"
        " return [line.textContent, [...line.querySelectorAll('mark')].map(m => m.textContent)]; }",
        [text, nodes],
    )
    assert found == [text, marks]


def test_the_explorer_filters_and_counts(browser: Any, page_file: Path) -> None:
    page = Look(browser, page_file).page
    assert "46 of 46 records" in page.inner_text("main")
    assert page.evaluate("told([['a', 'binds', 'b'], ['b', 'is', 'c']])") == "a – binds – b; b – is – c"
    assert page.locator("dl.pairs dt").count() == page.locator("dl.pairs dt .graph").count() == 10
    assert page.inner_text("#accepted-count") == "34"
    assert page.inner_text("#rejected-count") == "12"
    page.select_option("select[name=reason]", "judge: invalid question")
    assert (page.inner_text("#accepted-count"), page.inner_text("#rejected-count")) == ("0", "5")
    page.click("button[type=reset]")
    page.select_option("select[name=group]", "shape 2")
    page.select_option("select[name=criterion]", "judge: valid_question")
    page.select_option("select[name=verdict]", "true")
    assert page.inner_text("#accepted-count") == "15"
    page.click("button[type=reset]")
    page.fill("input[name=text]", "näme 10-0")
    assert page.inner_text("#accepted-count") == "1"


def test_a_keyboard_is_enough(browser: Any, page_file: Path) -> None:
    page = Look(browser, page_file).page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "text"
    page.focus("#accepted-list .card > button")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    opened = page.locator("#accepted-list .card").nth(1)
    assert opened.locator("svg.graph").count() == 1
    page.keyboard.press("Enter")
    assert opened.locator("svg.graph").count() == 0


def test_a_link_leads_to_its_record(browser: Any, page_file: Path) -> None:
    page = Look(browser, page_file, hash="#g01-000000000000000c").page
    assert page.inner_text("#accepted-count") == "1"
    assert "kgqa explain" in page.inner_text("#accepted-list .card")


def test_names_of_nodes_do_not_overlap_and_types_have_colours(browser: Any, page_file: Path) -> None:
    page = Look(browser, page_file).page
    for place in range(6):
        page.click(f"#accepted-list .card > button >> nth={place}")
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".card .graph")].map(
            g => [...g.querySelectorAll("[data-node] text")].map(t => t.getBBox())
                .map(b => [b.x, b.y, b.width, b.height])
        )"""
    )
    assert len(boxes) == 6
    for graph in boxes:
        for i, (x, y, width, height) in enumerate(graph):
            assert not [
                1
                for a, b, w, h in graph[:i]
                if a < x + width and x < a + w and b + 2 < y + height and y + 2 < b + h
            ]
    assert page.locator(".graph circle.t0").count() > 0
    assert page.inner_text("#accepted-list .card .legend").strip() == "Gene"


def test_a_path_is_drawn_from_its_steps_and_what_a_kind_adds_is_told(browser: Any, make_merged: Any) -> None:
    run, _ = make_merged()
    steps = [{"entity": a, "relation": "hits", "target": b} for a, b in (("<b>", "c"), ("c", "d"))]
    values = {"nodes": None, "edges": None, "steps": steps, "documents": ["y" * 9000]}
    values |= {"question": "Is <b> near?", "choices": {"A": "one", "B": "<i>two"}}
    edit_records(run.folder.dataset, lambda record: record.update(values), "accepted")
    look = Look(browser, write_report(run.folder))
    look.page.click("#accepted-list .card > button")
    card = look.page.locator("#accepted-list .card").first
    assert card.locator(".graph circle").count() == 3
    assert card.locator("mark").inner_text() == "<b>"
    assert "A: one, B: <i>two" in card.inner_text()
    assert "yyyy" not in card.inner_text()
    assert look.complaints == []


def test_it_prints(browser: Any, page_file: Path, tmp_path: Path) -> None:
    page = Look(browser, page_file, width=700).page  # about A4 without its margins
    page.emulate_media(media="print")
    assert page.locator("#filters").is_hidden()
    # Paper does not scroll: no column may lie beyond its edge.
    rights = page.evaluate(
        "[...document.querySelectorAll('th, td, svg')].map(e => e.getBoundingClientRect().right)"
    )
    assert max(rights) <= 700
    assert len(page.pdf(path=str(tmp_path / "page.pdf"))) > 10_000
