"""The section `graph:` of a configuration: common keys, and those of the source it names.

The class `Settings` of a source is its model and holds both; the registry of sources lists all sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, model_validator

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.settings import Problems, Settings, problems_of, sentence

Files = str | Annotated[list[str], Field(min_length=1)]
"""One file or a list of them."""


def listed(files: Files | None) -> list[Path]:
    """The paths of a setting that may be one file, several, or none."""
    return [Path(file) for file in ([files] if isinstance(files, str) else files or ())]


class GraphConfig(Settings):
    """Where the knowledge graph comes from and how it is reduced (BioGraphletQA, section 3.1)."""

    source: str = Field("hpo", description="Source of the graph (docs/guide/sources.md).")
    unknown_nodes: Literal["error", "drop"] = Field(
        "error", description="Edges that name an undeclared node."
    )
    unnamed_nodes: Literal["drop", "error"] = Field(
        "drop", description="Nodes without a name; the published method drops them."
    )
    duplicate_nodes: Literal["error", "first"] = Field("error", description="Duplicate node ids.")
    hydrate: str | None = Field(None, description="Recipe that names nodes (docs/guide/sources.md).")
    node_types: list[str] | None = Field(None, description="Only nodes of these types; default: all.")
    exclude_node_types: list[str] | None = Field(None, description="Node types left out before reduction.")
    exclude_edge_types: list[str] = Field(
        default_factory=list, description="Edge types left out before reduction."
    )
    min_degree: int = Field(3, ge=0, description="Smallest degree; nodes below it are dropped.")
    max_degree: int = Field(100, ge=1, description="Largest degree; nodes above it are dropped.")
    k_core: int | None = Field(
        None,
        ge=1,
        description="Keep the largest part whose nodes all have this many neighbours in it.",
    )
    largest_component: bool | None = Field(None, description="Keep only the largest connected component.")

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        hydrate = data.get("hydrate")
        resolved = {"hydrate": str((base / hydrate).resolve())} if isinstance(hydrate, str) else {}
        return {**super().with_paths(data, base), **resolved}

    @model_validator(mode="after")
    def _degrees(self) -> GraphConfig:
        if self.min_degree > self.max_degree:
            raise ValueError(f"min_degree {self.min_degree} is above max_degree {self.max_degree}")
        return self


class SourceSettings(GraphConfig):
    """Base of a source's settings: the common keys and its own."""

    registry: ClassVar[str] = "sources"


def graph_config(value: object, base: Path | None = None) -> GraphConfig:
    """Check plain data against the model of its source. Relative paths start in `base`.

    Raises ConfigError with a line for each problem; for an unknown key with the nearest known key.
    """
    problems = Problems()
    if isinstance(value, GraphConfig):
        value = value.model_dump()
    if not isinstance(value, dict):
        problems.add(("graph",), "is a mapping of keys to values")
    elif not isinstance(source := value.get("source", "hpo"), str) or source not in SOURCES:
        problems.add(("graph", "source"), SOURCES.unknown(str(source)))
    else:
        try:
            model: type[SourceSettings] = SOURCES.get(source).Settings
            return model.model_validate(value, context={"base": base})
        except ConfigError as problem:
            problems.add(("graph", "source"), str(problem))
        except ValidationError as problem:
            entries = problems_of(problem)
            for entry in entries:
                if entry.type != "missing":
                    problems.add(("graph", *entry.key), sentence(model, entry))
            if missing := [str(entry.key[-1]) for entry in entries if entry.type == "missing"]:
                problems.add(("graph",), f"source {source} needs {' and '.join(missing)}")
    raise ConfigError("\n".join(problems.lines), "see docs/reference/config.md")
