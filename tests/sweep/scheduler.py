"""A real SLURM of one node, on loopback, for as long as a test needs it."""

import contextlib
import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from tests.training.test_processes import free_port

DAEMONS = ("munged", "slurmctld", "slurmd")
CONFIG = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
CommunicationParameters=NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
# A requeued job waits until its old credential has expired; 120 s unless told.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerParameters=sched_min_interval=500000,sched_interval=2
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 NodeHostname={host} CPUs=2 State=UNKNOWN
PartitionName=short Nodes=localhost Default=YES MaxTime=60 State=UP
"""


def missing() -> str:
    """Why there can be none here, or nothing."""
    paths = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    absent = [name for name in DAEMONS if not shutil.which(name, path=paths)]
    return f"{', '.join(absent)} not installed: install_slurm.sh" if absent else ""


@contextlib.contextmanager
def running():
    """While open, commands of SLURM that are given this environment speak to it."""
    # A short path: the name of a socket has at most 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as name,
        contextlib.ExitStack() as s,
    ):
        folder = pathlib.Path(name)
        for part in ("state", "spool"):
            (folder / part).mkdir()
        config, key = folder / "slurm.conf", folder / "munge.key"
        config.write_text(
            CONFIG.format(
                folder=folder,
                control=free_port(),
                node=free_port(),
                user=getpass.getuser(),
                host=socket.gethostname().partition(".")[0],
            )
        )
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        environment = {**os.environ, "SLURM_CONF": str(config), "PATH": path}
        told = {"pid": "pid", "log": "log", "seed": "seed"}
        munge = [f"--{name}-file={folder}/munge.{end}" for name, end in told.items()]
        munge += [f"--key-file={key}", f"--socket={folder}/munge.socket"]
        for command in (
            ["munged", "--foreground", "--force", *munge],
            ["slurmctld", "-D"],
            ["slurmd", "-D"],
        ):
            s.enter_context(_daemon(command, environment, folder))
            time.sleep(0.5)
        wait_until(lambda: "idle" in output(environment, "sinfo"))
        yield environment


@contextlib.contextmanager
def _daemon(command, environment, folder):
    with (
        open(folder / f"{command[0]}.log", "wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process,
    ):
        yield
        process.terminate()


def output(environment, *command):
    """What a command says; nothing if it fails."""
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60
    )
    return done.stdout if done.returncode == 0 else ""


def wait_until(condition, seconds=240):
    """Waits until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.1)
