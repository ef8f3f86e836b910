"""Each remedy that a program can carry out, by each way to a node, run as printed in a terminal: the node comes up.

GTOP_FULL=1 runs all combinations; otherwise each remedy runs with each transport, each place and each form of the name
at least once.
"""

import dataclasses
import itertools
import json
import os
import re
import unittest
from concurrent.futures import ThreadPoolExecutor

from machines import ADDRESSES, GATE, HERE, NODE, PASSPHRASE, SSHD_CONFIG, Machine, Template
from private_node import skip_reason

TRANSPORTS = ("auto", "native", "ssh")
# Where the fault is: at a node that is reached directly, at one behind a gateway, or at the gateway.
PLACES = ("direct", "behind", "gateway")
# How user and port are given: not at all, with the name, or in ssh_config, as the key is then.
FORMS = ("plain", "typed", "config")
WORKERS = 3
OLD_KEX = "diffie-hellman-group1-sha1"


@dataclasses.dataclass(frozen=True)
class Way:
    """How a node is reached, and where the fault is."""

    transport: str
    place: str
    form: str

    def __str__(self):
        return f"{self.transport}/{self.place}/{self.form}"


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of advice, as printed."""

    text: str
    command: str
    lines: str

    @property
    def literal(self):
        """The command; it may be all of the text."""
        return self.command or self.text


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A remedy: how the machine is broken so that it is advised, and what tells it from the other steps."""

    words: str
    damage: callable
    # What the person puts in the place of FILE.
    file: str = ""
    # Returns why it is not advised by this way, or None.
    but: callable = lambda way: None

    def find(self, steps):
        """Returns the steps that are meant."""
        return [step for step in steps if re.search(self.words, f"{step.text}\n{step.command}\n{step.lines}", re.MULTILINE)]

    @property
    def name(self):
        return f"{self.damage.__name__}: {self.words}"


class World:
    """A person's machine, a node and perhaps a gateway; one of the two is the broken one."""

    def __init__(self, template, way):
        self.way = way
        self.is_typed, self.is_configured = way.form == "typed", way.form == "config"
        self.user, self.port = ("ada", 22) if way.form == "plain" else ("eve", 2222)
        self.here = Machine(template, HERE)
        names = [NODE] if way.place == "direct" else [GATE, NODE]
        self.machines = {name: Machine(template, name, self.here.pid) for name in names}
        self.broken = self.machines[GATE if way.place == "gateway" else NODE]
        others = [machine for machine in self.machines.values() if machine is not self.broken]
        self.other = others[0] if others else None
        self.target = f"eve@{NODE}:2222" if self.is_typed else NODE
        self.terminal = self.here.terminal("ada", "/bin/bash" if way.place == "direct" else "/bin/sh")
        # The gateway knows the names of the nodes behind it.
        resolver = self.machines.get(GATE, self.here)
        for machine, name in ((self.here, names[0]), (resolver, NODE)):
            machine.root(f"echo '127.0.0.1 localhost\n{ADDRESSES[name]} {name}' >/etc/hosts")
        for machine in self.machines.values():
            machine.root("ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/hostkey")
            self.sshd("", machine, "start")
        self.key = "work" if self.is_configured else "id_ed25519"
        self.config("")
        self.know()
        if self.other:
            self.make_key("other")
            self.authorize("other", self.other)
        self.run(f"export GTOP_TRANSPORT={way.transport}")

    def close(self):
        self.terminal.close()
        for machine in (*self.machines.values(), self.here):
            machine.close()

    def run(self, line):
        status, seen = self.terminal.paste(line)
        assert status == 0, f"{line}: {seen}"
        return seen

    def sshd(self, options, machine=None, verb="reload"):
        """Changes the configuration of a machine's sshd."""
        machine = machine or self.broken
        text = SSHD_CONFIG.format(address=ADDRESSES[machine.name], port=self.port, options=options)
        machine.root(f"cat >/etc/ssh/sshd_config && systemctl {verb} ssh", text)

    def config(self, options):
        """Writes the person's ssh_config, with options for the broken machine."""
        blocks = {name: [] for name in self.machines}
        blocks[self.broken.name] += options.split("\n") if options else []
        if self.is_configured:
            for name, block in blocks.items():
                block += [f"HostName {ADDRESSES[name]}", "Port 2222", "User eve"]
            blocks[self.broken.name].append(f"IdentityFile ~/.ssh/{self.key}")
        if self.other:
            blocks[self.other.name] += ["IdentityFile ~/.ssh/other", "IdentitiesOnly yes"]
            blocks[NODE].append("ProxyJump " + (f"eve@{GATE}:2222" if self.is_typed else GATE))
        text = "".join("\n  ".join([f"Host {name}", *block]) + "\n" for name, block in blocks.items())
        self.here.write("/home/ada/.ssh/config", text, "ada")

    def know(self, *excepted):
        """Writes the person's known_hosts."""
        lines = ""
        for name, machine in self.machines.items():
            if machine not in excepted:
                host = ADDRESSES[name] if self.is_configured else name
                host = host if self.port == 22 else f"[{host}]:{self.port}"
                lines += f"{host} {machine.root('cat /etc/ssh/hostkey.pub')}"
        self.here.write("/home/ada/.ssh/known_hosts", lines, "ada")

    def make_key(self, name=None, options="-t ed25519 -N ''"):
        self.here.root(f"cd /home/ada/.ssh && ssh-keygen -q {options} -f {name or self.key} && chown ada: *")

    def authorize(self, name=None, machine=None):
        public = self.here.root(f"cat /home/ada/.ssh/{name or self.key}.pub")
        (machine or self.broken).write(f"~{self.user}/.ssh/authorized_keys", public, self.user)

    def log_in_by_key(self):
        self.make_key()
        self.authorize()

    # What gtop says.

    def steps_of_doctor(self):
        self.terminal.paste(f"gtop doctor {self.target} </dev/null >out 2>&1")
        steps, margin = [], None
        printed = self.here.root("cat /home/ada/out")
        for line in printed.splitlines():
            if found := re.match("( +)> (.*)$", line):
                margin = found[1]
                how, _, command = (found[2][:-1], "", "") if found[2].endswith(":") else found[2].rpartition(": ")
                steps.append([found[2], command if how else "", ""])
            elif margin and line.startswith(margin + " " * 6):
                steps[-1][2] += line[len(margin) + 6 :] + "\n"
        return [Step(*step) for step in steps], printed

    def node(self, options=""):
        self.terminal.paste(f"gtop {options} --json {'' if self.target in options else self.target} </dev/null >out")
        text = self.here.root("cat /home/ada/out")
        assert text, self.terminal.seen
        return json.loads(text)["nodes"][0]

    def steps_of_json(self, options=""):
        fault = self.node(options)["fault"] or {"steps": []}
        return [Step(step["text"], step["command"] or "", "".join(line + "\n" for line in step["lines"])) for step in fault["steps"]]

    # What the person does.

    def apply(self, step, file):
        """Carries out a step as printed; returns what it printed, and the arguments of gtop if they are the remedy."""
        text, command = step.text, step.literal.replace("FILE", file)
        place = re.search("as root on ([^ :]+)", text)
        machine = self.machines[place[1]] if place else None
        if found := re.search(r"add at the top of ([^ ,:]+)", text):
            path, on, owner = found[1], machine or self.here, "root" if machine else "ada"
            path = path.replace("~", "/home/ada")
            lines = step.lines.replace("FILE", file)
            on.root(f"cat - {path} >/run/new && cat /run/new >{path} && chown {owner}: {path}", lines)
            then = re.search(", then run (.*?):?$", text)
            command = then[1] if then else "true"
        elif found := re.search(r"add (\S+) to (\w+) in (\S+), then", text):
            kind, option, path = found.groups()
            machine.root(f"sed -i 's/^{option} .*/&,{kind}/' {path} && grep -q '^{option} .*,{kind}$' {path}")
        if machine:
            return machine.root(command), ""
        if found := re.search("(?:^|&& )gtop (--transport .*)$", command):
            return self.terminal.paste(command, r"\x1b\[\?2026h")[1], found[1]
        return self.terminal.paste(command)[1], ""

    def apply_all(self, steps, first, file):
        """Carries out a step, and those that belong to it."""
        following = itertools.takewhile(lambda step: step.text.startswith("and "), steps[steps.index(first) + 1 :])
        for step in (first, *(step for step in following if step.command or step.lines)):
            done = self.apply(step, file)
        return done


# How a machine is broken.


def unknown_host_key(world):
    world.log_in_by_key()
    world.know(world.broken)


def host_key_kept_nowhere(world):
    unknown_host_key(world)
    world.config("UserKnownHostsFile /dev/null")


def unknown_host_key_strict(world):
    unknown_host_key(world)
    world.config("StrictHostKeyChecking yes")


def changed_host_key(world):
    world.log_in_by_key()
    world.broken.root("rm /etc/ssh/hostkey && ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/hostkey && systemctl reload ssh")


def host_key_that_ssh_checks(world):
    unknown_host_key(world)
    world.config("KnownHostsCommand /bin/true")


def no_key(world):
    world.sshd("PasswordAuthentication yes")


def key_not_authorized(world):
    world.make_key()
    world.sshd("PasswordAuthentication yes")


def key_algorithm_refused(world):
    world.log_in_by_key()
    world.sshd("PubkeyAcceptedAlgorithms rsa-sha2-512")


def open_modes(world):
    world.log_in_by_key()
    world.sshd("StrictModes yes")
    world.broken.root(f"chmod o+w ~{world.user}/.ssh/authorized_keys")


def shell_that_does_not_exist(world):
    world.log_in_by_key()
    world.broken.root(f"usermod -s /bin/nonexistent {world.user}")


def only_passwords(world):
    world.log_in_by_key()
    world.sshd("PubkeyAuthentication no\nPasswordAuthentication yes")


def only_passwords_and_no_key(world):
    world.sshd("PubkeyAuthentication no\nPasswordAuthentication yes")


def password_after_key(world):
    world.log_in_by_key()
    world.sshd("AuthenticationMethods publickey,password\nPasswordAuthentication yes")


def login_prompt(world):
    world.sshd("AuthenticationMethods keyboard-interactive\nKbdInteractiveAuthentication yes")


def two_keys(world):
    world.make_key()
    world.make_key("second")
    both = world.here.root(f"cat /home/ada/.ssh/{world.key}.pub /home/ada/.ssh/second.pub")
    world.broken.write(f"~{world.user}/.ssh/authorized_keys", both, world.user)
    world.sshd("AuthenticationMethods publickey,publickey")
    world.run("eval $(ssh-agent)")


def too_many_keys(world):
    for number in range(9):
        world.make_key(f"key{number}")
    world.authorize("key8")
    world.config("\n".join(f"IdentityFile ~/.ssh/key{number}" for number in range(9)))


def readable_key(world):
    world.log_in_by_key()
    world.here.root(f"chmod 644 /home/ada/.ssh/{world.key}")


def excluded_key_algorithm(world):
    world.log_in_by_key()
    world.config("PubkeyAcceptedAlgorithms rsa-sha2-512")


def short_key(world):
    world.make_key("id_rsa", "-t rsa -b 1100 -N ''")
    world.authorize("id_rsa")
    world.sshd("PasswordAuthentication yes")
    world.config("RequiredRSASize 2048")


def encrypted_key(world):
    world.make_key(None, f"-t ed25519 -N {PASSPHRASE} -a 1")
    world.authorize()


def encrypted_key_with_agent(world):
    encrypted_key(world)
    world.run("eval $(ssh-agent)")


def dead_agent(world):
    world.make_key("kept")
    world.authorize("kept")
    world.run("export SSH_AUTH_SOCK=/nonexistent")


def no_sessions(world):
    world.log_in_by_key()
    world.sshd("MaxSessions 0")


def no_forwarding(world):
    world.log_in_by_key()
    world.sshd("AllowTcpForwarding no", world.machines[GATE])


def option_of_ssh(world):
    world.log_in_by_key()
    world.config("KnownHostsCommand /bin/true")


def algorithm_of_ssh(world):
    world.log_in_by_key()
    world.sshd("KexAlgorithms sntrup761x25519-sha512@openssh.com")
    world.config("KexAlgorithms sntrup761x25519-sha512@openssh.com")


def server_with_other_algorithm(world):
    world.log_in_by_key()
    world.sshd("KexAlgorithms diffie-hellman-group18-sha512")


def old_server(world):
    world.log_in_by_key()
    world.sshd(f"KexAlgorithms {OLD_KEX}")


def no_server(world):
    world.log_in_by_key()
    world.broken.root("kill $(cat /run/sshd.pid) && while [ -e /run/sshd.pid ]; do sleep 0.05; done")


def nologin_file(world):
    world.log_in_by_key()
    world.broken.root("echo Down for repairs >/etc/nologin")


def account_expired(world):
    world.log_in_by_key()
    world.broken.root(f"chage -E 1 {world.user}")


def password_expired(world):
    world.log_in_by_key()
    world.broken.root(f"chage -d 0 {world.user}")


def account_without_shell(world):
    world.log_in_by_key()
    world.broken.root(f"usermod -s /usr/sbin/nologin {world.user}")


def account_with_false(world):
    world.log_in_by_key()
    world.broken.root(f"usermod -s /bin/false {world.user}")


def revoked_host_key(world):
    world.log_in_by_key()
    revoked = world.broken.root("cat /etc/ssh/hostkey.pub")
    world.here.root("cat >>/home/ada/.ssh/known_hosts", f"@revoked * {revoked}")


def key_not_authorized_by_anyone(world):
    world.make_key()


def only_by(*transports):
    return lambda way: None if way.transport in transports else "the other transports are not hindered"


def only_at_gateway(way):
    return None if way.place == "gateway" else "only a gateway forwards"


def not_at_gateway(way):
    return "a gateway runs no command" if way.place == "gateway" else None


def without_login_at_gateway(way):
    if way.transport == "native" or (way.transport == "ssh" and way.place == "gateway"):
        return "gtop uses the connection only without --transport"
    return None


def only_with_known_keys(way):
    if way.transport == "ssh" or way.place == "gateway":
        return "gtop does not know which keys were offered"
    return None


REMEDIES = (
    Remedy("gtop trust|ssh .*true$", unknown_host_key),
    Remedy("gtop login", host_key_kept_nowhere),
    Remedy("gtop trust|ssh .*true$", unknown_host_key_strict),
    Remedy("gtop trust", changed_host_key),
    Remedy("ssh .*true$", host_key_that_ssh_checks, but=only_by("auto", "ssh")),
    Remedy("ssh-keygen", no_key),
    Remedy("gtop login", no_key),
    Remedy("ssh-copy-id", key_not_authorized),
    Remedy("gtop login", key_not_authorized),
    Remedy("not in PubkeyAcceptedAlgorithms", key_algorithm_refused, but=only_with_known_keys),
    Remedy("bad ownership or modes", open_modes),
    Remedy("because shell", shell_that_does_not_exist),
    Remedy("gtop login", only_passwords),
    Remedy("ssh -fNM", only_passwords, but=without_login_at_gateway),
    Remedy("PubkeyAuthentication", only_passwords),
    Remedy("gtop login", password_after_key),
    Remedy("ssh -fNM", password_after_key, but=without_login_at_gateway),
    Remedy("gtop login", login_prompt),
    Remedy("ssh-add", two_keys, file="~/.ssh/second", but=only_by("auto", "native")),
    Remedy("IdentitiesOnly", too_many_keys, file="~/.ssh/key8"),
    Remedy("chmod 600", readable_key),
    Remedy("PubkeyAcceptedAlgorithms", excluded_key_algorithm),
    Remedy("ssh-keygen", short_key),
    Remedy("ssh-add", encrypted_key),
    Remedy("ssh-add", encrypted_key_with_agent),
    Remedy("ssh-add", dead_agent, file="~/.ssh/kept"),
    Remedy("MaxSessions", no_sessions, but=not_at_gateway),
    Remedy("AllowTcpForwarding", no_forwarding, but=only_at_gateway),
    Remedy("transport ssh", option_of_ssh, but=only_by("native")),
    Remedy("transport ssh", algorithm_of_ssh, but=only_by("native")),
    Remedy("transport ssh", server_with_other_algorithm, but=only_by("native")),
    Remedy("  KexAlgorithms", old_server),
    Remedy("systemctl start", no_server),
    Remedy("nologin file", nologin_file),
    Remedy("chage", account_expired),
    Remedy("ssh -t", password_expired),
    Remedy("usermod", account_without_shell, but=not_at_gateway),
    Remedy("usermod", account_with_false, but=not_at_gateway),
)

# What only a person can do: the phrase that says so, and how the node is broken.
PEOPLE = (
    ("ask the administrator to add .* to ~ada/.ssh/authorized_keys on", key_not_authorized_by_anyone),
    ("ask the administrator of the node about this message", nologin_file),
    ("do not connect; .* needs a new host key", revoked_host_key),
)


def selected():
    """Returns each remedy with its ways: all of them, or as many as show each transport, place and form once."""
    for number, remedy in enumerate(REMEDIES):
        ways = [Way(*words) for words in itertools.product(TRANSPORTS, PLACES, FORMS)]
        if os.environ.get("GTOP_FULL") != "1":
            ways = [way for way in ways if is_selected(number, way)]
        for way in ways:
            if remedy.but(way) is None:
                yield remedy, way


def is_selected(number, way):
    transport, place, form = TRANSPORTS.index(way.transport), PLACES.index(way.place), FORMS.index(way.form)
    return place == (transport + number) % 3 and form == (transport + number // 3) % 3


@unittest.skipIf(skip_reason(), skip_reason())
class RemedyTable(unittest.TestCase):
    def setUp(self):
        self.template = Template(os.environ["GTOP"])
        self.addCleanup(self.template.close)

    def test_each_remedy_as_printed_brings_the_node_up(self):
        cases = list(selected())
        with ThreadPoolExecutor(WORKERS) as pool:
            failures = [failure for failure in pool.map(lambda case: self.failure(*case), cases) if failure]
        self.assertEqual(failures, [], f"{len(failures)} of {len(cases)}:\n" + "\n".join(failures))

    def failure(self, remedy, way):
        """Returns why a remedy does not help, or None. JSON may know of fewer remedies than the doctor."""
        world = World(self.template, way)
        try:
            remedy.damage(world)
            steps, printed = world.steps_of_doctor()
            of_json = remedy.find(world.steps_of_json())
            found = remedy.find(steps)
            if len(found) != 1:
                return f"{remedy.name} by {way}: advised {len(found)} times: {printed}"
            if of_json and of_json[0].literal != found[0].literal:
                return f"{remedy.name} by {way}: JSON says {of_json[0]}, the doctor {found[0]}"
            seen, options = world.apply_all(steps, found[0], remedy.file)
            node = world.node(options)
            return None if node["link"] == "up" else f"{remedy.name} by {way}: {found[0]}: {seen[-1500:]}: {node.get('fault')}"
        except AssertionError as error:
            return f"{remedy.name} by {way}: {error}"
        finally:
            world.close()

    def test_what_only_a_person_can_do_says_so(self):
        for words, damage in PEOPLE:
            for place in "direct", "gateway":
                with self.subTest(damage=damage.__name__, place=place):
                    world = World(self.template, Way("auto", place, "plain"))
                    self.addCleanup(world.close)
                    damage(world)
                    first = world.steps_of_json()[0]
                    self.assertRegex(first.text, words)
                    self.assertEqual(first.command, "", "no command does it")

    def test_a_command_of_the_user_leads_to_no_remedy_of_ssh(self):
        world = World(self.template, Way("auto", "direct", "typed"))
        self.addCleanup(world.close)
        key_not_authorized(world)
        by_exec = "--exec 'ssh -o BatchMode=yes ssh://{node} {command}'"
        world.run("unset GTOP_TRANSPORT")
        steps = world.steps_of_json(by_exec)
        self.assertRegex(steps[0].text, "run the command by hand")
        self.assertEqual([step.command for step in steps], [""] * len(steps))


if __name__ == "__main__":
    unittest.main()
