# The probe's main loop over stdin, the children and the clock.
# To add a kind of device, write a class like Tpu in its own file and add an entry to LAZY_BACKENDS. An entry
# is a family of backends: the first one that works is used, the next is tried if it is absent.
BACKENDS = ((LazyBackend('nvml', 'Nvml', None, (0.5, 2.0, 10.0), 0.1, True, nvml_absence),
             LazyBackend('nvidia-smi', 'NvidiaSmi', None, (1.0, 2.0, 10.0))),) + tuple((kind,) for kind in present_backends(LAZY_BACKENDS))
SLOW_INTERVAL = 10.0
FULL_INTERVAL = 60.0
MIN_INTERVAL = 0.05
FOCUS_TIMEOUT = 65.0  # a focus that no command ends, because the connection is lost, ends by itself
COST_INTERVAL = 4.0  # seconds between two reports of the probe's own CPU time, in focus only
MAX_EVENTS = 32
RETRY_ABSENT = 60.0  # seconds between attempts to start an absent backend
PROCESSES_SUFFIX = '.processes'  # suffix of the source of errors that concern processes only


def backend_main(backend):
    """Returns the main loop of the child of one backend."""
    def run(child):
        try:
            absence = backend.absence()
            if absence:
                child.report('state', *absence)
                return
            driver = backend(child)
            why = driver.absent()
        except (ImportError, MemoryError) as error:  # a Python without ctypes, or one that is not allowed to use it
            child.report('state', '%s: %s' % (backend.kind, str(error)[:100] or 'no memory'), None)
            return
        child.on_exit = driver.on_exit
        child.report('state', why, driver.facts)
        if why is not None:
            return
        while why is None:
            why = driver.sample(*child.next_request()[1:])
            child.report('idle')
        child.report('state', why, None)
    return run


def is_blocked(pid, depth=3):
    """Returns true if a process, or one that it has started, waits in the kernel and cannot be interrupted."""
    if read('/proc/%d/stat' % pid, 1024).rpartition(b')')[2].split()[:1] == [b'D']:
        return True
    below = read('/proc/%d/task/%d/children' % (pid, pid), 1024).split() if depth else []
    return any([is_blocked(int(child), depth - 1) for child in below])


def open_kernel_log():
    """Returns the kernel's log; None if this is not root, which alone may read it."""
    if ROOT_MODE is None:
        return None
    load_part('kernel_log')
    return KernelLog()


class Backend:
    """The probe's state of one backend."""

    def __init__(self, kind):
        self.worker = Worker(kind.kind, backend_main(kind), CallPage() if kind.sends_full else None)
        self.kind = kind.kind
        self.why = None
        self.facts = None  # what it reports about itself
        self.refusal = None  # the error with which its driver refused to start: its kind, call, message and number
        self.min_intervals = kind.min_intervals
        self.next_intervals = None  # those that hold once the values that came with them are sent
        self.focused = kind.focused
        self.sends_full = kind.sends_full
        self.lists_none = False  # its driver works and has no devices
        self.needs_full = False  # a part was not sent, so a full sample is requested
        self.unsent = {}  # sections received and not sent yet
        self.last = {}  # the last of each section, for full samples; empty after an error

    def min_interval(self, focus):
        return self.focused if focus and self.focused else self.min_intervals[0]


class Probe:
    def __init__(self):
        self.out = Output(1)
        self.commands = Commands(NODE)
        self.host = Host()
        self.lookup = Worker('host.slow', serve_lookup)
        self.processes = Processes(self.lookup)
        self.requests = Requests(self.processes)
        self.evidence = Evidence(self.lookup)
        self.kernel_log = open_kernel_log()
        self.families = [[Backend(kind) for kind in kinds] for kinds in BACKENDS]
        self.backends = [backend for family in self.families for backend in family]
        self.interval, self.focus, self.focus_end = max(MIN_INTERVAL, INTERVAL), 0.0, 0.0
        self.cost_at, self.cost_cpu = 0.0, 0.0  # when the probe's own CPU time was last read, and its seconds
        self.n = 0
        self.errors = {}  # unsent errors by source and call
        self.events = []  # unsent events, oldest first
        self.hello_due = True
        self.announced = None
        self.full = True
        self.slow_unsent, self.slow_last, self.slow_due = None, None, 0.0
        self.shares_unsent, self.shares_last = None, None
        self.identity = identity()
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)

    def active_backends(self):
        """Returns the backends in use: those of each family up to the first one that is not absent."""
        out = []
        for family in self.families:
            for backend in family:
                out.append(backend)
                if backend.why is None:
                    break
        return out

    def workers(self):
        return [self.lookup] + [b.worker for b in self.active_backends()]

    def all_workers(self):
        return self.workers() + [self.requests.worker, self.processes.name_worker, self.evidence.worker]

    def run(self):
        now = time.monotonic()
        for worker in self.workers():
            self.start_worker(worker, now)
        self.wait_for(now + 0.2)
        self.lookup.request(time.monotonic(), 'facts', [], [CALLER[0]], [])
        self.wait_for(time.monotonic() + 0.2, [self.lookup])
        for _ in 'start', 'ask':
            self.processes.resolve_names(time.monotonic(), self)
            self.wait_for(time.monotonic() + 0.2, [self.processes.name_worker])
        self.request_slow(time.monotonic())
        self.wait_for(time.monotonic() + 0.05, [self.lookup])
        self.started = time.monotonic()
        self.full_at = self.started + 1 + sum(ord(c) * (i + 1) for i, c in enumerate(NODE)) % FULL_INTERVAL
        self.send_pending()
        self.next_tick_at = self.started
        while True:
            now = time.monotonic()
            if self.focus and now >= self.focus_end:
                self.focus = 0.0
            if now >= self.next_tick_at:
                self.tick(now)
                self.schedule_next(now)
            self.check_workers(time.monotonic())
            self.send_pending()
            self.poll_once(self.next_wake() - time.monotonic())

    def tick_interval(self):
        """Returns the current seconds between ticks."""
        return self.focus or self.interval

    def schedule_next(self, now):
        """Schedules the next tick: soon after the first one, to have rates early, then on a fixed grid."""
        if self.n == 1:
            self.next_tick_at = self.started + min(0.3, self.tick_interval())
            return
        interval = self.tick_interval()
        self.next_tick_at = self.started + ((now - self.started) // interval + 1) * interval
        if self.next_tick_at - now < 0.3 * interval:
            self.next_tick_at += interval

    def next_wake(self):
        now = time.monotonic()
        times = [self.next_tick_at, self.requests.next_wake(), self.evidence.next_wake()]
        for worker in self.workers():
            if worker.link is None:
                times.append(worker.retry)
            elif worker.busy:
                times.append(worker.look_at(now))
        if self.errors or self.requests.answers:
            times.append(time.monotonic() + 0.2)
        return min(times)

    # -- input

    def start_worker(self, worker, now):
        if worker.start(now):
            self.poll.register(worker.link.source, select.POLLIN)

    def poll_once(self, seconds):
        """Waits for events on the descriptors and handles them."""
        if self.out.pending:
            self.poll.register(1, select.POLLOUT)
        ready = self.poll.poll(max(0, int(seconds * 1000 + 0.999)))
        if self.out.pending:
            self.poll.unregister(1)
        for fd, _ in ready:
            if fd == 0:
                self.read_stdin()
            elif fd == 1:
                self.out.flush()
            else:
                for worker in self.all_workers():
                    if worker.link is not None and worker.link.source == fd:
                        self.read_worker(worker)

    def wait_for(self, deadline, workers=None):
        """Handles events until the workers are idle or the deadline has passed."""
        while any(w.busy for w in (self.workers() if workers is None else workers)):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.poll_once(left)

    def read_stdin(self):
        data = os.read(0, 65536)
        if not data:
            self.end('stdin closed')
        for number, verb, values in self.commands.feed(data):
            seconds = values.get('seconds')
            if verb == 'heartbeat':
                signal.alarm(DEADMAN)
                for worker in self.all_workers():
                    worker.send('heartbeat')
            elif verb == 'full':
                self.full = True
            elif verb in ('interval', 'focus') and seconds is not None:
                seconds = min(3600.0, max(MIN_INTERVAL, seconds)) if seconds else 0.0
                now = time.monotonic()
                if verb == 'focus':
                    self.focus, self.focus_end = seconds, now + FOCUS_TIMEOUT
                    self.cost_at, self.cost_cpu = now, self.cpu_seconds()
                else:
                    self.interval = seconds or self.interval
                self.next_tick_at = min(self.next_tick_at, now + self.tick_interval())
            else:
                self.requests.add(number, verb, values)

    def read_worker(self, worker):
        try:
            for report in worker.link.receive():
                self.on_report(worker, report)
        except EOFError:
            self.poll.unregister(worker.link.source)
            if worker is self.requests.worker:
                self.requests.on_child_lost('the probe\'s child process ended')
                return
            if worker is self.processes.name_worker:
                self.processes.on_name_worker_lost(time.monotonic())
                return
            if worker is self.evidence.worker:
                self.evidence.on_worker_lost(time.monotonic())
                return
            backend = self.backend(worker)
            worker.refresh_call()
            if backend is not None and backend.why is None and not worker.is_ready:
                self.mark_absent(backend, 'crashed or exited in %s' % worker.call)
            absent = backend is not None and backend.why is not None
            # It may have reported the reason itself.
            lost = worker.on_lost(time.monotonic()) if not absent else None
            if lost is not None:
                self.error(worker.source, lost[0], worker.call, lost[1], None)
            elif not absent and (worker.source, worker.call) not in self.errors:
                self.error(worker.source, 'failed', worker.call, 0.0, 'the probe\'s child process ended')
            worker.end()
            worker.retry = time.monotonic() + (RETRY_ABSENT if absent else SLOW_INTERVAL)

    def mark_absent(self, backend, what):
        """Marks a backend that never reported its state as absent, if another one of its family can take over."""
        family = [members for members in self.families if backend in members][0]
        if backend is not family[-1]:
            self.set_state(backend, '%s: its library %s' % (backend.kind, what), None)

    def backend(self, worker):
        for backend in self.backends:
            if backend.worker is worker:
                return backend
        return None

    def on_report(self, worker, report):
        what, backend = report[0], self.backend(worker)
        if what == 'call':
            worker.end_call(time.monotonic())
            worker.begin_call(report[1], time.monotonic())
            worker.is_starting = len(report) > 2
        elif what == 'idle':
            if worker.page is None:
                worker.end_call(time.monotonic())
            worker.busy = False
        elif what == 'state':
            worker.busy = worker.busy and worker.is_ready
            worker.is_ready = True
            if backend is not None:
                self.set_state(backend, report[1], report[2])
        elif what == 'refusal':
            backend.refusal = report[1:]
        elif what == 'error':
            worker.is_stuck = worker.is_stuck or (report[1] == 'stuck' and not ''.join(report[5:]))
            self.error(worker.source + ''.join(report[5:]), report[1], report[2], report[3], report[4])
        elif what == 'event':
            self.events = self.events[1 - MAX_EVENTS:] + [encode(report[1])]
        elif what == 'intervals':
            backend.next_intervals = report[1:]
        elif what == 'part':
            worker.on_answer()
            part, pids = report[1], report[2]
            if 'csv' in part:
                self.hello_due = self.hello_due or backend.lists_none == bool(part['csv']['rows'])
                backend.lists_none = not part['csv']['rows']
            part.update((key, RawJson(value)) for key, value in report[3].items())
            backend.unsent.update(part)
            if not backend.sends_full:
                backend.last.update(part)
            if pids is not None:
                self.processes.pids[backend.kind] = pids
            for key in [k for k in self.errors if k[0] == worker.source]:
                del self.errors[key]
        elif what == 'slow':
            self.slow_unsent = self.slow_last = report[1]
        elif what == 'shares':
            self.shares_unsent = self.shares_last = dict(zip(('at', 'own', 'jobs'), report[1:]))
        elif what == 'facts':
            self.processes.on_facts(*report[1:])
        elif what == 'name':
            self.processes.on_name(report[1], report[2])
            self.hello_due = self.hello_due or report[1] == self.identity['uid']
        elif what == 'hidden':
            self.processes.on_hidden(report[1])
        elif what == 'answer':
            self.requests.on_answer(report[1])
        elif what == 'evidence':
            self.evidence.add(report[1], report[2])

    def set_state(self, backend, why, facts):
        """Stores a backend's state, starts the next of its family if it is absent, and ends those no longer needed."""
        self.hello_due = self.hello_due or (backend.why, backend.facts) != (why, facts)
        backend.why, backend.facts = why, facts
        if why is None:
            backend.refusal = None
        used = self.active_backends()
        for other in self.backends:
            if other not in used and other.worker.link is not None:
                self.poll.unregister(other.worker.link.source)
                other.worker.end()
                other.unsent, other.last, other.why, other.facts = {}, {}, None, None
                self.processes.pids.pop(other.kind, None)
            elif other in used and other.worker.pid == 0 and other.why is None:
                self.start_worker(other.worker, time.monotonic())

    # -- output

    def error(self, source, code, call, seconds, message):
        for backend in self.backends:
            if backend.kind == source:
                backend.last = {}
            elif source.startswith(backend.kind + '.'):
                for key in ('apps',) if source.endswith(PROCESSES_SUFFIX) else ('slow', 'more', 'mig'):
                    backend.last.pop(key, None)
        if source == self.lookup.source:
            self.slow_last = self.shares_last = None
        frame = {'t': 'error', 'at': time.monotonic(), 'source': source,
                 'scope': 'device' if code == 'lost' else 'host', 'code': code, 'call': call, 'for': float(seconds)}
        if message:
            frame['message'] = message
        self.errors[(source, call)] = encode(frame)

    def check_workers(self, now):
        """Reports calls that take longer than usual and restarts children that are due."""
        for worker in [self.lookup] + [backend.worker for backend in self.backends]:
            worker.reap()
        for worker in self.workers():
            if worker.is_due(now):
                code, seconds = worker.look(now, is_blocked(worker.pid))
                self.error(worker.source, code, worker.call, seconds, None)
                backend = self.backend(worker)
                if backend is not None and backend.why is None and not worker.is_ready and code == 'stuck':
                    self.mark_absent(backend, 'hangs in %s' % worker.call)
            if worker.link is None and worker.pid == 0 and now >= worker.retry:
                self.start_worker(worker, now)
            elif worker.link is None and now >= worker.retry:
                worker.retry = now + SLOW_INTERVAL
        self.requests.advance(now, self)
        self.processes.resolve_names(now, self)
        self.evidence.advance(now, self)

    def intervals(self):
        """Returns the effective seconds of each source: its minimum interval, rounded up to the grid of ticks."""
        interval = self.tick_interval()

        def whole_ticks(floor):
            return interval * max(1, -int(-(floor / interval - 0.05) // 1))
        out = {'host': interval, 'host.slow': whole_ticks(SLOW_INTERVAL)}
        for backend in self.active_backends():
            out[backend.kind] = whole_ticks(backend.min_interval(self.focus))
            for floor, group in zip(backend.min_intervals[1:], ('.processes', '.slow')):
                if floor:
                    out[backend.kind + group] = whole_ticks(floor)
        return out

    def send_pending(self):
        """Sends hello if it has changed, then waiting events, errors and answers."""
        intervals = self.intervals()
        if (self.hello_due or intervals != self.announced) and self.out.ready():
            self.hello_due, self.announced = False, intervals
            self.out.send(encode(self.hello(intervals)))
        while self.events and self.announced and self.out.ready():
            self.out.send(self.events.pop(0))
        while self.kernel_log and self.kernel_log.lines and self.announced and self.out.ready():
            event = {'t': 'event', 'at': time.monotonic(), 'source': 'kernel', 'kind': 'xid', 'device': ''}
            self.out.send(encode(dict(event, **self.kernel_log.lines.pop(0))))
        while self.errors and self.announced and self.out.ready():
            key = min(self.errors)
            self.out.send(self.errors.pop(key))
        while self.requests.answers and self.announced and self.out.ready():
            self.out.send(self.requests.answers.pop(0))

    def hello(self, intervals):
        identity = self.identity
        frame = {'t': 'hello', 'v': 1, 'probe': 'python', 'at': time.monotonic(), 'time': time.time()}
        frame.update(identity)
        user = CALLER[2] or self.processes.names.get(identity['uid']) or os.environ.get('LOGNAME') or str(identity['uid'])
        frame['user'] = user[:255]
        if ROOT_MODE is not None or SUDO_REFUSAL:
            frame['sudo'] = SUDO_REFUSAL if ROOT_MODE is None else 'root'
        if self.kernel_log and self.kernel_log.fd is not None:
            frame['kernel_log'] = True
            frame['driver_loaded'] = self.kernel_log.driver_loaded
        frame['commands'] = ['heartbeat', 'interval', 'focus', 'full'] + list(REQUEST_COMMANDS)
        frame['evidence'] = True
        if self.processes.contained:
            frame['contained'] = True
        if PCI_DEVICES:
            frame['pci'] = PCI_DEVICES
        group = cgroup(os.getpid())
        if is_of_scheduler(group):
            frame['cgroup'] = group
        # A container and a job may have only some of the devices that they see here.
        devices = [] if self.processes.contained or is_of_scheduler(group) else nvidia_devices()
        if devices:
            frame['expected'] = devices
        frame['intervals'] = intervals
        frame['backends'] = [self.backend_state(backend) for backend in self.active_backends()]
        return frame

    def backend_state(self, backend):
        if backend.why is not None:
            state = dict(backend.facts or {}, kind=backend.kind, state='absent', why=backend.why)
            if self.is_fault(backend):
                state.update(zip(('code', 'call', 'message', 'number'), backend.refusal))
            return state
        return dict(backend.facts or {}, kind=backend.kind, state='ready' if backend.facts else 'starting')

    def is_fault(self, backend):
        """Returns true if a driver refused to start that has devices here, and no other backend reads them."""
        family = [members for members in self.families if backend in members][0]
        if backend.refusal is None or any([member.why is None and not member.lists_none for member in family]):
            return False
        # In a container without devices, the driver of the node does not run.
        return not (self.processes.contained and backend.refusal[0] == 'nodriver') and bool(nvidia_devices(False))

    def request_slow(self, now):
        if now >= self.slow_due and self.lookup.request(now, 'slow'):
            self.slow_due = now + SLOW_INTERVAL

    def tick(self, now):
        """Takes and sends one sample. If stdout is full the sample is dropped, which its number shows."""
        self.n += 1
        if now >= self.full_at:
            self.full = True
            self.full_at += FULL_INTERVAL * ((now - self.full_at) // FULL_INTERVAL + 1)
        if not self.out.ready() or self.announced is None:
            return
        interval = self.tick_interval()
        sampled = []
        for backend in self.active_backends():
            full = self.full or backend.needs_full
            if backend.unsent and backend.sends_full:
                backend.needs_full = full  # a part that came too late for the last sample goes with this one
            elif backend.worker.request(now, 'tick', interval, backend.min_interval(self.focus), full):
                backend.needs_full = False
                sampled.append(backend.worker)
        host = self.host.sample(now)
        self.read_kernel_log()
        self.request_slow(now)
        self.wait_for(now + min(0.25 * interval, 0.3), sampled)
        parts = self.collect_parts()
        is_due = 0.0 < self.processes.resample_at <= now or (self.full and self.processes.pids)
        if is_due or any('uses' in part or 'apps' in part for part in parts):
            if self.processes.read(self.full):
                self.wait_for(time.monotonic() + min(0.1 * interval, 0.05), [self.lookup])
            processes = self.processes.section(time.monotonic(), self.full)
        else:
            processes = None
        self.send_pending()
        if not self.out.ready():
            self.request_full()
            return
        self.out.send(self.frame(now, host, parts, processes))
        for backend in self.backends:
            backend.min_intervals, backend.next_intervals = backend.next_intervals or backend.min_intervals, None
        self.full = False
        self.slow_unsent, self.shares_unsent = None, None
        # The same child reads the facts of processes, which come first.
        if self.n > 1 and all([row['known'] for row in self.processes.rows.values()]):
            self.evidence.request(now)

    def read_kernel_log(self):
        log = self.kernel_log
        if log:
            before = log.fd, log.driver_loaded
            log.read()
            self.hello_due = self.hello_due or before != (log.fd, log.driver_loaded)

    def request_full(self):
        for backend in self.backends:
            backend.needs_full = True

    def collect_parts(self):
        out = []
        for backend in self.backends:
            part = dict(backend.last, **backend.unsent) if self.full and backend.last else backend.unsent
            backend.unsent = {}
            if part:
                out.append(dict(part, kind=backend.kind))
        return out

    def cpu_seconds(self):
        """Returns the CPU time so far of the probe, its children and the programs that they have run."""
        ticks = 0
        for pid in [os.getpid()] + [worker.pid for worker in self.all_workers() if worker.pid]:
            ticks += sum([int(word) for word in read('/proc/%d/stat' % pid).rpartition(b')')[2].split()[11:15]])
        return ticks / float(self.identity['tick'])

    def cost(self, now):
        """Returns the probe's own CPU use, if it is due: percent of one core over the seconds before."""
        seconds = now - self.cost_at
        if not self.focus or seconds < COST_INTERVAL:
            return None
        before, self.cost_at, self.cost_cpu = self.cost_cpu, now, self.cpu_seconds()
        return {'cpu': max(0.0, 100.0 * (self.cost_cpu - before) / seconds), 'seconds': seconds}

    def frame(self, began, host, parts, processes):
        """Returns the sample, without processes or backends if it would exceed the maximum frame."""
        end = time.monotonic()
        out = {'t': 'sample', 'n': self.n, 'at': end, 'took': (end - began) * 1000.0}
        if self.full:
            out['full'] = True
        out['host'] = host
        slow = self.slow_last if self.full else self.slow_unsent
        if slow:
            out['host_slow'] = slow
        shares = self.shares_last if self.full else self.shares_unsent
        if shares:
            out['shares'] = shares
        if parts:
            out['backends'] = parts
        if processes:
            out['processes'] = processes
        evidence = self.evidence.section(self.full)
        if evidence:
            out['evidence'] = evidence
        cost = self.cost(end)
        if cost:
            out['cost'] = cost
        frame = encode(out)
        for section in ('processes', 'backends'):
            if len(frame) >= MAX_FRAME - 64:
                out.pop(section, None)
                self.request_full()
                frame = encode(out)
        return frame

    def end(self, why):
        """Sends bye if stdout accepts it soon, ends all children, and exits."""
        for worker in self.all_workers():
            worker.end(graceful=not worker.looked_at and worker is not self.processes.name_worker)
        deadline = time.monotonic() + 0.3
        is_sent = False
        try:
            while time.monotonic() < deadline and not is_sent:
                if self.out.ready():
                    self.out.send(encode({'t': 'bye', 'at': time.monotonic(), 'why': why}))
                    is_sent = True
                else:
                    time.sleep(0.01)
        except ReaderGone:
            pass
        for seconds in (0.5, 0.5):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not all([w.reap() for w in self.all_workers()]):
                time.sleep(0.005)
            for worker in self.all_workers():
                worker.kill()
        os._exit(0)


def main():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.alarm(DEADMAN)
    try:
        os.setpgid(0, 0)
    except OSError:
        pass
    import gc
    if hasattr(gc, 'freeze'):
        gc.freeze()  # pages shared with the children stay shared
    probe = Probe()
    try:
        probe.run()
    except ReaderGone:
        probe.end('stdout closed')


main()
