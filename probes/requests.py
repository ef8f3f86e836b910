# Requests about processes: environment, tree, details, signal. Answering may wait for a stuck process, so a child does
# it, which lives only while there are requests. Each request gets exactly one answer.
REQUEST_COMMANDS = (() if ROOT_MODE == 'read-only' else ('signal',)) + ('environ', 'tree', 'detail')
MAX_REQUESTS = 64
IDLE_TIMEOUT = 10.0  # seconds that the child waits for another request


def serve_requests(child):
    load_part('answers')
    child.report('state', None)
    while True:
        request = child.next_request()
        child.report('answer', answer_text(*request[1:]))
        child.report('idle')


def refusal(result, why):
    return '"result":%s,"why":%s' % (quote(result), quote(why))


class Requests:
    """The waiting requests, the current one, and the answers to send."""

    def __init__(self, processes):
        self.processes = processes
        self.worker = Worker('requests', serve_requests)
        self.waiting = []       # (id, verb, numbers)
        self.current = None  # the id of the request being answered
        self.answers = []       # frames
        self.idle_since = 0.0  # when the last answer came

    def add(self, number, verb, values):
        if verb == 'signal' and verb not in REQUEST_COMMANDS:
            self.add_answer(number, refusal('refused', 'the probe runs as root and was started to read only'))
        elif verb not in REQUEST_COMMANDS:
            self.add_answer(number, refusal('bad', 'no such command'))
        elif len(self.waiting) >= MAX_REQUESTS:
            self.add_answer(number, refusal('failed', 'too many requests at once'))
        else:
            self.waiting.append((number, verb, values))

    def add_answer(self, number, text):
        if len(self.answers) < 2 * MAX_REQUESTS:
            self.answers.append('{"t":"answer","id":%d,"at":%.3f,%s}' % (number, time.monotonic(), text))

    def on_answer(self, text):
        if self.current is not None:
            self.add_answer(self.current, text)
        self.current, self.idle_since = None, time.monotonic()

    def on_child_lost(self, why):
        """Answers the current request with a failure and kills the child."""
        if self.current is not None:
            self.on_answer(refusal('failed', why))
        self.worker.kill()
        self.worker.end()
        self.worker.retry = time.monotonic() + 1.0  # a child that still exists then hangs

    def next_wake(self):
        """Returns when to call `advance` next; infinity if no request is pending."""
        if self.worker.link is None:
            return self.worker.retry if self.waiting else float('inf')
        return self.worker.since + SLOW_AFTER if self.worker.busy else self.idle_since + IDLE_TIMEOUT

    def advance(self, now, probe):
        """Starts the child, sends the next request, or ends the idle child."""
        worker = self.worker
        if worker.link is None:
            if self.waiting and worker.reap():
                self.idle_since = now
                probe.start_worker(worker, now)
                worker.retry = now + 1.0
            while self.waiting and worker.link is None and now >= worker.retry:
                self.add_answer(self.waiting.pop(0)[0], refusal('failed', 'an earlier request still hangs on the node'))
        elif worker.busy:
            if now >= worker.since + SLOW_AFTER:
                probe.poll.unregister(worker.link.source)
                if self.current is None:
                    self.current = self.waiting.pop(0)[0]
                self.on_child_lost('reading /proc hangs for this process')
        elif self.waiting:
            self.current, verb, values = self.waiting.pop(0)
            own_groups = [os.getpgid(0)] + [other.pid for other in probe.workers() if other.pid]
            worker.request(now, 'answer', verb, values, sorted(self.processes.rows), own_groups, self.processes.names,
                           self.processes.ambiguous())
        elif now >= self.idle_since + IDLE_TIMEOUT:
            probe.poll.unregister(worker.link.source)
            worker.kill()
            worker.end()
