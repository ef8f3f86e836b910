# What somebody asks about processes: the environment, the tree, details, a signal. A child that lives only while
# something is asked does it, because it may wait for a stuck process; each question has one answer, come what may.
QUESTIONS = ('signal', 'environ', 'tree', 'detail')
MOST_QUESTIONS = 64
IDLE = 10.0         # for how long the child waits for another question


def serve_questions(duty):
    unpack('answers')
    duty.report('state', None)
    while True:
        request = duty.next()
        duty.report('answer', answer_text(*request[1:]))
        duty.report('idle')


def refusal(result, why):
    return '"result":%s,"why":%s' % (quote(result), quote(why))


class Questions:
    """The probe's view of them: those that wait, the one under way, and the answers to be sent."""

    def __init__(self, processes):
        self.processes = processes
        self.worker = Worker('questions', serve_questions)
        self.waiting = []       # (id, verb, numbers)
        self.current = None     # the id under way
        self.answers = []       # frames
        self.idle = 0.0         # since when there is nothing to do

    def ask(self, number, verb, values):
        if verb not in QUESTIONS:
            self.answer(number, refusal('bad', 'no such command'))
        elif len(self.waiting) >= MOST_QUESTIONS:
            self.answer(number, refusal('failed', 'too many questions at once'))
        else:
            self.waiting.append((number, verb, values))

    def answer(self, number, text):
        if len(self.answers) < 2 * MOST_QUESTIONS:
            self.answers.append('{"t":"answer","id":%d,"at":%.3f,%s}' % (number, time.monotonic(), text))

    def heard(self, text):
        if self.current is not None:
            self.answer(self.current, text)
        self.current, self.idle = None, time.monotonic()

    def lost(self, why):
        """The child is gone, or as good as gone."""
        if self.current is not None:
            self.heard(refusal('failed', why))
        self.worker.kill()
        self.worker.end()
        self.worker.retry = time.monotonic() + 1.0      # a child that is not gone by then hangs

    def wake(self):
        """When to look next, far away while nothing is asked."""
        if self.worker.link is None:
            return self.worker.retry if self.waiting else float('inf')
        return self.worker.stuck_at() if self.worker.busy else self.idle + IDLE

    def look(self, now, probe):
        """Goes on with what waits."""
        worker = self.worker
        if worker.link is None:
            if self.waiting and worker.reap():
                self.idle = now
                probe.begin(worker, now)
                worker.retry = now + 1.0
            while self.waiting and worker.link is None and now >= worker.retry:
                self.answer(self.waiting.pop(0)[0], refusal('failed', 'an earlier question still hangs on the node'))
        elif worker.busy:
            if now >= worker.stuck_at():
                probe.poll.unregister(worker.link.source)
                if self.current is None:
                    self.current = self.waiting.pop(0)[0]
                self.lost('the process does not answer, nor does what stands in /proc about it')
        elif self.waiting:
            self.current, verb, values = self.waiting.pop(0)
            pids = set(pid for some in self.processes.pids.values() for pid in some)
            ours = [os.getpgid(0)] + [one.pid for one in probe.workers() if one.pid]
            worker.ask(now, 'ask', verb, values, sorted(pids), ours, self.processes.names)
        elif now >= self.idle + IDLE:
            probe.poll.unregister(worker.link.source)
            worker.kill()
            worker.end()
