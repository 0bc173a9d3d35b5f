"""Entries of your own: `plugins: [my_steps.py]` in the configuration brings them (docs/guide/extending.md)."""

import kgqa_hpc


@kgqa_hpc.step(needs=("question",), columns={"words": "int64"})
def question_length(item):
    """Words of the question."""
    words = len(item.output["question"].split())
    return {"words": words} if words > 2 else kgqa_hpc.Reject("shorter than three words")
