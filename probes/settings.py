# The settings of a session, which are data: one line after the source, which is the same for every node. And what holds
# where sudo starts the probe as root: it hears no variable of the caller, runs programs as the caller, and loads libraries
# that only root can change.
import os
import sys

MAX_SETTINGS = 1024
MAX_NODE = 3 * 255  # of which each byte may be written as % and two digits
MAX_SECONDS = 86400
MAX_FRAGMENT = 65536
ROOT_MODES = ('read-only', 'allow-signals')
ROOT_PATH = '/usr/sbin:/usr/bin:/sbin:/bin'


def read_settings():
    """Returns the words of the line; nothing behind it is read, which belongs to others."""
    line = b''
    while line[-1:] != b'\n':
        byte = os.read(0, 1)
        if not byte or len(line) >= MAX_SETTINGS:
            sys.exit('gtop: no settings')
        line += byte
    return line.decode('ascii', 'replace').split()


def whole_number(word, maximum):
    if not word.isdigit() or len(word) > 9 or int(word) > maximum:
        sys.exit('gtop: bad settings')
    return int(word)


def checked_settings(words):
    """Returns node, interval, seconds without a heartbeat, maximum fragment, why sudo was refused and how jobs are seen;
    exits if one is bad."""
    if len(words) != 6 or len(words[0]) > MAX_NODE or not all([c.isalnum() or c in '._:@[]+-/%' for c in words[0]]):
        sys.exit('gtop: bad settings')
    node, interval, deadman, short, refusal, claims = words
    whole, _, fraction = interval.partition('.')
    seconds = whole_number(whole, MAX_SECONDS) + whole_number(fraction or '0', 10 ** 9) / 10.0 ** len(fraction or '0')
    deadman = max(1, whole_number(deadman, MAX_SECONDS))
    refusal = refusal if refusal.isalpha() and len(refusal) < 16 else None
    return node, seconds, deadman, whole_number(short, MAX_FRAGMENT), refusal, checked_claims(claims)


def checked_claims(word):
    """Returns, for each scheduler, what marks control groups of its jobs, and its variables of job and step."""
    claims = [claim.split(':') for claim in word.split(',')] if word != '-' else []
    for claim in claims:
        if len(claim) != 3 or not claim[0] or not all([c.isalnum() or c == '_' for c in ''.join(claim)]):
            sys.exit('gtop: bad settings')
    return claims


def root_mode():
    """Returns the last word of the command that sudo permits, which the source's hash comes before; None without sudo."""
    return sys.argv[3] if sys.argv[3:] and sys.argv[3] in ROOT_MODES else None


def caller_ids():
    """Returns uid, gid and name of the user whom sudo was called by; without sudo, those of this process."""
    if ROOT_MODE is None:
        return os.getuid(), os.getgid(), None
    found = [caller.get(name, '') for name in ('SUDO_UID', 'SUDO_GID', 'SUDO_USER')]
    if not found[0].isdigit() or not found[1].isdigit() or not found[2]:
        sys.exit('gtop: sudo does not tell who called it')
    return int(found[0]), int(found[1]), found[2]


def become_caller():
    """Gives up root for good, before a program is executed."""
    if ROOT_MODE is not None:
        uid, gid, name = CALLER
        os.initgroups(name, gid)
        os.setgid(gid)
        os.setuid(uid)


def trusted(path):
    """Returns what a path leads to if the probe may run or load it: as root, only what nobody but root can change."""
    if ROOT_MODE is None:
        return path
    found = above = os.path.realpath(path)
    while True:
        try:
            status = os.stat(above)
        except OSError:
            return None
        if status.st_uid or status.st_mode & 0o022:
            return None
        if above == '/':
            return found
        above = os.path.dirname(above)


ROOT_MODE = root_mode()
if ROOT_MODE is not None:
    os.environ.clear()
    os.environ.update(PATH=ROOT_PATH, LC_ALL='C')
CALLER = caller_ids()
NODE, INTERVAL, DEADMAN, SHORT, SUDO_REFUSAL, CLAIMS = checked_settings(read_settings())
if NODE == '-':
    NODE = os.environ['SLURMD_NODENAME']  # of a step over many nodes
