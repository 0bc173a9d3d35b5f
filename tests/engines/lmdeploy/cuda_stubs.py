"""Empty CUDA libraries, with which TurboMind's compiled module can be imported on a CPU.

Its module binds lazily: the functions are never called, but the loader wants the libraries, their names and versions.
"""

import re
import shutil
import subprocess
from pathlib import Path

NEEDED = ("nm", "readelf", "gcc")
_PREFIXES = (
    ("cublasLt", "libcublasLt"),
    ("cublas", "libcublas"),
    ("nccl", "libnccl"),
    ("cuda", "libcudart"),
    ("cu", "libcuda"),
)


def missing_tools() -> list[str]:
    return [tool for tool in NEEDED if shutil.which(tool) is None]


def make(module: Path, folder: Path) -> Path:
    """Stand-ins in `folder` for the CUDA libraries that `module` asks for; the folder, for LD_LIBRARY_PATH."""
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
