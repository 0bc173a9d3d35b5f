"""Prompt modules: assembled, versioned, overridden, and refused with one clear line."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
import yaml

from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.engines.schema import check
from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts import folders
from kgqa_hpc.prompts.folders import Folders, shipped_prompts
from kgqa_hpc.prompts.prompt import Prompt, load_prompt, try_prompt

KIND = GraphletAnchors()
PAIR = {"question": "A question?", "answer": "An answer."}
ABLATION = [f"p{a}_{b}" for a, last in ((1, 2), (2, 2), (3, 5), (4, 5)) for b in range(1, last + 1)] + ["p5"]
SHIPPED = [*ABLATION, "filter", "demo", "demo_filter"]

GOOD = """---
step: generate
schema: modules/schema_qa.yaml
max_tokens: 100
---
{% block system %}
{% include "modules/task.md" %}
{% endblock %}
{% block user %}
{% include "modules/anchor.md" %}
{% endblock %}
"""


def own(folder: Path, text: str, name: str = "own") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def refusal(folder: Path, text: str) -> str:
    own(folder, text)
    with pytest.raises(PromptError) as caught:
        try_prompt(load_prompt("own", folder), "own.md", [KIND.variables(KIND.sample)])
    assert "\n" not in caught.value.message
    return caught.value.message


def module_text(name: str) -> str:
    text = (shipped_prompts() / "modules" / f"{name}.md").read_text(encoding="utf-8").strip()
    for word, meaning in Folders.with_user(None).words().items():
        text = text.replace(f"{{{{ domain.{word} }}}}", meaning)
    return text


def test_all_prompts_of_the_ablation_and_the_judges_are_shipped() -> None:
    assert len(ABLATION) == 15
    assert set(Folders.with_user(None).names()) >= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_prompt_shows_its_fields_in_the_order_of_its_schema(name: str) -> None:
    prompt = load_prompt(name)
    if name in ("demo", "demo_filter"):
        return  # their model follows the decoding grammar only
    reply = prompt.system[prompt.system.index("# Form of the reply") :]
    example = yaml.safe_load(reply[reply.index("{") :])
    assert list(example) == list(prompt.schema["properties"])


@pytest.mark.parametrize("name", SHIPPED)
def test_only_the_user_message_depends_on_the_item(name: str) -> None:
    prompt = load_prompt(name)
    first = KIND.variables(KIND.sample) | PAIR
    second = {**first, "nodes": [(0, "Other", "Gene")] * 3, "question": "Q2?", "answer": "A2."}
    messages = prompt.render(first), prompt.render(second)
    assert messages[0][0] == messages[1][0] == {"role": "system", "content": prompt.system}
    assert messages[0][1] != messages[1][1]


# What each prompt of the ablation consists of (BioGraphletQA, 3.2.1), beside task and form of the reply.
PARTS = {
    "p1_1": "",
    "p1_2": "example_simple",
    "p2_1": "question answer",
    "p2_2": "question answer example_simple",
    "p3_1": "analyse final",
    "p3_2": "analyse roles final",
    "p3_3": "analyse roles example_simple final",
    "p3_4": "analyse roles question answer final",
    "p3_5": "analyse roles question answer example_simple final",
    "p4_1": "reflection",
    "p4_2": "reflection example_complex",
    "p4_3": "reflection criteria_question criteria_answer",
    "p4_4": "reflection criteria_question criteria_answer example_complex",
    "p4_5": "question answer reflection criteria_question criteria_answer example_complex",
    "p5": "analyse roles question answer reflection criteria_question criteria_answer example_complex final",
}


@pytest.mark.parametrize("name", ABLATION)
def test_a_prompt_of_the_ablation_consists_of_the_published_modules(name: str) -> None:
    system = load_prompt(name).system
    parts = PARTS[name].split()
    every = {part for parts in PARTS.values() for part in parts.split()}
    assert [part for part in parts if module_text(part) in system] == parts
    assert not [part for part in every - set(parts) if module_text(part) in system]
    places = [system.index(module_text(part)) for part in parts]
    assert places == sorted(places)
    assert (module_text("instructions") in system.split("\n")) == bool(set(parts) - {"example_simple"})


@pytest.mark.parametrize("name", SHIPPED)
def test_every_engine_can_enforce_the_schema_of_a_shipped_prompt(name: str) -> None:
    check(load_prompt(name).schema)


def test_the_judge_reasons_before_each_verdict() -> None:
    fields = list(load_prompt("filter").schema["properties"])
    assert fields == [
        "question_reasoning",
        "valid_question",
        "my_answer",
        "answer_reasoning",
        "original_answer_valid",
    ]
    assert list(load_prompt("demo_filter").schema["properties"]) == [f for f in fields if f != "my_answer"]


def test_edge_types_are_shown_only_on_request() -> None:
    prompt = load_prompt("p5")
    variables = KIND.variables(KIND.sample)
    hidden = prompt.render(variables | {"relations": []})[1]["content"]
    shown = prompt.render(variables)[1]["content"]
    assert hidden.splitlines() == [
        "Nodes:",
        "- 0: First node (Gene)",
        "- 1: Second node (Disease)",
        "- 2: Third node (Drug)",
        "Edges: (0, 1), (2, 1), (2, 0)",
    ]
    assert shown.splitlines()[4:] == [
        "Edges:",
        "- First node —causes→ Second node",
        "- Third node —treats→ Second node",
        "- Third node —binds→ First node",
    ]


def test_the_version_follows_every_word_of_source_and_modules(tmp_path: Path) -> None:
    folder = own(tmp_path, GOOD)
    versions = [load_prompt("own", folder).sha256, load_prompt("own", folder).sha256]
    assert versions[0] == versions[1]
    (folder / "modules").mkdir()
    for text in ("Another task.", "Another task!"):
        (folder / "modules" / "task.md").write_text(text, encoding="utf-8")
        versions.append(load_prompt("own", folder).sha256)
    own(folder, GOOD.replace("max_tokens: 100", "max_tokens: 101"))
    versions.append(load_prompt("own", folder).sha256)
    assert len(set(versions)) == 4


def test_the_version_does_not_depend_on_line_ends(tmp_path: Path) -> None:
    own(tmp_path / "unix", GOOD)
    (tmp_path / "windows").mkdir()
    (tmp_path / "windows" / "own.md").write_bytes(GOOD.replace("\n", "\r\n").encode())
    versions = {load_prompt("own", tmp_path / system).sha256 for system in ("unix", "windows")}
    assert len(versions) == 1


def test_a_users_folder_overrides_a_prompt_or_a_single_module_by_name(tmp_path: Path) -> None:
    own(tmp_path / "prompt", GOOD, "p5")
    assert load_prompt("p5", tmp_path / "prompt").max_tokens == 100
    assert load_prompt("p4_5", tmp_path / "prompt") == load_prompt("p4_5")
    own(tmp_path / "module" / "modules", "Write a riddle.", "task")
    changed = load_prompt("p5", tmp_path / "module")
    assert changed.system.startswith("Write a riddle.")
    assert changed.system.endswith(load_prompt("p5").system[-500:])


def test_an_installed_package_finds_its_own_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(shipped_prompts(), tmp_path / "kgqa_hpc" / "_shipped" / "prompts")
    (tmp_path / "prompts").mkdir()  # of another package: without a pyproject.toml beside it not ours
    expected = load_prompt("p5")
    monkeypatch.setattr(folders, "_PACKAGE", tmp_path / "kgqa_hpc")
    assert shipped_prompts() == tmp_path / "kgqa_hpc" / "_shipped" / "prompts"
    assert load_prompt("p5").sha256 == expected.sha256


def test_an_unknown_prompt_is_refused_with_the_nearest_known() -> None:
    with pytest.raises(PromptError, match=r"prompt fliter: no such prompt, did you mean filter\?"):
        load_prompt("fliter")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no such folder"):
        load_prompt("p5", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("step: generate", "stepp: generate", "own.md line 2: unknown key stepp, did you mean step?"),
        ("step: generate", "step: dance", "own.md line 2: unknown step 'dance'; known: generate, judge"),
        ("step: generate", "step: judge", "needs the boolean field valid_question"),
        ("step: generate\n", "", "own.md line 1: the front matter lacks step"),
        ("max_tokens: 100", "max_tokens: many", "own.md line 4: max_tokens: must be a whole number"),
        ("max_tokens: 100", "max_tokens: 0", "own.md line 4: max_tokens: must be at least 1, not 0"),
        ("max_tokens: 100", "max_tokens: true", "own.md line 4: max_tokens: must be a whole number"),
        (
            "max_tokens: 100",
            "max_tokens: 100\ntemperature: hot",
            "own.md line 5: temperature: must be a number, not hot",
        ),
        (
            "max_tokens: 100",
            "max_tokens: 100\nallow_cut: 1",
            "own.md line 5: allow_cut: must be true or false",
        ),
        (
            "max_tokens: 100",
            "description: [a]\nmax_tokens: 1",
            "own.md line 4: description: must be a text",
        ),
        ("max_tokens: 100", "max_tokens: 'a' 'b'", "own.md line 4: not YAML"),
        ("schema_qa", "schema_qq", "own.md line 3: modules/schema_qq.yaml does not exist, did you mean"),
        ("modules/schema_qa.yaml", "{type: object}", "own.md line 3: schema needs properties"),
        ("modules/schema_qa.yaml", "/etc/passwd", "own.md line 3: /etc/passwd does not exist"),
        ("modules/schema_qa.yaml", "../x.yaml", "own.md line 3: ../x.yaml does not exist"),
        ("---\nstep", "step", "own.md line 1: no front matter"),
        ("100\n---", "100", "own.md line 1: the front matter is not closed"),
        ("modules/task.md", "modules/tusk.md", "own.md line 7: modules/tusk.md does not exist, did you mean"),
        ("modules/task.md", "own.md", "own.md: includes itself: own.md -> own.md"),
        (
            '{% include "modules/task.md" %}',
            "{% inclood %}",
            "own.md line 7: Encountered unknown tag 'inclood'",
        ),
        ('{% include "modules/task.md" %}', "{{ 1|shout }}", "own.md line 7: No filter named 'shout'"),
        ('{% include "modules/task.md" %}', "{{ nodes }}", "own.md: the system block uses nodes"),
        ('{% include "modules/task.md" %}', "{{ lipsum() }}", "own.md: the system block uses lipsum"),
        (
            '{% include "modules/anchor.md" %}',
            "{{ nods }}",
            "prompt own: 'nods' is undefined, did you mean nodes?",
        ),
        (
            '{% include "modules/anchor.md" %}',
            "{% if nodes|length > 9 %}{{ edgs }}{% endif %}",
            "prompt own: 'edgs' is undefined, did you mean edges?",
        ),
        (
            '{% include "modules/anchor.md" %}',
            "{{ question }}",
            "prompt own: 'question' is undefined",
        ),
        (
            '{% include "modules/anchor.md" %}',
            "{{ nodes + 1 }}",
            "prompt own: can only concatenate list",
        ),
        ('{% include "modules/anchor.md" %}', "{{ 1 / 0 }}", "prompt own: division by zero"),
        ('{% include "modules/anchor.md" %}', "{% include edges %}", "own.md: only {% include"),
        (
            '{% include "modules/anchor.md" %}',
            "{{ nodes.__class__.__mro__ }}",
            "prompt own: access to attribute",
        ),
        ("{% block user %}", "stray {% block user %}", "own.md: text outside of the blocks"),
        ("{% block user %}", "{% block other %}", "own.md: needs the blocks system and user"),
    ],
)
def test_a_flaw_is_refused_with_file_and_place(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert GOOD.count(old) == 1
    assert expected in refusal(tmp_path, GOOD.replace(old, new))


def test_a_flaw_within_a_module_names_the_module_and_its_line(tmp_path: Path) -> None:
    own(tmp_path / "modules", "one\ntwo {% if %}\n", "task")
    assert "modules/task.md line 2:" in refusal(tmp_path, GOOD)


def test_a_prompt_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.md").write_bytes(b"---\nstep: \xff\n---\n")
    with pytest.raises(PromptError, match="not UTF-8 at byte 10"):
        load_prompt("own", tmp_path)


def test_a_circle_of_modules_is_refused(tmp_path: Path) -> None:
    own(tmp_path / "modules", '{% include "modules/final.md" %}', "task")
    own(tmp_path / "modules", '{% include "modules/task.md" %}', "final")
    assert "includes itself: own.md -> task.md -> final.md -> task.md" in refusal(tmp_path, GOOD)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{type: dance}", "type must be one of"),
        ("{type: array, items: {type: boolean}}", "needs maxItems"),
        ("{type: array, maxItems: 3, items: {type: array}}", "items: type must be one of"),
        ("{type: array, maxItems: 3, items: {type: object}}", "items needs properties"),
        ("{type: string}", "needs maxLength"),
        ("{type: string, maxLength: 10, minLength: 11}", "needs maxLength"),
        ("{type: string, maxLength: 10, pattern: a+}", "unknown key pattern"),
        ("{type: string, enum: [1, 2]}", "enum must be a list of strings"),
    ],
)
def test_a_schema_that_not_every_engine_can_enforce_is_refused(
    tmp_path: Path, field: str, expected: str
) -> None:
    text = "{type: string, maxLength: 9}"
    schema = (
        f"{{type: object, properties: {{question: {text}, answer: {text}, extra: {field}}}, "
        "required: [question, answer, extra], additionalProperties: false}"
    )
    assert expected in refusal(tmp_path, GOOD.replace("modules/schema_qa.yaml", schema))


def test_rendering_never_evaluates_what_a_variable_holds() -> None:
    prompt: Prompt = load_prompt("filter")
    for text in ("{{ 7 * 7 }}", "{% include 'modules/task.md' %}", "{# gone #}"):
        user = prompt.render(PAIR | {"question": text})[1]["content"]
        assert text in user


def test_modules_hold_no_prompt_twice() -> None:
    texts = [module_text(file.stem) for file in (shipped_prompts() / "modules").glob("*.md")]
    for one, other in itertools.permutations(texts, 2):
        assert one not in other or len(one) < 40


def test_the_text_that_a_run_keeps_is_the_same_prompt(tmp_path: Path) -> None:
    for name in SHIPPED:
        prompt = load_prompt(name)
        own(tmp_path, prompt.text, name)
        assert load_prompt(name, tmp_path) == prompt


def test_a_graph_of_another_field_is_not_asked_biomedical_questions() -> None:
    for name in SHIPPED:
        text = load_prompt(name, domain="general").text.split("---", 2)[2]
        found = [
            word
            for word in ("biomed", "clinic", "patient", "drug", "gene ", "disease")
            if word in text.lower()
        ]
        assert not found, name
        assert load_prompt(name, domain="general").sha256 != load_prompt(name).sha256


def test_a_domain_of_the_users_own_stands_in_the_own_folder(tmp_path: Path) -> None:
    words = (shipped_prompts() / "domains" / "general" / "words.yaml").read_text(encoding="utf-8")
    own(tmp_path / "domains" / "law", "", "x")
    (tmp_path / "domains" / "law" / "words.yaml").write_text(
        words.replace("pairs: question", "pairs: legal question")
    )
    assert "You write legal question-answer pairs." in load_prompt("p5", tmp_path, "law").system
    with pytest.raises(PromptError, match=r"prompts.domain lawn: no such domain, did you mean law\?"):
        load_prompt("p5", tmp_path, "lawn")


def test_a_word_that_the_domain_lacks_is_refused_with_the_nearest(tmp_path: Path) -> None:
    assert "domain.pear is no word of the domain, did you mean pair?" in refusal(
        tmp_path, GOOD.replace('{% include "modules/task.md" %}', "Write a {{ domain.pear }}.")
    )


@pytest.mark.parametrize("name", [name for name in SHIPPED if not name.startswith("demo")])
def test_the_longest_answer_that_a_schema_allows_fits_max_tokens(name: str) -> None:
    """At 3,398 characters for 748 tokens, as the published answers are (docs/prompts.md)."""
    prompt = load_prompt(name)
    size = 0
    for field, kind in prompt.schema["properties"].items():
        each = kind.get("maxLength", 5) if kind["type"] != "array" else 40 * kind["maxItems"]
        size += len(field) + 6 + each
    assert size / (3398 / 748) <= prompt.max_tokens
