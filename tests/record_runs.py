"""Runs over files of records with the scripted engine, and chains of steps as such runs build them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import EngineInfo, Response
from kgqa_hpc.run import Run
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Step


def jsonl(path: Path, rows: Iterable[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def config_of(*steps: Any, anchors: str | dict[str, Any] = "pairs.jsonl", **sections: Any) -> dict[str, Any]:
    """A configuration of one pass with the scripted engine; `anchors` is a section, or a file of records."""
    kind = {"kind": "records", "from": anchors} if isinstance(anchors, str) else anchors
    passes = [{"name": "main", "steps": list(steps)}]
    base = {"anchors": kind, "engine": {"kind": "scripted"}, "passes": passes, "dataset": {"z_score": None}}
    return {**base, **sections}


def chain_of(*steps: Any, **sections: Any) -> list[Step]:
    """The steps of a pass, built as a run builds them; arguments as of `config_of`."""
    config = parse_config(config_of(*steps, **sections), "the test")
    return build_chain(config, "main", EngineInfo("scripted", "1", "scripted-1"))


def item_of(name: str = "r1", **fields: Any) -> Item:
    """The item of a record with these fields."""
    return Item(Anchor(name, "records", "all", data={"record": {"id": name}}), output=fields)


def stop(text: str) -> Response:
    """A whole answer of an engine."""
    return Response("x", text, "stop")


def written(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config))
    return path


def made_run(folder: Path, config: dict[str, Any], name: str = "run") -> Path:
    """A run of this configuration, with all its stages."""
    Run.from_config(written(folder / f"{name}.yaml", config), folder / name).all()
    return folder / name
