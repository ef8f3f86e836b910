# Processes that /proc hides from us (hidepid=2) still stand in the lists of their control groups: who they belong
# to and which job they are of. Compiled only in the child of a node where there are such processes.
MOST_GROUPS = 20000
ROOTS = ('/unified', '/freezer', '/memory', '/devices', '/pids', '/cpuset', '/systemd')     # of version 1


def user_of(group):
    """The user's number in a path such as /user.slice/user-1000.slice or /slurm/uid_1000."""
    for part in group.split('/'):
        for head, tail in (('user-', '.slice'), ('uid_', '')):
            digits = part[len(head):len(part) - len(tail)]
            if part.startswith(head) and part.endswith(tail) and digits.isdigit() and len(digits) < 11:
                return int(digits)
    return None


def find_hidden(pids):
    """(cgroup, uid or None) of those of the pids that a control group lists, the one that names a job first."""
    wanted = {b'%d' % pid: pid for pid in pids}
    found, seen = {}, 0
    top = ROOT + '/sys/fs/cgroup'
    for root in [top] if os.path.exists(top + '/cgroup.controllers') else [top + root for root in ROOTS]:
        for path, folders, files in os.walk(root):
            seen += 1
            if seen > MOST_GROUPS:
                return found
            if 'cgroup.procs' not in files:
                continue
            group = path[len(root):][:COMMAND]
            for word in read(path + '/cgroup.procs', 1 << 20).split():
                pid = wanted.get(word)
                if pid is not None and group and (pid not in found or 'slurm' in group and 'slurm' not in found[pid][0]):
                    found[pid] = group, user_of(group)
    return found
