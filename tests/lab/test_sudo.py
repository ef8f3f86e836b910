"""`--sudo` and `gtop probe` with real sudo, sudoers and sshd: what runs as root, what is refused, and that nothing is left.

Everything runs in its own mount and PID namespaces, with a copy of /etc, its own homes and a /proc that hides the processes
of others: this machine is not changed, but for three lines in the log of its kernel.
"""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import wait_for

HERE = os.path.dirname(os.path.realpath(__file__))
STUB = f"{HERE}/../stubs/nvidia-smi"
NODE = "n1"
NONCE = "5eed" * 8
ADDRESS, PORT = "127.0.89.3", 23300
EXEC = "env NODE={node} /bin/sh -c {command}"
SUDOERS = "/etc/sudoers.d/gtop"
MARKS = "/run/marks"
TIMEOUT = 60

# As Debian's sudo has it, without what needs a whole machine.
PAM = "auth required pam_unix.so\naccount required pam_permit.so\nsession required pam_permit.so\n"

SSHD_CONFIG = """\
ListenAddress {address}:{port}
HostKey {folder}/hostkey
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
Match User eve
  ForceCommand tee -a /run/captured | sh -c "$SSH_ORIGINAL_COMMAND"
"""

SCRIPT = """\
set -e
mount -t tmpfs tmpfs /mnt
cp -a /etc /mnt/etc
mkdir /mnt/home
mount --bind /mnt/etc /etc
mount --bind /mnt/home /home
mount -t tmpfs -o mode=755 tmpfs /opt
mount -t tmpfs -o mode=755 tmpfs /run
mount -o remount,hidepid=2 /proc
mkdir -p /run/sshd
mkdir -m 1777 /run/marks
cp {folder}/pam /etc/pam.d/sudo
rm -f /etc/nologin
for user in ada bob eve; do useradd -m -s /bin/sh -p '*' $user; done
touch /run/captured
chown eve /run/captured
mkdir /opt/bin
cp {stub} /opt/bin/stub
printf '#!/bin/sh\\nNVML_STUB_STATE=/opt/state exec /opt/bin/stub "$@"\\n' >/opt/bin/nvidia-smi
chmod 755 /opt/bin/stub /opt/bin/nvidia-smi
runuser -u bob -- env TOKEN=barley sleep 100000 >/dev/null 2>&1 &
until pid=$(pgrep -u bob -x sleep); do sleep 0.05; done
printf 'driver 570.86.15 12080\\ngpu 0 util=90\\n' >/opt/state
echo "$pid" >{folder}/bob
exec sleep infinity
"""

# Marks a file with its name and the user that runs it.
MARK = "#!/bin/sh\n: >" + MARKS + "/{name}.$(/usr/bin/id -u)\n"
MARK_PYTHON = "import os\nopen('" + MARKS + "/{name}.%d' % os.geteuid(), 'w')\n"
MARK_LIBRARY = """\
#include <stdio.h>
#include <unistd.h>
#include <fcntl.h>
__attribute__((constructor)) static void mark(void) {
    char path[100];
    snprintf(path, sizeof path, "/run/marks/library.%d", (int) geteuid());
    close(open(path, O_CREAT | O_WRONLY, 0644));
}
"""


def skip_reason():
    """Returns why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "only root can create test users"
    if shutil.which("sudo") is None or shutil.which("visudo") is None:
        return "sudo is not installed"
    if subprocess.run(["unshare", "-m", "-p", "-f", "true"], check=False, capture_output=True).returncode != 0:
        return "no namespaces can be made"
    return None


@unittest.skipIf(skip_reason(), skip_reason())
class Sudo(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gtop-sudo.")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        shutil.copy(os.environ["GTOP"], f"{self.folder}/gtop")
        self.write("pam", PAM)
        script = SCRIPT.format(folder=self.folder, stub=STUB)
        self.space = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", script],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(self.space.wait)
        self.addCleanup(self.space.send_signal, signal.SIGKILL)
        wait_for("the users", lambda: self.read("bob").endswith("\n"))
        with open(f"/proc/{self.space.pid}/task/{self.space.pid}/children", encoding="utf-8") as file:
            self.inside = file.read().split()[0]
        self.bob = int(self.read("bob"))

    def write(self, name, text, mode=0o644):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.folder}/{name}", mode)

    def read(self, name):
        try:
            with open(f"{self.folder}/{name}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def root(self, line, text=""):
        """Runs a shell line as root in the namespaces."""
        command = ["nsenter", "-t", self.inside, "-m", "-p", "sh", "-ec", line]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def command(self, *words, user="ada", **variables):
        variables = {"HOME": f"/home/{user}", "USER": user, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **variables}
        return [
            "nsenter", "-t", self.inside, "-m", "-p", "setpriv", "--reuid", user, "--regid", user, "--init-groups",
            "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words,
        ]  # fmt: skip

    def gtop(self, *words, **variables):
        """Returns what gtop prints, run by ada without a terminal."""
        command = self.command(f"{self.folder}/gtop", *words, **variables)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, start_new_session=True)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        return done.stdout

    def node(self, *words, **variables):
        """Returns the node in gtop's JSON; it is up."""
        node = json.loads(self.gtop("--json", "--exec", EXEC, "--sudo", *words, NODE, **variables))["nodes"][0]
        self.assertEqual(node["link"], "up", node)
        return node

    def permit(self, *words, defaults=""):
        """Adds the lines that gtop prints to sudoers."""
        lines = self.gtop("probe", "--sudoers", *words)
        self.root(f"(umask 337; cat >{SUDOERS}) && visudo -cf {SUDOERS}", defaults + lines)

    def probe(self, *words):
        return json.loads(self.gtop("probe", "--json", *words, NODE))

    def probes(self):
        """Returns the processes of probes, with their uids."""
        out = self.root("ps -eo uid=,pid=,args=")
        return [line for line in out.splitlines() if "-ISu" in line or "sudo -n" in line]

    def assert_nothing_left(self):
        wait_for(lambda: f"the end of {self.probes()}", lambda: not self.probes())

    # -- permitted or not

    def test_a_probe_as_root_sees_what_is_hidden_from_the_login(self):
        self.permit()
        node = self.node()
        self.assertEqual((node["host"]["sudo"], node["devices"][0]["utilization_percent"]), ("root", 90))
        process = self.session()
        detail = self.ask_about_bob(process, "detail")["detail"]
        self.assertEqual((detail["user"], detail["command"]), ("bob", "sleep 100000"))
        self.assertIn("TOKEN=barley", self.ask_about_bob(process, "environ")["environ"])
        process.stdin.close()
        line = self.probe()["line"].replace("NONCE", NONCE)
        process = self.start("sh", "-c", line)
        self.assertEqual(self.ask_about_bob(process, "detail")["result"], "refused")
        process.stdin.close()
        self.assert_nothing_left()

    def test_a_node_where_sudo_refuses_keeps_its_values_and_says_so(self):
        for defaults, mode, word in (("", None, "password"), ("Defaults requiretty\n", (), "terminal"), ("", ("--allow-signals",), "password")):
            with self.subTest(word=word, mode=mode):
                self.root(f"rm -f {SUDOERS}")
                if mode is not None:
                    self.permit(*mode, defaults=defaults)
                node = self.node()
                self.assertEqual(node["host"]["sudo"], word)
                self.assertEqual(node["devices"][0]["utilization_percent"], 90)
                self.assertIn("not root: sudo ", self.gtop("--once", "--exec", EXEC, "--sudo", NODE))
        self.root("mkdir /opt/other && ln -s /usr/bin/env /usr/bin/nproc /opt/other/")
        self.assertEqual(self.node(PATH="/opt/other:/opt/none")["host"]["sudo"], "missing")
        self.assert_nothing_left()

    def test_only_the_named_nodes_run_it_as_root(self):
        self.permit()
        fleet = json.loads(self.gtop("--json", "--exec", EXEC, "--sudo=n[1,3]", "n[1-3]"))
        self.assertEqual([node["host"]["sudo"] for node in fleet["nodes"]], ["root", None, "root"])

    def test_the_lines_of_sudoers_are_for_the_user_of_the_destination(self):
        for words, user in (("--sudoers", "bob@gpu01"), "bob"), (("--sudoers=eve", "bob@gpu01"), "eve"):
            lines = self.gtop("probe", *words)
            self.assertIn(f": {user} may run the probe as root", lines)
            self.assertIn(f"\n{user} ALL", lines)

    def test_the_doctor_prints_what_permits_it(self):
        report = self.gtop("--exec", EXEC, "doctor", "--sudo", NODE)
        self.assertIn("FAILED  sudo", report)
        lines = report[report.index("    LOGIN ALL = ") :].splitlines()
        self.root(f"(umask 337; cat >{SUDOERS}) && visudo -cf {SUDOERS}", "\n".join(line.strip() for line in lines[:3]).replace("LOGIN", "ada") + "\n")
        report = self.gtop("--exec", EXEC, "doctor", "--sudo", NODE)
        self.assertRegex(report, "ok +sudo +.*runs the probe as root; it reads only")

    # -- what runs as root

    def test_nothing_that_the_user_plants_runs_as_root(self):
        self.permit(defaults="Defaults !env_reset\nDefaults setenv\n")
        home = "/home/ada"
        self.write("mark.c", MARK_LIBRARY)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{self.folder}/mark.so", f"{self.folder}/mark.c"], check=True)
        library = f"{home}/lib"
        self.root(f"install -d -o ada {home}/bin {library} {home}/python {home}/.local")
        for name in ("libnvidia-ml.so.1", "libtpuinfo.so", "mark.so"):
            self.root(f"cp {self.folder}/mark.so {library}/{name}")
        for name in ("python3", "nvidia-smi", "slurmd", "scontrol", "id", "env.sh"):
            self.root(f"cat >{home}/bin/{name}; chmod 755 {home}/bin/{name}", MARK.format(name=name))
        for name in ("json", "hashlib", "zlib", "marshal", "sitecustomize", "usercustomize", "os", "startup", "ctypes", "pwd"):
            self.root(f"cat >{home}/python/{name}.py; cp {home}/python/{name}.py {home}/{name}.py", MARK_PYTHON.format(name=name))
        version = self.root("/usr/bin/python3 -c 'import sys;print(\"%d.%d\" % sys.version_info[:2])'").strip()
        site = f"{home}/.local/lib/python{version}/site-packages"
        self.root(f"mkdir -p {site}; cat >{site}/mark.pth", f"import sys; exec(open('{home}/python/startup.py').read())\n")
        self.root(f"chown -R ada: {home}")
        # A program that looks like the scheduler's daemon, with a configuration of the user's.
        self.root(f"mkdir {home}/fake && cp /bin/sleep {home}/fake/slurmd && echo NodeName=n1 >{home}/fake/slurm.conf && chown -R ada: {home}")
        daemon = subprocess.Popen(self.command("sh", "-c", f"cd {home}/fake && exec ./slurmd 10000", SLURM_CONF=f"{home}/fake/slurm.conf"))
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        variables = {
            "HOME": home, "PATH": f"{home}/bin:/usr/bin:/bin", "PYTHONPATH": f"{home}/python", "PYTHONSTARTUP": f"{home}/python/startup.py",
            "PYTHONHOME": home, "PYTHONUSERBASE": f"{home}/.local", "LD_LIBRARY_PATH": library, "LD_PRELOAD": f"{library}/mark.so",
            "BASH_ENV": f"{home}/bin/env.sh", "ENV": f"{home}/bin/env.sh", "GTOP_ROOT": f"{home}/root", "GTOP_PIDS": "own",
            "SLURM_CONF": f"{home}/fake/slurm.conf", "OPENSSL_CONF": f"{home}/fake/slurm.conf",
        }  # fmt: skip
        template = "env " + " ".join(f"{name}={value}" for name, value in variables.items()) + " NODE={node} sh -c {command}"
        node = json.loads(self.gtop("--json", "--exec", f"sh -c 'cd {home}; exec \"$@\"' x {template}", "--sudo", NODE))["nodes"][0]
        self.assertEqual((node["link"], node["host"]["sudo"]), ("up", "root"))
        self.assertEqual(node["devices"][0]["utilization_percent"], 90, "the nvidia-smi of root's folders")
        marks = self.root(f"ls {MARKS}").split()
        ada = self.root("id -u ada").strip()
        self.assertIn(f"library.{ada}", marks, "what is planted works, as the user")
        self.assertEqual([mark for mark in marks if not mark.endswith(f".{ada}")], [])

    def test_programs_run_as_the_caller(self):
        self.permit()
        self.root("cat >/opt/bin/nvidia-smi", MARK.format(name="smi") + 'NVML_STUB_STATE=/opt/state exec /opt/bin/stub "$@"\n')
        self.assertEqual(self.node()["devices"][0]["utilization_percent"], 90)
        self.assertEqual(self.root(f"ls {MARKS}").split(), [f"smi.{self.root('id -u ada').strip()}"])

    def test_a_program_that_others_may_change_is_not_run(self):
        self.permit()
        self.root("chmod 777 /opt/bin/nvidia-smi")
        self.assertEqual(self.node()["devices"], [])

    # -- the kernel's log

    def kernel_log(self):
        """Puts a stand-in in the place of the kernel's log, and returns a function that logs a record.

        No program can write a record of the kernel, so that there is no other way to have an Xid. The stand-in hands out one
        record for each read and then nothing, as the real one does: a FIFO whose writer sends packets.
        """
        self.root("mkfifo -m 600 /run/kmsg && mount --bind /run/kmsg /dev/kmsg")
        log = os.open(f"/proc/{self.inside}/root/run/kmsg", os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(log, fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)
        self.addCleanup(os.close, log)
        return lambda text, prio=4, age=0.0, number=itertools.count(1): os.write(
            log, f"{prio},{next(number)},{int((time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - age) * 1e6)},-;{text}\n".encode()
        )

    def test_xids_of_an_hour_ago_are_known_to_root_alone(self):
        self.permit()
        log = self.kernel_log()
        place = "0000:%02x:00" % int(self.node_alone()["devices"][0]["pci_bus"].split(":")[1], 16)
        log("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15  Tue Sep 23 10:11:16 UTC 2025", 5, 10000)
        log(f"NVRM: Xid (PCI:{place}): 31, pid=4711, name=python, Ch 0000000a, intr 00000000. MMU Fault", age=7200)
        log(f"NVRM: Xid (PCI:{place}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", age=3600)
        log("NVRM: Xid (PCI:0000:aa:00): 79, GPU has fallen off the bus.", age=1800)
        # What a program has written, as the kernel hands it out.
        log(f"NVRM: Xid (PCI:{place}): 48, pid=1, name=x, forged", 12)
        node = self.node()
        self.assertIs(node["host"]["kernel_log"], True)
        device = node["devices"][0]
        fault, lost, unlisted = node["events"]
        self.assertEqual([(event["code"], event["source"], event["count"]) for event in node["events"]], [(31, "kernel", 1), (79, "kernel", 1), (79, "kernel", 1)])
        self.assertEqual((fault["index"], fault["device"], lost["device"]), (0, device["uuid"], device["uuid"]))
        self.assertEqual([round(event["age_seconds"] / 60) for event in node["events"]], [120, 60, 30])
        [line] = fault["lines"]
        self.assertEqual((line["pid"], line["process"], line["text"]), (4711, "python", "Ch 0000000a, intr 00000000. MMU Fault"))
        self.assertEqual((device["health"], [reason["id"] for reason in device["health_reasons"]]), ("faulty", ["xid"]))
        self.assertEqual((unlisted["device"], unlisted["index"]), ("0000:aa:00.0", None))
        self.assertIn(("unlisted_xid", "Xid 79 of 0000:aa:00.0"), [(note["id"], note["text"]) for note in node["notes"]])

    def node_alone(self):
        """Returns the node as the login sees it, which may not read the kernel's log."""
        node = json.loads(self.gtop("--json", "--exec", EXEC, NODE))["nodes"][0]
        self.assertEqual((node["link"], node["host"]["kernel_log"], node["events"]), ("up", False, []))
        return node

    def test_an_xid_from_before_the_driver_was_loaded_is_no_fault_any_more(self):
        self.permit()
        log = self.kernel_log()
        log("NVRM: Xid (PCI:0000:00:00): 79, GPU has fallen off the bus.", age=3600)
        log("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", 5, 1800)
        node = self.node()
        self.assertEqual([event["code"] for event in node["events"]], [79])
        self.assertNotIn("unlisted_xid", [note["id"] for note in node["notes"]])

    def test_what_is_logged_while_it_watches_is_told_at_once(self):
        self.permit()
        log = self.kernel_log()
        process = self.session()
        self.assertIs(self.frames(process, "hello")["kernel_log"], True)
        self.frames(process, "sample")
        log("NVRM: Xid (PCI:0000:00:00): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No")
        event = self.frames(process, "event")
        self.assertEqual((event["code"], event["pid"], event["pci"]), (94, 7194, "0000:00:00"))
        self.assertLess(event["at"] - event["logged"], TIMEOUT)
        process.stdin.close()
        self.assert_nothing_left()

    def test_what_a_program_writes_to_the_real_log_is_not_believed(self):
        if not os.path.exists("/dev/kmsg"):
            self.skipTest("there is no log of the kernel here")
        self.permit()
        text = "NVRM: Xid (PCI:ffff:ff:1f): 13, pid=1, name=gtop, written by a test of gtop"
        with open("/dev/kmsg", "rb", buffering=0) as log:
            log.seek(0, os.SEEK_END)
            for prefix in ("", "<0>", "<6>"):
                with open("/dev/kmsg", "wb", buffering=0) as out:
                    out.write(f"{prefix}{text}\n".encode())
            found = set()
            while len(found) < 3:
                with contextlib.suppress(BrokenPipeError):
                    record = log.read(8192).decode()
                    found.update([int(record.split(",")[0])] if text in record else [])
        self.assertEqual({prio >> 3 for prio in found}, {1}, "a program is never facility 0")
        node = self.node()
        self.assertIs(node["host"]["kernel_log"], True)
        self.assertEqual([event for event in node["events"] if event["device"].startswith("ffff")], [])

    # -- what the line permits

    def session(self, *mode, script=None, arguments=None):
        """Starts the command that sudo permits by itself, and returns it after its announcement, which may be missing."""
        line = self.probe("--sudo", *mode)["line"]
        python, code = line.partition('-ISuc "')[0], line.partition('-ISuc "')[2].partition('" ')
        self.assertIn("sudo -n -- $p ", python)
        words = [code[0].replace('\\"', '"'), *code[2].partition(";")[0].split()]
        words = (arguments or (lambda words: words))(["-ISuc", *words])
        return self.start("sudo", "-n", "--", "/usr/bin/python3", *words, script=script)

    def start(self, *words, script=None):
        """Starts a loader and sends it a script, by default that of the probe, and settings."""
        command = self.command(*words)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, process)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(self.script() if script is None else script)
            process.stdin.write(f"{NODE} 0.5 30 0 - -\n".encode())
            process.stdin.flush()
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def script(self):
        command = self.command(f"{self.folder}/gtop", "probe", "--script")
        return subprocess.run(command, capture_output=True, timeout=TIMEOUT, check=True).stdout

    def frames(self, process, kind):
        for line in process.stdout:
            body = line.partition(b"\x1egtop1 ")[2]
            if body and json.loads(body)["t"] == kind:
                return json.loads(body)
        raise AssertionError(process.stderr.read().decode())

    def ask_about_bob(self, process, verb, more=""):
        start = int(self.root(f"cut -d' ' -f22 /proc/{self.bob}/stat"))
        process.stdin.write(f'{{"id":1,"node":"{NODE}","verb":"{verb}","pid":{self.bob},"start":{start}{more}}}\n'.encode())
        process.stdin.flush()
        return self.frames(process, "answer")

    def signal_bob(self, process):
        commands = self.frames(process, "hello")["commands"]
        return commands, self.ask_about_bob(process, "signal", ',"signal":15')

    def test_a_read_only_probe_refuses_signals_and_another_line_permits_them(self):
        self.permit()
        commands, answer = self.signal_bob(self.session())
        self.assertNotIn("signal", commands)
        self.assertEqual(answer["result"], "refused")
        self.root(f"kill -0 {self.bob}")
        refused = self.session("--allow-signals")
        self.assertIn(b"sudo: ", refused.communicate(timeout=TIMEOUT)[1])
        self.permit("--allow-signals")
        commands, answer = self.signal_bob(self.session("--allow-signals"))
        self.assertEqual(answer["result"], "sent")
        self.assertIn("signal", commands)
        wait_for("the end of bob's process", lambda: "gone" in self.root(f"kill -0 {self.bob} 2>&1 || echo gone"))

    def test_another_script_is_refused(self):
        self.permit()
        script = self.script()
        changed = script[:100] + bytes([script[100] ^ 1]) + script[101:]
        own = b"open('/run/marks/own','w')\n\0" + b" " * len(script)
        for other in (changed, own[: len(script)], script[:-1] + b"x"):
            process = self.session(script=other)
            out, errors = process.communicate(timeout=TIMEOUT)
            self.assertEqual((process.returncode, b"gtop:not-the-permitted-script" in errors), (1, True), errors)
            self.assertNotIn(b"gtop1", out)
        # Its hash is part of what sudo permits.
        digest = hashlib.sha256(own[: len(script)]).hexdigest()
        for change in (
            lambda words: [*words[:2], digest, *words[3:]],
            lambda words: [*words[:4], "allow-signals"],
            lambda words: [words[0], words[1].replace("sha256", "md5"), *words[2:]],
            lambda words: words[:4],
            lambda words: ["-c", *words[1:]],
            lambda words: [*words, "more"],
        ):
            process = self.session(script=own[: len(script)], arguments=change)
            _, errors = process.communicate(timeout=TIMEOUT)
            self.assertIn(b"sudo: a password is required", errors)
        self.assertEqual(self.root(f"ls {MARKS}"), "")

    def test_the_words_of_the_line_split_at_other_places_are_no_program(self):
        self.permit()
        script = self.script()
        _, code, digest, *_ = ["-ISuc", *self.session().args[-4:]]
        for change in (
            lambda words: [words[0], *words[1].split(" "), *words[2:]],
            lambda words: [words[0], " ".join(words[1:3]), *words[3:]],
            lambda words: [words[0], " ".join(words[1:])],
            lambda words: [*words[:2], " ".join(words[2:])],
            lambda words: [" ".join(words[:2]), *words[2:]],
            lambda words: [" ".join(words)],
        ):
            process = self.session(script=script, arguments=change)
            out, errors = process.communicate(timeout=TIMEOUT)
            self.assertNotEqual(process.returncode, 0, errors)
            self.assertNotIn(b"gtop1", out)

    # -- how it ends

    def test_no_process_is_left_however_gtop_ends(self):
        for defaults in ("", "Defaults use_pty\n", "Defaults use_pty, log_output, iolog_dir=/run/sudo-io\n", "Defaults log_output, log_input, iolog_dir=/run/sudo-io\n"):
            self.permit(defaults=defaults)
            for has_terminal in (False, True):
                for number in (signal.SIGTERM, signal.SIGKILL):
                    with self.subTest(defaults=defaults, has_terminal=has_terminal, number=number):
                        self.watch_and_end(has_terminal, number)

    def watch_and_end(self, has_terminal, number):
        """Watches until the probe runs as root, ends gtop, and waits for the end of the probe."""
        where = ["--transport", "local"] if has_terminal else ["--exec", EXEC, NODE]
        mode = [] if has_terminal else ["record", "-w", "/home/ada/record.gtop"]
        words = self.command(f"{self.folder}/gtop", *mode, *where, "--sudo", TERM="xterm")
        pid, terminal = pty.fork() if has_terminal else (os.fork(), None)
        if pid == 0:
            if not has_terminal:
                os.setsid()
            os.execvp(words[0], words)
        try:
            if terminal is not None:
                os.set_blocking(terminal, False)
            wait_for(lambda: f"a probe as root: {self.probes()}", lambda: self.drain(terminal) or self.root_probe(), deadline=TIMEOUT)
            # Children of nsenter, which forks into the PID namespace.
            self.root(f"kill -{int(number)} $(pgrep -u ada -x gtop)")
            wait_for("the end of gtop", lambda: self.drain(terminal) or os.waitpid(pid, os.WNOHANG)[0], deadline=TIMEOUT)
        finally:
            if terminal is not None:
                os.close(terminal)
        self.assert_nothing_left()

    def root_probe(self):
        return any(line.split()[0] == "0" and "/usr/bin/python3" in line and "sudo" not in line for line in self.probes())

    @staticmethod
    def drain(terminal):
        if terminal is not None:
            with contextlib.suppress(OSError):
                os.read(terminal, 1 << 20)

    # -- what a node receives

    def test_the_hashes_are_those_of_what_a_node_receives(self):
        self.permit()
        for mode in ((), ("--sudo",)):
            self.root("rm -f /run/captured; touch /run/captured; chown ada /run/captured")
            tee = "sh -c 'tee /run/captured | sh -c \"$2\"' x {node} {command}"
            self.gtop("--json", "--exec", tee, *mode, NODE)
            self.assert_captured(*mode)

    def assert_captured(self, *mode):
        listing = self.probe(*mode)
        [python] = [script for script in listing["scripts"] if script["name"] == "python"]
        captured = subprocess.run(["nsenter", "-t", self.inside, "-m", "cat", "/run/captured"], capture_output=True, check=True).stdout
        sent = captured[: python["bytes"]]
        self.assertEqual(hashlib.sha256(sent).hexdigest(), python["sha256"])
        self.assertEqual(captured[python["bytes"] :].split(b"\n")[0].decode().split()[0], NODE)
        self.assertEqual(sent, self.script())

    def test_a_real_sshd_starts_it_by_each_transport(self):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/hostkey"], check=True)
        self.write("sshd_config", SSHD_CONFIG.format(folder=self.folder, address=ADDRESS, port=PORT))
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/key"], check=True)
        for user in ("ada", "eve"):
            self.root(f"install -d -m 700 -o {user} /home/{user}/.ssh && install -m 600 -o {user} {self.folder}/key /home/{user}/.ssh/ && install -m 600 -o {user} {self.folder}/key.pub /home/{user}/.ssh/authorized_keys")
        config = "".join(f"Host {name}\n  HostName {ADDRESS}\n  Port {PORT}\n  User {user}\n  IdentityFile /home/ada/.ssh/key\n" for name, user in (("n1", "ada"), ("n2", "eve")))
        self.root("cat >/home/ada/.ssh/config; chown ada /home/ada/.ssh/config", config)
        self.root("cat >/home/ada/.ssh/known_hosts; chown ada /home/ada/.ssh/known_hosts", f"[{ADDRESS}]:{PORT} {self.read('hostkey.pub')}")
        self.root(f"ip link set lo up 2>/dev/null; /usr/sbin/sshd -f {self.folder}/sshd_config -E /run/sshd.log")
        self.permit()
        for transport in ("native", "ssh"):
            node = json.loads(self.gtop("--json", "--transport", transport, "--sudo", NODE))["nodes"][0]
            self.assertEqual((node["link"], (node["host"] or {}).get("sudo")), ("up", "root"), node["fault"])
        self.assert_nothing_left()
        # A forced command that keeps a copy of its input.
        node = json.loads(self.gtop("--json", "--transport", "native", "n2"))["nodes"][0]
        self.assertEqual(node["link"], "up", node["fault"])
        # Where sudo refuses, that command does not end, and the node is watched without root.
        node = json.loads(self.gtop("--json", "--transport", "native", "--sudo", "--deadline", "60", "n2"))["nodes"][0]
        self.assertEqual((node["link"], (node["host"] or {}).get("sudo")), ("up", "password"), node["fault"])
        self.root("truncate -s 0 /run/captured")
        node = json.loads(self.gtop("--json", "--transport", "native", "n2"))["nodes"][0]
        listing = json.loads(self.gtop("probe", "--json", "n2"))
        [python] = [script for script in listing["scripts"] if script["name"] == "python"]
        captured = subprocess.run(["nsenter", "-t", self.inside, "-m", "cat", "/run/captured"], capture_output=True, check=True).stdout
        self.assertEqual(hashlib.sha256(captured[: python["bytes"]]).hexdigest(), python["sha256"])
        # The network ends with the connections: killed servers of the sessions stand for it.
        recording = subprocess.Popen(self.command(f"{self.folder}/gtop", "record", "-w", "/home/ada/record.gtop", "--sudo", NODE), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(recording.wait)
        self.addCleanup(recording.kill)
        wait_for("a probe as root", self.root_probe)
        self.root("pkill -9 -x sshd; pkill -9 -u ada -x gtop; true")
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
