"""The `kgqa` command. Each verb is a few lines: parse, call the room that does it, print.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 1 failed, 2 bad input, 75 stopped
early (run the same command again). Rooms are imported inside their verb, so that `kgqa --help` is quick.
A file is one group of verbs and registers them with `app`; the commands of plugins come from a registry.
"""

from kgqa_hpc.cli import bench, dataset, entries, files, judges, kg, look, prompts, run
from kgqa_hpc.cli.app import app, main

__all__ = ["app", "bench", "dataset", "entries", "files", "judges", "kg", "look", "main", "prompts", "run"]
