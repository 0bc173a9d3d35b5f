"""28,000 outputs of a model that went wrong in every way we know: never a crash, never a wrong field.

Each case starts from a pair that is known, writes it as JSON, and damages or surrounds it. What may come out
is told by the kind of damage: the pair itself, or a reason. Decoys carry a mark, and no field may hold it.
"""

import json
import os
import random
import re
from collections import Counter

import pytest

from kgqa_hpc.steps.answer_json import REASONS, Unparseable, parse_json

CASES = 28_000  # 1,000 of each kind of damage
TEXT = {"type": "string", "minLength": 2, "maxLength": 400}
FIELDS = {"question": TEXT, "answer": TEXT, "valid": {"type": "boolean"}}
DECOY = "EVIL"
WORDS = ["iron", "β-catenin", "TP53", "p < 0.05", "5'-end", "the", "liver", "1,000", "症候群", "\\frac", "é"]
FRAGMENTS = [
    *("\"'{}[],:\n\t\\"),
    *("```", "</think>", "<think>", "question", "answer", '", "answer": "', '{"question": "', '"}', "null"),
    *("true", "{{ x }}", "//", "/*", "🧬", "\u2028", "“", "”"),
]


def sentence(rng, odd):
    parts = [rng.choice(FRAGMENTS if rng.random() < odd else WORDS) for _ in range(rng.randint(3, 12))]
    return ("x" + " ".join(parts) + "x").strip()


def random_pair(rng):
    odd = rng.choice([0.0, 0.0, 0.2, 0.6])
    return {"question": sentence(rng, odd), "answer": sentence(rng, odd), "valid": rng.random() < 0.5}


def rival(rng):
    texts = {name: f"{DECOY} {sentence(rng, 0)}" for name in ("question", "answer")}
    return json.dumps({**texts, "valid": True})


def decoy(rng):
    """A rival as it is, or as it looks within a string."""
    return rival(rng) if rng.random() < 0.7 else json.dumps(rival(rng))[1:-1]


# Text around an answer, and flaws in it, that do not change the pair.
KEEPING = {
    "nothing": lambda rng, text: text,
    "fence": lambda rng, text: f"```json\n{text}\n```",
    "prose": lambda rng, text: f"Sure! Here it is:\n{text}\nDo you need more?",
    "thought": lambda rng, text: f"<think>Perhaps {decoy(rng)}\nor not.</think>\n{text}",
    "headless thought": lambda rng, text: f"Perhaps {decoy(rng)} or not.\n</think>\n{text}",
    "thought in a fence": lambda rng, text: f"<think>{decoy(rng)}</think>```json\n{text}\n```",
    "trailing comma": lambda rng, text: text[:-1] + ",}",
    "extra field": lambda rng, text: text[:-1] + ', "note": "x"}',
    "python literals": lambda rng, text: re.sub(r"(true|false)}$", lambda m: m[1].title() + "}", text),
    "twice": lambda rng, text: f"{text}\n{text}",
    "raw line break": lambda rng, text: text.replace("\\n", "\n"),
}
# Damage after which only a reason may come out, or the pair itself where the damage happened to do nothing.
SPOILING = {
    "cut": lambda rng, text: text[: rng.randrange(1, len(text))],
    "decoy after": lambda rng, text: f"{text} {decoy(rng)}",
    "decoy before": lambda rng, text: f"{decoy(rng)} {text}",
    "rival after": lambda rng, text: f"{text} {rival(rng)}",
    "rival before": lambda rng, text: f"{rival(rng)} {text}",
    "decoy within": lambda rng, text: inserted(rng, text, decoy(rng)),
    "field twice": lambda rng, text: f'{text[:-1]}, "answer": "{DECOY}"}}',
    "field first": lambda rng, text: f'{{"question": "{DECOY}", {text[1:]}',
    "not a number": lambda rng, text: re.sub(
        "(true|false)}$", rng.choice(["NaN}", "Infinity}", "1e999}"]), text
    ),
    "lone surrogate": lambda rng, text: inserted(rng, text, rng.choice(["\ud800", "\udfff"])),
    "nested": lambda rng, text: '{"a":' * rng.choice([3, 50, 3000]) + text,
    "unescaped": lambda rng, text: text.replace('\\"', '"'),
    "single quotes": lambda rng, text: text.replace('"', "'"),
    "bare keys": lambda rng, text: re.sub(r'"(question|answer|valid)":', r"\1:", text),
}
# Damage of a character or a few: each field may differ from the true one by those and no more.
NUDGING = {
    "deleted": lambda rng, text: replaced(rng, text, ""),
    "replaced": lambda rng, text: replaced(rng, text, rng.choice('"\\{}:,x')),
    "inserted": lambda rng, text: inserted(rng, text, rng.choice("\"\\{}:,'\x00\n")),
}


def inserted(rng, text, what):
    at = rng.randrange(len(text) + 1)
    return text[:at] + what + text[at:]


def replaced(rng, text, what):
    at = rng.randrange(len(text))
    return text[:at] + what + text[at + 1 :]


def plain(text):
    """Without what mending may change: white space at line breaks, kinds of quotation marks, escapes."""
    return re.sub(r"[\s\"'“”‘’\\]+", "", str(text))


def shared(a, b):
    """How many characters both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def ends_in_common(a, b):
    """Characters that both begin with plus those that the rests end with."""
    head = shared(a, b)
    return head + shared(a[head:][::-1], b[head:][::-1])


def nearly(one, other, slack):
    a, b = plain(one), plain(other)
    return max(len(a), len(b)) - ends_in_common(a, b) <= slack


def surrounds(longer, shorter):
    a, b = plain(longer), plain(shorter)
    return ends_in_common(a, b) == len(b)


def check(text, pair, kind):
    """The reason, or 'read'. Fails on anything wrong."""
    try:
        value = parse_json(text, FIELDS).value
    except Unparseable as problem:
        beginning, colon, _ = problem.reason.partition(":")
        assert beginning + colon in REASONS, problem.reason
        return problem.reason
    assert list(value) == ["question", "answer", "valid"], text
    assert value["valid"] is pair["valid"], text
    for name in ("question", "answer"):
        entry = value[name]
        assert isinstance(entry, str)
        entry.encode("utf-8")
        if kind == "decoy within" and DECOY in entry:
            # A decoy that fell into a string, escaped as JSON wants it, belongs to it; the rest is there.
            assert surrounds(entry, pair[name]), text
            continue
        assert DECOY not in entry, text
        if kind in NUDGING:
            assert nearly(entry, pair[name], 8), text
        else:
            assert plain(entry) == plain(pair[name]), text
    return "read"


@pytest.mark.slow
def test_damaged_outputs_give_the_right_fields_or_a_reason():
    seed = int(os.environ.get("KGQA_FUZZ_SEED", "1"))
    print(f"seed {seed}")
    rng = random.Random(seed)
    damages = [*KEEPING.items(), *SPOILING.items(), *NUDGING.items()]
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind, _ in damages}
    for number in range(CASES):
        kind, damage = damages[number % len(damages)]
        pair = random_pair(rng)
        text = damage(rng, json.dumps(pair, ensure_ascii=rng.random() < 0.5))
        outcomes[kind][check(text, pair, kind)] += 1
    for kind, counts in outcomes.items():
        print(f"{kind:20} {dict(counts.most_common(5))}")
    for kind in ("nothing", "fence", "thought", "thought in a fence", "extra field", "twice"):
        assert set(outcomes[kind]) == {"read"}, kind
    for kind in ("rival after", "rival before", "cut", "field twice", "field first", "not a number"):
        assert outcomes[kind]["read"] == 0, kind
