"""Graph source: lines of director | film."""

import numpy as np
from pydantic import Field

from kgqa_hpc.errors import GraphFormatError
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.kg.settings import SourceSettings


class FilmSettings(SourceSettings):
    path: str = Field(description="Lines of: director | film.")
    paths = ("path",)


class Films:
    """Directors and their films."""

    name = "films"
    licence = "CC0-1.0"
    description = "Lines of director | film."
    Settings = FilmSettings

    def read(self, settings):
        rows = []
        with open(settings.path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.count("|") != 1:
                    raise GraphFormatError(
                        f"{settings.path} line {number}: is not director | film", "mend the line"
                    )
                rows.append([part.strip() for part in line.split("|")])
        types = {director: 0 for director, _ in rows} | {film: 1 for _, film in rows}
        place = {name: position for position, name in enumerate(types)}
        return KnowledgeGraph(
            node_ids=np.array(list(types), object),
            names=np.array(list(types), object),
            node_type=np.array(list(types.values()), np.int32),
            node_types=("Director", "Film"),
            edge_source=np.array([place[director] for director, _ in rows], np.int32),
            edge_target=np.array([place[film] for _, film in rows], np.int32),
            edge_type=np.zeros(len(rows), np.int32),
            edge_types=("directed",),
        )
