"""How a model is trained: the settings, the published presets, and the memory that they need."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

GB = 1e9
# Kept of a transformer layer for the backward pass, at 16 bits: 34 bytes for each token and unit of width, 5 for each
# head and pair of tokens (Korthikanti et al. 2022, equation 2).
LINEAR, ATTENTION = 34, 5
TRAINED = 16  # bytes a parameter: weight, gradient and two moments of AdamW, 4 bytes each


@dataclass(frozen=True)
class Recipe:
    """One way to train: synthetic items first, then real ones (or both mixed), each stage with its own schedule."""

    model: str
    learning_rate: float
    batch: int  # items in one pass
    accumulate: int  # passes to one step of the optimizer
    epochs_synthetic: int
    epochs: int
    warmup: int  # steps up to the full learning rate, which then falls linearly to 0
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    precision: str = "fp32"  # fp16 or bf16: passes in 16 bits, weights in 32
    mixed: bool = False
    length: int = 512  # tokens of a text


# BioGraphletQA: rates, batches and epochs of its text; optimizer, warm-up and precision of its code.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "medqa": {
        "learning_rate": 3e-5,
        "batch": 2,
        "accumulate": 32,
        "epochs_synthetic": 6,
        "epochs": 6,
        "warmup": 500,
        "precision": "fp16",
    },
    "pubmedqa": {
        "learning_rate": 2e-5,
        "batch": 16,
        "accumulate": 1,
        "epochs_synthetic": 3,
        "epochs": 30,
        "warmup": 100,
        "precision": "fp16",
    },
}
NAMES = tuple(field.name for field in fields(Recipe))


@dataclass(frozen=True)
class Memory:
    """Estimated bytes that training takes at most, by what they hold."""

    trained: float  # weights, gradients, moments
    activations: float

    @property
    def total(self) -> float:
        return self.trained + self.activations

    def __str__(self) -> str:
        return (
            f"about {self.total / GB:.1f} GB: {self.trained / GB:.1f} GB of weights, gradients and moments, "
            f"{self.activations / GB:.1f} GB of activations"
        )


def memory(recipe: Recipe, parameters: int, config: Any, choices: int, tokens: int) -> Memory:
    """What one pass of `recipe.batch` items needs, each of `choices` texts of at most `tokens` tokens.

    `config` is that of the model (layers, width, heads). An upper estimate: attention without a memory-saving kernel.
    """
    width, heads = config.hidden_size, config.num_attention_heads
    layer = tokens * width * LINEAR + ATTENTION * heads * tokens**2
    bytes_each = 1 if recipe.precision != "fp32" else 2
    activations = recipe.batch * choices * config.num_hidden_layers * layer * bytes_each
    halved = 2 * parameters if recipe.precision != "fp32" else 0
    return Memory(TRAINED * parameters + halved, activations)
