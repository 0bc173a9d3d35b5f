"""The configuration of tools/slurm_sandbox: virtual nodes of this machine, fake GPUs, free ports."""

import getpass
import os
import random
import socket
import stat
from pathlib import Path

PORTS = range(20_000, 32_000)  # below the range the kernel hands out by itself

CONF = """\
ClusterName=sandbox
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# cred_expire: the node of a busy machine may take so long to start a step. A requeued job waits as long before it
# starts again, unless it is told to: scontrol update jobid=JOB starttime=now+3.
AuthInfo=socket={socket},cred_expire=60
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
TmpFS={dir}/tmp.%n
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmdPidFile={dir}/run/slurmd.%n.pid
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdLogFile={dir}/log/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=5,sched_min_interval=0,batch_sched_delay=0,requeue_setup_env_fail
PriorityType=priority/basic
JobRequeue=1
OverTimeLimit=0
KillWait=3
BatchStartTimeout=120
UnkillableStepTimeout=600
MinJobAge=3600
InactiveLimit=0
MessageTimeout=60
TCPTimeout=20
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
"""


class Problem(Exception):
    """One clear line for the user."""


def write_configuration(root: Path, socket_path: Path, nodes: int, cpus: int, gpus: int) -> None:
    """slurm.conf and gres.conf of a sandbox with fresh free ports."""
    ports = free_ports(nodes + 1)
    host = socket.gethostname().split(".")[0]
    lines = [CONF.format(host=host, port=ports[0], user=getpass.getuser(), socket=socket_path, dir=root)]
    gres = f" Gres=gpu:{gpus}" if gpus else ""
    if gpus:
        lines.append("GresTypes=gpu\n")
    for number in range(1, nodes + 1):
        lines.append(
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs={cpus}"
            f" RealMemory=8000{gres} State=UNKNOWN\n"
        )
    lines.append(f"PartitionName=debug Nodes=n[1-{nodes}] Default=YES MaxTime=INFINITE State=UP\n")
    lines.append(f"PartitionName=gpu Nodes=n[1-{nodes}] MaxTime=INFINITE State=UP\n")
    (root / "slurm.conf").write_text("".join(lines))
    gres_line = f"Name=gpu File={root}/gpu/fake[0-{gpus - 1}]\n" if gpus else ""
    (root / "gres.conf").write_text("AutoDetect=off\n" + gres_line)


def free_ports(count: int) -> list[int]:
    """Ports that are free now. If another process takes one first, `start` tries others."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise Problem(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")


def make_fake_gpus(root: Path, count: int) -> None:
    """A file per GPU: Slurm wants distinct ones. Device files where allowed, plain files otherwise."""
    for number in range(count):
        path = root / "gpu" / f"fake{number}"
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            path.touch()
