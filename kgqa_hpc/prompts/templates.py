"""Prompts from a template file of the published pipeline: `kgqa prompts import FILE`.

The file is a JSON object of texts, `{"0": "…", … "14": "…"}` for the 15 prompts of the ablation in their order
(BioGraphletQA, section 3.2.1; prompt_templates.json of its code). Each becomes a prompt file that sends the
text as it is, the graphlet behind it, as one user message, and takes the last JSON object of the answer.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from kgqa_hpc.errors import InputError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.store.atomic import make_folder, write_file

# The prompts of the ablation in their order.
PUBLISHED = (
    "1_1",
    "1_2",
    "2_1",
    "2_2",
    "3_1",
    "3_2",
    "3_3",
    "3_4",
    "3_5",
    "4_1",
    "4_2",
    "4_3",
    "4_4",
    "4_5",
    "5",
)
LARGEST = 10_000_000  # bytes of a template file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,90}")
_CODE = re.compile(r"\{(?=[{%#])")
_HEAD = """---
description: Imported from {file}, entry {key}.
step: generate
schema: published/modules/schema_qa.yaml
max_tokens: 1000
layout: one_message
read: last_object
attempts: 1
---
"""


def import_templates(file: Path, folder: Path) -> list[Path]:
    """Write one prompt file for each text of `file` into `folder`; returns their paths, in the file's order.

    Texts are data: what looks like template code in them is sent as it stands. Raises InputError for a file
    that is no such object, or a prompt that is there already with another text; then nothing is written.
    """
    prompts = {folder / f"{name}.md": text for name, text in _prompts(file).items()}
    for path, text in prompts.items():
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise InputError(f"{path} is there already and differs", "choose another folder with --to")
    make_folder(folder)
    for path, text in prompts.items():
        write_file(path, text.encode())
        load_prompt(path.stem, folder)
    return list(prompts)


def _prompts(file: Path) -> dict[str, str]:
    texts = _texts(file)
    published = list(texts) == [str(number) for number in range(len(PUBLISHED))]
    found: dict[str, str] = {}
    for number, (key, text) in enumerate(texts.items()):
        name = f"published_p{PUBLISHED[number]}" if published else key
        name = f"template_{name}" if name.isdecimal() else name
        if not _NAME.fullmatch(name):
            raise InputError(f"{file}: {key[:40]!r} cannot be a prompt's name", "use letters, digits, _ . -")
        head = _HEAD.format(file=json.dumps(file.name)[1:-1].replace(":", " "), key=key)
        found[name] = f"{head}{{% block system %}}\n{_plain(text)}\n{{% endblock %}}\n\n{_ITEM}"
    return found


_ITEM = '{% block user %}\n{% include "published/modules/graphlet.md" %}\n{% endblock %}\n'


def _plain(text: str) -> str:
    """The text with every opening of template code written as a string that prints it."""
    return _CODE.sub('{{ "{" }}', text)


def _texts(file: Path) -> dict[str, str]:
    try:
        if file.stat().st_size > LARGEST:
            raise InputError(f"{file}: is larger than {LARGEST:,} bytes", "is it the template file?")
        data = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise InputError(f"{file}: {problem.strerror}", "name the JSON file with the templates") from None
    except (ValueError, RecursionError):
        raise InputError(f"{file}: is not JSON", 'it is an object of texts: {"0": "…", "1": "…"}') from None
    if not isinstance(data, dict) or not data or not all(isinstance(one, str) for one in data.values()):
        raise InputError(f"{file}: is no object of texts", 'it looks like {"0": "…", "1": "…"}')
    if empty := [key for key, text in data.items() if not text.strip()]:
        raise InputError(f"{file}: the text of {empty[0]!r} is empty", "remove it")
    return data
