"""Text embeddings by a model on this machine: the mean of its last hidden states (mean pooling).

Needs torch and transformers (the extra `embeddings`), which are imported here and nowhere else in the package. Reimers
and Gurevych (2019) pool so; models of sentence-transformers that pool otherwise are pooled by the mean all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.bootstrap import Floats

BATCH = 32
TOKENS = 512  # of a text that are read

Progress = Callable[[int, int, str], None]


def embed(folder: Path, texts: Sequence[str], progress: Progress | None = None) -> Floats:
    """One row of length one per text, (n, d), by the model in `folder`. Nothing is downloaded.

    The same texts give the same rows, in any order, up to rounding. Raises InputError without the extra, or for
    a folder that holds no model.
    """
    tokenizer, model, torch = _load(folder)
    order = np.argsort(
        [len(text) for text in texts], kind="stable"
    )  # so that texts of a batch have similar lengths
    rows: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            positions = order[start : start + BATCH]
            chosen = [texts[position] for position in positions]
            batch = tokenizer(
                chosen, padding=True, truncation=True, max_length=_longest(model), return_tensors="pt"
            )
            batch = batch.to(model.device)
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            means = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            unit = torch.nn.functional.normalize(means.double(), dim=1).cpu().numpy()
            for position, row in zip(positions, unit, strict=True):
                rows[position] = row
            if progress is not None:
                progress(start + len(positions), len(texts), "embeddings")
    return np.array(rows, dtype=np.float64).reshape(len(texts), -1)


def _load(folder: Path) -> tuple[Any, Any, Any]:
    """Tokenizer, model and torch."""
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
    except ImportError as problem:
        raise InputError(
            f"embeddings need torch and transformers: {problem}", "pip install 'kgqa_hpc[embeddings]'"
        ) from None
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder}: is no folder of a model (it has no config.json)",
            "fetch one first, e.g. hf download sentence-transformers/all-MiniLM-L6-v2 --local-dir FOLDER",
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModel.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"{folder}: transformers cannot load it: {str(problem).splitlines()[0]}",
            "give a model of transformers or sentence-transformers with its tokenizer",
        ) from None
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), torch


def _longest(model: Any) -> int:
    return min(getattr(model.config, "max_position_embeddings", TOKENS), TOKENS)
