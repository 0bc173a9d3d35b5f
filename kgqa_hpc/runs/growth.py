"""Additions to a run after its first configuration: passes of `kgqa judge`, and the larger sample of `kgqa extend`.

With them, the user's unchanged file stays valid for the run.
"""

import math
from pathlib import Path

from kgqa_hpc.config import RunConfig
from kgqa_hpc.store.atomic import exists
from kgqa_hpc.store.run_folder import RunFolder


def added_judges(folder: Path) -> set[str]:
    """Labels of the judges that the recorded passes of an existing run have; empty for a new or untouched run."""
    run = RunFolder(folder)
    if not exists(run.manifest_file) or not exists(run.config_file) or run.untouched():
        return set()
    steps = [step for pass_data in run.config().get("passes") or () for step in pass_data.get("steps") or ()]
    return {step["as"] for step in steps if step.get("use") == "judge"}


def as_grown(folder: Path, config: RunConfig) -> RunConfig:
    """The configuration plus the passes and the larger sample that `kgqa judge`, `kgqa extend` or a target added.

    With these additions, the user's unchanged file stays valid for the run in `folder`.
    """
    run = RunFolder(folder)
    if not run.manifest_file.exists() or not run.config_file.exists() or run.untouched():
        return config
    data, recorded = config.plain(), run.config()
    written, passes = data["passes"], recorded.get("passes") or []
    same = [entry.get("name") for entry in passes[: len(written)]] == [entry["name"] for entry in written]
    added = passes[len(written) :] if same else []
    # The recorded sample size and its history, if larger than the configuration's.
    key, sampling = type(config.anchors).size, run.manifest().sections["sampling"]["values"]
    present = getattr(config.anchors, key, None)
    grown = sampling.get("kind") == config.anchors.kind and (sampling.get(key) or 0) > (present or math.inf)
    sizes = {name: sampling[name] for name in (key, "grown") if grown and name in sampling}
    if not added and not sizes:
        return config
    return config.changed(
        str(run.config_file), passes=[*written, *added], anchors={**data["anchors"], **sizes}
    )
