"""Slurm in a lab: munge, slurmctld on the login node, one slurmd per node, and fake GPUs whose processes are the tasks of jobs.

The lab script offers this as `lab slurm VERB`; the verbs are listed at the end of this file. Each daemon is a process of
the lab and ends with it. Notes on the configuration:

- GPUs need File= in gres.conf, or nodes are INVAL. Slurm counts any files, but sets SLURM_STEP_GPUS for tasks only if
  they are devices; nothing ever opens them.
- SlurmdParameters=config_overrides lets a small machine configure 64 CPUs.
- slurmd takes its node name from the host name; -N is needed only for several slurmd on one host.
- sched_interval=1, sched_min_interval=0 and batch_sched_delay=0 start the first job within a second instead of three.
"""

import os
import signal
import stat
import subprocess
import sys
import time

HOME = "/run/lab/slurm"
CONTROLLER = "10.77.0.1"
# Not the prefix of the lab's freezer groups, because these cgroups have children.
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

# Starts a node's slurmd on cgroup v1, in its own cgroup and cgroup namespace: nodes of several labs must not share one.
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

# Delays each task on a node by the seconds in this file, if it exists.
PROLOG = """#!/bin/sh
[ ! -e {home}/task_delay.$SLURMD_NODENAME ] || sleep "$(cat {home}/task_delay.$SLURMD_NODENAME)"
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

        With kind `strict`, Slurm also allocates memory, and tasks can open only their allocated devices.
        """
        self.is_strict = kind == "strict"
        for program in ("munged", "slurmctld", "slurmd", "squeue"):
            if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in self.lab.PATH.split(":")):
                raise self.lab.Failure(f"{program} is not installed: apt-get install slurmctld slurmd slurm-client munge")
        self.write_files()
        self.munge("start")
        self.controller("start")
        for node in self.nodes:
            self.slurmd(node)
        self.on_login(sys.executable, f"{self.lab.LAB}/lab", "__follow_jobs", wait=False)
        self.wait_until_idle()

    def down(self):
        """Ends every job and daemon."""
        self.sh("scancel -u alice; scancel -u bob; sleep 0.3; pkill -x slurmd; pkill -x slurmctld; pkill -x munged; pkill -f __follow_jobs; :")
        for node in self.nodes:
            remove_cgroup(f"{self.lab.FREEZER}/{GROUP}-{self.lab.lab_pid()}-{node}")
            remove_cgroup(f"{DEVICES}/{GROUP}-{self.lab.lab_pid()}-{node}")

    def write_files(self):
        home = self.root + HOME
        for folder in ("etc", "state", "spool", "log", "dev", "munge"):
            os.makedirs(f"{home}/{folder}", exist_ok=True)
        gpus = sum(line.startswith("gpu ") for line in self.lab.read(f"{self.root}{self.lab.NODES}/{self.nodes[0]}/gpus").splitlines())
        has_groups = os.path.isdir(self.lab.FREEZER)
        numbers = [node.removeprefix("gpu") for node in self.nodes]
        values = {
            "home": HOME, "controller": CONTROLLER, "first": numbers[0], "last": numbers[-1], "gpus": gpus, "top": gpus - 1, "shards": 4 * gpus,
            "track": "cgroup" if has_groups else "linuxproc", "prolog": "Alloc,Contain" if has_groups else "Alloc",
            "task": "cgroup" if self.is_strict else "none", "devices": "yes" if self.is_strict else "no",
            "select": "CR_Core_Memory" if self.is_strict else "CR_Core",
        }  # fmt: skip
        self.lab.write(f"{home}/etc/slurm.conf", CONF.format(**values))
        self.lab.write(f"{home}/prolog", PROLOG.format(**values))
        os.chmod(f"{home}/prolog", 0o755)
        self.lab.write(f"{home}/etc/gres.conf", GRES.format(**values))
        self.lab.write(f"{home}/etc/cgroup.conf", CGROUP.format(**values))
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
        """Starts the node's slurmd, in its own cgroup if the machine has cgroup v1."""
        pid = str(self.lab.node_pid(node))
        if not os.path.isdir(self.lab.FREEZER):
            return self.lab.enter(pid, "slurmd")
        group = f"{GROUP}-{self.lab.lab_pid()}-{node}"
        is_strict = "ConstrainDevices=yes" in self.lab.read(f"{self.root}{HOME}/etc/cgroup.conf")
        return subprocess.run(["sh", "-c", START, "sh", group, pid, "devices" if is_strict else ""], check=True)

    def wait_until_idle(self):
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
        # Wait for its exit: it saves its state before that.
        wait = 'while kill -0 "$p" 2>/dev/null; do sleep 0.02; done' if verb == "stop" else ":"
        self.sh(f"p=$(cat {pid_file}) && kill -{name} $p && {wait}")

    def config(self, verb):
        """hide or show: renames slurm.conf, or restores its name."""
        path = f"{self.root}{HOME}/etc/slurm.conf"
        names = (path, f"{path}.hidden")
        os.rename(*(names if verb == "hide" else names[::-1]))

    def adopt(self, node, *options):
        """Has sshd on the node use pam_slurm_adopt, with these options: only users with a job there can log in."""
        module = next((path for path in ADOPT if os.path.exists(path)), None)
        if module is None:
            raise self.lab.Failure("pam_slurm_adopt is not installed: apt-get install libpam-slurm-adopt")
        self.lab.replace(f"{self.root}{self.lab.NODES}/{node}/etc/pam.d/sshd", PAM.format(module=module, options=" ".join(options)))
        self.lab.sshd(node, "UsePAM yes")

    def task_delay(self, node, seconds):
        """Delays the start of tasks on a node; 0 removes the delay."""
        path = f"{self.root}{HOME}/task_delay.{node}"
        self.lab.write(path, seconds) if seconds != "0" else os.remove(path)

    def on_login(self, *command, wait=True):
        command = ["nsenter", "-t", str(self.lab.lab_pid()), "-a", *command]
        if wait:
            return subprocess.run(command, check=True)
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def sh(self, line):
        self.on_login("sh", "-c", line)


ADOPT = ("/usr/lib/security/pam_slurm_adopt.so", "/lib/security/pam_slurm_adopt.so", "/usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so")


def remove_stale_cgroups(lab):
    """Removes the cgroups of labs that have ended."""
    for kind in (lab.FREEZER, DEVICES):
        for name in os.listdir(kind) if os.path.isdir(kind) else []:
            if name.startswith(f"{GROUP}-") and not os.path.exists(f"/proc/{name.split('-')[2]}/root{lab.LAB}"):
                remove_cgroup(f"{kind}/{name}")


def remove_cgroup(group):
    """Removes a cgroup with its children; retries while the last processes exit."""
    for _ in range(100):
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # a process still runs in it
        if not os.path.exists(group):
            return
        time.sleep(0.02)


# ---- inside the lab --------------------------------------------------------------------------------------


def follow_jobs(lab):
    """Makes each node's fake GPUs list the Slurm tasks that use them; runs on the login node until the lab ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    written = {}
    while True:
        current = gpu_processes(lab)
        for node in os.listdir(lab.NODES):
            path = f"{lab.NODES}/{node}/gpus"
            lines = [line for line in lab.read(path).splitlines() if not line.startswith("proc ")]
            lines += sorted(current.get(node, []))
            if written.get(node) != lines:
                lab.write(f"{path}.jobs", "\n".join(lines) + "\n")
                os.rename(f"{path}.jobs", path)
                written[node] = lines
        time.sleep(0.25)


def gpu_processes(lab):
    """Returns {node: ["proc GPU PID MIB SM"]}: each process of a task without children uses all GPUs of its step."""
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
        # SLURM_STEP_GPUS first: every step inherits SLURM_JOB_GPUS of the batch host, which is wrong on other nodes.
        gpus = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS", "")
        if "SLURM_PROCID" in environment and status["Name"].strip() not in ("srun", "slurm_script"):
            found[int(name)] = (environment.get("SLURMD_NODENAME"), int(status["NSpid"].split()[-1]), gpus)
    lines = {}
    for pid, (node, pid_on_node, gpus) in found.items():
        if pid not in parents:
            files = device_files(lab, node)
            used = [files[gpu] for gpu in gpus.split(",") if gpu in files]
            lines.setdefault(node, []).extend(f"proc {gpu} {pid_on_node} {1000 + pid_on_node} 50" for gpu in used)
    return lines


def device_files(lab, node):
    """Returns {minor number of the device file: index in the driver} of a node's GPUs, which may differ."""
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
    "task-delay": Slurm.task_delay,
    "slurmd": Slurm.slurmd,
}
