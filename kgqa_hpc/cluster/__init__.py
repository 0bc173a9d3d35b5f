"""Ranks, GPUs, launchers, Slurm: how processes are started, told apart and told to stop."""
