"""Prompt modules: assembled, versioned, overridden, and refused with one clear line."""

import shutil

import pytest

from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts import files
from kgqa_hpc.prompts.files import shipped_prompts
from kgqa_hpc.prompts.prompt import load_prompt, try_prompt

KIND = GraphletAnchors()

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


def own(folder, text, name="own"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def refusal(folder, text):
    own(folder, text)
    with pytest.raises(PromptError) as caught:
        try_prompt(load_prompt("own", folder), "own.md", [KIND.variables(KIND.sample)])
    assert "\n" not in caught.value.message
    return caught.value.message


def test_the_version_follows_every_word_of_source_and_modules_but_not_line_ends(tmp_path):
    folder = own(tmp_path, GOOD)
    versions = [load_prompt("own", folder).sha256]
    (folder / "own.md").write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert load_prompt("own", folder).sha256 == versions[0]
    for text in ("Another task.", "Another task!"):
        own(folder / "modules", text, "task")
        versions.append(load_prompt("own", folder).sha256)
    own(folder, GOOD.replace("max_tokens: 100", "max_tokens: 101"))
    versions.append(load_prompt("own", folder).sha256)
    assert len(set(versions)) == 4


def test_a_users_folder_overrides_a_prompt_or_a_single_module_by_name(tmp_path):
    own(tmp_path / "prompt", GOOD, "p5")
    assert load_prompt("p5", tmp_path / "prompt").max_tokens == 100
    assert load_prompt("p4_5", tmp_path / "prompt") == load_prompt("p4_5")
    own(tmp_path / "module" / "modules", "Write a riddle.", "task")
    changed = load_prompt("p5", tmp_path / "module")
    assert changed.system.startswith("Write a riddle.")
    assert changed.system.endswith(load_prompt("p5").system[-500:])


def test_an_installed_package_finds_its_own_copy(tmp_path, monkeypatch):
    shutil.copytree(shipped_prompts(), tmp_path / "kgqa_hpc" / "_shipped" / "prompts")
    (tmp_path / "prompts").mkdir()  # of another package: without a pyproject.toml beside it not ours
    expected = load_prompt("p5")
    monkeypatch.setattr(files, "_PACKAGE", tmp_path / "kgqa_hpc")
    assert shipped_prompts() == tmp_path / "kgqa_hpc" / "_shipped" / "prompts"
    assert load_prompt("p5").sha256 == expected.sha256


TEXT = "{type: string, maxLength: 9}"


def with_schema(fields, required):
    """The source with a schema of these fields."""
    schema = f"{{type: object, properties: {{{fields}}}, {required}additionalProperties: false}}"
    return GOOD.replace("modules/schema_qa.yaml", schema)


def test_a_description_that_yaml_reads_as_a_date_is_a_text(tmp_path):
    fields = "answer: {type: string, maxLength: 9, description: 2026-11-28}"
    prompt = load_prompt("own", own(tmp_path, with_schema(fields, "required: [answer], ")))
    assert prompt.schema["properties"]["answer"]["description"] == "2026-11-28"


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(PromptError, match=r"prompt fliter: no such prompt, did you mean filter\?"):
        load_prompt("fliter")
    with pytest.raises(PromptError, match="no such folder"):
        load_prompt("p5", tmp_path / "nowhere")
    (tmp_path / "own.md").write_bytes(b"---\nstep: \xff\n---\n")
    with pytest.raises(PromptError, match="not UTF-8 at byte 10"):
        load_prompt("own", tmp_path)


TASK, FINAL, ANCHOR = (f'{{% include "modules/{name}.md" %}}' for name in ("task", "final", "anchor"))
TOKENS, SCHEMA = "max_tokens: 100", "modules/schema_qa.yaml"
OFTEN = "{% if nodes|length > 9 %}{{ edgs }}{% endif %}"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("step: generate", "stepp: generate", "own.md line 2: unknown key stepp, did you mean step?"),
        ("step: generate\n", "", "own.md line 1: the front matter lacks step"),
        (TOKENS, "max_tokens: many", "own.md line 4: max_tokens: must be a whole number"),
        (TOKENS, "max_tokens: 0", "own.md line 4: max_tokens: must be at least 1, not 0"),
        (TOKENS, "max_tokens: true", "own.md line 4: max_tokens: must be a whole number"),
        (TOKENS, f"{TOKENS}\ntemperature: hot", "own.md line 5: temperature: must be a number, not hot"),
        (TOKENS, f"{TOKENS}\nallow_cut: 1", "own.md line 5: allow_cut: must be true or false"),
        (TOKENS, "description: [a]\nmax_tokens: 1", "own.md line 4: description: must be a text"),
        (TOKENS, "max_tokens: 'a' 'b'", "own.md line 4: not YAML"),
        ("schema_qa", "schema_qq", "own.md line 3: modules/schema_qq.yaml does not exist, did you mean"),
        (SCHEMA, "{type: object}", "own.md line 3: schema needs properties"),
        (SCHEMA, "/etc/passwd", "own.md line 3: /etc/passwd does not exist"),
        (SCHEMA, "../x.yaml", "own.md line 3: ../x.yaml does not exist"),
        ("---\nstep", "step", "own.md line 1: no front matter"),
        ("100\n---", "100", "own.md line 1: the front matter is not closed"),
        ("modules/task.md", "modules/tusk.md", "own.md line 7: modules/tusk.md does not exist, did you mean"),
        ("modules/task.md", "own.md", "own.md: includes itself: own.md -> own.md"),
        (TASK, "{% inclood %}", "own.md line 7: Encountered unknown tag 'inclood'"),
        (TASK, "{{ 1|shout }}", "own.md line 7: No filter named 'shout'"),
        (TASK, "{{ nodes }}", "own.md: the system block uses nodes"),
        (TASK, "{{ lipsum() }}", "own.md line 7: nothing is called but range"),
        (ANCHOR, "{{ nods }}", "own.md line 10: 'nods' is undefined, did you mean nodes?"),
        (ANCHOR, OFTEN, "own.md line 10: 'edgs' is undefined, did you mean edges?"),
        (ANCHOR, "{{ question }}", "own.md line 10: 'question' is undefined"),
        (ANCHOR, "{{ nodes + 1 }}", "}}: can only concatenate list"),
        (ANCHOR, "{{ 1 / 0 }}", "}}: division by zero"),
        (ANCHOR, "{% include edges %}", "own.md line 10: another include than {% include"),
        (ANCHOR, "{{ nodes.__class__.__mro__ }}", "}}: access to attribute"),
        ("{% block user %}", "stray {% block user %}", "own.md: text outside of the blocks"),
        ("{% block user %}", "{% block other %}", "own.md: needs the blocks system and user"),
        (TASK, "Write a {{ domain.pear }}.", "domain.pear is no word of the domain, did you mean pair?"),
    ],
)
def test_a_flaw_is_refused_with_file_and_place(tmp_path, old, new, expected):
    assert GOOD.count(old) == 1
    assert expected in refusal(tmp_path, GOOD.replace(old, new))


def test_a_part_of_a_node_by_a_name_is_told_with_line_text_and_the_loop_that_works(tmp_path):
    loop = "{% for n in nodes %}\n- {{ n.name }}\n{% endfor %}"
    prompt = load_prompt("own", own(tmp_path, GOOD.replace(ANCHOR, loop)))
    line = (tmp_path / "own.md").read_text().split("\n").index("- {{ n.name }}") + 1
    with pytest.raises(PromptError) as caught:
        try_prompt(prompt, "step generate", [{"nodes": [(0, "aspirin", "drug")], "edges": []}])
    problem = f"own.md line {line}: - {{{{ n.name }}}}: 'tuple object' has no attribute 'name'"
    assert problem in caught.value.message
    assert "{% for number, name, type in nodes %}" in caught.value.cure


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ({"task": "one\ntwo {% if %}\n"}, "modules/task.md line 2:"),
        ({"task": FINAL, "final": TASK}, "includes itself: own.md -> task.md -> final.md -> task.md"),
    ],
)
def test_a_flaw_within_modules_names_them(tmp_path, modules, expected):
    for name, text in modules.items():
        own(tmp_path / "modules", text, name)
    assert expected in refusal(tmp_path, GOOD)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("{type: dance}", "type must be one of"),
        ("{type: array, items: {type: boolean}}", "needs maxItems"),
        ("{type: array, maxItems: 3, items: {type: array}}", "items: type must be one of"),
        ("{type: array, maxItems: 3, items: {type: object}}", "items needs properties"),
        ("{type: string}", "needs maxLength"),
        ("{type: string, maxLength: 10, minLength: 11}", "needs maxLength"),
        ("{type: string, maxLength: 10, pattern: a+}", "field extra: pattern must have the form ^(A|B)"),
        ("{type: string, maxLength: 10, pattern: 5}", "field extra: pattern must have the form ^(A|B)"),
        ("{type: string, maxLength: 6, pattern: '^Which .*[?]$'}", "pattern is longer than maxLength"),
        ("{type: string, pattern: '^.*[?]$'}", "needs maxLength"),
        ("{type: string, enum: [a], pattern: '^.*[?]$'}", "field extra: enum and pattern exclude each other"),
        ("{type: integer, pattern: '^.*[?]$'}", "unknown key pattern"),
        ("{type: string, enum: [1, 2]}", "enum must be a list of strings"),
        ("{type: integer, minimum: 5, maximum: 2}", "minimum not above maximum"),
        ("{type: integer, minimum: 3}", "two whole bounds at most 1,000 apart"),
        ("{type: number, minimum: 0.5, maximum: 1}", "two whole bounds at most 1,000 apart"),
        ("{type: number, minimum: low}", "minimum and maximum must be numbers"),
        ("{type: number, maximum: .inf}", "minimum and maximum must be numbers"),
    ],
)
def test_a_schema_that_not_every_engine_can_enforce_is_refused(tmp_path, field, expected):
    fields = f"question: {TEXT}, answer: {TEXT}, extra: {field}"
    text = with_schema(fields, "required: [question, answer, extra], ")
    assert expected in refusal(tmp_path, text)


@pytest.mark.parametrize("required", ["", "required: [question], ", "required: [answer, question], "])
def test_a_schema_must_require_all_its_fields_in_their_order(tmp_path, required):
    problem = refusal(tmp_path, with_schema(f"question: {TEXT}, answer: {TEXT}", required))
    assert "required must list all properties, in their order" in problem


def test_a_domain_of_the_users_own_stands_in_the_own_folder(tmp_path):
    words = (shipped_prompts() / "domains" / "general" / "words.yaml").read_text(encoding="utf-8")
    law = own(tmp_path / "domains" / "law", "", "x")
    (law / "words.yaml").write_text(words.replace("pairs: question", "pairs: legal question"))
    assert "You write legal question-answer pairs." in load_prompt("p5", tmp_path, "law").system
    with pytest.raises(PromptError, match=r"prompts.domain lawn: no such domain, did you mean law\?"):
        load_prompt("p5", tmp_path, "lawn")
