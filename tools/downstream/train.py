"""Fine-tune a BERT-class model on examples and test it: needs torch and transformers.

AdamW, linear warm-up and decay, gradients of several passes summed to a step, passes in 16 bits where asked for.
`tiny` is a randomly initialised model of two layers over the words of the data: it proves that the recipe runs, and
learns next to nothing.
"""

import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from data import DECISIONS, Example
from recipe import Memory, Recipe, memory
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertTokenizerFast,
    get_linear_schedule_with_warmup,
)

TINY = "tiny"
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Trainee:
    """A model with its tokenizer. `vocabulary`: the examples whose words a tiny model knows."""

    def __init__(self, recipe: Recipe, vocabulary: Sequence[Example], seed: int) -> None:
        torch.manual_seed(seed)
        self.recipe = recipe
        self.tokenizer, self.model = _load(recipe.model, vocabulary)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model.to(self.device)

    def memory(self, examples: Sequence[Example]) -> Memory:
        """Estimated from the longest texts of `examples`."""
        pairs = sorted(
            (pair for one in examples for pair in one.pairs), key=lambda pair: -sum(map(len, pair))
        )
        first, second = zip(*pairs[:100], strict=True)
        encoded = self.tokenizer(list(first), list(second), truncation=True, max_length=self.recipe.length)
        tokens = max(map(len, encoded["input_ids"]))
        parameters = sum(weight.numel() for weight in self.model.parameters())
        return memory(self.recipe, parameters, self.model.config, max(map(_choices, examples)), tokens)

    def card(self) -> str:
        """The GPU's memory as text, or a note that there is no GPU."""
        if self.device == "cpu":
            return "no card here"
        return f"this card has {torch.cuda.get_device_properties(0).total_memory / 1e9:.1f} GB"

    def train(self, examples: Sequence[Example], epochs: int, seed: int) -> int:
        """One stage, with an optimizer and a schedule of its own; returns the steps of the optimizer."""
        if not examples or not epochs:
            return 0
        torch.manual_seed(seed)
        recipe, order, shuffled = self.recipe, random.Random(seed), list(examples)
        optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=recipe.learning_rate,
            betas=recipe.betas,
            eps=recipe.epsilon,
            weight_decay=recipe.weight_decay,
        )
        steps = epochs * math.ceil(len(shuffled) / (recipe.batch * recipe.accumulate))
        schedule = get_linear_schedule_with_warmup(optimizer, recipe.warmup, steps)
        scaler = torch.amp.GradScaler(self.device, enabled=recipe.precision == "fp16")
        self.model.train()
        for _ in range(epochs):
            order.shuffle(shuffled)
            for start in range(0, len(shuffled), recipe.batch * recipe.accumulate):
                self._step(shuffled[start : start + recipe.batch * recipe.accumulate], optimizer, scaler)
                schedule.step()
        return steps

    def _step(self, examples: Sequence[Example], optimizer: Any, scaler: Any) -> None:
        """One optimizer step, in which all items have the same weight, in whichever pass they are."""
        for batch, labels in self._batches(examples):
            with self._cast():
                loss = self.model(**batch, labels=labels).loss * (len(labels) / len(examples))
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    @torch.no_grad()
    def accuracy(self, test: Sequence[Example]) -> float:
        """The share of test items that the model answers rightly."""
        self.model.eval()
        right = 0
        for batch, labels in self._batches(test):
            with self._cast():
                right += int((self.model(**batch).logits.argmax(-1) == labels).sum())
        return right / len(test)

    def state(self) -> dict[str, Any]:
        """The weights, on the CPU."""
        return {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state)

    def _cast(self) -> Any:
        kind = _TYPES.get(self.recipe.precision)
        return torch.autocast(self.device, dtype=kind, enabled=kind is not None)

    def _batches(self, examples: Sequence[Example]) -> Iterator[tuple[dict[str, Any], Any]]:
        for start in range(0, len(examples), self.recipe.batch):
            # A batch holds one number of choices: MedQA's own items have four options, ours five.
            part = sorted(examples[start : start + self.recipe.batch], key=_choices)
            for choices, alike in groupby(part, key=_choices):
                yield self._encoded(list(alike), choices)

    def _encoded(self, examples: list[Example], choices: int) -> tuple[dict[str, Any], Any]:
        pairs = [pair for example in examples for pair in example.pairs]
        first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        encoded = self.tokenizer(
            first, second, truncation=True, max_length=self.recipe.length, padding=True, return_tensors="pt"
        )
        shape = (len(examples), choices, -1) if choices > 1 else (len(examples), -1)
        batch = {name: values.view(*shape).to(self.device) for name, values in encoded.items()}
        return batch, torch.tensor([example.label for example in examples], device=self.device)


def _choices(example: Example) -> int:
    return len(example.pairs)


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
