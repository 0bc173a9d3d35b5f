"""METEOR and CIDEr by pycocoevalcap: an optional extra (its licence is not stated, and it runs Java).

Texts go through the package's own tokenizer, as in the caption evaluation it comes from, so that scores can be
compared with published ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# METEOR's process cannot score an empty text; a word that is in no reference scores 0 as an empty one should.
_NO_WORDS = "xxnowordsxx"


@dataclass(frozen=True, slots=True)
class CaptionScorer:
    """Tokenized predictions and references, and the two metrics over chosen items.

    `_meteor` is the Java process of METEOR, which takes seconds to start and ends with this object.
    """

    predictions: tuple[str, ...]
    references: tuple[str, ...]
    _meteor: Any

    def meteor(self, rows: Sequence[int]) -> float:
        """METEOR 1.5 of the chosen items as a whole, 0 to 1."""
        return float(self._meteor.compute_score(*self._pairs(rows, empty=_NO_WORDS))[0])

    def cider(self) -> list[float]:
        """CIDEr-D of every item, 0 to 10, with document frequencies over all of them."""
        from pycocoevalcap.cider.cider import Cider

        _, scores = Cider().compute_score(*self._pairs(range(len(self.predictions)), empty=""))
        return [float(score) for score in scores]

    def _pairs(self, rows: Sequence[int], empty: str) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
        return (
            {i: [self.references[i] or empty] for i in rows},
            {i: [self.predictions[i] or empty] for i in rows},
        )


def missing() -> str | None:
    """The reason why the two metrics cannot be computed on this machine; None if they can."""
    try:
        import pycocoevalcap  # noqa: F401
    except ImportError:
        return "needs pycocoevalcap: pip install 'kgqa_hpc[caption]'"
    return None if shutil.which("java") else "needs Java (for instance Debian's default-jre-headless)"


def caption_scorer(predictions: Sequence[str], references: Sequence[str]) -> CaptionScorer:
    """Tokenize the texts. Raises OSError when the tokenizer cannot write into its own package folder."""
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    both = [*predictions, *references]
    captions: dict[int, Any] = {i: [{"caption": _one_line(text)}] for i, text in enumerate(both)}
    lines = [words[0] for words in PTBTokenizer().tokenize(captions).values()]
    if len(lines) != len(both):
        raise OSError(f"the tokenizer gave {len(lines)} of {len(both)} lines")
    return CaptionScorer(tuple(lines[: len(predictions)]), tuple(lines[len(predictions) :]), Meteor())


def _one_line(text: str) -> str:
    """One line for the tools' line protocols; `|||` is their separator."""
    return " ".join(text.replace("|||", " ").split())
