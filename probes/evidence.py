# Evidence of which devices a scheduler's indices mean. The child for slow lookups finds the scheduler's daemon and reads
# control groups. The rest may block or takes its time, so a child of its own does it: at the start, when the daemon has
# started again, and every 30 s, because the daemon may have read its configuration again. The daemon's list is asked for
# only if one of them has changed, and the driver's files are read every 10 minutes.
EVIDENCE_INTERVAL = 30.0
DRIVER_INTERVAL = 600.0
EVIDENCE_TIMEOUT = 25.0  # seconds that the child may take; the daemon's program has a shorter deadline


def serve_evidence(child):
    """Main loop of a child that reads evidence once."""
    load_part('evidence')
    child.report('state', None)
    read_evidence(child, *child.next_request()[1:])
    child.report('idle')
    child.next_request()


class Evidence:
    """The evidence section of samples; it is sent when it has changed."""

    def __init__(self, lookup):
        self.lookup = lookup
        self.worker = Worker('evidence', serve_evidence)
        self.parts = {}  # by key of the section
        self.daemon = None  # the daemon that was found, [] if none is, None before the search
        self.asked = None  # what was known of the daemon and its configuration when it was asked for its list of devices
        self.is_due = False  # it has changed since it was sent
        self.has_request = False  # the child was not asked yet
        self.lookup_at = 0.0
        self.driver_at = 0.0
        self.read_at = 0.0  # when to start the child, and while it runs when to end it

    def request(self, now):
        """Asks the child for lookups, if it is time and it is idle."""
        if now >= self.lookup_at and self.lookup.request(now, 'scheduler'):
            # The second time soon, because rates need two.
            self.lookup_at = now + (SLOW_INTERVAL if self.lookup_at else min(SLOW_INTERVAL, 1.0))

    def add(self, parts, daemon):
        """Stores parts, and the daemon that was found."""
        if daemon is not None and daemon != self.daemon:
            self.daemon, self.read_at = daemon, 0.0 if self.worker.link is None else self.read_at
            parts = dict(parts, daemon={'started': daemon[2]} if any(daemon[2:3]) else None)
        for key, value in parts.items():
            if self.parts.get(key) != value:
                self.parts[key] = value
                self.is_due = True

    def section(self, full):
        """Returns the section if it has changed, or if `full`."""
        if not (self.is_due or full):
            return None
        self.is_due = False
        return dict([(key, value) for key, value in self.parts.items() if value is not None])

    def next_wake(self):
        return float('inf') if self.daemon is None else self.read_at

    def advance(self, now, probe):
        """Starts the child, asks it, or ends it."""
        worker = self.worker
        is_gone = worker.reap()
        if worker.link is None:
            if self.daemon is not None and is_gone and now >= self.read_at:
                self.has_request = True
                self.read_at = now + (EVIDENCE_TIMEOUT if probe.start_worker(worker, now) else EVIDENCE_INTERVAL)
        elif self.has_request and not worker.busy:
            self.has_request = False
            is_new, is_first = self.is_list_due(), self.asked is None
            has_driver = is_new or now >= self.driver_at
            self.driver_at = now + DRIVER_INTERVAL if has_driver else self.driver_at
            node = None if is_new else self.parts.get('node')
            worker.request(now, 'evidence', self.daemon, node, is_new, is_first, has_driver)
            self.asked = [self.daemon, None if is_new else self.changed()]
        elif not worker.busy or now >= self.read_at:
            probe.poll.unregister(worker.link.source)
            self.on_worker_lost(now)

    def on_worker_lost(self, now):
        """Ends the child with all that it has started."""
        self.worker.end()
        if not self.has_request:
            self.add({'complete': True}, None)
        if self.asked and self.asked[1] is None:
            self.asked[1] = self.changed()  # seen with the list
        # If another daemon has started meanwhile, or its configuration has changed, it is asked at once.
        self.read_at = now + (EVIDENCE_INTERVAL if self.has_request or not self.is_list_due() else 0.0)

    def changed(self):
        return (self.parts.get('configuration') or {}).get('changed')

    def is_list_due(self):
        return self.asked != [self.daemon, self.changed()]
