# The probe itself: one loop over stdin, the children and the clock.
# A further kind of device is a class like NvidiaSmi in a file of its own, and an entry here or in RARE. Of one
# entry's kinds the first that works is used; the next is tried when it is absent.
BACKENDS = ((Rare('nvml', 'Nvml', None, (0.5, 2.0, 10.0), 0.1, True, no_nvml),
             Rare('nvidia-smi', 'NvidiaSmi', None, (1.0, 2.0, 10.0))),) + tuple((kind,) for kind in rare(RARE))
SLOW = 10.0
FULL = 60.0
FASTEST = 0.05
MOST_EVENTS = 32
AGAIN = 60.0        # how often an absent backend is looked for
USERS = '.processes'    # the source of what may fail although the devices are told
STARTING = 60.0     # a driver that is being loaded takes its time; after this it is stuck


def serve(backend):
    """What the child of one backend does."""
    def run(duty):
        try:
            why = backend.lacks()
            if why:
                duty.report('state', why, None)
                return
            driver = backend(duty)
            why = driver.absent()
        except (ImportError, MemoryError) as trouble:   # a Python without ctypes, or one that may not use it
            duty.report('state', '%s: %s' % (backend.kind, str(trouble)[:100] or 'no memory'), None)
            return
        duty.farewell = driver.farewell
        duty.report('state', why, driver.facts)
        while why is None:
            why = driver.sample(*duty.next()[1:])
            duty.report('idle')
        duty.report('state', why, None)
    return run


class Backend:
    """The probe's view of one backend."""

    def __init__(self, kind):
        self.worker = Worker(kind.kind, serve(kind), Page() if kind.tells_all else None)
        self.kind = kind.kind
        self.why = None
        self.facts = None       # what it says of itself, once it works
        self.floors = kind.floors
        self.focused = kind.focused
        self.tells_all = kind.tells_all
        self.is_behind = False  # something it said was not sent: all of it is asked for
        self.part = {}          # what has come and not been sent
        self.last = {}          # the last of each section, for full samples; empty while in trouble

    def floor(self, focus):
        return self.focused if focus and self.focused else self.floors[0]


class Probe:
    def __init__(self):
        self.out = Output(1)
        self.commands = Commands(NODE)
        self.host = Host()
        self.lookup = Worker('host.slow', look_up)
        self.processes = Processes(self.lookup)
        self.questions = Questions(self.processes)
        self.families = [[Backend(kind) for kind in kinds] for kinds in BACKENDS]
        self.backends = [backend for family in self.families for backend in family]
        self.interval, self.focus = max(FASTEST, INTERVAL), 0.0
        self.n = 0
        self.errors = {}        # waiting to be sent, by source and call
        self.events = []        # likewise, oldest first
        self.hello_due = True
        self.announced = None
        self.full = True
        self.slow, self.slow_last, self.slow_due = None, None, 0.0
        self.identity = identity()
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN)

    def used(self):
        """The backends in use: of each family up to the first that is not absent."""
        out = []
        for family in self.families:
            for backend in family:
                out.append(backend)
                if backend.why is None:
                    break
        return out

    def workers(self):
        return [self.lookup] + [b.worker for b in self.used()]

    def everybody(self):
        return self.workers() + [self.questions.worker, self.processes.namer]

    def run(self):
        now = time.monotonic()
        for worker in self.workers():
            self.begin(worker, now)
        self.until(now + 0.2)
        self.lookup.ask(time.monotonic(), 'who', [], [os.getuid()], [])
        self.until(time.monotonic() + 0.2, [self.lookup])
        for _ in 'start', 'ask':
            self.processes.look(time.monotonic(), self)
            self.until(time.monotonic() + 0.2, [self.processes.namer])
        self.slow_ask(time.monotonic())
        self.until(time.monotonic() + 0.05, [self.lookup])
        self.started = time.monotonic()
        self.full_at = self.started + 1 + sum(ord(c) * (i + 1) for i, c in enumerate(NODE)) % FULL
        self.flow()
        self.next = self.started
        while True:
            now = time.monotonic()
            if now >= self.next:
                self.tick(now)
                self.plan(now)
            self.trouble(time.monotonic())
            self.flow()
            self.pump(self.wake() - time.monotonic())

    def pace(self):
        """The present interval of the ticks."""
        return self.focus or self.interval

    def plan(self, now):
        """The next tick: soon after the first one, so that there are rates, then on the grid."""
        if self.n == 1:
            self.next = self.started + min(0.3, self.pace())
            return
        pace = self.pace()
        self.next = self.started + ((now - self.started) // pace + 1) * pace
        if self.next - now < 0.3 * pace:
            self.next += pace

    def wake(self):
        times = [self.next, self.questions.wake()]
        for worker in self.workers():
            if worker.link is None:
                times.append(worker.retry)
            elif worker.busy:
                times.append(worker.stuck_at())
        if self.errors or self.questions.answers:
            times.append(time.monotonic() + 0.2)
        return min(times)

    # -- what comes in

    def begin(self, worker, now):
        if worker.start(now):
            self.poll.register(worker.link.source, select.POLLIN)

    def pump(self, seconds):
        """Waits for anything to happen, and deals with it."""
        if self.out.rest:
            self.poll.register(1, select.POLLOUT)
        ready = self.poll.poll(max(0, int(seconds * 1000 + 0.999)))
        if self.out.rest:
            self.poll.unregister(1)
        for fd, _ in ready:
            if fd == 0:
                self.told()
            elif fd == 1:
                self.out.flush()
            else:
                for worker in self.everybody():
                    if worker.link is not None and worker.link.source == fd:
                        self.listen(worker)

    def until(self, deadline, workers=None):
        """Deals with what happens until the workers are done, or no longer than the deadline."""
        while any(w.busy for w in (self.workers() if workers is None else workers)):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self.pump(left)

    def told(self):
        data = os.read(0, 65536)
        if not data:
            self.end('stdin closed')
        for number, verb, values in self.commands.feed(data):
            seconds = values.get('seconds')
            if verb == 'heartbeat':
                signal.alarm(DEADMAN)
                for worker in self.everybody():
                    worker.send('beat')
            elif verb == 'full':
                self.full = True
            elif verb in ('interval', 'focus') and seconds is not None:
                seconds = min(3600.0, max(FASTEST, seconds)) if seconds else 0.0
                if verb == 'focus':
                    self.focus = seconds
                else:
                    self.interval = seconds or self.interval
                self.next = min(self.next, time.monotonic() + self.pace())
            else:
                self.questions.ask(number, verb, values)

    def listen(self, worker):
        try:
            for report in worker.link.receive():
                self.heard(worker, report)
        except EOFError:
            self.poll.unregister(worker.link.source)
            if worker is self.questions.worker:
                self.questions.lost('the probe\'s child process ended')
                return
            if worker is self.processes.namer:
                self.processes.unheard(time.monotonic())
                return
            backend = self.backend(worker)
            worker.look()
            if backend is not None and backend.why is None and not worker.is_ready:
                self.give_up(backend, 'ended the process that called %s' % worker.call)
            absent = backend is not None and backend.why is not None
            # What made it end it may have said itself.
            if not absent and (worker.source, worker.call) not in self.errors:
                self.error(worker.source, 'failed', worker.call, 0.0, 'the probe\'s child process ended')
            worker.end()
            worker.retry = time.monotonic() + (AGAIN if absent else SLOW)

    def give_up(self, backend, what):
        """A backend that has never said what it is: where another of its family can take over, it does."""
        family = [one for one in self.families if backend in one][0]
        if backend is not family[-1]:
            self.state(backend, '%s: its library %s' % (backend.kind, what), None)

    def backend(self, worker):
        for backend in self.backends:
            if backend.worker is worker:
                return backend
        return None

    def heard(self, worker, report):
        what, backend = report[0], self.backend(worker)
        if what == 'call':
            worker.call, worker.since, worker.told = report[1], time.monotonic(), 0.0
            worker.is_starting = len(report) > 2
        elif what == 'idle':
            worker.busy = False
        elif what == 'state':
            worker.busy = worker.busy and worker.is_ready
            worker.is_ready = True
            if backend is not None:
                self.state(backend, report[1], report[2])
        elif what == 'error':
            self.error(worker.source + ''.join(report[5:]), report[1], report[2], report[3], report[4])
        elif what == 'event':
            self.events = self.events[1 - MOST_EVENTS:] + [encode(report[1])]
        elif what == 'floors':
            backend.floors = report[1:]
        elif what == 'part':
            part, pids = report[1], report[2]
            part.update((key, Raw(value)) for key, value in report[3].items())
            backend.part.update(part)
            if not backend.tells_all:
                backend.last.update(part)
            if pids is not None:
                self.processes.pids[backend.kind] = pids
            for key in [k for k in self.errors if k[0] == worker.source]:
                del self.errors[key]
        elif what == 'slow':
            self.slow = self.slow_last = report[1]
        elif what == 'who':
            self.processes.heard(*report[1:])
        elif what == 'name':
            self.processes.named(report[1], report[2])
            self.hello_due = self.hello_due or report[1] == self.identity['uid']
        elif what == 'hidden':
            self.processes.found(report[1])
        elif what == 'answer':
            self.questions.heard(report[1])

    def state(self, backend, why, facts):
        """What a backend has become; where it is absent the next of its family takes over, and gives back."""
        self.hello_due = self.hello_due or (backend.why, backend.facts) != (why, facts)
        backend.why, backend.facts = why, facts
        used = self.used()
        for other in self.backends:
            if other not in used and other.worker.link is not None:
                self.poll.unregister(other.worker.link.source)
                other.worker.end()
                other.part, other.last, other.why, other.facts = {}, {}, None, None
                self.processes.pids.pop(other.kind, None)
            elif other in used and other.worker.pid == 0 and other.why is None:
                self.begin(other.worker, time.monotonic())

    # -- what goes out

    def error(self, source, code, call, seconds, message):
        for backend in self.backends:
            if backend.kind == source:
                backend.last = {}
            elif source.startswith(backend.kind + '.'):
                for key in ('apps',) if source.endswith(USERS) else ('slow', 'more', 'mig'):
                    backend.last.pop(key, None)
        if source == self.lookup.source:
            self.slow_last = None
        frame = {'t': 'error', 'at': time.monotonic(), 'source': source,
                 'scope': 'device' if code == 'lost' else 'host', 'code': code, 'call': call, 'for': float(seconds)}
        if message:
            frame['message'] = message
        self.errors[(source, call)] = encode(frame)

    def trouble(self, now):
        """Reports calls that do not come back, and starts children that are due."""
        for worker in [self.lookup] + [backend.worker for backend in self.backends]:
            worker.reap()
        for worker in self.workers():
            seconds = worker.stuck(now)
            if seconds is not None:
                is_starting = (worker.is_starting or not worker.is_ready) and seconds < STARTING
                self.error(worker.source, 'starting' if is_starting else 'stuck', worker.call, seconds, None)
                backend = self.backend(worker)
                if backend is not None and backend.why is None and not worker.is_ready and not is_starting:
                    self.give_up(backend, 'does not come back from %s' % worker.call)
            if worker.link is None and worker.pid == 0 and now >= worker.retry:
                self.begin(worker, now)
            elif worker.link is None and now >= worker.retry:
                worker.retry = now + SLOW
        self.questions.look(now, self)
        self.processes.look(now, self)

    def intervals(self):
        """The effective seconds of each source: what it wants, on our grid."""
        pace = self.pace()

        def grid(floor):
            return pace * max(1, -int(-(floor / pace - 0.05) // 1))
        out = {'host': pace, 'host.slow': grid(SLOW)}
        for backend in self.used():
            out[backend.kind] = grid(backend.floor(self.focus))
            for floor, group in zip(backend.floors[1:], ('.processes', '.slow')):
                out[backend.kind + group] = grid(floor)
        return out

    def flow(self):
        """Sends what waits besides samples: hello first, whenever what it says has changed."""
        intervals = self.intervals()
        if (self.hello_due or intervals != self.announced) and self.out.ready():
            self.hello_due, self.announced = False, intervals
            self.out.send(encode(self.hello(intervals)))
        while self.events and self.announced and self.out.ready():
            self.out.send(self.events.pop(0))
        while self.errors and self.announced and self.out.ready():
            key = min(self.errors)
            self.out.send(self.errors.pop(key))
        while self.questions.answers and self.announced and self.out.ready():
            self.out.send(self.questions.answers.pop(0))

    def hello(self, intervals):
        me = self.identity
        frame = {'t': 'hello', 'v': 1, 'probe': 'python', 'at': time.monotonic(), 'time': time.time()}
        frame.update(me)
        frame['user'] = (self.processes.names.get(me['uid']) or os.environ.get('LOGNAME') or str(me['uid']))[:255]
        frame['commands'] = ['heartbeat', 'interval', 'focus', 'full'] + list(QUESTIONS)
        if self.processes.contained:
            frame['contained'] = True
        place = cgroup(os.getpid())
        if 'slurm' in place:
            frame['cgroup'] = place
        frame['intervals'] = intervals
        frame['backends'] = [self.standing(backend) for backend in self.used()]
        return frame

    def standing(self, backend):
        if backend.why is not None:
            return {'kind': backend.kind, 'state': 'absent', 'why': backend.why}
        return dict(backend.facts or {}, kind=backend.kind, state='ready' if backend.facts else 'starting')

    def slow_ask(self, now):
        if now >= self.slow_due and self.lookup.ask(now, 'slow'):
            self.slow_due = now + SLOW

    def tick(self, now):
        """One sample; dropped whole when nobody reads, and the number tells."""
        self.n += 1
        if now >= self.full_at:
            self.full = True
            self.full_at += FULL * ((now - self.full_at) // FULL + 1)
        if not self.out.ready() or self.announced is None:
            return
        pace = self.pace()
        asked = []
        for backend in self.used():
            full = self.full or backend.is_behind
            if backend.part and backend.tells_all:
                backend.is_behind = full        # what came too late for the last sample goes with this one
            elif backend.worker.ask(now, 'tick', pace, backend.floor(self.focus), full):
                backend.is_behind = False
                asked.append(backend.worker)
        host = self.host.sample(now)
        self.slow_ask(now)
        self.until(now + min(0.25 * pace, 0.3), asked)
        parts = self.parts()
        is_due = 0.0 < self.processes.again <= now or (self.full and self.processes.pids)
        if is_due or any('uses' in part or 'apps' in part for part in parts):
            if self.processes.read(self.full):
                self.until(time.monotonic() + min(0.1 * pace, 0.05), [self.lookup])
            processes = self.processes.section(time.monotonic(), self.full)
        else:
            processes = None
        self.flow()
        if not self.out.ready():
            self.behind()
            return
        self.out.send(self.frame(now, host, parts, processes))
        self.full = False
        self.slow = None

    def behind(self):
        for backend in self.backends:
            backend.is_behind = True

    def parts(self):
        out = []
        for backend in self.backends:
            part = dict(backend.last, **backend.part) if self.full and backend.last else backend.part
            backend.part = {}
            if part:
                out.append(dict(part, kind=backend.kind))
        return out

    def frame(self, began, host, parts, processes):
        """The sample, made shorter if it would be longer than a reader takes."""
        end = time.monotonic()
        out = {'t': 'sample', 'n': self.n, 'at': end, 'took': (end - began) * 1000.0}
        if self.full:
            out['full'] = True
        out['host'] = host
        slow = self.slow_last if self.full else self.slow
        if slow:
            out['host_slow'] = slow
        if parts:
            out['backends'] = parts
        if processes:
            out['processes'] = processes
        frame = encode(out)
        for shed in ('processes', 'backends'):
            if len(frame) >= FRAME - 64:
                out.pop(shed, None)
                self.behind()
                frame = encode(out)
        return frame

    def end(self, why):
        """Says goodbye if that is possible at once, and leaves nothing behind."""
        for worker in self.everybody():
            worker.end(gently=not worker.told and worker is not self.processes.namer)
        deadline = time.monotonic() + 0.3
        said = False
        try:
            while time.monotonic() < deadline and not said:
                if self.out.ready():
                    self.out.send(encode({'t': 'bye', 'at': time.monotonic(), 'why': why}))
                    said = True
                else:
                    time.sleep(0.01)
        except Unheard:
            pass
        for seconds in (0.5, 0.5):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not all([w.reap() for w in self.everybody()]):
                time.sleep(0.005)
            for worker in self.everybody():
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
        gc.freeze()         # what the children share with us stays shared
    probe = Probe()
    try:
        probe.run()
    except Unheard:
        probe.end('stdout closed')


main()
