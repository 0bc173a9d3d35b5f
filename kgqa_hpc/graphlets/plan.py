"""What sampling will do, why, and how long it will take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Method = Literal["auto", "enumerate", "structure"]


@dataclass(frozen=True)
class Plan:
    """The planner's decision: `method`, a sentence that says why, and the predicted seconds on one core."""

    method: str
    text: str
    core_seconds: float
    shapes: dict[int, str] = field(default_factory=dict)
