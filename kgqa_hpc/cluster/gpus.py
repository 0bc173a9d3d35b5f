"""Which GPUs a worker gets, decided once, before anything imports CUDA."""

from __future__ import annotations

from collections.abc import MutableMapping

from kgqa_hpc.cluster.ranks import World
from kgqa_hpc.errors import ConfigError


def assign_gpus(world: World, per_worker: int, environ: MutableMapping[str, str]) -> str | None:
    """Give this worker its own GPUs by setting CUDA_VISIBLE_DEVICES, before anything imports torch.

    A launcher that already gave this task exactly its GPUs (srun --gpus-per-task) is left alone; of a list
    that all tasks of the node see, each takes its part by local rank. Returns the value, None when there is
    nothing to set. Raises ConfigError when there are fewer GPUs than the workers on this node need.
    """
    if per_worker < 1:
        return None
    first = world.local_rank * per_worker
    seen = environ.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        devices = [str(number) for number in range(first, first + per_worker)] if world.local_size > 1 else []
    else:
        listed = [part.strip() for part in seen.split(",") if part.strip()]
        if len(listed) <= per_worker:
            devices = listed
        else:
            devices = listed[first : first + per_worker]
        if len(devices) < per_worker:
            raise ConfigError(
                f"local rank {world.local_rank} needs {per_worker} GPU(s) of CUDA_VISIBLE_DEVICES={seen}",
                "start one worker per GPU, for instance with --ntasks-per-node equal to the GPUs of a node",
            )
    if not devices:
        return None
    environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    return environ["CUDA_VISIBLE_DEVICES"]
