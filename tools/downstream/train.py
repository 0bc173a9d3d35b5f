"""Fine-tune a BERT-class model on examples and test it: needs torch and transformers.

Synthetic items come first and real ones after them, as published, or mixed. `tiny` is a randomly initialised model of
two layers over the words of the data: it proves that the recipe runs, and learns next to nothing.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from data import DECISIONS, Example
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertTokenizerFast,
)

TINY = "tiny"
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@dataclass(frozen=True)
class Recipe:
    """How one model is trained. Published: MedQA 3e-5, batches of 64, 6 epochs; PubMedQA 2e-5, 16, 3 then 30."""

    model: str
    learning_rate: float
    batch: int
    epochs_synthetic: int
    epochs_real: int
    mixed: bool = False
    length: int = 512


def accuracy(
    recipe: Recipe, synthetic: Sequence[Example], real: Sequence[Example], test: Sequence[Example], seed: int
) -> float:
    """The share of test items that the trained model answers rightly."""
    torch.manual_seed(seed)
    tokenizer, model = _load(recipe.model, [*synthetic, *real, *test])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
    order = random.Random(seed)
    rounds = [(list(synthetic), recipe.epochs_synthetic), (list(real), recipe.epochs_real)]
    if recipe.mixed:
        rounds = [([*synthetic, *real], recipe.epochs_real)]
    for examples, epochs in rounds:
        for _ in range(epochs if examples else 0):
            order.shuffle(examples)
            _epoch(model, tokenizer, optimizer, examples, recipe, device)
    return _right(model, tokenizer, test, recipe, device) / len(test)


def _epoch(
    model: Any, tokenizer: Any, optimizer: Any, examples: Sequence[Example], recipe: Recipe, device: str
) -> None:
    model.train()
    for batch, labels in _batches(tokenizer, examples, recipe, device):
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def _right(model: Any, tokenizer: Any, examples: Sequence[Example], recipe: Recipe, device: str) -> int:
    model.eval()
    found = (
        int((model(**batch).logits.argmax(-1) == labels).sum())
        for batch, labels in _batches(tokenizer, examples, recipe, device)
    )
    return sum(found)


def _batches(
    tokenizer: Any, examples: Sequence[Example], recipe: Recipe, device: str
) -> Iterator[tuple[dict[str, Any], Any]]:
    for start in range(0, len(examples), recipe.batch):
        # A batch holds one number of choices: MedQA's own items have four options, ours five.
        part = sorted(examples[start : start + recipe.batch], key=_choices)
        for choices, alike in groupby(part, key=_choices):
            yield _encoded(tokenizer, list(alike), choices, recipe.length, device)


def _choices(example: Example) -> int:
    return len(example.pairs)


def _encoded(
    tokenizer: Any, examples: list[Example], choices: int, length: int, device: str
) -> tuple[dict[str, Any], Any]:
    pairs = [pair for example in examples for pair in example.pairs]
    first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    encoded = tokenizer(first, second, truncation=True, max_length=length, padding=True, return_tensors="pt")
    shape = (len(examples), choices, -1) if choices > 1 else (len(examples), -1)
    batch = {name: values.view(*shape).to(device) for name, values in encoded.items()}
    return batch, torch.tensor([example.label for example in examples], device=device)


def _load(name: str, examples: Sequence[Example]) -> tuple[Any, Any]:
    choice = len(examples[0].pairs) > 1
    if name == TINY:
        return _tiny(examples, choice)
    tokenizer = AutoTokenizer.from_pretrained(name)
    if choice:
        return tokenizer, AutoModelForMultipleChoice.from_pretrained(name)
    return tokenizer, AutoModelForSequenceClassification.from_pretrained(name, num_labels=len(DECISIONS))


def _tiny(examples: Sequence[Example], choice: bool) -> tuple[Any, Any]:
    texts = (text for example in examples for pair in example.pairs for text in pair)
    counts = Counter(word for text in texts for word in text.lower().split())
    letters = [chr(code) for code in range(33, 127)]
    words = dict.fromkeys([*_SPECIAL, *letters, *(f"##{one}" for one in letters), *sorted(counts)])
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocab.txt"
        vocabulary.write_text("\n".join(words) + "\n", encoding="utf-8")
        tokenizer = BertTokenizerFast(vocab=str(vocabulary), vocab_file=str(vocabulary))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        num_labels=len(DECISIONS),
    )
    return tokenizer, (BertForMultipleChoice if choice else BertForSequenceClassification)(config)
