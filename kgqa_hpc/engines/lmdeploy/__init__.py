"""The LMDeploy engine: LMDeploy inside the engine process, with one or several GPUs per worker."""
