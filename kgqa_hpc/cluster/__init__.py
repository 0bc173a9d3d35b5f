"""Ranks, GPUs, launchers, Slurm: how processes are started, numbered and stopped."""
