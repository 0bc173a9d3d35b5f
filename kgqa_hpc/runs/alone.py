"""Lock of a run: one process at a time changes its configuration or decides about its target; the others wait.

`init`, `judge`, `extend`, changes of `dataset:` and a target's growth read the configuration, change it and write
config.yaml, anchors and manifest. Two of them at once would mix their files and leave an unusable run.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kgqa_hpc.errors import StoppedEarly
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.lease_renewal import Heartbeat
from kgqa_hpc.store.run_folder import CONFIGURATION, RunFolder
from kgqa_hpc.terminal import note

EXPIRY = 20.0  # s without a heartbeat after which the next process goes on
POLL = 0.2  # s before the second attempt; the pause grows
PATIENCE = 2.0  # s of waiting before a note to the user


@contextmanager
def alone(
    run: RunFolder,
    role: str = CONFIGURATION,
    expiry: float = EXPIRY,
    stopped: Callable[[float], object] = time.sleep,
) -> Iterator[None]:
    """Hold the lease of a role within the block; wait for it without a limit.

    `stopped(seconds)` waits and returns whether this process must stop; then StoppedEarly is raised.
    """
    leases = Leases(run.leases(role), f"{socket.gethostname()}-{os.getpid()}", expiry)
    heartbeat = Heartbeat(expiry, lambda *_, **__: None)
    name, pause, waited = role.strip("."), POLL, 0.0
    try:
        while (lease := leases.claim(name)) is None:
            if stopped(pause):
                raise StoppedEarly(
                    "stopped early; everything finished is saved", "run the same command again"
                )
            if waited < PATIENCE <= waited + pause and (holder := leases.holder(name)):
                note(f"{holder.worker} is changing the {name} of {run.path}; waiting until it has ended")
            waited, pause = waited + pause, min(1.5 * pause, 15.0)
        heartbeat.start()
        heartbeat.keep(lease)
        try:
            yield
        finally:
            heartbeat.stop()
            lease.release()
    finally:
        leases.close()
