"""What probes and a recorder write of a fleet, as frames of NVIDIA's driver; what is not drawn from the scenario is the
same on each healthy device."""

from fleet.cluster import BASE_MEMORY, USERS, is_within
from fleet.hardware import GIB, MIB
from tape import BACKEND, START, Tape, job as running_job

CPUS, TICKS = 192, 100                 # ticks of a CPU per second
BOOT_SECONDS = 60                      # from when a node boots until it is reached
DRIVER = "570.124.06"
SLOW_INTERVAL, SHARES_INTERVAL, USES_INTERVAL = 10, 10, 2   # seconds
LIST_INTERVAL = 30                     # seconds between two lists of jobs, at most
HEAT_BIT = 0x20                        # NVML's: the driver slows it down because of temperature
SLOWDOWN_CELSIUS = 90
CHECKPOINT_SECONDS = 50                # between two checkpoints, at least
DAY = 86_400                           # the time limit of jobs
COMMANDS = ["heartbeat", "interval", "focus", "full", "signal", "environ", "tree", "detail"]
STUCK_CODES = [(60, "stuck"), (10, "silent"), (0, "slow")]     # after how many seconds a probe says so

# What does not change on a healthy device.
HEALTHY = {
    "fan": None, "mig": False, "persistence": True, "pcie_generation": 4, "pcie_lanes": 16,
    "lacks": {"fan": "not supported", "retired_double": "not supported", "retired_pending": "not supported",
              "retired_single": "not supported"},
    "held_power": 0, "held_sync_boost": 0, "held_hw_thermal": 0, "held_power_brake": 0, "users": True, "encoder": 0.0,
    "decoder": 0.0, "display": False, "display_mode": False, "compute_mode": 0, "ecc_mode": True,
    "retired_single": None, "retired_double": None, "retired_pending": None, "remapped_corrected": 0, "remap_failed": False,
    "pcie_replays": 0, "bar1_total": 128 * GIB, "bar1_used": 21 * MIB, "bar1_free": 128 * GIB - 21 * MIB, "recovery": 0,
    "jpeg": 0.0, "ofa": 0.0, "sram_threshold": False, "driver": DRIVER, "pcie_generation_max": 4, "pcie_lanes_max": 16,
    "temperature_slowdown": float(SLOWDOWN_CELSIUS), "temperature_shutdown": 95.0, "numa_node": 0,
}
NOT_OF_SLICES = ["memory_util", "temperature", "power", "power_limit", "clock_sm"]


class Noise:
    """Moves values around the true ones: each second sample undoes the one before, so that the mean of a phase is true."""

    def __init__(self, random):
        self.random, self.sign, self.bits = random, -1, 0        # without random numbers, nothing moves

    def begin(self):
        self.sign = -1

    def step(self, left):
        """Goes on to the next sample of a phase, of which so many are left; one that is alone does not move."""
        if self.sign > 0:
            self.sign = -1
        elif left < 2 or self.random is None:
            self.sign = 0
        else:
            self.sign, self.bits = 1, self.random.getrandbits(32)

    def move(self, most, place):
        """Returns by how much to move a value; `place` chooses among unequal ones."""
        return self.sign * (1 + (self.bits >> place) % most) if most > 0 else 0


def toward(value, target, most):
    return value + max(-most, min(most, target - value))


class DeviceReadings:
    """What the driver says of a device, sample by sample."""

    def __init__(self, device, fleet):
        self.device, self.model, self.interval = device, device.node.model, fleet.interval
        self.pieces = iter(device.pieces)
        self.piece = None
        self.noise = Noise(fleet.random if fleet.is_noisy else None)
        # Smooth temperatures and clocks take their time.
        self.degrees, self.megahertz = (0.5, 10**4) if fleet.is_noisy else (0.1, 15)      # per second, at most
        self.celsius, self.clock = None, None
        self.reset()
        self.slow, self.slow_at = {}, -SLOW_INTERVAL
        self.util = self.memory = 0
        self.constant = self.constants()

    def reset(self):
        """Starts its counters, as the driver does when it is loaded."""
        self.energy, self.heat, self.traffic = 0.0, 0.0, 0

    def constants(self):
        device, model = self.device, self.model
        named = {"uuid": device.uuid, "index": device.index, "name": device.name, "pci": device.pci}
        if device.parent:
            lacks = dict.fromkeys([*NOT_OF_SLICES, "util"], "not supported")
            return {**named, "parent": device.parent.uuid, "util": None, **dict.fromkeys(NOT_OF_SLICES), "lacks": lacks,
                    "memory_total": device.memory, "memory_reserved": 0, "driver": DRIVER, "gpu_instance": device.instance,
                    "compute_instance": 0}
        limit, links = model.limit_watts * 1000, model.nvlinks
        found = {**named, **HEALTHY, "memory_total": model.memory, "memory_reserved": model.reserved, "power_limit": limit,
                 "power_limit_requested": limit, "power_limit_default": limit, "power_limit_max": limit, "power_limit_min": 100_000,
                 "clock_memory": model.memory_clock, "clock_memory_max": model.memory_clock, "clock_sm_max": model.clock,
                 "clock_graphics_max": model.clock, "clock_video_max": model.clock * 3 // 4, "minor": device.index,
                 "nvlinks": links, "nvlinks_active": links, "capability": model.capability}
        if device.slices:
            lacks = {**HEALTHY["lacks"], "util": "not supported", "memory_util": "not supported"}
            found.update(util=None, memory_util=None, mig=True, lacks=lacks)
        return found

    def step(self, at):
        """Goes on to a sample; returns false if it is not in its node then."""
        if not self.device.since <= at < self.device.until:
            return False
        if self.piece is None or at >= self.piece.until:
            self.piece = next(self.pieces)
            self.noise.begin()
        self.noise.step(round((self.piece.until - at) / self.interval))
        return True

    def move(self, slices):
        """Draws the values of a sample; `slices` are those of its slices."""
        activity = self.piece.activity
        load = activity.load
        self.util = load + self.noise.move(min(3, max(load - 5, 0), 100 - load), 0)
        if slices:
            self.memory = BASE_MEMORY + sum(part.memory for part in slices)
        else:
            steps = min(64, activity.memory // (16 * MIB))
            self.memory = activity.memory + 2 * MIB * self.noise.move(steps, 4)
        if self.device.parent:
            return
        watts = self.device.watts(activity)
        self.power = round(watts * 1000) + self.noise.move(round(watts * 20), 8)
        target = SLOWDOWN_CELSIUS - 1 if activity.heated else self.model.celsius(load)
        self.celsius = toward(target if self.celsius is None else self.celsius, target, self.degrees * self.interval)
        target = self.model.clock * activity.clock if load else 345
        self.clock = toward(target if self.clock is None else self.clock, target, self.megahertz * self.interval)

    def count(self):
        """Adds to the counters what happens until the next sample."""
        activity = self.piece.activity
        self.energy += self.device.watts(activity) * self.interval
        self.heat += activity.heated * self.interval
        self.traffic += round(self.util * self.interval) * 10**7

    def values(self, at):
        """Returns all that the driver says of it."""
        device, activity = self.device, self.piece.activity
        if activity.is_faulty:
            return {**{key: self.constant[key] for key in ["uuid", "index", "name", "pci", "minor"]}, "fault": "lost"}
        active = float(self.util)
        pipes = [round(active * share, 1) for share in [1, 0.85, 0.3, 0.5, 0.45, 0, 0.07, 0.05]]
        memory = {"memory_used": self.memory, "memory_free": device.memory - self.memory - self.constant["memory_reserved"]}
        if device.parent:
            return {**self.constant, **memory, "activity": pipes}
        celsius = float(round(self.celsius) + self.noise.move(1, 12))
        clock = round(self.clock / 15) * 15 + 15 * self.noise.move(1 if self.util else 0, 16)
        if at - self.slow_at >= SLOW_INTERVAL:
            self.slow_at = at
            self.slow = {"energy": round(self.energy * 1000) + 10**9, "power_average": self.power, "clock_graphics": clock,
                         "clock_video": clock * 3 // 4, "temperature_margin": SLOWDOWN_CELSIUS - celsius}
        own = {} if device.slices else {"util": active, "memory_util": float(self.util // 2), "activity": pipes}
        return {**self.constant, **self.slow, **own, **memory, **self.errors(at), "power": self.power, "power_instant": self.power,
                "temperature": celsius, "temperature_memory": celsius + 6, "clock_sm": clock, "pstate": 0 if self.util else 8,
                "throttle": HEAT_BIT if activity.heated else 0 if self.util else 1, "held_thermal": round(self.heat * 10**9),
                "pcie_tx": self.traffic, "pcie_rx": 3 * self.traffic, "nvlink_tx": 40 * self.traffic if self.model.nvlinks else None,
                "nvlink_rx": 40 * self.traffic if self.model.nvlinks else None}

    def errors(self, at):
        known = [error for error in self.device.errors if error.at <= at]
        corrected, uncorrected = sum(error.corrected for error in known), sum(error.uncorrected for error in known)
        return {"ecc_corrected": corrected, "ecc_corrected_total": corrected, "ecc_uncorrected": uncorrected,
                "ecc_uncorrected_total": uncorrected, "remapped_uncorrected": uncorrected, "remap_pending": uncorrected > 0}


class NodeReadings:
    """What the probe of a node sends, sample by sample."""

    def __init__(self, node, fleet):
        self.node, self.fleet = node, fleet
        self.devices = [DeviceReadings(device, fleet) for device in node.devices]
        self.slices = {whole.device: [DeviceReadings(part, fleet) for part in whole.device.slices] for whole in self.devices}
        self.present = []              # the readings of devices that are in it, each followed by those of its slices
        self.events = {}
        for at, device, event in (event for incident in fleet.incidents for event in incident.events()):
            if device.node is node:
                self.events.setdefault(at, []).append({"device": device.uuid, **event})
        self.is_open, self.was_tried = False, False
        self.sent = {}                 # when each group of values was sent last
        self.processes, self.ticks = {}, {}
        self.reset()

    def reset(self):
        """Starts the counters, as a boot does."""
        self.busy, self.busy_ticks, self.traffic = 0, 0, 0
        for readings in self.devices:
            readings.reset()

    def step(self, at):
        """Goes on to a sample, whether or not it is seen."""
        if any(at == since for since, _ in self.node.boots):
            self.reset()
        self.present = []
        for readings in self.devices:
            if readings.step(at):
                slices = [part for part in self.slices[readings.device] if part.step(at)]
                for part in slices:
                    part.move([])
                readings.move(slices)
                self.present += [readings, *slices]
        # A core is busy for each device that is.
        self.busy = sum(readings.util > 0 for readings in self.present)

    def count(self):
        """Adds to the counters what happens until the next sample."""
        self.traffic += round(self.busy * self.fleet.interval * 10**6)
        self.busy_ticks += round(self.busy * self.fleet.interval * TICKS)
        for readings in self.present:
            readings.count()

    def is_due(self, group, at, seconds):
        """Returns true once in so many seconds."""
        is_due = at - self.sent.get(group, -seconds) >= seconds - 1e-6
        if is_due:
            self.sent[group] = at
        return is_due

    def write(self, tape, at):
        """Writes what arrives of the node at a sampling time."""
        arrival = at + self.node.latency
        if is_within(at, self.node.silences):
            self.write_silence(tape, arrival)
            return
        booted, boot = max(boot for boot in self.node.boots if boot[0] <= at)
        zero = START - self.node.clock if booted == 0 else START + booted - BOOT_SECONDS
        tape.node(self.node.name).clock = zero - sum(seconds for since, seconds in self.node.clock_steps if since <= at)
        is_first = not self.is_open
        if is_first:
            tape.open(arrival, self.node.name, **self.hello(boot))
            self.sent = {}
        self.is_open = self.was_tried = True
        for event in self.events.get(at, []):
            tape.event(arrival, self.node.name, **event)
        parts = {"host": self.host(START + at - zero)}
        if is_first:
            parts["evidence"] = self.evidence(at)
        if self.is_due("slow", at, SLOW_INTERVAL):
            parts["host_slow"] = {"temperature": 40.0 + self.busy, "space": [{"path": "/", "total": 400 * GIB, "free": 300 * GIB}]}
        if self.is_due("shares", at, SHARES_INTERVAL):
            parts["shares"] = {"own": {}, "jobs": self.shares(at)}
        hung_since = next((since for since, until in self.node.hangs if since <= at < until), None)
        if hung_since is None:
            parts["devices"] = [readings.values(at) for readings in self.present]
            if self.is_due("uses", at, USES_INTERVAL):
                parts["uses"], parts["processes"] = self.uses(at)
        else:
            code = next(code for least, code in STUCK_CODES if at - hung_since >= least)
            tape.error(arrival, self.node.name, code=code, call="nvmlDeviceGetUtilizationRates", **{"for": at - hung_since})
        tape.write_sample(arrival, self.node.name, parts)

    def write_silence(self, tape, arrival):
        """Writes, once, that the node is not reached."""
        if self.is_open or not self.was_tried:
            for state in ["down"] if self.is_open else ["opening", "down"]:
                tape.link(arrival, self.node.name, state)
        self.is_open, self.was_tried = False, True

    def hello(self, boot):
        interval = self.fleet.interval
        intervals = {"host": interval, "host.slow": max(SLOW_INTERVAL, interval), BACKEND: interval,
                     f"{BACKEND}.processes": max(USES_INTERVAL, interval)}
        slices = sum(readings.device.parent is not None for readings in self.present)
        backend = {"kind": BACKEND, "state": "ready", "driver": DRIVER, "library": "12." + DRIVER, "cuda": "12.8",
                   "devices": len(self.present) - slices, "slices": slices}
        return {"step": interval, "boot": boot, "intervals": intervals, "backends": [backend], "version": "3.11.2",
                "kernel": "6.1.0-28-amd64", "arch": "x86_64", "cpus": CPUS, "tick": TICKS, "page": 4096, "uid": 1001, "user": "ada",
                "hidepid": 0, "evidence": True, "commands": COMMANDS}

    def host(self, uptime):
        used, memory, ports = self.busy_ticks, 2048 * GIB, 4 if self.node.model.nvlinks else 0
        idle = round(uptime * CPUS * TICKS) - used - used // 10
        return {"cpu": [used, 0, used // 10, idle, 0, 0, 0, 0], "load": [float(self.busy)] * 3, "memory_total": memory,
                "memory_available": memory - 40 * GIB * (1 + self.busy), "swap_total": 8 * GIB, "swap_free": 8 * GIB,
                "pressure": {"cpu": 0.0, "memory": 0.0, "io": 0.0}, "uptime": round(uptime, 3),
                "net": [{"name": "eth0", "rx": self.traffic, "tx": self.traffic // 2}],
                "infiniband": [{"name": f"mlx5_{port}/1", "rx": 50 * self.traffic, "tx": 49 * self.traffic} for port in range(ports)],
                "disk": [{"name": "nvme0n1", "read": 8 * self.traffic, "write": self.traffic}]}

    def shares(self, at):
        """Returns what each job has and has used of the host, by its control group."""
        holds = [hold for device in self.node.units(at) for hold in device.holds if hold.job.number]
        jobs = {hold.job.number: hold.job for hold in holds if hold.since <= at < hold.until}
        return {number: host_share(job, self.node, at) for number, job in sorted(jobs.items())}

    def uses(self, at):
        """Returns the processes on devices, and what they use of them."""
        uses, processes = [], {}
        for readings in self.present:
            if readings.device.slices or readings.piece.activity.is_faulty:
                continue
            running = list(self.running(readings, at))
            for hold, memory in running:
                share = float(readings.util // len(running))
                uses.append({"device": readings.device.uuid, "pid": hold.pid, "memory": memory, "sm": share, "mem": share // 2,
                             "enc": 0.0, "dec": 0.0, "kind": "C"})
                processes[hold.pid] = self.process(hold, readings.util > 0)
        return uses, [processes[pid] for pid in sorted(processes)]

    @staticmethod
    def running(readings, at):
        """Returns the holds with a process on a device, and the memory of each."""
        holds = [hold for hold in readings.piece.holds if hold.pid]
        for hold in holds:
            if len(holds) == 1:
                yield hold, readings.memory - (0 if readings.device.parent else BASE_MEMORY)
            else:
                yield hold, next(activity.memory for since, until, activity in hold.phases if since <= at < until)

    def process(self, hold, is_busy):
        job, uid = hold.job, USERS[hold.job.user]
        if hold.pid not in self.processes:
            group = f"/slurm/uid_{uid}/job_{job.number}/step_0" if job.number else f"/user.slice/user-{uid}.slice/session-3.scope"
            self.processes[hold.pid] = {
                "pid": hold.pid, "start": round((job.since + self.node.clock) * TICKS), "ppid": 7000, "uid": uid, "user": job.user,
                "command": job.workload.command, "cgroup": group, "cwd": f"/scratch/{job.user}", "threads": 112, "rss": 12 * GIB,
                "parents": [[7000, 2900, "slurmstepd" if job.number else "bash"]]}
        ticks = max(USES_INTERVAL, self.fleet.interval) * TICKS if is_busy else 0
        self.ticks[hold.pid] = self.ticks.get(hold.pid, 0) + round(ticks)
        return {**self.processes[hold.pid], "cpu": self.ticks[hold.pid], "state": "R" if is_busy else "S"}

    def evidence(self, at):
        """Returns how the scheduler numbers and confines the devices."""
        devices = self.node.current(at)
        listed = []
        for unit in self.node.units(at):
            whole = unit.parent or unit
            names = [f"/dev/nvidia{whole.index}", *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in capabilities(unit))]
            listed.append(f"slurmd-{self.node.name}: Gres Name=gpu Type=(null) Count=1 Index={whole.index} ID=7696487 "
                          f"File={','.join(names)} (null)")
        slices = [[number, device.index, unit.instance, compute] for device in devices for unit in device.slices
                  for number, compute in zip(capabilities(unit), [None, 0])]
        return {"complete": True, "daemon": {"list": listed}, **({"slices": slices} if slices else {}),
                "devices": [[device.index, device.pci, device.uuid] for device in devices],
                "configuration": {"changed": 1.0, "cached": True, "constrained": True, "constrained_changed": 1.0}}


def capabilities(unit):
    """Returns the numbers of the files that open a slice: that of its GPU instance and that of its compute instance."""
    first = 12 + 100 * unit.parent.index + 9 * unit.instance if unit.parent else None
    return [first, first + 1] if unit.parent else []


def listed_jobs(fleet, at):
    """Returns the scheduler's list of the jobs that run."""
    return [listed_job(job) for job in fleet.jobs if job.number and job.since <= at < job.until]


def host_share(job, node, at):
    cpus, memory = job.cpus_on(node), job.memory_on(node)
    used = (at - job.since) * cpus * job.workload.busy_cpus
    return {"cpus": float(cpus), "cpu": round(used * 10**6), "memory_limit": memory, "memory": round(memory * job.workload.memory_share)}


def listed_job(job):
    begun, nodes = START + job.since, job.indices()
    shares = {"shares": True} if job.shares_devices else {}
    allocations = [{"node": name, "indices": indices, **shares} for name, indices in nodes.items()]
    own = {hold.device.node for hold in job.holds}
    cpus, memory = (sum(map(of, own)) for of in [job.cpus_on, job.memory_on])
    return running_job(job.number, job.name, job.user, nodes, partition="gpu", account="ml", cpus=cpus, memory=memory, submitted_at=begun - 60, starts_at=begun,
                       ends_at=begun + DAY, limit=float(DAY), allocations=allocations)


def record(fleet):
    """Returns the tape of a fleet."""
    tape = Tape(has_old_hellos=True)
    nodes = [NodeReadings(node, fleet) for node in fleet.nodes]
    changes = {time for job in fleet.jobs for time in [job.since, job.until]}
    spans = fleet.spans()
    is_recorded, listed_at = False, 0.0
    for number in range(round(fleet.duration / fleet.interval)):
        at = number * fleet.interval
        was_recorded, is_recorded = is_recorded, is_within(at, spans)
        if was_recorded and not is_recorded:
            tape.end(at)
        if is_recorded and not was_recorded:
            tape.start(at, alive=5)
            for node in nodes:
                node.is_open = node.was_tried = False
        if is_recorded and (at in changes or not was_recorded or at - listed_at >= LIST_INTERVAL):
            listed_at = at
            tape.list(at, [node.name for node in fleet.nodes], listed_jobs(fleet, at), all=True, filter="of anybody")
        for number, node in enumerate(nodes):
            node.step(at)
            # A checkpoint comes between the samples of nodes.
            if is_recorded and number == len(nodes) // 2 and at - tape.checkpoint_at >= CHECKPOINT_SECONDS:
                tape.wait(at + node.node.latency)
                tape.write_checkpoint()
            if is_recorded:
                node.write(tape, at)
            node.count()
    if is_recorded:
        tape.end(fleet.duration)
    return tape
