"""Workers that wait, whoever is quick or slow: none commits its first shard before it is allowed to.

So a test finds each of them at work, with answers in its journal, for as long as it needs. Python reads `HELD` at the
start of a process whose environment is that of `held`.
"""

from pathlib import Path

HELD = """\
import os
if "OMPI_COMM_WORLD_RANK" in os.environ:
    import time
    from pathlib import Path
    from kgqa_hpc.work.pass_worker import PassWorker
    commit = PassWorker._commit
    def held(self, shard):
        folder = Path(os.environ["HELD"])
        if os.environ["OMPI_COMM_WORLD_RANK"] == os.environ.get("SABOTAGED_RANK"):
            (folder / "raised").touch()
            raise RuntimeError("nobody expects this")
        while not (folder / "go").exists() and self._stop.reason is None:
            time.sleep(0.05)
        commit(self, shard)
    PassWorker._commit = held
"""


def held(folder: Path, **more: str) -> dict[str, str]:
    """Variables for ranks that wait for the file `go` in `folder`, or to be told to stop.

    The rank SABOTAGED_RANK raises instead what nobody expects, after it has made the file `raised`.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HELD)
    return {"PYTHONPATH": str(folder), "HELD": str(folder), **more}
