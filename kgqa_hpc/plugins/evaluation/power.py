"""Sample sizes for human ratings: to distinguish two shares, and for the interval widths of a share and of kappa.

Normal approximations (Fleiss, Levin and Paik 2003, chapter 4; Cohen 1960).
"""

from dataclasses import asdict, dataclass
from math import ceil, sqrt
from statistics import NormalDist

from kgqa_hpc.intervals import Z95

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Aim:
    """Goal of a sample: to distinguish the share `expected` of good pairs among the accepted from a lower share."""

    expected: float = 0.75
    difference: float = 0.2
    power: float = 0.8
    alpha: float = 0.05

    @property
    def pairs(self) -> int:
        """Pairs of each side. Raises ValueError for impossible shares."""
        return pairs_for_difference(self.expected, self.difference, self.power, self.alpha)


@dataclass(frozen=True, slots=True)
class Plan:
    """Size of a sample for raters, and its statistical power. Shares are of pairs that raters find good."""

    accepted: int
    rejected: int
    aim: Aim
    detectable: float | None
    half_width: float
    kappa_half_width: float

    def to_dict(self) -> dict[str, float | int | None]:
        figures = asdict(self)
        return figures.pop("aim") | figures

    def __str__(self) -> str:
        aim, detectable = self.aim, "nothing (one side is empty)"
        if self.detectable is not None:
            detectable = f"{100 * self.detectable:.1f} points"
        return (
            f"{self.accepted + self.rejected} pairs: {self.accepted} accepted, {self.rejected} rejected\n"
            f"Telling {aim.expected:.0%} good from {aim.expected - aim.difference:.0%} takes {aim.pairs} of each "
            f"(power {aim.power:.0%}, two-sided alpha {aim.alpha:g}).\n"
            f"This sample: smallest difference told {detectable}; the share among accepted "
            f"± {100 * self.half_width:.1f} points; kappa of a judge ± {self.kappa_half_width:.2f} "
            f"(95 %, before anyone skips an item)."
        )


def pairs_for_difference(expected: float, difference: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """Pairs in each of two groups that distinguish the shares `expected` and `expected - difference`.

    Two-sided test at `alpha` with the given power. Raises ValueError for shares outside 0 to 1.
    """
    shifted = expected - difference
    if not (0 <= shifted <= 1 and 0 <= expected <= 1 and difference > 0):
        raise ValueError(f"shares {expected:g} and {shifted:g} must differ and lie between 0 and 1")
    middle = (expected + shifted) / 2
    chance = _NORMAL.inv_cdf(1 - alpha / 2) * sqrt(2 * middle * (1 - middle))
    miss = _NORMAL.inv_cdf(power) * sqrt(expected * (1 - expected) + shifted * (1 - shifted))
    return ceil((chance + miss) ** 2 / difference**2)


def detectable_difference(
    first: int, second: int, expected: float, power: float = 0.8, alpha: float = 0.05
) -> float | None:
    """The smallest drop below `expected` that groups of these sizes can detect; None if there is none."""
    if not first or not second:
        return None
    pairs = 2 / (1 / first + 1 / second)
    low, high = 1e-6, expected
    if pairs_for_difference(expected, high, power, alpha) > pairs:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        enough = pairs_for_difference(expected, middle, power, alpha) <= pairs
        low, high = (low, middle) if enough else (middle, high)
    return high


def kappa_error(agreement: float, chance: float) -> float:
    """The standard error of kappa for one rating; divide by the root of their number (Cohen 1960). `chance` < 1."""
    return sqrt(agreement * (1 - agreement)) / (1 - chance)


# Two balanced judges that agree by chance only: the widest interval to plan for with shares near 1/2.
WORST_KAPPA_ERROR = kappa_error(0.5, 0.5)


def kappa_half_width(ratings: int, error: float = WORST_KAPPA_ERROR) -> float:
    """Half of kappa's 95 % interval from so many ratings."""
    return Z95 * error / sqrt(ratings) if ratings else float("inf")


def ratings_for_kappa(half_width: float, error: float = WORST_KAPPA_ERROR) -> int:
    """Ratings needed so that kappa's 95 % interval is at most ± `half_width`."""
    return ceil((Z95 * error / half_width) ** 2)


def plan(accepted: int, rejected: int, aim: Aim) -> Plan:
    """Plan and power of a sample of these sizes; `half_width` is half of a share's 95 % interval."""
    detectable = detectable_difference(accepted, rejected, aim.expected, aim.power, aim.alpha)
    half = Z95 * sqrt(aim.expected * (1 - aim.expected) / accepted) if accepted else 1.0
    return Plan(accepted, rejected, aim, detectable, half, kappa_half_width(accepted + rejected))
