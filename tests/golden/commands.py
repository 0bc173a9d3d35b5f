"""The commands whose answers are recorded, by case. `PLUGIN: name` marks a command of a plugin."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

EVERY = "every plugin"  # marks an answer that lists what all plugins bring
STATUSES = ("accepted", "rejected", "lost")


@dataclass(frozen=True)
class Command:
    """A call of `kgqa`; `out` is the folder it writes, `lines` says that it prints JSON lines."""

    name: str
    arguments: tuple[object, ...]
    out: Path | None = None
    lines: bool = False

    @property
    def verb(self) -> str:
        return str(self.arguments[0])


def call(name: str, *arguments: object, out: Path | None = None, lines: bool = False) -> Command:
    return Command(name, arguments, out, lines)


def about_a_run(run: Path) -> Iterator[Command]:
    """Of every finished run."""
    yield call("merge", "merge", run, "--json")
    yield call("show", "show", run, "-n", 3, "--json")
    yield call("show rejected", "show", run, "--rejected", "-n", 3, "--json")
    yield call("show lost", "show", run, "--lost", "-n", 3, "--json")
    yield call("status", "status", run, "--json")
    yield call("plan", "plan", run, "--gpus", 4, "--json")
    for status in STATUSES:
        if item := _first(run, status):
            yield call(f"explain {status}", "explain", run, item, "--json")
    yield call("an unknown item", "explain", run, "none-such", "--json")
    yield call("an unknown group", "show", run, "--group", "none such", "--json")


def about_graphlets(run: Path) -> Iterator[Command]:
    """About graph, sample, exports and cluster, too: the widest case."""
    folder, config = run.parent.parent, run.parent.parent / "run.yaml"
    yield from about_a_run(run)
    yield call("kg stats", "kg", "stats", run, "--json")
    yield call("kg show", "kg", "show", run, "N7", "--json")
    yield call("kg find", "kg", "find", run, "node 11", "--type", "gene", "--json")
    files = ("--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv")
    yield call("count", "count", *files, "--min-degree", 2, "--json")
    yield call("preview", "preview", config, "-n", 2, "--json")
    yield call("replay", "replay", run, _first(run, "accepted"), "--json")
    yield call("submit", "submit", run, "--workers", 3, "--time", "4h", "--dry-run", "--json")
    yield call("requeue", "requeue", run)
    for form in ("messages", "alpaca", "sharegpt", "csv", "triples", "biographletqa", "lm-eval", "lighteval"):
        out = run.parent / f"export-{form}"
        yield call(f"export {form}", "export", run, "--to", form, "--out", out, "--json", out=out)
    other = folder / "other.yaml"
    other.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "seed": 8}))
    yield call("another seed", "all", other, run)
    yield call(f"{EVERY}: an unknown export", "export", run, "--to", "none-such", "--out", folder / "x")
    yield call("publish", "publish", run, folder / "public", "--json")
    yield call("evaluation: diversity", "diversity", run, "--topics", 2, "--json")
    sheet = folder / "sheet.csv"
    yield call("evaluation: human sample", "human", "sample", run, sheet, "--number", 20, "--json")
    yield call("evaluation: human page", "human", "page", sheet, folder / "sheet.html")


def about_questions_with_answers(run: Path) -> Iterator[Command]:
    yield from about_a_run(run)
    yield call("kg stats", "kg", "stats", run, "--json")
    for form in ("standard", "triples"):
        out = run.parent / f"export-{form}"
        yield call(f"export {form}", "export", run, "--to", form, "--out", out, "--json", out=out)


def about_options(run: Path) -> Iterator[Command]:
    yield from about_a_run(run)
    for form in ("choices", "chain-of-thought", "lm-eval"):
        out = run.parent / f"export-{form}"
        yield call(f"export {form}", "export", run, "--to", form, "--out", out, "--json", out=out)


def about_scripts(run: Path) -> Iterator[Command]:
    """Scripts are also run and checked by themselves."""
    folder = run.parent.parent
    good, bad = folder / "good.gasl", folder / "bad.gasl"
    good.write_text("FIND nodes WITH type=gene AS genes\nCOUNT genes AS answer\n")
    bad.write_text("FIND nodes WITH type=gene AS genes\nCONUT genes AS answer\n")
    yield from about_a_run(run)
    yield call("gasl: run", "gasl", "run", good, "--graph", run, "--json")
    yield call("gasl: run a wrong one", "gasl", "run", bad, "--graph", run, "--json")
    yield call("gasl: check", "gasl", "check", good, "--json")
    yield call("gasl: check a wrong one", "gasl", "check", bad, "--json")


def about_documents(run: Path) -> Iterator[Command]:
    folder = run.parent.parent
    documents, index = folder / "docs.jsonl", folder / "index"
    yield from about_a_run(run)
    yield call("index build", "index", "build", index, documents, "--shards", 2, "--workers", 1, "--json")
    yield call("index search", "index", "search", index, "GEN3 binds GEN7", "-k", 4, "--json", lines=True)
    names = folder / "names.tsv"
    yield call("mentions", "mentions", documents, "--names", names, "--json", lines=True)
    yield call("evaluation: grounding", "grounding", run, "--json")


def about_judges(run: Path) -> Iterator[Command]:
    """Two judges are compared, asked again, and held against ratings of people."""
    folder = run.parent.parent
    yield from about_a_run(run)
    yield call("evaluation: panel", "panel", run, "--json")
    retest = ("retest", run, folder / "retest", "--perturb", "same", "--perturb", "longer", "-n", 20)
    yield call("evaluation: retest", *retest, "--json")
    ratings = folder / "ratings.csv"
    records = [json.loads(line) for line in (run / "dataset" / "accepted.jsonl").open()]
    records += [json.loads(line) for line in (run / "dataset" / "rejected.jsonl").open()]
    rows = [
        f"{record['id']},question {number},answer {number},{annotator},{(number + annotator) % 5 + 1}"
        for number, record in enumerate(records)
        for annotator in (1, 2)
    ]
    ratings.write_text("\n".join(["id,question,answer,annotator,quality", *rows, ""]))
    yield call("evaluation: human analyse", "human", "analyse", ratings, "--json")
    yield call("evaluation: calibrate", "calibrate", ratings, "--judge", run, "--json")
    predictions, references = folder / "predictions.jsonl", folder / "references.jsonl"
    for path, field in ((predictions, "question"), (references, "answer")):
        texts = ({"id": record["id"], "text": record.get(field) or "none"} for record in records[:40])
        path.write_text("".join(json.dumps(text) + "\n" for text in texts))
    yield call("evaluation: score", "score", predictions, references, "--resamples", 100, "--json")


def about_a_study(run: Path) -> Iterator[Command]:
    yield from about_a_run(run)
    config = run.parent.parent / "run.yaml"
    yield call("evaluation: study", "study", config, run, "--price", 1, 4, "--json")


def about_a_combination(out: Path) -> Iterator[Command]:
    """Runs are joined again, in shares and by mistake."""
    one, two, again = out.parent / "one", out.parent / "two", out.parent / "again"
    shares = ("--share", 0.5, "--share", 0.5, "--number", 30, "--seed", 3)
    yield call("combine", "combine", out.parent / "same", one, two, "--mixed", "--json")
    yield call("combine in shares", "combine", again, one, two, "--mixed", *shares, "--json")
    yield call("combine without --mixed", "combine", out.parent / "no", one, two)
    yield call("combine one run", "combine", out.parent / "no", one)
    yield call("evaluation: diversity", "diversity", one, "--against", two, "--topics", 2, "--json")


def mistakes(run: Path) -> Iterator[Command]:
    """Commands that end with another exit code than 0; `run` is a run without a sample."""
    folder = run.parent.parent
    config = folder / "run.yaml"
    valid = {
        "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
        "engine": {"kind": "scripted"},
    }
    wrong: dict[str, dict[str, Any]] = {
        "an unknown key": {"anchor": {"per_shape": 2}},
        "a key of another kind": {"anchors": {"kind": "fact", "per_shape": 2}},
        "a value of the wrong type": {"seed": "seven"},
        "a value out of range": {"anchors": {"per_shape": -1}},
        f"{EVERY}: an unknown kind": {"anchors": {"kind": "none-such"}},
        f"{EVERY}: an unknown step": {"passes": [{"name": "main", "steps": ["none-such"]}]},
        f"{EVERY}: an unknown engine": {"engine": {"kind": "none-such"}},
        f"{EVERY}: an unknown source": {"graph": {"source": "none-such"}},
        "an unknown prompt": {
            "passes": [{"name": "main", "steps": [{"use": "generate", "prompt": "none-such"}]}]
        },
        "a prompt of another step": {
            "passes": [{"name": "main", "steps": [{"use": "generate", "prompt": "filter"}]}]
        },
        "a missing graph file": {"graph": {"source": "csv", "nodes": "none.csv", "edges": "none.csv"}},
        "a missing engine": {"engine": None},
    }
    texts = {name: yaml.safe_dump({**valid, **sections}) for name, sections in wrong.items()}
    for name, text in {**texts, "broken YAML": "seed: [7\n", "an empty file": ""}.items():
        path = folder / f"{name.rpartition(': ')[2].replace(' ', '-')}.yaml"
        path.write_text(text)
        plugin, colon, short = name.rpartition(": ")
        yield call(f"{plugin}{colon}init {short}", "init", path, folder / "runs" / "none")
    yield call("init without a file", "init", folder / "none.yaml", folder / "runs" / "none")
    yield call("init without a folder", "init", config)
    yield call("init over a run", "init", config, run)
    yield call("init another configuration over a run", "init", folder / "unknown.yaml", run)
    yield call(f"{EVERY}: init an unknown example", "init", "--example", "none-such", folder / "x.yaml")
    yield call("an unknown verb", "none-such", run)
    yield call("an unknown option", "show", run, "--none-such")
    yield call("a run that is not there", "status", folder / "nowhere")
    for verb in ("run", "merge", "report", "show", "status", "plan", "sample", "extend"):
        yield call(f"{verb} before its time", verb, run)
    yield call("explain before its time", "explain", run, "g01-0000000000000000", "--json")
    yield call("judge with an unknown prompt", "judge", run, "--prompt", "none-such")
    yield call("judge before its time", "judge", run, "--prompt", "filter", "--name", "b")
    yield call("kg stats before its time", "kg", "stats", run, "--json")
    yield call("a graph with an unknown node", "all", folder / "unknown.yaml", folder / "runs" / "unknown")
    yield call("show two sorts", "show", run, "--accepted", "--rejected")


def _first(run: Path, status: str) -> str:
    path = run / "dataset" / f"{status}.jsonl"
    ids = [json.loads(line)["id"] for line in path.open()] if path.exists() else []
    return min(ids, default="").partition(".")[0]  # a dot stands before the number of an item's record
