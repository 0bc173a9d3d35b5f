"""Prompts from a template file of the published pipeline: `kgqa prompts import FILE [--step judge|score]`.

The file is a JSON object of texts, `{"0": "…", … "14": "…"}` for the 15 prompts of the ablation in their order
(BioGraphletQA, section 3.2.1; prompt_templates.json of its code), or a single text (.txt). Each becomes a prompt file
that sends the unchanged text, followed by the graphlet or the pair, as one user message, and reads the last JSON object
of the answer. A filter (Appendix D.3) asks for the two booleans of the step `judge`; a criterion (D.1) asks for one
boolean or integer of any name, which is the score.
"""

import json
import re
from pathlib import Path
from typing import Literal

import yaml

from kgqa_hpc.engines.grammar import reply_form
from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.text.streams import read_bytes

# The prompts of the ablation in their order.
PUBLISHED = (
    *("1_1", "1_2", "2_1", "2_2", "3_1", "3_2", "3_3", "3_4", "3_5"),
    *("4_1", "4_2", "4_3", "4_4", "4_5", "5"),
)
VERDICTS = ("valid_question", "original_answer_valid")  # fields that the step judge reads
LARGEST = 10_000_000  # largest size of a template file in bytes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,90}")
_CODE = re.compile(r"\{(?=[{%#])")
_HEAD = """---
description: Imported from {file}, entry {key}.
step: {step}
schema: {schema}
max_tokens: 1000
layout: one_message
read: last_object
attempts: 1
{rename}---
"""
_BLOCKS = """{{% block system %}}
{system}
{{% endblock %}}

{{% block user %}}
{user}
{{% endblock %}}
"""
_GRAPHLET, _PAIR = '{% include "published/modules/graphlet.md" %}', '{% include "modules/pair.md" %}'
_SCHEMAS = {"generate": "published/modules/schema_qa.yaml", "judge": "published/modules/schema_filter.yaml"}
_STRING = {"type": "string", "minLength": 0, "maxLength": 20_000}
Kind = Literal["generate", "judge", "score"]


def import_templates(file: Path, folder: Path, step: Kind = "generate") -> list[Path]:
    """Write one prompt file for each text of `file` into `folder`; returns their paths, in the file's order.

    Template code in the texts is not executed but sent literally. Raises InputError, before any file is written, for a
    `file` that is no object of texts, or for an existing prompt file with another text.
    """
    texts, prompts = _texts(file), dict[Path, bytes]()
    published = step == "generate" and list(texts) == [str(number) for number in range(len(PUBLISHED))]
    for number, (key, text) in enumerate(texts.items()):
        name = f"published_p{PUBLISHED[number]}" if published else key
        if not _NAME.fullmatch(name):
            raise InputError(f"{file}: {key[:40]!r} cannot be a prompt's name", "use letters, digits, _ . -")
        # YAML would read the names 1.1 and `no` in a configuration as a number and a boolean.
        name = name if isinstance(yaml.safe_load(name), str) else f"template_{name}"
        schema, rename, variables = _reading(f"{file}: {key}", step, text)
        source = json.dumps(file.name)[1:-1].replace(":", " ")
        head = _HEAD.format(file=source, key=key, step=step, schema=schema, rename=rename)
        literal = _CODE.sub('{{ "{" }}', text)  # opening braces of template code are printed literally
        path = folder / f"{name}.md"
        prompts[path] = (head + _BLOCKS.format(system=literal, user=variables)).encode()
        if path.exists() and read_bytes(path) != prompts[path]:
            raise InputError(f"{path} is there already and differs", "choose another folder with --to")
    make_folder(folder)
    for path, prompt in prompts.items():
        write_file(path, prompt)
        load_prompt(path.stem, folder)
    return list(prompts)


def _reading(location: str, step: Kind, text: str) -> tuple[str, str, str]:
    """Schema, line `rename` and user block of the prompt for a template `text`.

    Raises InputError for a text that asks for other fields.
    """
    if step == "generate":
        return _SCHEMAS[step], "", _GRAPHLET
    form = reply_form(text) or {}
    if step == "judge":
        if lost := [name for name in VERDICTS if name not in text]:
            raise InputError(f"{location}: does not ask for {lost[0]}", "is it a criterion? --step score")
        return _SCHEMAS[step], "", _PAIR
    scores = [name for name, kind in form.items() if kind != "string"]
    if len(scores) != 1:
        raise InputError(
            f"{location}: shows no form of a reply with one true/false or number",
            'such as {"score": true/false}',
        )
    fields = {name: _STRING if kind == "string" else {"type": kind} for name, kind in form.items()}
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    rename = "" if scores[0] == "score" else f"rename: {{{scores[0]}: score}}\n"
    # Every criterion sees the pair, as in the paper's code, also where its text speaks of one half alone.
    return json.dumps(schema), rename, _PAIR


def _texts(file: Path) -> dict[str, str]:
    try:
        if file.stat().st_size > LARGEST:
            raise InputError(f"{file}: is larger than {LARGEST:,} bytes", "is it the template file?")
        text = read_bytes(file).decode("utf-8-sig")
        data = {file.stem: text} if file.suffix == ".txt" else json.loads(text)
    except OSError as problem:
        raise InputError(f"{file}: {problem.strerror}", "name the JSON file with the templates") from None
    except (ValueError, RecursionError):
        cure = 'it is an object of texts: {"0": "…", "1": "…"}, or a single text in a .txt'
        raise InputError(f"{file}: is not JSON", cure) from None
    if not isinstance(data, dict) or not data or not all(isinstance(value, str) for value in data.values()):
        raise InputError(f"{file}: is no object of texts", 'it looks like {"0": "…", "1": "…"}')
    if empty := [key for key, text in data.items() if not text.strip()]:
        raise InputError(f"{file}: the text of {empty[0]!r} is empty", "remove it")
    return data
