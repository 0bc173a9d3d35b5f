"""LMDeploy inside the process: one GPU (or several) per worker, always full."""
