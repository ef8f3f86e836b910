# Reads the scheduler's configuration, its daemon's list of devices and the driver's files, and tries which device files can
# be opened. Compiled only in a child that the probe ends after a while.
DAEMON_TIMEOUT = 10.0
DAEMON_OUTPUT = 1 << 18
DAEMON_LINE = 4000
MAX_LISTED = 65536  # characters of the daemon's list
MAX_CONFIG = 16384  # characters of the lines of gres.conf that may be about this node
MAX_CONFIG_FILE = 1 << 20
MAX_INCLUDES = 16
MAX_DRIVER_DEVICES = 64
MAX_SLICES = 512
DAEMON_FOLDERS = ('/usr/sbin', '/usr/local/sbin', '/sbin', '/opt/slurm/sbin', '/usr/local/slurm/sbin', '/usr/bin')
CONFIG_FOLDERS = ('/etc/slurm', '/etc/slurm-llnl')
CACHE_FOLDERS = ('/run/slurm/conf', '/var/spool/slurmd/conf-cache', '/var/spool/slurm/d/conf-cache', '/var/spool/slurm/conf-cache')
UNIT_FOLDERS = ('/etc/systemd/system', '/run/systemd/system', '/usr/lib/systemd/system', '/lib/systemd/system')
MAX_LINKS = 40
MAX_FILE_MINORS = 256
NVIDIA_MAJOR = 195
FILE_TYPE, FOLDER, LINK = 0o170000, 0o040000, 0o120000
NOT_ALLOWED, NOT_PERMITTED = 1, 13  # EPERM, EACCES


def read_evidence(child, daemon, node, is_new, is_first, has_driver):
    """Reports each part as soon as it is read."""
    load_part('scheduler')
    words = daemon[3] if daemon[3:] else []
    options = daemon_options(words[1:])
    program = daemon_program(daemon, words)
    config, is_known = config_file(daemon, options, program)
    files, names, records = [], [node] if node else node_names(options), None
    if is_new:
        found, records = list_devices(child, daemon, program, config, options)
        # Most builds begin each line with the name that the configuration has for this node.
        prefixes = [line.partition(': ')[0] for line in records[:1]]
        names = [prefix[7:] for prefix in prefixes if prefix.startswith('slurmd-')] + node_names(options)
        files = files_of(records)
    lines = config and read_config(config, names[:1])
    if is_new:
        minors = file_minors(files + files_of(lines or []))
        child.report('evidence', {'daemon': found, 'node': names[0][:255], 'files': minors or None}, None)
    state = config and configuration(config, records)
    if config and not is_known:
        # Another configuration may be the daemon's: what this one says is no more than likely.
        state = dict(state, changed=None, cached=False, constrained=None, constrained_changed=None)
    child.report('evidence', {'configuration': state}, None)
    child.report('evidence', {'config': lines}, None)
    if has_driver:
        child.report('evidence', {'devices': driver_devices(), 'slices': slice_files()}, None)
    if is_first and is_job(cgroup(os.getpid())):
        child.report('evidence', {'openable': openable(files)}, None)


def files_of(lines):
    """Returns the values of `File` and `MultipleFiles` in lines."""
    words = [word.partition('=') for line in lines for word in line.split()]
    return [value.strip('"') for key, _, value in words if key.lower() in ('file', 'multiplefiles')]


def is_job(group):
    return 'slurm' in group and ('/job_' in group or 'slurmstepd.scope/s' in group)


# -- the daemon

def first_file(paths, mode=os.R_OK):
    """Returns the first path of a file that may be read, or executed."""
    for path in paths:
        found = trusted(path) if mode == os.X_OK else path
        if found and path.startswith('/') and os.path.isfile(found) and os.access(found, mode):
            return found
    return None


def link_target(path):
    try:
        return os.readlink(path)
    except OSError:
        return ''


def daemon_program(daemon, words):
    """Returns the path of slurmd: that of the running one, in the path, beside scontrol, or in a usual folder."""
    folders = [folder for folder in os.environ.get('PATH', '').split(':') if folder.startswith('/')]
    running = [link_target('%s/proc/%d/exe' % (ROOT, daemon[0])), words[0]] if words else []
    client = first_file([folder + '/scontrol' for folder in folders], os.X_OK)
    if client is not None:
        for path in client, os.path.realpath(client):
            folder = os.path.dirname(path)
            folders += [folder, os.path.dirname(folder) + '/sbin']
    return first_file(running + [folder + '/slurmd' for folder in folders + list(DAEMON_FOLDERS)], os.X_OK)


def config_file(daemon, options, program):
    """Returns the path of slurm.conf, and whether it is known to be the daemon's.

    It is as the daemon's command line or an environment says, or a usual one: of a daemon that is not seen, as where /proc hides
    it, that is not known to be its own. A daemon that asks a server uses no other than its own copy of what that told.
    """
    if 'conf-server' in options:
        return first_file([ROOT + folder + '/slurm.conf' for folder in CACHE_FOLDERS]), True
    variables = read('%s/proc/%d/environ' % (ROOT, daemon[0]), MAX_ENVIRON).split(b'\0') if daemon[1:] else []
    settings = [decode(variable[11:]) for variable in variables if variable.startswith(b'SLURM_CONF=')]
    is_told = any(variables)
    if daemon[1:] and not is_told:
        settings, is_told = service_settings(daemon[0])
    if options.get('f'):
        settings, is_told = [options['f']], True
    paths = settings + [os.environ.get('SLURM_CONF', '')]
    if program is not None:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
        paths += [prefix + '/etc/slurm.conf', prefix + '/etc/slurm/slurm.conf']
    found = first_file(paths + [ROOT + folder + '/slurm.conf' for folder in CONFIG_FOLDERS + CACHE_FOLDERS])
    return found, is_told and (not settings or [found] == sorted(set(settings)))


def service_settings(pid):
    """Returns the values of SLURM_CONF in the files of the service that started the daemon, whose environment is hidden, and
    whether these files, which can all be read, say that it starts slurmd.
    """
    groups = decode(read('%s/proc/%d/cgroup' % (ROOT, pid), 4096)).replace('\n', '/').split('/')
    found, is_told = [], False
    for unit in [name for name in groups if name.endswith('.service')][-1:]:
        paths = []
        for folder in [ROOT + folder + '/' for folder in UNIT_FOLDERS]:
            paths += [folder + unit] + [folder + unit + '.d/' + name for name in list_folder(folder + unit + '.d')]
        lines = file_lines(paths)
        named = [ROOT + line.partition('=')[2].strip().lstrip('-') for line in lines if line.startswith('EnvironmentFile=')]
        commands = [line.partition('=')[2].lstrip('@-:+!').split()[:1] for line in lines if line.startswith('ExecStart=')]
        programs = set([os.path.basename(word) for words in commands for word in words])
        hidden = [path for path in paths + named if os.path.lexists(path) and not os.access(path, os.R_OK)]
        is_exact = not set(''.join(named)).intersection('*?[%') and len(paths) <= MAX_INCLUDES
        is_told = programs == set(['slurmd']) and is_exact and not hidden
        for line in file_lines(named) + lines:
            value = line.partition('SLURM_CONF=')[2].strip('"\'').split()
            found += [] if line.startswith('#') else value[:1]
    return [value.strip('"\'') for value in found], is_told


def file_lines(paths):
    return [line.strip() for path in paths[:MAX_INCLUDES] for line in decode(read(path, MAX_CONFIG)).split('\n')]


def list_devices(child, daemon, program, config, options):
    """Asks the program of the daemon for its devices; returns the part of the section, and the lines about devices.

    The daemon's own configuration is used. Without it, the program might ask a server, and as root write what that tells.
    """
    found = {'started': daemon[2]} if any(daemon[2:3]) else {}
    if daemon == [0]:
        return dict(found, error='several slurmd run here, and none has the name of this node'), []
    if program is None or config is None:
        if not daemon and not config:
            return None, []
        return dict(found, error='slurmd was not found' if program is None else 'its configuration was not found'), []
    environment = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL': 'C', 'SLURM_CONF': config}
    deadline = time.monotonic() + DAEMON_TIMEOUT
    status, output, ended = run_program(child, [program, '-V'], environment, deadline, 4096)
    version = printable(decode(output)).split()[-1:] if status == 0 else []
    if version:
        found['version'] = version[0][:64]
    if not ended:
        argv = [program, '-f', config] + (['-N', options['N']] if options.get('N') else []) + ['-G']
        # A build that is installed under another name, as Debian's, tells from its name that it is the daemon.
        status, output, ended = run_program(child, argv, environment, deadline, DAEMON_OUTPUT, 'slurmd')
    lines = [printable(line).strip() for line in decode(output).split('\n')]
    records = [line for line in lines if 'Gres Name=gpu ' in line]
    if ended:
        found['error'] = 'it did not end within %.0f s' % DAEMON_TIMEOUT if ended == 'late' else 'it printed too much'
    elif status:
        why = [line for line in lines if 'error: ' in line or 'fatal: ' in line][-1:]
        found['error'] = ('it failed with %d: %s' % (status, ''.join(why)))[:200].rstrip(': ')
    elif max([len(line) for line in records] + [0]) > DAEMON_LINE or sum([len(line) for line in records]) > MAX_LISTED:
        found['error'] = 'its list is too long'
    else:
        found['list'] = records
    return found, found.get('list', [])


# -- its configuration

def configuration(config, records):
    """Returns the state of the files from which the list is made, seen now.

    `changed`: when one of them last became what it is: by its own time, or by when the system last changed it, which is
    later if it was copied or renamed with an earlier time. `cached`: the daemon writes them itself, as it reads them.
    `constrained`: jobs can open their devices only; None if that cannot be read. `constrained_changed`: when one of the
    files that say so last changed.
    """
    folder = os.path.dirname(config)
    paths, more = [], []
    lines = config_lines(folder, 'gres.conf', paths)
    kinds = set(word.lower() for line in (lines or []) + (records or []) for word in line.split() if word[:5].lower() == 'type=')
    is_read = lines is not None
    if len(kinds) > 1:  # slurm.conf says in which order the types come
        is_read = config_lines(folder, os.path.basename(config), more) is not None and is_read
    changed = None
    if is_read:  # else it may include files that are not seen
        paths += more + [folder + '/fake_gpus.conf']
        changed = max([change_time(path) for path in paths])
    constrained, paths = None, []
    tasks = config_value(config_lines(folder, os.path.basename(config), paths), 'taskplugin')
    lines = config_lines(folder, 'cgroup.conf', paths)
    if lines is None and is_searchable(folder) and not os.path.exists(folder + '/cgroup.conf'):
        lines = []
    if lines is not None and config_value(lines, 'constraindevices') not in ('yes', 'true', '1', 'y', 'on'):
        constrained = False
    elif lines is not None and tasks:
        constrained = 'cgroup' in tasks
    return {'changed': changed or None, 'checked': time.time(), 'cached': 'conf-cache' in config or '/run/slurm/' in config,
            'constrained': constrained, 'constrained_changed': max([change_time(path) for path in paths]) or None}


def config_value(lines, name):
    """Returns the last value of a setting, in lower case; None if the lines could not be read."""
    pairs = [line.lower().partition('=') for line in lines or []]
    return None if lines is None else ([''] + [value.strip() for key, _, value in pairs if key.strip() == name])[-1]


def is_searchable(folder):
    return os.access(folder, os.R_OK | os.X_OK)


def change_time(path):
    """Returns when what a path leads to last changed; 0 if it cannot be seen.

    That is the file, a link on the way to it, or a folder on the way that was renamed: then the system's time is later than
    that of its entries.
    """
    latest, here, words, links = 0, '/', path.split('/'), 0
    while words and links < MAX_LINKS:
        word = words.pop(0)
        if word in ('', '.', '..'):
            here = os.path.dirname(here) if word == '..' else here
            continue
        following = os.path.join(here, word)
        try:
            status = os.lstat(following)
            target = os.readlink(following) if status.st_mode & FILE_TYPE == LINK else None
        except OSError:
            break
        if status.st_mode & FILE_TYPE != FOLDER or status.st_ctime > status.st_mtime:
            latest = max(latest, status.st_mtime, status.st_ctime)
        if target is None:
            here = following
        else:
            links += 1
            words = target.split('/') + words
            here = '/' if target.startswith('/') else here
    return latest


def read_config(path, names):
    """Returns the lines of the gres.conf beside slurm.conf that are about the devices of this node.

    Returns None if it cannot be read or there are too many of them.
    """
    lines = config_lines(os.path.dirname(path), 'gres.conf', [])
    if lines is None:
        return None
    kept = [line for line in lines if is_relevant(line.lower(), [name.lower() for name in names])]
    return kept if sum([len(line) + 1 for line in kept]) <= MAX_CONFIG else None


def is_relevant(line, names):
    """Returns true if a line may be about devices of this node; whether it is, is judged later."""
    if 'gpu' not in line and 'autodetect' not in line:
        return False
    _, has_nodes, nodes = line.partition('nodename=')
    nodes = nodes.split(None, 1)[0] if nodes.strip() else ''
    return not has_nodes or '[' in nodes or any(name in nodes.strip('"').split(',') for name in names)


def config_lines(folder, name, paths):
    """Returns the lines of a configuration file and of those that it includes; None if one cannot be read.

    Adds the paths of all of them, also of those that cannot be read.
    """
    path = name if name.startswith('/') else folder + '/' + name
    paths.append(path)
    if len(paths) > MAX_INCLUDES or not os.path.isfile(path):
        return None
    data = read(path, MAX_CONFIG_FILE)
    if len(data) >= MAX_CONFIG_FILE or not data and os.path.getsize(path):
        return None
    out = []
    for line in decode(data).replace('\\\n', ' ').split('\n'):
        line = printable(line.partition('#')[0]).strip()
        if line[:8].lower() == 'include ':
            included = config_lines(folder, line[8:].strip(), paths)
            if included is None:
                return None
            out += included
        elif line:
            out.append(line)
    return out


# -- the driver

def driver_devices():
    """Returns [minor, PCI address, UUID or None] of the devices that the driver lists."""
    out = []
    for address in list_folder(ROOT + '/proc/driver/nvidia/gpus')[:MAX_DRIVER_DEVICES]:
        data = read('%s/proc/driver/nvidia/gpus/%s/information' % (ROOT, address))
        pairs = dict([[word.strip() for word in line.partition(':')[::2]] for line in decode(data).split('\n')])
        minor, uuid = pairs.get('Device Minor', ''), printable(pairs.get('GPU UUID', ''))[:96]
        if minor.isdigit() and len(minor) < 10:
            out.append([int(minor), address[:32], uuid if uuid and '?' not in uuid else None])
    return out


def slice_files():
    """Returns [number of its file, minor of its device, GPU instance, compute instance or None] of the existing slices."""
    numbers = set([name[10:] for name in list_folder(ROOT + '/dev/nvidia-caps') if name.startswith('nvidia-cap')])
    top = ROOT + '/proc/driver/nvidia/capabilities'
    existing = set()
    for gpu in [name for name in list_folder(top) if name.startswith('gpu')]:
        for instance in [name for name in list_folder('%s/%s/mig' % (top, gpu)) if name.startswith('gi')]:
            parts = list_folder('%s/%s/mig/%s' % (top, gpu, instance))
            existing.update(['%s/%s' % (gpu, instance)] + ['%s/%s/%s' % (gpu, instance, name) for name in parts])
    if not existing and len(numbers) <= 2:  # nvidia-cap1 and 2 are not those of slices
        return []
    out = []
    for line in decode(read(ROOT + '/proc/driver/nvidia-caps/mig-minors', 1 << 20)).split('\n'):
        name, _, number = line.strip().rpartition(' ')
        parts = name.split('/')
        ids = [part[len(prefix):] for part, prefix in zip(parts, ('gpu', 'gi', 'ci')) if part.startswith(prefix)]
        is_slice = parts[-1] == 'access' and len(ids) == len(parts) - 1 > 1
        if is_slice and all([word.isdigit() and len(word) < 10 for word in ids + [number]]) and len(out) < MAX_SLICES:
            # The list has all that may ever exist; a file may be left over.
            if '/'.join(parts[:-1]) in existing if existing else number in numbers:
                out.append([int(number), int(ids[0]), int(ids[1]), int(ids[2]) if ids[2:] else None])
    return out


# -- what can be opened

def openable(files):
    """Returns the minor numbers of the device files that can be opened; None if that does not tell anything.

    The kernel asks the device control group before the driver, so that an error of the driver means that it is allowed.
    """
    folders = set(['/dev'] + [os.path.dirname(file.partition('[')[0].partition(',')[0]) for file in files])
    minors, has_file = set(), False
    for folder in sorted(folders)[:8]:
        for name in list_folder(folder):
            if name[:6] != 'nvidia' or not name[6:].isdigit():
                continue
            minor = device_minor(folder + '/' + name)
            if minor is None:
                continue
            has_file = True
            try:
                os.close(os.open(folder + '/' + name, os.O_RDONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno == NOT_PERMITTED:
                    return None
                if error.errno == NOT_ALLOWED:
                    continue
            minors.add(minor)
    return sorted(minors) if has_file else None


def file_minors(files):
    """Returns the minor numbers of device files whose names do not tell them, by path; None for what is no such file.

    A name as in gres.conf is that of several files if it has brackets.
    """
    found = {}
    starts = set([part.partition('[')[0] for file in files for part in file.split(',') if part.startswith('/')])
    for start in sorted(starts)[:MAX_FILE_MINORS]:
        folder, _, prefix = start.rpartition('/')
        for name in list_folder(folder) if folder != '/dev/nvidia-caps' else []:
            path = folder + '/' + name
            if name.startswith(prefix) and path not in found and len(found) < MAX_FILE_MINORS:
                minor = device_minor(path)
                is_told = path[:11] == '/dev/nvidia' and path[11:].isdecimal()
                if minor != int(path[11:]) if is_told else minor is not None and minor <= MAX_MINOR:
                    found[path] = minor
    return found


def device_minor(path):
    """Returns the minor number of a device file of NVIDIA's driver; None if it is something else."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    is_device = status.st_mode & FILE_TYPE == 0o020000 and os.major(status.st_rdev) == NVIDIA_MAJOR
    return os.minor(status.st_rdev) if is_device else None
