"""Prompt files that are bombs: each is refused in one line and in bounded time, up to the limits of their size."""

from pathlib import Path

import pytest

from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.files import LARGEST
from kgqa_hpc.prompts.prompt import load_prompt, try_prompt
from kgqa_hpc.prompts.template_language import LONGEST_SOURCE, MOST_STEPS
from tests.foreign.watchdog import watched

KIND = GraphletAnchors()
HEAD = "step: generate\nschema: modules/schema_qa.yaml\nmax_tokens: 100\n"
ALIASES = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}]\n" for n in range(5))

HEADS = {
    "aliases that multiply": (ALIASES, "aliases"),
    "a circle": ("schema: &s\n  properties: *s\n", "aliases"),
    "20,000 brackets": (f"description: {'[' * 20_000}\n", "levels deep"),
    "20,000 braces": (f"description: {'{a: ' * 20_000}\n", "levels deep"),
    "a key that stands twice": ("max_tokens: 1\n", "stands twice"),
    "a number of a million digits": (f"max_tokens: {'9' * 200_000}\n", ""),
    "a megabyte": (f"description: {'x' * 1_000_000}\n", "larger than"),
}
TEMPLATES = {
    "a power": "{{ 10**10**10 }}",
    "a text a billion times": "{{ 'x' * 1000000000 }}",
    "a list a billion times": "{{ [0] * 1000000000 }}",
    "a format with a width": "{{ '%1000000000d' % 1 }}",
    "a filter with a width": "{{ 'x'|center(1000000000) }}",
    "an indent": "{{ 'x\ny'|indent(1000000000) }}",
    "batches": "{{ nodes|batch(1000000000, 'x')|list }}",
    "a method": "{{ 'x'.ljust(1000000000) }}",
    "a loop in a loop": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops over a text": "".join(f"{{% for a{n} in '{'x' * 500}' %}}" for n in range(6)) + "{% endfor %}" * 6,
    "a loop with a long body": "{% for a in range(99999) %}" + "{{ '' }}" * 3_000 + "{% endfor %}",
    "a loop that sorts": "{% for a in range(99999) %}{{ '" + "x" * 99_000 + "'|sort|length }}{% endfor %}",
    "a list of a range": "{% for a in range(99999) %}{{ range(99999)|list|length }}{% endfor %}",
    "a text that is put between itself": "{{ 'x" + ("x" * 9_000 + "'|join('") * 4 + "') }}",
    "a loop that prints": "{% for a in range(9999) %}" + "x" * 9_000 + "{% endfor %}",
    "quotes that are quoted": "{{ '" + "\\\\" * 50 + "'" + "|tojson" * 60 + " }}",
    "sets that double": "{% set a = 'xxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "a list of itself": "{% set a = [1] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
    "a block that is kept": "{% set a %}x{% endset %}"
    + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40
    + "{{ a }}",
    "a macro of itself": "{% macro f(n) %}{{ f(n - 1) }}{{ f(n - 1) }}{% endmacro %}{{ f(40) }}",
    "a recursive loop": "{% for a in [[1]] recursive %}{{ loop([a, a]) }}{% endfor %}",
    "a with": "{% with a = 'x' %}{{ a }}{% endwith %}",
    "a filter block": "{% filter upper %}x{% endfilter %}",
    "parentheses": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "brackets": "{{ " + "[" * 50_000 + "]" * 50_000 + " }}",
    "negations": "{{ " + "not " * 30_000 + "1 }}",
    "a sum of 30,000": "{{ 1" + " + 1" * 30_000 + " }}",
    "thirty loops": "{% for a in nodes %}" * 30 + "{% endfor %}" * 30,
    "a number of 5,000 digits": "{{ " + "9" * 5_000 + " }}",
    "openings": "{{" * 100_000,
    "tags": "{% if 1 %}" * 20_000,
    "comments": "{#" * 100_000,
    "raw text that never ends": "{% raw %}" + "{{" * 50_000,
}


def refusal(folder: Path, text: str) -> str:
    (folder / "own.md").write_text(text, encoding="utf-8")
    with watched(text), pytest.raises(PromptError) as caught:
        try_prompt(load_prompt("own", folder), "own.md", [KIND.variables(KIND.sample)])
    assert len(caught.value.message) < 1_000
    assert "\n" not in caught.value.message
    return caught.value.message


def prompt(user: str, system: str = "Be kind.", head: str = "") -> str:
    blocks = f"{{% block system %}}{system}{{% endblock %}}\n{{% block user %}}{user}{{% endblock %}}\n"
    return f"---\n{HEAD}{head}---\n{blocks}"


@pytest.mark.parametrize("name", HEADS)
def test_a_hostile_head_is_refused_before_anything_is_built(tmp_path: Path, name: str) -> None:
    more, expected = HEADS[name]
    assert expected in refusal(tmp_path, prompt("x", head=more))


@pytest.mark.parametrize("name", HEADS)
def test_a_hostile_schema_or_list_of_words_is_refused_too(tmp_path: Path, name: str) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "schema_qa.yaml").write_text("max_tokens: 2\n" + HEADS[name][0])
    refusal(tmp_path, prompt("x"))
    (tmp_path / "modules" / "schema_qa.yaml").unlink()
    (tmp_path / "words.yaml").write_text("max_tokens: 2\n" + HEADS[name][0])
    refusal(tmp_path, prompt("{{ domain.expert }}"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_that_is_a_bomb_is_refused(tmp_path: Path, name: str) -> None:
    refusal(tmp_path, prompt(TEMPLATES[name]))


@pytest.mark.parametrize(
    "name", ["a power", "a text a billion times", "a loop in a loop", "a list of a range"]
)
def test_the_constant_block_is_no_way_around_it(tmp_path: Path, name: str) -> None:
    refusal(tmp_path, prompt("x", TEMPLATES[name]))


def test_modules_that_multiply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    for level in range(7):
        below = f'{{% include "modules/m{level + 1}.md" %}}\n' * 50 if level < 6 else "x"
        (tmp_path / "modules" / f"m{level}.md").write_text(below)
    assert f"{LONGEST_SOURCE:,} characters" in refusal(tmp_path, prompt('{% include "modules/m0.md" %}'))


def test_a_prompt_file_larger_than_any_is_refused(tmp_path: Path) -> None:
    assert "larger than" in refusal(tmp_path, prompt("x" * LARGEST))


def test_what_a_prompt_of_a_user_needs_stays_possible(tmp_path: Path) -> None:
    user = (
        "{% for number, name, type in nodes if type %}{{ loop.index }}{% if not loop.last %},{% endif %}"
        "{% else %}none{% endfor %}{{ nodes|map(attribute=1)|join('; ')|upper|truncate(20) }}"
        "{{ nodes[0][1] ~ '!' }}{{ nodes|length * 2 % 3 }}{{ range(3)|list|join(d='-') }}"
        "{{ missing|default('d') }}{{ nodes[:2]|tojson }}{{ 'a' if edges else 'b' }}"
    )
    (tmp_path / "own.md").write_text(prompt(user))
    variables = {**KIND.variables(KIND.sample), "missing": None}
    shown = load_prompt("own", tmp_path).render(variables)[1]["content"]
    assert shown.startswith("1,2,")
    assert "0-1-2" in shown


def test_the_steps_are_counted_for_each_item_anew(tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text(prompt("{% for a in text %}{{ a }}{% endfor %}"))
    own = load_prompt("own", tmp_path)
    for _ in range(3):
        own.render({"text": "x" * (MOST_STEPS // 4)})
    with pytest.raises(PromptError, match=f"more than {MOST_STEPS:,} steps"):
        own.render({"text": "x" * MOST_STEPS})
