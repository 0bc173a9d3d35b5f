"""The `kgqa` command line. Each command is a few lines: parse options, call the package that does the work, print.

Results go to stdout, progress and messages to stderr. Exit codes: 0 done, 1 failed, 2 bad input, 75 stopped
early (run the same command again). Packages are imported inside their command, so that `kgqa --help` is quick.
Each file registers one group of commands with `app`; the commands of plugins come from a registry.
"""

from kgqa_hpc.cli import dataset, look, run
from kgqa_hpc.cli.app import app, main

__all__ = ["app", "dataset", "look", "main", "run"]
