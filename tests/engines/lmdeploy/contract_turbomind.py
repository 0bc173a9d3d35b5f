"""TurboMind's own compiled module on a CPU: its grammar compiler takes our grammars. Run by test_engine.py."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

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


NEEDED = ("nm", "readelf", "gcc")
_PREFIXES = (
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("nccl", "libnccl"),
    ("cuda", "libcudart"),
    ("cu", "libcuda"),
)


def cuda_stubs(module: Path, folder: Path) -> Path:
    """Empty CUDA libraries in `folder`, which is for LD_LIBRARY_PATH, with which the module is imported on a CPU.

    It binds lazily: the functions are never called, but the loader wants the libraries, their names and versions.
    """
    wanted: dict[str, dict[str, str]] = {
        name: {} for name in re.findall(r"\[(lib(?:cu\w*|nccl)\.so\.\d+)\]", _output("readelf", "-d", module))
    }
    for line in _output("nm", "-D", "--undefined-only", module).splitlines():
        symbol, _, version = line.split()[1].partition("@")
        library = next((n for n in wanted if n.startswith(f"{_library(symbol)}.")), None)
        if library is not None:
            wanted[library][symbol] = version.lstrip("@")
    for library, symbols in wanted.items():
        source, script = folder / f"{library}.c", folder / f"{library}.map"
        source.write_text("".join(f"void *{symbol}(void) {{ return 0; }}\n" for symbol in symbols))
        versions = sorted({version for version in symbols.values() if version})
        nodes = {v: "".join(f" {s};" for s, own in symbols.items() if own == v) for v in versions}
        script.write_text("".join(f"{version} {{ global:{names} }};\n" for version, names in nodes.items()))
        linked = [f"-Wl,-soname,{library}", *([f"-Wl,--version-script,{script}"] if versions else [])]
        command = ["gcc", "-shared", "-fPIC", "-w", *linked, "-o", folder / library, source]
        subprocess.run(command, check=True)
    return folder


def _library(symbol: str) -> str:
    """The library of a CUDA function, by its name; "-" for any other function."""
    return next((library for prefix, library in _PREFIXES if symbol.lstrip("_").startswith(prefix)), "-")


def _output(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def test_turbominds_own_compiler_takes_every_shipped_schema_and_thought(model: Path, tmp_path: Path) -> None:
    if missing := [tool for tool in NEEDED if shutil.which(tool) is None]:
        pytest.skip(f"TURBOMIND'S OWN COMPILER IS NOT TESTED, MISSING: {', '.join(missing)}")
    modules = list((Path(lmdeploy.__file__).parent / "turbomind").glob("_turbomind*.so"))
    if not modules:
        pytest.skip("THIS LMDEPLOY HAS NO TURBOMIND")
    stubs = cuda_stubs(modules[0], tmp_path)
    schemas = Path(__file__).parents[3] / "tools" / "bench_grammar.py"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(stubs)}
    command = [sys.executable, "-c", PROGRAM, model, schemas]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "refused: schema: LMDeploy cannot compile it" in done.stdout
    assert int(done.stdout.split("compiled ")[-1]) > 100
