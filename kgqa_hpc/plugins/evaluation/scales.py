"""The five scales of the published human evaluation (BioGraphletQA, section 3.3.1 and Appendix E).

Names and the labels of the levels are the published ones, so that ratings can be compared; the explanations
are our own words for the same meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

LOWEST, HIGHEST = 1, 5
ACCEPTABLE = 3  # the level from which the paper calls a score acceptable


@dataclass(frozen=True, slots=True)
class Scale:
    """A criterion and its levels 1 to 5 as (label, explanation), lowest first."""

    name: str
    key: str
    levels: tuple[tuple[str, str], ...]


# Each block: name and key of a criterion, then one line per level: label, explanation.
_TEXT = """
Scientific Validity of the Question | question_validity
Not at all valid | Fundamental errors: it makes no sense or cannot be answered.
Slightly valid | Major inaccuracies, though parts of it have some merit.
Moderately valid | Minor inaccuracies; the core of the question is sound.
Very valid | Accurate but for trivial imprecision.
Completely valid | In full agreement with present knowledge, in the right terms.

Scientific Validity of the Answer | answer_validity
Not at all valid | Fundamental errors, or against established knowledge.
Slightly valid | Major inaccuracies beside some valid information.
Moderately valid | Minor inaccuracies; the core information is right.
Very valid | Accurate but for trivial imprecision.
Completely valid | In full agreement with present knowledge, thorough, with the right nuance.

Question Complexity | complexity
Very simple | Recall of one commonly known fact.
Simple | Basic understanding of biomedical concepts.
Moderate | Several biomedical concepts have to be put together.
Complex | Advanced knowledge and an analysis of mechanisms or relations.
Very complex | Specialised knowledge from several domains, or current research.

Specificity of Answer | specificity
Too general | Broad; the details are missing.
Somewhat general | Some specifics, but not precise.
Appropriately specific | The level of detail the question asks for.
Very specific | Detailed and precise.
Highly specific | Exceptional detail, with quantities where they belong.

Answer Completeness | completeness
Severely incomplete | Wrong, or most of what was asked is not answered.
Partially complete | Some key elements, but important ones are left out.
Moderately complete | Most key elements; some detail or support is missing.
Very complete | Nearly everything, with fitting depth and context.
Fully complete | Every aspect of the question, without a gap.
"""


def _scale(text: str) -> Scale:
    (name, key), *levels = (line.split(" | ") for line in text.strip().splitlines())
    return Scale(name, key, tuple((label, words) for label, words in levels))


SCALES = tuple(_scale(text) for text in _TEXT.split("\n\n"))
CRITERIA = tuple(scale.name for scale in SCALES)
# "the three answer-related criteria" of section 4.3
ANSWER_CRITERIA = (CRITERIA[1], *CRITERIA[3:])
