"""The configuration of a run: one YAML file, checked completely before anything starts.

Every setting is one typed field with one sentence. Unknown keys are refused with the nearest known one, and
all errors of a file are reported at once.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from kgqa_hpc.engines.config import EngineConfig
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.settings import GraphConfig, GraphSection, default_graph, resolve_paths

__all__ = ["GraphConfig", "RunConfig", "dump_config", "load_config", "parse_config", "parse_duration"]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: object) -> object:
    """Seconds from 90, '90s', '15m', '2h', '2d', 'HH:MM:SS', or Slurm's 'D-HH:MM:SS'."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text):
        return float(match[1]) * _UNITS[match[2]]
    if match := re.fullmatch(r"(?:(\d+)-)?(\d{1,2}):(\d{2}):(\d{2})", text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
    try:
        return float(text)
    except ValueError:
        raise ValueError("is not a duration such as 30s, 15m, 2h or 2-00:00:00") from None


def _colon_number(value: object) -> object:
    # YAML 1.1 reads 12:30:00 as a sexagesimal integer; that is the number of seconds already.
    return parse_duration(value)


Duration = Annotated[float, BeforeValidator(_colon_number), Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AnchorConfig(_Strict):
    """What questions are grounded in."""

    kind: Literal["graphlet"] = "graphlet"
    per_shape: int = Field(
        10_000, ge=1, description="Graphlets drawn of each shape; all where there are fewer."
    )
    shapes: list[Annotated[int, Field(ge=1, le=29)]] | None = Field(
        None, description="Shape ids; default: all 29."
    )
    backend: Literal["native", "graph-tool"] = Field("native", description="Who counts and samples.")
    method: Literal["auto", "enumerate", "structure"] = Field(
        "auto", description="How; auto asks the planner."
    )
    max_per_node: int | None = Field(
        None, ge=1, description="Balanced sampling: a node is in at most so many."
    )
    spread: Literal["types"] | None = Field(
        None, description="Balanced sampling: each shape is spread evenly over the types of its nodes."
    )

    @model_validator(mode="after")
    def _combinations(self) -> AnchorConfig:
        if self.max_per_node is not None and self.spread is not None:
            raise ValueError("max_per_node and spread cannot be had together, choose one of them")
        if self.backend == "graph-tool" and self.method != "auto":
            raise ValueError(f"backend graph-tool knows no method {self.method}, leave method at auto")
        return self


class PromptConfig(_Strict):
    """Names of modules in prompts/ (or in the user's own `folder`, which overrides by name)."""

    generate: Name = "p5"
    judge: Name = "filter"
    folder: str | None = Field(None, description="A folder of own modules.")
    edge_types: bool = Field(
        False, description="Show edge types; the paper found leaving them out better (3.2)."
    )


class PassConfig(_Strict):
    """One sweep over all shards with one engine; runs a chain of steps."""

    name: Name
    steps: list[Literal["generate", "judge"]] = Field(min_length=1)
    engine: EngineConfig | None = Field(None, description="Default: the run's engine.")


class RuntimeConfig(_Strict):
    """How the work is cut, timed and saved. Nothing here changes what the dataset holds."""

    shard_size: int = Field(512, ge=1, description="Anchors per shard.")
    time_limit: Duration | None = Field(
        None, description="Of this process; under Slurm the job's own end counts."
    )
    margin: Duration = Field(900.0, description="No new work is taken this long before the limit.")
    commit_every: Duration = Field(30.0, description="Longest time a finished item stays only in memory.")
    window: int | None = Field(
        None, ge=1, description="Requests in flight; default: twice the engine's batch."
    )
    lease: Duration = Field(120.0, gt=0, description="A lease whose heartbeat is older may be taken over.")
    attempts: int = Field(3, ge=1, description="Tries per step before an item counts as invalid or failed.")
    engine_stall: Duration = Field(
        600.0, gt=0, description="An engine silent for so long is killed and restarted."
    )
    engine_restarts: int = Field(
        20, ge=0, description="Engine deaths without progress before the worker gives up."
    )
    item_engine_deaths: int = Field(
        3, ge=1, description="Engine deaths while alone in it until an item is failed."
    )


class DatasetConfig(_Strict):
    """What merge keeps."""

    z_score: float | None = Field(
        3.0, gt=0, description="Length outliers beyond so many sigma are rejected (3.2.2)."
    )
    licence: str | None = Field(None, description="Licence of the dataset; default: the graph source's.")


class RunConfig(_Strict):
    """The whole file."""

    seed: int = Field(42, ge=0, lt=2**63)
    graph: GraphSection = Field(default_factory=default_graph)
    anchors: AnchorConfig = AnchorConfig()
    prompts: PromptConfig = PromptConfig()
    engine: EngineConfig
    passes: list[PassConfig] = Field(
        default_factory=lambda: [PassConfig(name="main", steps=["generate", "judge"])], min_length=1
    )
    runtime: RuntimeConfig = RuntimeConfig()
    dataset: DatasetConfig = DatasetConfig()

    @model_validator(mode="after")
    def _passes(self) -> RunConfig:
        names = [p.name for p in self.passes]
        if len(set(names)) != len(names):
            raise ValueError(f"pass names must differ: {', '.join(names)}")
        steps = [step for p in self.passes for step in p.steps]
        if steps[0] != "generate" or len(set(steps)) != len(steps):
            raise ValueError("the passes together must start with generate and run each step once")
        return self

    def engine_of(self, pass_name: str) -> Any:
        """The engine configuration a pass runs with."""
        return next(p.engine or self.engine for p in self.passes if p.name == pass_name)


def load_config(path: Path) -> RunConfig:
    """Read and check a configuration file. Relative graph and prompt paths are resolved against its folder.

    Raises ConfigError with every problem of the file, one line each.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", "copy one of configs/ and edit it") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: cannot be read: {problem}") from None
    except yaml.YAMLError as problem:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a configuration is a mapping of keys to values")
    return parse_config(_resolve_paths(data, path.resolve().parent), str(path))


def parse_config(data: dict[str, Any], where: str) -> RunConfig:
    """Check plain data. `where` names its origin in messages."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as problem:
        lines = [_sentence(error) for error in problem.errors()]
        raise ConfigError(
            "\n".join(f"{where}: {line}" for line in lines), "see configs/ for examples"
        ) from None


def dump_config(config: RunConfig) -> str:
    """The resolved configuration as YAML, every default spelt out."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _resolve_paths(data: dict[str, Any], base: Path) -> dict[str, Any]:
    data = dict(data)
    if isinstance(data.get("graph"), dict):
        data["graph"] = resolve_paths(data["graph"], base)
    for section, keys in (
        ("prompts", ("folder",)),
        ("engine", ("model",)),
    ):
        if not isinstance(data.get(section), dict):
            continue
        values = dict(data[section])
        for key in keys:
            value = values.get(key)
            is_path = section != "engine" or (values.get("kind") == "cpu" and isinstance(value, str))
            if isinstance(value, str) and is_path:
                values[key] = str((base / Path(value).expanduser()).resolve())
        data[section] = values
    return data


def _sentence(error: Any) -> str:
    location = [part for part in error["loc"] if part not in _TAGS]
    key = ".".join(str(part) for part in location)
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _known_keys(location[:-1]), n=1, cutoff=0.5)
        return f"{key}: unknown key" + (f", did you mean {near[0]}?" if near else "")
    message = error["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


_TAGS = ("cpu", "scripted", "openai", "lmdeploy")


def _known_keys(location: list[Any]) -> list[str]:
    """Field names of the model that stands at `location` in the configuration."""
    models: list[type[BaseModel]] = [RunConfig]
    for part in location:
        if isinstance(part, int):
            continue
        models = [
            m
            for model in models
            if part in model.model_fields
            for m in _models_in(model.model_fields[part].annotation)
        ]
    return [name for model in models for name in model.model_fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]
