"""Sizes of samples: textbook cases, and the published 106 ratings."""

from __future__ import annotations

import pytest

from kgqa_hpc.plugins.evaluation.power import (
    Aim,
    detectable_difference,
    kappa_error,
    kappa_half_width,
    pairs_for_difference,
    plan,
    ratings_for_kappa,
)


def test_two_shares_take_the_pairs_of_the_formula() -> None:
    """Fleiss' formula without continuity: 0.75 against 0.55 takes 88.2, and 0.6 against 0.4 takes 96.9."""
    assert pairs_for_difference(0.75, 0.20) == 89
    assert pairs_for_difference(0.6, 0.2) == 97


def test_106_ratings_give_kappa_within_19_hundredths_and_a_tenth_takes_about_390() -> None:
    assert kappa_half_width(106) == pytest.approx(0.19, abs=0.005)
    assert ratings_for_kappa(0.10) == 385
    # The published verdicts against the published ratings: 59 and 19 right, 19 and 9 wrong.
    agreement = (59 + 19) / 106
    chance = (78 * 68 + 28 * 38) / 106**2
    error = kappa_error(agreement, chance)
    assert kappa_half_width(106, error) == pytest.approx(0.19, abs=0.005)
    assert ratings_for_kappa(0.10, error) == pytest.approx(390, abs=10)


def test_the_detectable_difference_is_the_inverse_of_the_size() -> None:
    pairs = pairs_for_difference(0.7, 0.15)
    found = detectable_difference(pairs, pairs, 0.7)
    assert found == pytest.approx(0.15, abs=0.002)
    assert found <= 0.15


def test_one_empty_side_tells_nothing() -> None:
    assert detectable_difference(50, 0, 0.75) is None
    assert "nothing (one side is empty)" in str(plan(50, 0, Aim()))


@pytest.mark.parametrize(("expected", "difference"), [(0.2, 0.3), (1.2, 0.5), (0.5, 0.0)])
def test_impossible_shares_are_refused(expected: float, difference: float) -> None:
    with pytest.raises(ValueError, match="must differ"):
        pairs_for_difference(expected, difference)
