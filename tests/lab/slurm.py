"""Slurm in a lab: munge, slurmctld on the login node, one slurmd per node, and fake GPUs whose processes are the tasks of jobs.

The lab script offers this as `lab slurm VERB`; the verbs are listed at the end of this file. Each daemon is a process of
the lab and ends with it. What a job holds is what its device cgroup lets it open: `openable_files`. Notes on the
configuration:

- GPUs need File= in gres.conf, or nodes are INVAL. Slurm counts any files, but sets SLURM_STEP_GPUS for tasks only if
  they are devices. They have no driver: an open() that the device cgroup allows ends with ENXIO, a refused one with EPERM.
- SlurmdParameters=config_overrides lets a small machine configure 64 CPUs.
- slurmd takes its node name from the host name; -N is needed only for several slurmd on one host.
- sched_interval=1, sched_min_interval=0 and batch_sched_delay=0 start the first job within a second instead of three.
"""

import errno
import glob
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

from device_lists import LISTS, DeviceList, capability

HOME = "/run/lab/slurm"
CONTROLLER = "10.77.0.1"
# Not the prefix of the lab's freezer groups, because these cgroups have children.
GROUP = "gtop-slurm"
DEVICES = "/sys/fs/cgroup/devices"
# Those of cgroup v1 in which the daemons of nodes may have groups.
HIERARCHIES = [f"/sys/fs/cgroup/{kind}" for kind in ("freezer", "devices", "cpuacct", "memory")]

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
Epilog={home}/epilog
{accounting}
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
{nodes}
PartitionName=gpu Nodes=gpu[{first}-{last}] Default=YES MaxTime=7-0 DefaultTime=1:00:00 State=UP
PartitionName=debug Nodes=gpu[{first}-{last}] MaxTime=1:00:00 State=UP
"""

# What jobs use is not accounted for, or by their control groups, and then kept in a database.
NO_ACCOUNTING = """\
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none"""

ACCOUNTING = """\
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=task=2
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=login
AccountingStorageTRES=gres/gpu"""

DATABASE_DAEMON = """\
AuthType=auth/munge
DbdHost=login
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
LogFile={home}/log/slurmdbd
PidFile={home}/slurmdbd.pid
"""

# Starts the database, which only root of the lab can reach: at the socket where slurmdbd searches for it.
DATABASE = """
home=$1
mkdir -p /run/mysqld "$home/database"
mariadb-install-db --no-defaults --user=root --datadir="$home/database" --auth-root-authentication-method=normal --skip-test-db >"$home/log/database"
exec mariadbd --no-defaults --user=root --datadir="$home/database" --socket=/run/mysqld/mysqld.sock --skip-networking \\
    --innodb-log-file-size=8M --innodb-flush-method=fsync </dev/null >>"$home/log/database" 2>&1 &
"""

NODE = "NodeName={names} CPUs=64 Sockets=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=1024000 Gres={gres} State=UNKNOWN"

CGROUP = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainRAMSpace=no
ConstrainDevices={devices}
"""

# Mounts a node's own device files and what its driver tells in /proc, once per boot.
DEVICES_OF_NODE = """
here=/run/lab/nodes/$NODE
if [ ! -e /dev/lab ]; then
    for name in pts shm; do mount --rbind "/dev/$name" "$here/dev/$name"; done
    mount --rbind "$here/dev" /dev
    [ ! -d "$here/driver" ] || mount --bind "$here/driver" /proc/driver
fi
"""

END_OF_NODE = "[ ! -e /dev/lab ] || umount -l /dev; umount -l /proc/driver /sys/fs/cgroup 2>/dev/null; :"

# Starts a node's slurmd on cgroup v1, in its own cgroup and cgroup namespace: nodes of several labs must not share one.
# The node's other processes see the groups of jobs as on a real node.
START = """
group=$1 pid=$2 kinds=$3
shift 3
for kind in freezer $kinds; do
    mkdir -p "/sys/fs/cgroup/$kind/$group" && echo $$ >"/sys/fs/cgroup/$kind/$group/cgroup.procs"
done
exec nsenter -t "$pid" -a unshare --cgroup sh -c '
umount -l -R /sys/fs/cgroup 2>/dev/null
mount -t tmpfs cgroup /sys/fs/cgroup
for kind in freezer $0; do
    mkdir "/sys/fs/cgroup/$kind" && mount -t cgroup -o "$kind" "$kind" "/sys/fs/cgroup/$kind"
done
exec slurmd "$@"' "$kinds" "$@"
"""

# Delays each task on a node by the seconds in this file, if it exists.
PROLOG = """#!/bin/sh
[ ! -e {home}/task_delay.$SLURMD_NODENAME ] || sleep "$(cat {home}/task_delay.$SLURMD_NODENAME)"
"""

# Delays the end of each job on a node by the seconds in this file, if it exists.
EPILOG = """#!/bin/sh
[ ! -e {home}/epilog_delay.$SLURMD_NODENAME ] || sleep "$(cat {home}/epilog_delay.$SLURMD_NODENAME)"
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

    def up(self, *words):
        """Starts everything; returns when every node is idle.

        With `strict`, Slurm also allocates memory, and tasks can open only their allocated devices. With `accounting`, it
        keeps what jobs used in a database. Words such as `gpu02=backwards` give a node one of the lists of
        device_lists.py, and its driver the devices of that list.
        """
        self.is_strict, self.has_accounting = "strict" in words, "accounting" in words
        self.named = dict(word.split("=", 1) for word in words if "=" in word)
        unknown = [word for word in words if word not in ("strict", "accounting") and word.partition("=")[2] not in LISTS]
        if unknown or set(self.named) - set(self.nodes):
            raise self.lab.Failure(f"no such node or list: {', '.join(unknown or sorted(self.named))}")
        if self.named and not (self.is_strict and os.path.isdir(DEVICES)):
            raise self.lab.Failure("lists of devices need `strict` and the device cgroup of cgroup v1")
        for program, package in PROGRAMS.items() if self.has_accounting else list(PROGRAMS.items())[:4]:
            if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in self.lab.PATH.split(":")):
                raise self.lab.Failure(f"{program} is not installed: apt-get install {package}")
        self.write_files()
        self.munge("start")
        if self.has_accounting:
            self.start_accounting()
        self.controller("start")
        for node in self.nodes:
            self.slurmd(node)
        self.on_login(sys.executable, f"{self.lab.LAB}/lab", "__follow_jobs", wait=False)
        self.wait_until_idle()
        # Slurm tells whole seconds: a job that starts in that of a slurmd may have been placed by the slurmd before.
        time.sleep(1 - time.time() % 1)

    def down(self):
        """Ends every job and daemon, and removes what was mounted for them."""
        # The brackets keep the pattern from matching this shell.
        self.sh("pkill -KILL -x slurmd; pkill -KILL -x slurmstepd; pkill -KILL -x slurmctld; pkill -KILL -x slurmdbd; pkill -KILL -x mariadbd; pkill -x munged; pkill -f '[_]_follow_jobs'; :")
        for node in self.nodes:
            self.kill_tasks(node)
        for node in self.nodes:
            self.lab.enter(str(self.lab.node_pid(node)), "sh", "-c", END_OF_NODE)
            for hierarchy in HIERARCHIES:
                remove_cgroup(f"{hierarchy}/{GROUP}-{self.lab.lab_pid()}-{node}")

    def kill_tasks(self, node):
        """Kills what runs in the node's jobs."""
        for folder, _, _ in os.walk(f"{self.lab.FREEZER}/{GROUP}-{self.lab.lab_pid()}-{node}"):
            for pid in self.lab.read(f"{folder}/cgroup.procs").split():
                os.kill(int(pid), signal.SIGKILL)

    def write_files(self):
        home = self.root + HOME
        for folder in ("state", "spool", "database"):  # what is known of the jobs of an earlier start
            shutil.rmtree(f"{home}/{folder}", ignore_errors=True)
        for folder in ("etc", "state", "spool", "log", "munge"):
            os.makedirs(f"{home}/{folder}", exist_ok=True)
        has_groups = os.path.isdir(self.lab.FREEZER)
        lists = {node: self.list_of(node) for node in self.nodes}
        numbers = [node.removeprefix("gpu") for node in self.nodes]
        values = {
            "home": HOME, "controller": CONTROLLER, "first": numbers[0], "last": numbers[-1],
            "track": "cgroup" if has_groups else "linuxproc", "prolog": "Alloc,Contain" if has_groups else "Alloc",
            "task": "cgroup" if self.is_strict else "none", "devices": "yes" if self.is_strict else "no",
            "select": "CR_Core_Memory" if self.is_strict else "CR_Core",
            "accounting": ACCOUNTING if self.has_accounting else NO_ACCOUNTING,
            "nodes": "\n".join(NODE.format(names=names, gres=gres) for names, gres in group({node: one.gres for node, one in lists.items()})),
        }  # fmt: skip
        self.lab.write(f"{home}/etc/slurm.conf", CONF.format(**values))
        for name, text in {"prolog": PROLOG, "epilog": EPILOG}.items():
            self.lab.write(f"{home}/{name}", text.format(**values))
            os.chmod(f"{home}/{name}", 0o755)
        self.write_device_config({node: one.config for node, one in lists.items()})
        # Administrators wrote these long ago: a job that starts in the second of a change may have the list before it.
        for name in ("slurm.conf", "gres.conf"):
            os.utime(f"{home}/etc/{name}", (time.time() - 3600,) * 2)
        self.lab.write(f"{home}/etc/cgroup.conf", CGROUP.format(**values))
        for node in self.nodes:
            os.makedirs(f"{home}/spool/{node}", exist_ok=True)
            self.write_devices(node, lists[node])
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
        for node, name in self.named.items():
            self.write_detected(node, LISTS[name])

    def list_of(self, node):
        """Returns the list of a node; by default the device files from 0 on, as many as the driver has devices."""
        if node in self.named:
            return LISTS[self.named[node]]
        text = self.lab.read(f"{self.root}{self.lab.NODES}/{node}/gpus")
        count = sum(line.startswith("gpu ") for line in text.splitlines())
        config = (f"Name=gpu Type=h100 File=/dev/nvidia[0-{count - 1}]", f"Name=shard Count={4 * count}")
        return DeviceList(f"gpu:h100:{count},shard:{4 * count}", config, tuple(range(count)))

    def write_device_config(self, config):
        """Writes gres.conf: `config` has the lines of each node."""
        lines = [f"NodeName={names} {line}\n" for names, lines in group(config) for line in lines]
        self.lab.write(f"{self.root}{HOME}/etc/gres.conf", "".join(lines))

    def write_devices(self, node, devices):
        """Makes the node's device files and, for a list of device_lists.py, what its driver tells."""
        here, number = f"{self.root}{self.lab.NODES}/{node}", int(node.removeprefix("gpu"))
        shutil.rmtree(f"{here}/dev", ignore_errors=True)
        for folder in ("pts", "shm", "nvidia-caps"):
            os.makedirs(f"{here}/dev/{folder}")
        for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "lab": "null"}.items():
            os.symlink(target, f"{here}/dev/{name}")
        for path, (major, minor) in {**STANDARD_DEVICES, **devices.device_numbers()}.items():
            os.mknod(f"{here}{path}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
            os.chmod(f"{here}{path}", 0o666)  # whatever the umask
        self.lab.write(f"{here}/left_out", " ".join(f"/dev/nvidia{minor}" for minor in devices.left_out))
        if node in self.named:
            self.lab.write(f"{here}/gpus", devices.state(number))
            for path, text in devices.driver_files(number).items():
                os.makedirs(os.path.dirname(f"{here}/driver/{path}"), exist_ok=True)
                self.lab.write(f"{here}/driver/{path}", text)

    def write_detected(self, node, devices):
        """Gives the node a folder of its own for Slurm, with what detection finds; all else in it is as on other nodes."""
        folder = f"{self.root}{self.lab.NODES}/{node}/etc/slurm"
        os.remove(folder)
        os.mkdir(folder)
        for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
            os.symlink(f"{HOME}/etc/{name}", f"{folder}/{name}")
        if devices.detected:
            number = f"{int(node.removeprefix('gpu')):08x}"
            self.lab.write(f"{folder}/fake_gpus.conf", "".join(f"{line}\n" for line in devices.detected).replace("NUMBER", number))

    def slurmd(self, node, *options):
        """Starts the node's slurmd, in its own cgroup if the machine has cgroup v1.

        Users cannot read its environment, which may name another configuration than the usual one; by default, its command
        line tells which it has.
        """
        options = options or ("-f", "/etc/slurm/slurm.conf")
        pid = str(self.lab.node_pid(node))
        self.lab.enter(pid, "env", f"NODE={node}", "sh", "-ec", DEVICES_OF_NODE)
        if not os.path.isdir(self.lab.FREEZER):
            return self.lab.enter(pid, "slurmd", *options)
        group = f"{GROUP}-{self.lab.lab_pid()}-{node}"
        is_strict = "ConstrainDevices=yes" in self.lab.read(f"{self.root}{HOME}/etc/cgroup.conf")
        has_accounting = "jobacct_gather/cgroup" in self.lab.read(f"{self.root}{HOME}/etc/slurm.conf")
        kinds = ["devices"] * is_strict + ["cpuacct", "memory"] * has_accounting
        return subprocess.run(["sh", "-c", START, "sh", group, pid, " ".join(kinds), *options], check=True)

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

    def start_accounting(self):
        """Starts a database and Slurm's daemon for it, which then knows the cluster."""
        path = f"{self.root}{HOME}/etc/slurmdbd.conf"
        self.lab.write(path, DATABASE_DAEMON.format(home=HOME))
        os.chmod(path, 0o600)
        self.on_login("sh", "-ec", DATABASE, "sh", HOME)
        self.wait_until("the database", lambda: listens(f"{self.root}/run/mysqld/mysqld.sock"), "database")
        self.on_login("slurmdbd")
        add = ["nsenter", "-t", str(self.lab.lab_pid()), "-a", "sacctmgr", "-i", "add", "cluster", "lab"]
        self.wait_until("slurmdbd", lambda: subprocess.run(add, capture_output=True, check=False).returncode == 0, "slurmdbd")

    def wait_until(self, what, condition, log):
        """Waits for a minute at most."""
        for _ in range(1200):
            if condition():
                return
            time.sleep(0.05)
        raise self.lab.Failure(f"{what} does not answer: {self.lab.read(f'{self.root}{HOME}/log/{log}')[-2000:]}")

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

    def epilog_delay(self, node, seconds):
        """Delays the end of jobs on a node; 0 removes the delay."""
        path = f"{self.root}{HOME}/epilog_delay.{node}"
        self.lab.write(path, seconds) if seconds != "0" else os.remove(path)

    def on_login(self, *command, wait=True):
        command = ["nsenter", "-t", str(self.lab.lab_pid()), "-a", *command]
        if wait:
            return subprocess.run(command, check=True)
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def sh(self, line):
        self.on_login("sh", "-c", line)


    # ---- what jobs hold ----

    def devices(self, node, job):
        """Prints the device files that a job may open on a node."""
        print(" ".join(self.held_files(node, job)))

    def held_files(self, node, job):
        """Returns the device files that a job may open on a node, by its device cgroup, except those that every job may open."""
        groups = glob.glob(f"{DEVICES}/{GROUP}-{self.lab.lab_pid()}-{node}/slurm*/uid_*/job_{job}")
        if len(groups) != 1:
            raise self.lab.Failure(f"job {job} has {len(groups)} device cgroups on {node}")
        files = openable_files(groups[0], f"/proc/{self.lab.node_pid(node)}/root")
        left_out = self.lab.read(f"{self.root}{self.lab.NODES}/{node}/left_out").split()
        return [file for file in files if file not in left_out]

    # ---- what users can read ----

    def hide(self, node, *kinds):
        """Hides from users of a node, or of `login`: daemon (slurmd), config (gres.conf), driver (/proc/driver), groups."""
        for kind in kinds:
            if kind == "groups":
                os.chmod(f"{DEVICES}/{GROUP}-{self.lab.lab_pid()}-{node}", 0o700)
                continue
            self.lab.enter(self.pid_of(node), "mount", "--no-mtab", "--bind", self.unreadable(kind), COVERED[kind])

    def show(self, node, *kinds):
        """Ends what `hide` began."""
        for kind in kinds:
            if kind == "groups":
                os.chmod(f"{DEVICES}/{GROUP}-{self.lab.lab_pid()}-{node}", 0o755)
                continue
            self.lab.enter(self.pid_of(node), "umount", COVERED[kind])

    def pid_of(self, node):
        return str(self.lab.lab_pid() if node == "login" else self.lab.node_pid(node))

    def unreadable(self, kind):
        """Returns the path of a copy that only root can read, or of an empty folder."""
        copy, original = f"{self.root}{HOME}/hidden/{kind}", f"{self.root}{COVERED[kind]}"
        os.makedirs(f"{self.root}{HOME}/hidden/driver", exist_ok=True)
        if kind != "driver" and not (os.path.exists(copy) and os.path.samefile(copy, original)):
            shutil.copy(original, copy)
            os.chmod(copy, 0o700)
        return copy.removeprefix(self.root)

    def restart(self, node, name="", *options):
        """Starts a node's slurmd again while its jobs run, with the gres.conf of another list, and with other options."""
        if name:
            path = f"{self.root}{HOME}/etc/gres.conf"
            kept = [line for line in self.lab.read(path).splitlines(True) if not line.startswith(f"NodeName={node} ")]
            self.lab.write(path, "".join([*kept, *(f"NodeName={node} {line}\n" for line in LISTS[name].config)]))
        stop = 'p=$(pgrep -x slurmd) && kill $p && while kill -0 $p 2>/dev/null; do sleep 0.02; done'
        self.lab.enter(str(self.lab.node_pid(node)), "sh", "-c", stop)
        self.slurmd(node, *options)


# The programs that it needs, and their packages; the last ones only for accounting.
PROGRAMS = {
    "munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "squeue": "slurm-client",
    "mariadbd": "mariadb-server-core", "slurmdbd": "slurmdbd",
}  # fmt: skip

# What `hide` covers.
COVERED = {"daemon": "/usr/sbin/slurmd", "config": f"{HOME}/etc/gres.conf", "driver": "/proc/driver"}

STANDARD_DEVICES = {
    "/dev/null": (1, 3), "/dev/zero": (1, 5), "/dev/full": (1, 7), "/dev/random": (1, 8), "/dev/urandom": (1, 9),
    "/dev/tty": (5, 0), "/dev/ptmx": (5, 2),
}  # fmt: skip


def listens(path):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def group(values):
    """Yields (names, value) of nodes with equal values, the names as Slurm writes them."""
    for value in dict.fromkeys(values.values()):
        names = [name for name, other in values.items() if other == value]
        numbers = [name.removeprefix("gpu") for name in names]
        is_range = len(names) > 1 and int(numbers[-1]) - int(numbers[0]) == len(names) - 1
        inside = f"{numbers[0]}-{numbers[-1]}" if is_range else ",".join(numbers)
        yield (names[0] if len(names) == 1 else f"gpu[{inside}]"), value


ADOPT = ("/usr/lib/security/pam_slurm_adopt.so", "/lib/security/pam_slurm_adopt.so", "/usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so")


def remove_stale_cgroups(lab):
    """Removes the cgroups of labs that have ended."""
    for hierarchy in filter(os.path.isdir, HIERARCHIES):
        for name in os.listdir(hierarchy):
            if name.startswith(f"{GROUP}-") and not os.path.exists(f"/proc/{name.split('-')[2]}/root{lab.LAB}"):
                remove_cgroup(f"{hierarchy}/{name}")


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
    written, known = {}, {}
    while True:
        current = gpu_processes(lab, known)
        for node in os.listdir(lab.NODES):
            path = f"{lab.NODES}/{node}/gpus"
            lines = [line for line in lab.read(path).splitlines() if not line.startswith("proc ")]
            lines += sorted(current.get(node, []))
            if written.get(node) != lines:
                lab.write(f"{path}.jobs", "\n".join(lines) + "\n")
                os.rename(f"{path}.jobs", path)
                written[node] = lines
        known = {cgroup: files for cgroup, files in known.items() if os.path.isdir(cgroup)}
        time.sleep(0.25)


def gpu_processes(lab, known):
    """Returns {node: ["proc GPU PID MIB …"]}: each process of a task without children uses all devices that it may open.

    `known` keeps {device cgroup: its device files} between calls.
    """
    found, parents = {}, set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid not in lab.USERS.values():
                continue
            status = dict(line.split(":\t", 1) for line in lab.read(f"/proc/{name}/status").splitlines() if ":\t" in line)
            environment = dict(word.split("=", 1) for word in lab.read(f"/proc/{name}/environ").split("\0") if "=" in word)
            cgroups = lab.read(f"/proc/{name}/cgroup")
        except OSError:
            continue  # it ended meanwhile
        parents.add(int(status["PPid"]))
        # SLURM_STEP_GPUS first: every step inherits SLURM_JOB_GPUS of the batch host, which is wrong on other nodes.
        gpus = environment.get("SLURM_STEP_GPUS") or environment.get("SLURM_JOB_GPUS", "")
        if "SLURM_PROCID" in environment and status["Name"].strip() not in ("srun", "slurm_script"):
            wanted = set(filter(None, environment.get("LAB_FILES", "").split(":")))
            found[int(name)] = (environment.get("SLURMD_NODENAME"), int(status["NSpid"].split()[-1]), gpus, cgroups, wanted)
    lines = {}
    for pid, (node, pid_on_node, gpus, cgroups, wanted) in found.items():
        if pid in parents or not os.path.isdir(f"{lab.NODES}/{node}"):
            continue
        constrained = re.search(r"^\d+:devices:(/.*/job_.*)$", cgroups, re.MULTILINE)
        if constrained:
            files = task_files(known, f"{DEVICES}{constrained[1]}", pid)
        else:
            # Nothing keeps the task from any device. These nodes have the default list, in which an index is the number of the file.
            files = [f"/dev/nvidia{gpu}" for gpu in gpus.split(",")]
        # A task may use what every job may open, but only one with LAB_FILES does.
        left_out = set(lab.read(f"{lab.NODES}/{node}/left_out").split())
        files = set(files) & wanted if wanted else set(files) - left_out
        used = [words for needed, words, _ in device_places(lab.read(f"{lab.NODES}/{node}/gpus")) if needed <= files]
        lines.setdefault(node, []).extend(f"proc {words[0]} {pid_on_node} {1000 + pid_on_node} {words[1]}sm=50" for words in used)
    return lines


def task_files(known, cgroup, pid):
    """Returns the device files that a task may open; none if it has ended meanwhile."""
    if cgroup not in known:
        try:
            known[cgroup] = openable_files(cgroup, f"/proc/{pid}/root")
        except OSError:
            return []
    return known[cgroup]


def device_places(text):
    """Returns (device files, (index, words for a slice), UUID) of each device and slice of the stub driver's file.

    One needs all of its files: a slice those of its GPU instance and compute instance, and its card. A card that is cut
    into slices is not among them.
    """
    cards, slices = {}, []
    for line in text.splitlines():
        kind, *words = line.partition("name=")[0].split() or [""]
        values = dict(word.split("=", 1) for word in words if "=" in word)
        if kind == "gpu":
            cards.setdefault(words[0], {"minor": words[0]}).update(values)
        elif kind == "slice":
            slices.append((words[0], words[1], values))
    found = [({f"/dev/nvidia{card['minor']}"}, (index, ""), card["uuid"]) for index, card in cards.items() if card.get("mig") != "1"]
    for index, place, values in slices:
        minor = int(cards[index]["minor"])
        first = capability(minor, int(values["gi"]))
        files = {f"/dev/nvidia{minor}", *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in (first, first + 1))}
        found.append((files, (index, f"slice={place} "), values["uuid"]))
    return found


def openable_files(cgroup, root):
    """Returns the device files of GPUs below `root` that a process in this device cgroup can open.

    This is the truth about what a job holds: it needs no rule for Slurm's indices. A child joins the cgroup and opens
    each file; the cgroup refuses with EPERM, before the missing driver could say ENXIO.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(f"{cgroup}/cgroup.procs", "w", encoding="ascii") as members:
                members.write("0")
            os.write(writer, " ".join(["ok", *filter(lambda path: may_open(root + path), device_files(root))]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answer:
        words = answer.read().split()
    os.waitpid(child, 0)
    if words[:1] != ["ok"]:
        raise OSError(errno.ENOENT, "no such cgroup", cgroup)
    return words[1:]


def device_files(root):
    files = glob.glob(f"{root}/dev/nvidia[0-9]*") + glob.glob(f"{root}/dev/nvidia-caps/nvidia-cap[0-9]*")
    return sorted(path.removeprefix(root) for path in files)


def may_open(path):
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENXIO, errno.ENODEV):
            raise
        return error.errno != errno.EPERM
    return True


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
    "epilog-delay": Slurm.epilog_delay,
    "slurmd": Slurm.slurmd,
    # NODE [LIST]
    "restart": Slurm.restart,
    # NODE JOB
    "devices": Slurm.devices,
    # NODE KIND..., see hide
    "hide": Slurm.hide,
    "show": Slurm.show,
}
