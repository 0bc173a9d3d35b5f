"""Items in LinkBERT's form, read and held against what a lost label would look like.

MedQA: sent1, ending0 …, label (a number). PubMedQA: sentence1, sentence2, label (yes, no, maybe). Both become an
`Example`: the texts among which, or of which, one label is right.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

DECISIONS = ("yes", "no", "maybe")
FEW = 100  # with fewer items, a missing label is not significant
LEAST = 0.3  # of its fair share that each place of the right option must have


@dataclass(frozen=True)
class Example:
    """`pairs`: one (first, second) text for each choice, or a single one; `label`: of the choices or classes."""

    pairs: tuple[tuple[str, str], ...]
    label: int


def read(path: Path, check: bool = True) -> list[Example]:
    """The items of a file. Raises ValueError naming the line, or the label that was lost."""
    examples = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            examples.append(_example(json.loads(line)))
        except (KeyError, ValueError, IndexError) as problem:
            raise ValueError(f"{path} line {number}: no item of MedQA or PubMedQA: {problem!r}") from None
    if not examples:
        raise ValueError(f"{path}: no items")
    if check:
        refuse_lost_labels(path.name, examples)
    return examples


def refuse_lost_labels(name: str, examples: list[Example]) -> None:
    """Raises ValueError when the right option hardly ever stands in one of its places.

    The published converter set the label for one of five letters only, and models trained on its items scored
    below chance. Options are shuffled here, so every place has about its share.
    """
    choices = len(examples[0].pairs)
    if choices == 1 or len(examples) < FEW:
        return
    counts = Counter(example.label for example in examples)
    fair = len(examples) / choices
    lost = [place for place in range(choices) if counts[place] < LEAST * fair]
    if lost:
        raise ValueError(
            f"{name}: of {len(examples)} items the right option stands {counts[lost[0]]} times in place {lost[0]}, "
            f"not about {fair:.0f} times: a label was lost"
        )


def _example(item: dict[str, object]) -> Example:
    if "sentence1" in item:
        return Example(
            ((str(item["sentence1"]), str(item["sentence2"])),), DECISIONS.index(str(item["label"]))
        )
    endings = [str(item[name]) for name in sorted(item) if name.startswith("ending")]
    label = item["label"]
    if not isinstance(label, int) or not 0 <= label < len(endings) or len(endings) < 2:
        raise ValueError(f"label {label!r} of {len(endings)} endings")
    return Example(tuple((str(item["sent1"]), ending) for ending in endings), label)
