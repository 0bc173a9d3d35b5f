"""For all tests: random tests are repeatable and have no deadline: a loaded machine is not a defect."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "kgqa", deadline=None, print_blob=True, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kgqa")
