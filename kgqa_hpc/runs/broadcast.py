"""Model files that every node of a job needs on its own disk, for `sbcast` in the scripts of slurm/."""

from collections.abc import Iterator
from pathlib import Path

from kgqa_hpc.engines.model_files import find_model, is_whole, model_parts, staged_path
from kgqa_hpc.runs.open import open_run


def copies(run: Path) -> Iterator[tuple[str, str, str]]:
    """(source, folder of the copy, name in it) of each file of the models that the run's engines stage.

    Nothing of a model that this node has already. Raises EngineConfigError.
    """
    _, config = open_run(run)
    engines = [config.engine_of(entry.name) for entry in config.passes]
    staging = [engine for engine in engines if getattr(engine, "stage_to", None)]
    models = {(engine.model, getattr(engine, "revision", None), engine.stage_to) for engine in staging}
    for model, revision, target in sorted(models, key=str):
        folder = find_model(model, revision)
        copy, parts = staged_path(folder, target), model_parts(folder)
        if not is_whole(copy, parts):
            yield from ((str(folder / name), str(copy), name) for name in sorted(parts))
