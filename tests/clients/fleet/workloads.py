"""What jobs do. A workload is a class with a plan: for each of its devices the phases, which are how long (seconds), the
load (percent) and the share of the memory; the last phase lasts until the job ends."""

FOREVER = float("inf")


class Workload:
    """Does nothing, and holds its devices."""
    job_name = "sleep"
    command = "python job.py"
    waste = None                       # the kind of the fact about it
    is_scheduled = True
    cpus_per_device = 24               # that the scheduler gives it
    busy_cpus = 0.1                    # share of these that are busy
    memory_share = 0.25                # of the host memory that it has

    def starts_process(self, _rank, _ranks):
        """Returns true if it has a process on this one of its devices."""
        return True

    def is_wasted(self, _rank, _ranks):
        """Returns true if this one of its devices is wasted, if any is."""
        return True

    def plan(self, ranks, seconds, random):
        return [filled(self.phases(rank, ranks, random), seconds) for rank in range(ranks)]

    def phases(self, _rank, _ranks, _random):
        yield FOREVER, 0, 0.0


def filled(phases, seconds):
    """Returns as many of the phases as fill a time."""
    found, left = [], seconds
    for span, load, share in phases:
        span = min(span, left)
        found.append((span, load, share))
        left -= span
        if left <= 0:
            break
    found[-1] = (FOREVER, *found[-1][1:])
    return found


class Training(Workload):
    """Trains on all its devices in step, and saves what it has every ten minutes."""
    job_name = "llama-70b"
    command = "python -m torch.distributed.run train.py --model llama-70b"
    loading, saving, save_every = 60, 20, 600

    def __init__(self, load=92):
        self.load = load

    def load_of(self, rank, _ranks):
        """Returns its load between two saves; devices differ a little."""
        return self.load - rank * 7 % 3

    def phases(self, rank, ranks, _random):
        yield self.loading, 0, 0.05
        while True:
            yield self.save_every, self.load_of(rank, ranks), 0.88
            yield self.saving, 0, 0.88


class Imbalance(Training):
    """Trains, and its last device does less than half of what the others do."""
    job_name = "moe-8x22b"
    waste = "imbalance"

    def is_wasted(self, rank, ranks):
        return rank == ranks - 1

    def load_of(self, rank, ranks):
        return 36 if self.is_wasted(rank, ranks) else super().load_of(rank, ranks)


class LowLoad(Workload):
    """Keeps all its devices a little busy."""
    job_name = "tabular"
    waste = "low-load"

    def phases(self, _rank, _ranks, _random):
        yield FOREVER, 8, 0.11


class HalfUsed(Training):
    """Trains on half of its devices, and never uses the others."""
    job_name = "bert-base"
    waste = "partly-used"

    def starts_process(self, rank, ranks):
        return not self.is_wasted(rank, ranks)

    def is_wasted(self, rank, ranks):
        return rank >= ranks / 2

    def phases(self, rank, ranks, random):
        used = super().phases(rank, ranks, random)
        return [(FOREVER, 0, 0.0)] if self.is_wasted(rank, ranks) else used


class Inference(Workload):
    """Serves a model, whose requests come and go."""
    job_name = "serve-qwen"
    command = "python -m vllm.entrypoints.openai.api_server --model qwen2.5-32b"

    def phases(self, _rank, _ranks, random):
        while True:
            yield 30 + random.randrange(90), 15 + random.randrange(60), 0.85


class Notebook(Workload):
    """Of a user without a job: computes now and then, and keeps its memory."""
    job_name = "notebook"
    command = "python -m ipykernel_launcher"
    is_scheduled = False

    def phases(self, _rank, _ranks, random):
        while True:
            yield 60 + random.randrange(180), 0, 0.2
            yield 10 + random.randrange(50), 30 + random.randrange(60), 0.2


class Unlaunched(Workload):
    """Holds its devices, and never starts a process on them."""
    job_name = "interactive"
    waste = "unlaunched"

    def starts_process(self, _rank, _ranks):
        return False


class HeldCold(Workload):
    """Has processes that hold no more than a context, and do nothing."""
    job_name = "debug"
    command = "python -i debug.py"
    waste = "held-cold"

    def phases(self, _rank, _ranks, _random):
        yield FOREVER, 0, 0.007


class HeldWarm(Workload):
    """Has a model in memory, and no requests but those that ask whether it is there."""
    job_name = "serve-idle"
    command = "python serve.py --model mistral-large"
    waste = "held-warm"

    def phases(self, _rank, _ranks, _random):
        while True:
            yield 40, 0, 0.85
            yield 20, 3, 0.85


class Starved(Workload):
    """Trains in short bursts, for which its few CPUs prepare the data."""
    job_name = "augment"
    command = "python train.py --workers 4"
    waste = "starved"
    cpus_per_device = 2
    busy_cpus = 0.97

    def phases(self, _rank, _ranks, _random):
        while True:
            yield 20, 0, 0.4
            yield 20, 80, 0.4
