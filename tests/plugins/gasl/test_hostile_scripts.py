"""A script that a model wrote takes linear time to read."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.source import MAX_BYTES
from tests.foreign.watchdog import watched


@pytest.mark.parametrize("piece", ['"', '\\"', "{{", "a "])
def test_a_script_of_a_model_is_read_in_linear_time(piece: str) -> None:
    for beginning in ("", 'FIND "'):
        script = (beginning + piece * (MAX_BYTES // len(piece)))[:MAX_BYTES]
        with watched(piece), suppress(ScriptError):
            parse(script.encode())
