#!/usr/bin/env python3
"""Run a prompt study with known true means: python tools/planted_study.py FOLDER [--anchors 1000]

The study has fifteen prompts and six criteria. The judge of the scripted engine accepts each criterion for a planted
share of a prompt's pairs, a sixth of the prompt's mean. The means are the published ones (BioGraphletQA, section 4.1),
but prompt 4.5 has the mean of prompt 5. Everything else is an ordinary `kgqa study`. Prints planted and measured means,
time and memory. tests/plugins/evaluation/test_study.py does a smaller one.
"""

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

from kgqa_hpc.plugins.evaluation.study import render, study

# Published means of the 15 prompts; 4.5 would be 4.79.
MEANS = {
    "p1_1": 3.45,
    "p1_2": 3.94,
    "p2_1": 3.94,
    "p2_2": 4.39,
    "p3_1": 4.43,
    "p3_2": 3.96,
    "p3_3": 4.37,
    "p3_4": 4.25,
    "p3_5": 4.40,
    "p4_1": 3.43,
    "p4_2": 4.40,
    "p4_3": 4.68,
    "p4_4": 4.71,
    "p4_5": 4.91,
    "p5": 4.91,
}
# The criteria of 3.2.1, and whether a true verdict is bad.
CRITERIA = {
    "answer_in_question": True,
    "question_graph_terms": True,
    "answer_graph_terms": True,
    "question_accurate": False,
    "answer_accurate": False,
    "answers_question": False,
}
WRITER = """---
step: generate
schema:
  type: object
  properties: {{question: {{type: string, maxLength: 300}}, answer: {{type: string, maxLength: 300}}}}
  required: [question, answer]
  additionalProperties: false
max_tokens: 300
---
{{% block system %}}Write a question and its answer.{{% endblock %}}
{{% block user %}}
- 0: Prompt {name} wrote this
About {{{{ nodes }}}}
{{% endblock %}}
"""
JUDGE = """---
step: score
schema:
  type: object
  properties: {{score: {{type: boolean}}}}
  required: [score]
  additionalProperties: false
max_tokens: 50
attempts: 1
---
{{% block system %}}Criterion {name}.{{% endblock %}}
{{% block user %}}{{{{ question }}}} {{{{ answer }}}}{{% endblock %}}
"""


def write_config(folder: Path, means: dict[str, float], anchors: int, garbage: float = 0.005) -> Path:
    """A study over `anchors` records; each pair names the prompt that wrote it."""
    prompts = folder / "prompts"
    prompts.mkdir(parents=True)
    for name in means:
        (prompts / f"{name}.md").write_text(WRITER.format(name=name), encoding="utf-8")
    for label in CRITERIA:
        (prompts / f"{label}.md").write_text(JUDGE.format(name=label), encoding="utf-8")
    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for n in range(anchors):
            nodes = [{"id": f"n{n}", "name": f"Node {n}", "type": "Gene"}]
            file.write(json.dumps({"id": f"r{n:05}", "group": "all", "nodes": nodes}) + "\n")
    planted = [
        {
            "holds": [f"Criterion {label}.", f"Prompt {name} wrote"],
            "accept": 1 - mean / 6 if bad else mean / 6,
        }
        for name, mean in means.items()
        for label, bad in CRITERIA.items()
    ]
    scores = [
        {"use": "score", "as": label, "prompt": label, "inverted": bad, "unreadable": 0}
        for label, bad in CRITERIA.items()
    ]
    document: dict[str, Any] = {
        "anchors": {"kind": "records", "from": "records.jsonl"},
        "prompts": {"folder": "prompts"},
        "engine": {"kind": "scripted", "planted": planted, "faults": {"garbage": garbage}},
        "variants": {"prompt": list(means)},
        "passes": [{"name": "main", "steps": ["generate", *scores]}],
        "runtime": {"shard_size": 500, "attempts": 1},
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--anchors", type=int, default=1000)
    arguments = parser.parse_args()
    config = write_config(arguments.folder, MEANS, arguments.anchors)
    began = time.monotonic()
    document = study(config, arguments.folder / "run")
    seconds = time.monotonic() - began
    print(render(document))
    for row in document["variants"]:
        print(f"{row['variant']:<6} planted {MEANS[row['variant']]:.2f}, found {row['mean']:.2f}")
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in usage)
    peak = max(one.ru_maxrss for one in usage) / 1024
    print(f"{seconds:.0f} s, {cpu:.0f} s of CPU, largest process {peak:.0f} MiB")


if __name__ == "__main__":
    main()
