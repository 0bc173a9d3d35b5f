"""Records of the dataset: question, answer, their evidence, verdicts and provenance.

A record depends only on an anchor and its item's result (not on time, host, worker, path or restarts), so the
same results give the same bytes on every machine. docs/reference/record.md lists the fields.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.columns import Column
from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.accounting import TOKENS
from kgqa_hpc.dataset.columns import fitting
from kgqa_hpc.runs.chain import kind_of
from kgqa_hpc.steps import STEPS

PARAMETERS = ("temperature", "max_tokens", "seed")  # members of a trace entry: parameters of the request
THOUGHTS = "thoughts"
VARIANT = Column("variant", "string", "Variant of the study this record is of.")


class RecordMaker:
    """Builder of the records of a configuration. Raises ConfigError for an unknown kind or step.

    `entries` describes the entries of other packages by name (runs/trust.py:texts_of). `columns` are those that the
    anchor kind declares, then those of the steps.
    """

    def __init__(
        self, config: RunConfig, run_digest: str = "", entries: Mapping[str, str] | None = None
    ) -> None:
        graph, evidence = config.graph, getattr(config.anchors, "source", None)
        texts = [f"{name} {text}" for name, text in (entries or {}).items()]
        excluded = list(graph.exclude_edge_types) if graph is not None else []
        self._origin = {
            "run": run_digest,
            "seed": config.seed,
            # The graph's source, or the name of the run or file that anchors are read from, without its folders.
            "source": str(graph.source) if graph is not None else evidence and Path(evidence).name,
            **({"excluded_edge_types": excluded} if excluded else {}),
            **({"entries": texts} if texts else {}),
        }
        columns: dict[str, Column] = {VARIANT.name: VARIANT} if config.variants else {}
        for settings in config.steps:
            columns |= {column.name: column for column in STEPS.get(settings.use).columns_for(settings)}
        # Parts of the provenance that many records share; the key describes the requests of the record.
        self._shared: dict[bytes, dict[str, Any]] = {}
        labels = [  # labels of the steps whose engine keeps thoughts
            step.label
            for part in config.passes
            if getattr(config.engine_of(part.name), "keep_thoughts", False)
            for step in part.steps
            if STEPS.get(step.use).asks_with(step)
        ]
        if labels:
            text = "Thoughts of the model before its answers, by step (`keep_thoughts`)."
            columns.setdefault(THOUGHTS, Column(THOUGHTS, dict.fromkeys(labels, "string"), text))
        self._kind = kind_of(config)
        of_kind = {column.name for column in self._kind.columns}
        self._steps = [column for column in columns.values() if column.name not in of_kind]
        self._lists = {column.name for column in self._steps if isinstance(column.type, list)}
        self.columns = (*self._kind.columns, *self._steps)

    def record(
        self, anchor: Any, item: Mapping[str, Any], fields: Mapping[str, Any], number: int | None = None
    ) -> dict[str, Any]:
        """The record of a pair without `accepted`, `reason` and `split`, which are decided later and come last.

        `anchor` is an Anchor, `item` its record in a result, `fields` the pair's own fields; `number`
        counts the records of an item that yields several, from 1. `features` are for filters and figures: without
        the lists that are columns of the record.
        """
        record = {
            "id": anchor.id if number is None else f"{anchor.id}.{number}",
            "question": fields["question"],
            "answer": fields["answer"],
            "kind": anchor.kind,
            "group": anchor.group,
            "verdicts": item["verdicts"],
            "features": {name: value for name, value in item["features"].items() if name not in self._lists},
            "provenance": {**self._origin, **self._provenance(anchor, item["trace"])},
            **self._kind.record(anchor, fields),
        }
        if self._steps:
            varied = {key: anchor.data[key] for key in (VARIANT.name,) if key in anchor.data}
            thoughts = {THOUGHTS: {entry["step"]: entry.get("thought") for entry in item["trace"]}}
            sources = (varied, fields, item["features"], item["annotations"], thoughts)
            for column in self._steps:
                values = (source[column.name] for source in sources if column.name in source)
                record[column.name] = fitting(next(values, None), column.type)
        return record

    def _provenance(self, anchor: Any, trace: list[dict[str, Any]]) -> dict[str, Any]:
        """The prompt, engine and parameters of the last request of each step (by label), and all requests' tokens."""
        parameters = {
            entry["step"]: {name: entry[name] for name in PARAMETERS if name in entry} for entry in trace
        }
        names = list(map(list, parameters.values()))
        requests = orjson.dumps(
            [names, [(entry["step"], entry["prompt"], entry["engine"]) for entry in trace]]
        )
        if requests not in self._shared:
            last = {entry["step"]: entry for entry in trace}
            parts = {
                name: {label: entry[name] for label, entry in last.items()} for name in ("prompt", "engine")
            }
            self._shared[requests] = {**parts, "attempts": attempts_of(trace)}
        shared = self._shared[requests]
        return {
            "anchor": {"id": anchor.id, "kind": anchor.kind, "weight": float(anchor.weight)},
            "prompt": shared["prompt"],
            "engine": shared["engine"],
            "parameters": parameters,
            "tokens": {kind: sum([entry["tokens"][kind] for entry in trace]) for kind in TOKENS},
            "attempts": shared["attempts"],
        }


def attempts_of(trace: list[dict[str, Any]]) -> dict[str, int]:
    """The number of requests by step."""
    return dict(Counter(entry["step"] for entry in trace))


def pair_of(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """Question and answer of an item, None if it does not have both."""
    question, answer = fields.get("question"), fields.get("answer")
    return (question, answer) if isinstance(question, str) and isinstance(answer, str) else None


def lost_record(anchor: Any, item: Mapping[str, Any]) -> dict[str, Any]:
    """The line in lost.jsonl of an item without a pair, or with a pair that could not be judged.

    It includes the verbatim text of a refusal by the model or its provider.
    """
    last = item["trace"][-1] if item["trace"] else {}
    return {
        "id": anchor.id,
        "status": item["status"],
        "reason": item["reason"],
        "kind": anchor.kind,
        "group": anchor.group,
        "attempts": attempts_of(item["trace"]),
        **({"refusal": last["text"]} if last.get("finish") == "refusal" else {}),
    }
