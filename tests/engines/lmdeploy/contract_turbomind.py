"""TurboMind's own compiled module on a CPU: its grammar compiler takes our grammars. Run by test_engine.py."""

import os
import subprocess
import sys
from pathlib import Path

import cuda_stubs
import lmdeploy
import pytest

PROGRAM = """
import sys
from pathlib import Path
from lmdeploy import GenerationConfig, turbomind
from lmdeploy._guided_decoding import compile_response_format
from lmdeploy.tokenizer import Tokenizer
assert turbomind.is_available(), turbomind._import_error
from lmdeploy.turbomind import _tm
from lmdeploy.turbomind.tokenizer_info import TokenizerInfo
from lmdeploy.turbomind.turbomind import TurboMindInstance
from kgqa_hpc.engines.lmdeploy import compile_all, response_format
from kgqa_hpc.engines.models import THOUGHTS
from kgqa_hpc.errors import EngineConfigError
from tests.by_path import load

tokenizer = Tokenizer(sys.argv[1]).model.model
compiler = _tm.GrammarCompiler(TokenizerInfo.from_huggingface(tokenizer, vocab_size=len(tokenizer)))
schemas = load(Path(sys.argv[2]))._schemas([])
forms = [response_format(schema, thought) for _, schema in schemas for thought in (None, *THOUGHTS.values())]
compile_all(forms, compiler)
try:
    compile_all([{"type": "structural_tag", "format": {"type": "grammar", "grammar": "root ::= nothing"}}], compiler)
except EngineConfigError as problem:
    print("refused:", problem.message)
values = {"max_new_tokens": 7, "do_sample": True, "temperature": 0.7, "random_seed": 2**31 - 1, "stop_token_ids": [0]}
print(object.__new__(TurboMindInstance)._get_generation_config(GenerationConfig(**values)))
print("compiled", len(forms))
"""


def test_turbominds_own_compiler_takes_every_shipped_schema_and_thought(model: Path, tmp_path: Path) -> None:
    if missing := cuda_stubs.missing_tools():
        pytest.skip(f"TURBOMIND'S OWN COMPILER IS NOT TESTED, MISSING: {', '.join(missing)}")
    modules = list((Path(lmdeploy.__file__).parent / "turbomind").glob("_turbomind*.so"))
    if not modules:
        pytest.skip("THIS LMDEPLOY HAS NO TURBOMIND")
    stubs = cuda_stubs.make(modules[0], tmp_path)
    schemas = Path(__file__).parents[3] / "tools" / "bench_grammar.py"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stubs)}
    command = [sys.executable, "-c", PROGRAM, model, schemas]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "refused: schema: LMDeploy cannot compile it" in done.stdout
    assert int(done.stdout.split("compiled ")[-1]) > 100
