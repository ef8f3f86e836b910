"""Which workloads and incidents a fleet has: a function per scenario, whose name and first line the command lists.

The nodes alternate between the models of `hardware`, beginning with eight H100."""

from fleet import incidents, workloads


def training(fleet):
    """Jobs that train on all devices of several nodes each."""
    for first in range(0, len(fleet.nodes), 3):
        fleet.run(workloads.Training(), devices_of(*fleet.nodes[first:first + 3]))


def inference(fleet):
    """A service on each node, whose load comes and goes."""
    for node in fleet.nodes:
        fleet.run(workloads.Inference(), devices_of(node))


def notebook(fleet):
    """Notebooks without a job, each on a device."""
    for node in fleet.nodes:
        for device, user in zip(node.devices[:2], ["ada", "grace"]):
            fleet.run(workloads.Notebook(), [device], user=user)


def idle(_fleet):
    """Nobody uses anything."""


def turns(fleet):
    """Jobs that start and end, one after the other on the same devices, with a pause."""
    for number, node in enumerate(fleet.nodes):
        start, end = fleet.at(0.1 + 0.05 * (number % 3)), fleet.at(0.5)
        fleet.run(workloads.Training(), devices_of(node), start, end, user="ada")
        fleet.run(workloads.Inference(), node.devices[:2], fleet.at(0.6), fleet.at(0.9), user="alan")


def neighbours(fleet):
    """Two jobs of different users on each node."""
    for node in fleet.nodes:
        half = len(node.devices) // 2
        fleet.run(workloads.Training(), node.devices[:half], user="ada")
        fleet.run(workloads.Inference(), node.devices[half:], since=fleet.at(0.25), user="alan")


def gap(fleet):
    """The recorder does not run for a while."""
    training(fleet)
    fleet.add(incidents.RecorderGap(fleet.at(0.4), fleet.at(0.6)))


def down(fleet):
    """A node that trains is not reached for a while."""
    training(fleet)
    fleet.add(incidents.NodeDown(fleet.nodes[0], fleet.at(0.3), fleet.at(0.5)))


def replaced(fleet):
    """A node without a job is off, and has another device in the same place afterwards."""
    for node in fleet.nodes[1:]:
        fleet.run(workloads.Training(), devices_of(node))
    fleet.add(incidents.Replacement(fleet.nodes[0].devices[2], fleet.at(0.3), fleet.at(0.5)))
    fleet.run(workloads.Inference(), [fleet.nodes[0].current(fleet.at(0.7))[2]], since=fleet.at(0.6))


def clock(fleet):
    """The clock of a node jumps ahead."""
    inference(fleet)
    fleet.add(incidents.ClockStep(fleet.nodes[0], fleet.at(0.4), 45))


def clock_back(fleet):
    """The clock of a node jumps back."""
    inference(fleet)
    fleet.add(incidents.ClockStep(fleet.nodes[0], fleet.at(0.5), -45))


def mig(fleet):
    """A node whose first two devices are cut into slices, with a service on some of these."""
    node = fleet.nodes[0]
    slices = fleet.cut(node, 0) + fleet.cut(node, 1)
    fleet.run(workloads.Inference(), slices[:2], user="alan")
    fleet.run(workloads.LowLoad(), slices[3:4], user="grace")
    fleet.run(workloads.Training(), node.devices[2:6], user="ada")


def hung(fleet):
    """The driver of a node that trains does not answer for a while."""
    training(fleet)
    fleet.add(incidents.HungDriver(fleet.nodes[0], fleet.at(0.4), fleet.at(0.6)))


def unseen_end(fleet):
    """A job ends, and another one begins, while the driver of their node does not answer."""
    node = fleet.nodes[0]
    fleet.run(workloads.Training(), devices_of(node), until=fleet.at(0.5), user="ada")
    fleet.run(workloads.Inference(), devices_of(node), since=fleet.at(0.5), user="alan")
    fleet.add(incidents.HungDriver(node, fleet.at(0.4), fleet.at(0.6)))


def ecc(fleet):
    """Devices have memory errors: one that were corrected, one that were not."""
    training(fleet)
    fleet.add(incidents.MemoryErrors(fleet.nodes[0].devices[1], fleet.at(0.3), 12, 0))
    fleet.add(incidents.MemoryErrors(fleet.nodes[0].devices[5], fleet.at(0.5), 3, 2))


def low_load(fleet):
    """A job at 8 % load on eight devices."""
    fleet.run(workloads.LowLoad(), devices_of(fleet.nodes[0]), user="grace")


def half_used(fleet):
    """A job that never uses half of its devices."""
    fleet.run(workloads.HalfUsed(), devices_of(fleet.nodes[0]), user="edsger")


def unlaunched(fleet):
    """A job that never starts a process."""
    fleet.run(workloads.Unlaunched(), devices_of(fleet.nodes[0]), user="katherine")


def held_cold(fleet):
    """A job whose devices are idle and empty."""
    fleet.run(workloads.HeldCold(), devices_of(fleet.nodes[0]), user="katherine")


def held_warm(fleet):
    """A job whose devices are idle and full."""
    fleet.run(workloads.HeldWarm(), devices_of(fleet.nodes[0]), user="grace")


def starved(fleet):
    """A job whose devices wait for its CPUs."""
    fleet.run(workloads.Starved(), devices_of(fleet.nodes[0]), user="edsger")


def imbalance(fleet):
    """A job one of whose devices does less than half of what the others do."""
    fleet.run(workloads.Imbalance(), devices_of(fleet.nodes[0]), user="ada")


def throttled(fleet):
    """Heat slows down a device of a job."""
    training(fleet)
    fleet.add(incidents.Throttled(fleet.nodes[0].devices[4], fleet.at(0.3), fleet.at(0.7)))


def shared(fleet):
    """Two jobs of different users share a device, and two users without a job another."""
    node = fleet.nodes[0]
    fleet.run(workloads.LowLoad(), node.devices[:1], user="ada", shares_devices=True)
    fleet.run(workloads.LowLoad(), node.devices[:1], user="alan", shares_devices=True)
    for user in ["grace", "katherine"]:
        fleet.run(workloads.Notebook(), node.devices[1:2], user=user)


def lost(fleet):
    """A device of a job falls off the bus."""
    training(fleet)
    fleet.add(incidents.LostDevice(fleet.nodes[0].devices[3], fleet.at(0.6)))


def mixed(fleet):
    """All of it, as on a site: jobs that come and go, waste, and incidents on one node in eight."""
    waste = [workloads.LowLoad, workloads.HalfUsed, workloads.Unlaunched, workloads.HeldCold, workloads.HeldWarm,
             workloads.Imbalance]
    free = list(fleet.nodes)
    if not fleet.is_noisy:
        free = free[::2]
    quiet = [node for node in fleet.nodes if node not in free]
    for turn in range(len(free)):
        if not free:
            break
        node = free.pop(0)
        kind = turn % 5
        if kind == 0:
            others = [free.pop(0) for _ in range(min(len(free), fleet.random.randrange(4)))]
            fleet.run(workloads.Training(), devices_of(node, *others))
        elif kind == 1:
            fleet.run(waste[turn // 5 % len(waste)](), devices_of(node))
        elif kind == 2:
            add_pair(fleet, node)
        elif kind == 3:
            add_turns(fleet, node)
        else:
            quiet.append(node)
    for number, node in enumerate(fleet.nodes[::8]):
        add_incident(fleet, node, number)
    idle_ones = [node for node in quiet if not node.silences]
    if idle_ones:
        fleet.add(incidents.Replacement(idle_ones[0].devices[1], fleet.at(0.4), fleet.at(0.5)))


def add_pair(fleet, node):
    """A service and a notebook."""
    half = len(node.devices) // 2
    fleet.run(workloads.Inference(), node.devices[:half])
    fleet.run(workloads.Notebook(), node.devices[half:half + 1])


def add_turns(fleet, node):
    """Jobs of random length, one after the other."""
    at = 0.0
    while at < fleet.duration:
        end = min(at + fleet.snap(300 + fleet.random.randrange(2400)) + fleet.interval, fleet.duration)
        kind = [workloads.Training, workloads.Inference][fleet.random.randrange(2)]
        fleet.run(kind(), devices_of(node), at, end)
        at = end + fleet.snap(fleet.random.randrange(600)) + fleet.interval


def add_incident(fleet, node, number):
    since = fleet.at(0.1 + 0.6 * fleet.random.random())
    until = min(since + fleet.snap(120 + fleet.random.randrange(600)) + fleet.interval, fleet.at(0.95))
    device = node.devices[fleet.random.randrange(len(node.devices))]
    kinds = [lambda: incidents.NodeDown(node, since, until), lambda: incidents.HungDriver(node, since, until),
             lambda: incidents.Throttled(device, since, until), lambda: incidents.MemoryErrors(device, since, 9, 1),
             lambda: incidents.LostDevice(device, since), lambda: incidents.ClockStep(node, since, -20)]
    if until > since:
        fleet.add(kinds[number % len(kinds)]())


def devices_of(*nodes):
    return [device for node in nodes for device in node.devices]


SCENARIOS = {function.__name__.replace("_", "-"): function for function in [
    mixed, training, inference, notebook, idle, turns, neighbours, gap, down, replaced, clock, clock_back, mig, hung, unseen_end,
    ecc, low_load, half_used, unlaunched, held_cold, held_warm, starved, imbalance, throttled, shared, lost]}
