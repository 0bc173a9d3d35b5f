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
    """A criterion and what its levels 1 to 5 mean: (label, explanation), lowest first."""

    name: str
    key: str
    levels: tuple[tuple[str, str], ...]


_VALIDITY = ("Not at all valid", "Slightly valid", "Moderately valid", "Very valid", "Completely valid")


def _levels(labels: tuple[str, ...], texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(labels, texts, strict=True))


QUESTION_VALIDITY = Scale(
    "Scientific Validity of the Question",
    "question_validity",
    _levels(
        _VALIDITY,
        (
            "Fundamental errors: it makes no sense or cannot be answered.",
            "Major inaccuracies, though parts of it have some merit.",
            "Minor inaccuracies; the core of the question is sound.",
            "Accurate but for trivial imprecision.",
            "In full agreement with present knowledge, in the right terms.",
        ),
    ),
)
ANSWER_VALIDITY = Scale(
    "Scientific Validity of the Answer",
    "answer_validity",
    _levels(
        _VALIDITY,
        (
            "Fundamental errors, or against established knowledge.",
            "Major inaccuracies beside some valid information.",
            "Minor inaccuracies; the core information is right.",
            "Accurate but for trivial imprecision.",
            "In full agreement with present knowledge, thorough, with the right nuance.",
        ),
    ),
)
COMPLEXITY = Scale(
    "Question Complexity",
    "complexity",
    _levels(
        ("Very simple", "Simple", "Moderate", "Complex", "Very complex"),
        (
            "Recall of one commonly known fact.",
            "Basic understanding of biomedical concepts.",
            "Several biomedical concepts have to be put together.",
            "Advanced knowledge and an analysis of mechanisms or relations.",
            "Specialised knowledge from several domains, or current research.",
        ),
    ),
)
SPECIFICITY = Scale(
    "Specificity of Answer",
    "specificity",
    _levels(
        ("Too general", "Somewhat general", "Appropriately specific", "Very specific", "Highly specific"),
        (
            "Broad; the details are missing.",
            "Some specifics, but not precise.",
            "The level of detail the question asks for.",
            "Detailed and precise.",
            "Exceptional detail, with quantities where they belong.",
        ),
    ),
)
COMPLETENESS = Scale(
    "Answer Completeness",
    "completeness",
    _levels(
        (
            "Severely incomplete",
            "Partially complete",
            "Moderately complete",
            "Very complete",
            "Fully complete",
        ),
        (
            "Wrong, or most of what was asked is not answered.",
            "Some key elements, but important ones are left out.",
            "Most key elements; some detail or support is missing.",
            "Nearly everything, with fitting depth and context.",
            "Every aspect of the question, without a gap.",
        ),
    ),
)
SCALES = (QUESTION_VALIDITY, ANSWER_VALIDITY, COMPLEXITY, SPECIFICITY, COMPLETENESS)
CRITERIA = tuple(scale.name for scale in SCALES)
# "the three answer-related criteria" of section 4.3
ANSWER_CRITERIA = (ANSWER_VALIDITY.name, SPECIFICITY.name, COMPLETENESS.name)
