# Finds the owner and the job of processes that /proc hides (hidepid=2): control groups still list their pids.
# Compiled only in the child of a node that has such processes.
MAX_GROUPS = 20000
V1_HIERARCHIES = ('/unified', '/freezer', '/memory', '/devices', '/pids', '/cpuset', '/systemd')  # cgroup v1


def uid_of_cgroup(group):
    """Returns the uid in a path such as /user.slice/user-1000.slice or /slurm/uid_1000, or None."""
    for component in group.split('/'):
        for prefix, suffix in (('user-', '.slice'), ('uid_', '')):
            digits = component[len(prefix):len(component) - len(suffix)]
            if component.startswith(prefix) and component.endswith(suffix) and digits.isdigit() and len(digits) < 11:
                return int(digits)
    return None


def find_hidden(pids):
    """Returns {pid: (cgroup, uid or None)} of the pids that a control group lists; a group that names a job wins."""
    wanted = {b'%d' % pid: pid for pid in pids}
    found, group_count = {}, 0
    top = ROOT + '/sys/fs/cgroup'
    for root in [top] if os.path.exists(top + '/cgroup.controllers') else [top + root for root in V1_HIERARCHIES]:
        for path, folders, files in os.walk(root):
            group_count += 1
            if group_count > MAX_GROUPS:
                return found
            if 'cgroup.procs' not in files:
                continue
            group = path[len(root):][:MAX_COMMAND]
            for word in read(path + '/cgroup.procs', 1 << 20).split():
                pid = wanted.get(word)
                if pid is not None and group and (pid not in found or is_of_scheduler(group) and not is_of_scheduler(found[pid][0])):
                    found[pid] = group, uid_of_cgroup(group)
    return found
