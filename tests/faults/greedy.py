"""A model and a worker that take memory until the kernel kills them, once: where the file that GREEDY names exists."""

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ENOUGH = 2 << 30  # bytes; more than any limit of the tests
STRIKES = Path(os.environ.get("GREEDY", "")).is_file()  # at the start of this process


def take_memory() -> None:
    try:
        Path(os.environ["GREEDY"]).unlink()
    except FileNotFoundError:
        return
    hoard = [b"x" * (8 << 20) for _ in range(ENOUGH >> 23)]
    raise AssertionError(f"nobody killed a process of {len(hoard)} x 8 MiB")


def answer(_messages: object, schema: Mapping[str, Any], _seed: int) -> dict[str, Any]:
    """A function for `engine: {kind: function}`; the values fit `schema`. With the file, the engine is killed."""
    if os.environ["GREEDY"].endswith("engine"):
        take_memory()
    elif STRIKES and not Path(os.environ["GREEDY"]).exists():
        time.sleep(300)  # the worker takes memory now; its engine ends with it
    values: dict[str, Any] = {"boolean": True, "string": "A text that is long enough?", "array": []}
    return {name: values[field["type"]] for name, field in schema["properties"].items()}


def wait_and_take(results: Path) -> None:
    while not list(results.glob("*.h5")):
        time.sleep(0.01)
    take_memory()


# python -m tests.faults.greedy RUN: `kgqa run RUN`; with the file, this worker is killed
if __name__ == "__main__":
    from kgqa_hpc.cli import main
    from kgqa_hpc.store.run_folder import RunFolder

    if os.environ["GREEDY"].endswith("worker"):
        folder = RunFolder(Path(sys.argv[1])).results("main")
        threading.Thread(target=wait_and_take, args=(folder,), daemon=True).start()
    sys.argv = ["kgqa", "run", sys.argv[1], "--trust-config"]
    main()
