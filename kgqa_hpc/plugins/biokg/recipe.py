"""The recipe for names: for each class of entity its identifier spaces in order of preference, and for each
identifier space the sources of names.

A recipe is a YAML file, checked completely before any table is read. Relative paths start in the recipe's folder;
those of class tables start in the graph's folder, or in `folder` if it is given.
"""

from __future__ import annotations

import datetime
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.settings import Settings, problems_of, sentence
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.yaml_file import load_yaml

GIVEN = "given"


class Resolver(Settings):
    """A web service that is queried for one id at a time, and only with `kgqa hydrate --web`."""

    url: str = Field(pattern=r"^https?://", description="Address of the service; {id} stands for the id.")
    name: list[str | int] = Field(description="Path of keys to the name in the JSON answer.")
    check: list[str | int] | None = Field(
        None, description="Path of keys to the id in the answer, which must equal the requested id."
    )
    per_second: float = Field(1.0, gt=0, le=100, description="Largest number of requests a second.")
    timeout: float = Field(10.0, gt=0, le=120, description="Time limit of an answer in seconds.")
    attempts: int = Field(3, ge=1, le=10, description="Number of attempts for one id.")
    give_up_after: int = Field(
        5,
        ge=1,
        description="Number of consecutive ids without an answer after which the service is no longer used.",
    )

    @model_validator(mode="after")
    def _asks(self) -> Resolver:
        if "{id}" not in self.url:
            raise ValueError("url has no {id}")
        return self


# YAML reads 2024-12-03 without quotes as a date.
_TEXT_OF_DATE = BeforeValidator(lambda value: str(value) if isinstance(value, datetime.date) else value)


class Space(Settings):
    """A space of identifiers and the source of its names: a table, an OBO file or a web service."""

    table: str | None = Field(None, description="Table of names: TSV, CSV, JSON (id: name) or JSON Lines.")
    obo: str | None = Field(None, description="Ontology with the names, in OBO format.")
    resolver: Resolver | None = None
    id: str = Field("id", description="The column or key of the id.")
    name: str = Field("name", description="The column or key of the name.")
    prefixes: list[str] = Field(default_factory=list, description="CURIE prefixes to remove from ids.")
    uri: str | None = Field(None, description="IRI prefix to remove from ids.")
    date: Annotated[str, _TEXT_OF_DATE] = Field("", description="Date of the table, recorded with each name.")
    licence: str = Field(description="Licence of the names.")
    suffixes: list[str] = Field(default_factory=list, description="Suffixes to remove from names.")
    underscores: bool = Field(False, description="Replace underscores in names by blanks.")

    @model_validator(mode="after")
    def _one(self) -> Space:
        if sum(source is not None for source in (self.table, self.obo, self.resolver)) != 1:
            raise ValueError("needs one of table, obo and resolver")
        return self

    def local(self, text: str) -> str:
        """An id without its prefix: HP:0000118, http://…/HP_0000118 and 0000118 all give 0000118."""
        text = text.strip()
        if self.uri and text.startswith(self.uri):
            return text[len(self.uri) :]
        prefix, colon, local = text.partition(":")
        return local if colon and prefix.casefold() in map(str.casefold, self.prefixes) else text


class Source(Settings):
    """The location of a class's ids of one space: a column or a property; by default the node's own id."""

    space: str
    column: str | None = Field(None, description="A column of the class's table.")
    property: str | None = Field(None, description="A property of the node.")
    after: str | None = Field(None, description="Text in the node's id after which the used id begins.")
    separator: str = Field(
        ";", min_length=1, description="Separator of several ids in a cell; the first id is used."
    )
    is_name: bool = Field(False, description="Whether the cell holds the name itself instead of an id.")
    underscores: bool = Field(False, description="With is_name: replace underscores by blanks.")


class EntityClass(Settings):
    """A class of entities: the sources of its names, in order of preference."""

    table: str | None = Field(None, description="Table with one row of identifiers for each entity.")
    names: list[Source] = Field(min_length=1)


class Rules(Settings):
    """Treatment of names that are identifiers, too long, or not unique."""

    ids: Literal["drop", "keep"] = Field("drop", description="Treatment of names that are identifiers.")
    overlong: Literal["keep", "cut", "drop"] = Field(
        "keep", description="Treatment of names longer than `longest`."
    )
    longest: int = Field(150, ge=10, description="Largest length of a name (BioGraphletQA, Figure 9).")
    duplicates: Literal["keep", "add_id"] = Field(
        "keep", description="Treatment of names that several nodes of a class share."
    )


class Recipe(Settings):
    """Settings of a recipe file."""

    classes: dict[str, EntityClass] = Field(min_length=1)
    spaces: dict[str, Space] = Field(default_factory=dict)
    folder: str | None = Field(
        None, description="Folder of the class tables; default: the graph's own folder."
    )
    cache: str | None = Field(
        None, description="Folder of stored answers of web services; default: hydration/ in the run."
    )
    rules: Rules = Rules()
    home: Annotated[Path, Field(exclude=True)] = Path()
    sha256: str = ""

    @model_validator(mode="after")
    def _known(self) -> Recipe:
        spaces = [*self.spaces, GIVEN]
        for name, entry in self.classes.items():
            for source in entry.names:
                if source.space not in spaces and not source.is_name:
                    hint = did_you_mean(source.space, spaces)
                    raise ValueError(f"classes.{name}: space {source.space} is nowhere described{hint}")
                if source.column and entry.table is None:
                    raise ValueError(f"classes.{name}: column {source.column} of which table?")
        return self

    def path(self, name: str) -> Path:
        """A path in the recipe as a full path; a relative path starts in the recipe's folder."""
        return self.home / expanduser(name)


def load_recipe(path: Path) -> Recipe:
    """Read and check a recipe. Raises ConfigError with every problem, one line each."""
    try:
        content = load_yaml(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", "copy configs/hydrate_oregano.yaml and edit it") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of keys to values")
    try:
        return Recipe.model_validate({**content, "home": path.resolve().parent, "sha256": sha256_of(path)})
    except ValidationError as problem:
        keys = [(".".join(map(str, entry.key)), sentence(Recipe, entry)) for entry in problems_of(problem)]
        lines = [f"{path.name}: {key}: {words}" if key else f"{path.name}: {words}" for key, words in keys]
        raise ConfigError("\n".join(lines), "see docs/guide/sources.md, Hydration") from None
