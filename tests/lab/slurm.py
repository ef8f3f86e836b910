"""Slurm in a lab: munge, slurmctld on the login node, one slurmd a node, and fake GPUs that follow the jobs.

The lab script offers this as `lab slurm VERB`; what the verbs do stands at the end of this file. Every daemon is a process
of the lab and ends with it. What costs an hour to find out:

- GPUs need File= in gres.conf, or nodes are INVAL. They are counted whatever the files are, but tasks are told which are
  theirs (SLURM_STEP_GPUS) only when they are devices; nothing ever opens them.
- SlurmdParameters=config_overrides lets a small machine claim 64 CPUs.
- slurmd reads its node's name from the host name, and takes -N only to have several on one host.
- sched_interval=1, sched_min_interval=0 and batch_sched_delay=0 start the first job in under a second, not in three.
"""

import os
import signal
import stat
import subprocess
import sys
import time

HOME = "/run/lab/slurm"
CONTROLLER = "10.77.0.1"
# Not beginning as the groups of frozen processes do: these have children.
GROUP = "gtop-slurm"
DEVICES = "/sys/fs/cgroup/devices"

CONF = """\
ClusterName=lab
SlurmctldHost=login({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
SlurmctldLogFile={home}/log/slurmctld
SlurmdLogFile={home}/log/slurmd.%n
ProctrackType=proctrack/{track}
TaskPlugin=task/{task}
TaskProlog={home}/prolog
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
MailProg=/bin/true
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters={select}
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=30
KillWait=1
MinJobAge=60
InactiveLimit=0
MaxArraySize=1001
GresTypes=gpu,shard
PrologFlags={prolog}
NodeName=gpu[{first}-{last}] CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1024000 Gres=gpu:h100:{gpus},shard:{shards} State=UNKNOWN
PartitionName=gpu Nodes=gpu[{first}-{last}] Default=YES MaxTime=7-0 DefaultTime=1:00:00 State=UP
PartitionName=debug Nodes=gpu[{first}-{last}] MaxTime=1:00:00 State=UP
"""

GRES = """\
NodeName=gpu[{first}-{last}] Name=gpu Type=h100 File={home}/dev/nvidia[0-{top}]
NodeName=gpu[{first}-{last}] Name=shard Count={shards}
"""

CGROUP = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=no
ConstrainDevices={devices}
"""

# What a node's slurmd stands on where process groups are cgroups of version 1: a hierarchy of its own, so that the nodes of
# several labs do not share theirs.
START = """
for kind in freezer $3; do
    mkdir -p "/sys/fs/cgroup/$kind/$1" && echo $$ >"/sys/fs/cgroup/$kind/$1/cgroup.procs"
done
exec nsenter -t "$2" -a unshare --cgroup --mount --propagation slave sh -c '
mount -t tmpfs cgroup /sys/fs/cgroup
for kind in freezer $0; do
    mkdir "/sys/fs/cgroup/$kind" && mount -t cgroup -o "$kind" "$kind" "/sys/fs/cgroup/$kind"
done
exec slurmd' "$3"
"""

# A node with such a file is late: each of its tasks begins so many seconds later.
PROLOG = """#!/bin/sh
[ ! -e {home}/late.$SLURMD_NODENAME ] || sleep "$(cat {home}/late.$SLURMD_NODENAME)"
"""

PAM = """\
auth required pam_permit.so
account required {module} {options}
session required pam_permit.so
"""


class Slurm:
    """Slurm of one lab, driven from outside; `lab` is the lab script as a module."""

    def __init__(self, lab):
        self.lab = lab
        self.root = f"/proc/{lab.lab_pid()}/root"
        self.nodes = sorted(os.listdir(self.root + lab.NODES))

    # ---- up and down ----

    def up(self, kind=""):
        """Starts everything; returns when every node is idle.

        Of the kind `strict`, jobs share memory as well as cores, and tasks may open only the devices they were given.
        """
        self.is_strict = kind == "strict"
        for program in ("munged", "slurmctld", "slurmd", "squeue"):
            if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in self.lab.PATH.split(":")):
                raise self.lab.Failure(f"{program} is not installed: apt-get install slurmctld slurmd slurm-client munge")
        self.files()
        self.munge("start")
        self.controller("start")
        for node in self.nodes:
            self.slurmd(node)
        self.on_login(sys.executable, f"{self.lab.LAB}/lab", "__follow_jobs", wait=False)
        self.until_idle()

    def down(self):
        """Ends every job and daemon."""
        self.sh("scancel -u alice; scancel -u bob; sleep 0.3; pkill -x slurmd; pkill -x slurmctld; pkill -x munged; pkill -f __follow_jobs; :")
        for node in self.nodes:
            remove(f"{self.lab.FREEZER}/{GROUP}-{self.lab.lab_pid()}-{node}")
            remove(f"{DEVICES}/{GROUP}-{self.lab.lab_pid()}-{node}")

    def files(self):
        home = self.root + HOME
        for folder in ("etc", "state", "spool", "log", "dev", "munge"):
            os.makedirs(f"{home}/{folder}", exist_ok=True)
        gpus = sum(line.startswith("gpu ") for line in self.lab.read(f"{self.root}{self.lab.NODES}/{self.nodes[0]}/gpus").splitlines())
        has_groups = os.path.isdir(self.lab.FREEZER)
        numbers = [node.removeprefix("gpu") for node in self.nodes]
        words = {
            "home": HOME, "controller": CONTROLLER, "first": numbers[0], "last": numbers[-1], "gpus": gpus, "top": gpus - 1, "shards": 4 * gpus,
            "track": "cgroup" if has_groups else "linuxproc", "prolog": "Alloc,Contain" if has_groups else "Alloc",
            "task": "cgroup" if self.is_strict else "none", "devices": "yes" if self.is_strict else "no",
            "select": "CR_Core_Memory" if self.is_strict else "CR_Core",
        }  # fmt: skip
        self.lab.write(f"{home}/etc/slurm.conf", CONF.format(**words))
        self.lab.write(f"{home}/prolog", PROLOG.format(**words))
        os.chmod(f"{home}/prolog", 0o755)
        self.lab.write(f"{home}/etc/gres.conf", GRES.format(**words))
        self.lab.write(f"{home}/etc/cgroup.conf", CGROUP.format(**words))
        for gpu in range(gpus):
            os.path.exists(f"{home}/dev/nvidia{gpu}") or os.mknod(f"{home}/dev/nvidia{gpu}", stat.S_IFCHR | 0o666, os.makedev(195, gpu))
        for node in self.nodes:
            os.makedirs(f"{home}/spool/{node}", exist_ok=True)
        self.lab.write(f"{home}/munge/key", "")
        with open(f"{home}/munge/key", "wb") as key:
            key.write(os.urandom(128))
        os.chmod(f"{home}/munge/key", 0o400)
        os.makedirs(f"{self.root}/run/munge", exist_ok=True)
        for etc in ["/run/lab/etc", *(f"{self.lab.NODES}/{node}/etc" for node in self.nodes)]:
            path = f"{self.root}{etc}/slurm"
            if not os.path.islink(path):
                subprocess.run(["rm", "-rf", path], check=True)
                os.symlink(f"{HOME}/etc", path)

    def slurmd(self, node):
        """Starts the node's slurmd, in a cgroup of its own where there can be one."""
        pid = str(self.lab.node_pid(node))
        if not os.path.isdir(self.lab.FREEZER):
            return self.lab.enter(pid, "slurmd")
        group = f"{GROUP}-{self.lab.lab_pid()}-{node}"
        is_strict = "ConstrainDevices=yes" in self.lab.read(f"{self.root}{HOME}/etc/cgroup.conf")
        return subprocess.run(["sh", "-c", START, "sh", group, pid, "devices" if is_strict else ""], check=True)

    def until_idle(self):
        """Waits until every node is ready for jobs."""
        for _ in range(600):
            done = subprocess.run(
                ["nsenter", "-t", str(self.lab.lab_pid()), "-a", "timeout", "5", "sinfo", "-p", "gpu", "-h", "-t", "idle", "-o", "%D"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.stdout.strip() == str(len(self.nodes)):
                return
            time.sleep(0.05)
        raise self.lab.Failure(f"the nodes do not become idle: {self.lab.read(self.root + HOME + '/log/slurmctld')[-2000:]}")

    # ---- daemons ----

    def munge(self, verb):
        """start, stop, freeze or thaw."""
        if verb == "start":
            self.on_login(
                "munged", "--force", f"--key-file={HOME}/munge/key", "--socket=/run/munge/munge.socket.2",
                f"--pid-file={HOME}/munge/pid", f"--log-file={HOME}/log/munged", f"--seed-file={HOME}/munge/seed",
            )  # fmt: skip
        else:
            self.signal(verb, f"{HOME}/munge/pid")

    def controller(self, verb):
        """start, stop, freeze or thaw."""
        if verb == "start":
            self.on_login("slurmctld")
        else:
            self.signal(verb, f"{HOME}/slurmctld.pid")

    def signal(self, verb, pid_file):
        name = {"stop": "TERM", "freeze": "STOP", "thaw": "CONT"}[verb]
        # A controller that was killed forgets what it has not yet written down.
        wait = 'while kill -0 "$p" 2>/dev/null; do sleep 0.02; done' if verb == "stop" else ":"
        self.sh(f"p=$(cat {pid_file}) && kill -{name} $p && {wait}")

    def config(self, verb):
        """hide or show: slurm.conf as the login node finds it."""
        path = f"{self.root}{HOME}/etc/slurm.conf"
        names = (path, f"{path}.hidden")
        os.rename(*(names if verb == "hide" else names[::-1]))

    def adopt(self, node, *options):
        """Lets only those in by ssh who have a job on the node, as pam_slurm_adopt does; with these options of its own."""
        module = next((path for path in ADOPT if os.path.exists(path)), None)
        if module is None:
            raise self.lab.Failure("pam_slurm_adopt is not installed: apt-get install libpam-slurm-adopt")
        self.lab.replace(f"{self.root}{self.lab.NODES}/{node}/etc/pam.d/sshd", PAM.format(module=module, options=" ".join(options)))
        self.lab.sshd(node, "UsePAM yes")

    def late(self, node, seconds):
        """Has tasks on a node begin so many seconds late; 0 ends that."""
        path = f"{self.root}{HOME}/late.{node}"
        self.lab.write(path, seconds) if seconds != "0" else os.remove(path)

    def on_login(self, *command, wait=True):
        command = ["nsenter", "-t", str(self.lab.lab_pid()), "-a", *command]
        if wait:
            return subprocess.run(command, check=True)
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def sh(self, line):
        self.on_login("sh", "-c", line)


ADOPT = ("/usr/lib/security/pam_slurm_adopt.so", "/lib/security/pam_slurm_adopt.so", "/usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so")


def sweep(lab):
    """Removes the cgroups of labs that are gone."""
    for kind in (lab.FREEZER, DEVICES):
        for name in os.listdir(kind) if os.path.isdir(kind) else []:
            if name.startswith(f"{GROUP}-") and not os.path.exists(f"/proc/{name.split('-')[2]}/root{lab.LAB}"):
                remove(f"{kind}/{name}")


def remove(group):
    """Removes a cgroup and what is in it; the last processes may take a moment to be gone."""
    for _ in range(100):
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # somebody still runs in it
        if not os.path.exists(group):
            return
        time.sleep(0.02)


# ---- inside the lab --------------------------------------------------------------------------------------


def follow_jobs(lab):
    """Has each node's GPUs tell what the Slurm tasks on them use; runs on the login node until the lab ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    told = {}
    while True:
        seen = uses(lab)
        for node in os.listdir(lab.NODES):
            path = f"{lab.NODES}/{node}/gpus"
            lines = [line for line in lab.read(path).splitlines() if not line.startswith("proc ")]
            lines += sorted(seen.get(node, []))
            if told.get(node) != lines:
                lab.write(f"{path}.jobs", "\n".join(lines) + "\n")
                os.rename(f"{path}.jobs", path)
                told[node] = lines
        time.sleep(0.25)


def uses(lab):
    """Returns {node: ["proc GPU PID MIB SM"]}: each leaf of a task uses every GPU its step was given."""
    found, parents = {}, set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid not in lab.USERS.values():
                continue
            status = dict(line.split(":\t", 1) for line in lab.read(f"/proc/{name}/status").splitlines() if ":\t" in line)
            environment = dict(word.split("=", 1) for word in lab.read(f"/proc/{name}/environ").split("\0") if "=" in word)
        except OSError:
            continue  # it ended meanwhile
        parents.add(int(status["PPid"]))
        # The batch host's SLURM_JOB_GPUS is copied to every step, and wrong on the other nodes: the step's own come first.
        gpus = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS", "")
        if "SLURM_PROCID" in environment and status["Name"].strip() not in ("srun", "slurm_script"):
            found[int(name)] = (environment.get("SLURMD_NODENAME"), int(status["NSpid"].split()[-1]), gpus)
    lines = {}
    for pid, (node, own, gpus) in found.items():
        if pid not in parents:
            files = device_files(lab, node)
            used = [files[gpu] for gpu in gpus.split(",") if gpu in files]
            lines.setdefault(node, []).extend(f"proc {gpu} {own} {1000 + own} 50" for gpu in used)
    return lines


def device_files(lab, node):
    """Returns {number of the device file: the driver's number} of a node's GPUs, which may differ."""
    found = {}
    for line in lab.read(f"{lab.NODES}/{node}/gpus").splitlines():
        kind, *words = line.split()
        if kind == "gpu":
            number = dict(word.split("=", 1) for word in words if "=" in word).get("minor", words[0])
            found = {minor: gpu for minor, gpu in found.items() if gpu != words[0]} | {number: words[0]}
    return found


# ---- verbs -----------------------------------------------------------------------------------------------


def main(lab, verb="help", *arguments):
    """lab slurm VERB"""
    if verb not in VERBS:
        raise lab.Failure(f"no such verb: slurm {verb}; there are: {', '.join(VERBS)}")
    VERBS[verb](Slurm(lab), *arguments)


VERBS = {
    "up": Slurm.up,
    "down": Slurm.down,
    # start, stop, freeze, thaw
    "controller": Slurm.controller,
    "munge": Slurm.munge,
    # hide, show
    "config": Slurm.config,
    # NODE [OPTION...]
    "adopt": Slurm.adopt,
    # NODE SECONDS
    "late": Slurm.late,
    "slurmd": Slurm.slurmd,
}
