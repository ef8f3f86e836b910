"""Device lists of nodes: what slurm.conf and gres.conf say of a node's devices, and the devices that its driver has.

Slurm's index of a device is its position in the list that slurmd makes of these lines. None of the orders below is
computed here or in the tests: what a job holds is found out by opening device files (see slurm.py).
"""

from dataclasses import dataclass, field

DEVICE_MAJOR, CAPABILITY_MAJOR = 195, 237

H100 = "NVIDIA H100 80GB HBM3"
A100 = "NVIDIA A100-SXM4-40GB"


@dataclass(frozen=True)
class Slice:
    """A MIG slice: the position of its card in the driver's order, its MIG index on the card, and its GPU instance."""

    card: int
    index: int
    instance: int

    def uuid(self, number):
        return f"MIG-{number}-{self.card:04x}-5000-8000-{self.instance:012x}"


@dataclass(frozen=True)
class DeviceList:
    """The devices of a node; `gres` is the value of Gres= in slurm.conf."""

    gres: str
    # Lines of gres.conf without NodeName=.
    config: tuple = ()
    # The numbers of the device files in the driver's order, which is that of the PCI addresses.
    minors: tuple = (0, 1, 2, 3)
    # Product names by position in the driver's order; the others are H100.
    products: dict = field(default_factory=dict)
    slices: tuple = ()
    # The numbers of device files that gres.conf leaves out: every job may open them, and none holds them.
    left_out: tuple = ()
    # With detection: lines of fake_gpus.conf, which slurmd takes for what the driver's library lists. NUMBER stands for that
    # of the node. All of them must be configured: otherwise their links are too long, and slurmctld takes the node out of service.
    detected: tuple = ()

    def uuid(self, number, position):
        """Returns the UUID of a device; `number` is that of the node."""
        return f"GPU-{number:08x}-0000-4000-8000-{position:012x}"

    def capabilities(self, one):
        """Returns the numbers of the capability files of a slice: of its GPU instance and of its compute instance 0."""
        first = capability(self.minors[one.card], one.instance)
        return first, first + 1

    def slice_files(self, one):
        caps = [f"/dev/nvidia-caps/nvidia-cap{number}" for number in self.capabilities(one)]
        return ",".join([f"/dev/nvidia{self.minors[one.card]}", *caps])

    def device_numbers(self):
        """Returns {path: (major, minor)} of the device files of the node."""
        found = {"/dev/nvidiactl": (DEVICE_MAJOR, 255)}
        found |= {f"/dev/nvidia{minor}": (DEVICE_MAJOR, minor) for minor in self.minors}
        for one in self.slices:
            for number in self.capabilities(one):
                found[f"/dev/nvidia-caps/nvidia-cap{number}"] = (CAPABILITY_MAJOR, number)
        return found

    def state(self, number):
        """Returns the lines of the stub driver. Only devices whose file can be opened are listed, as by the real one."""
        lines = ["driver 570.86.15 12080", "constrained"]
        for position, minor in enumerate(self.minors):
            is_split = any(one.card == position for one in self.slices)
            lines.append(
                f"gpu {position} uuid={self.uuid(number, position)} minor={minor} mig={int(is_split)} "
                f"name={self.products.get(position, H100)}"
            )
        for one in self.slices:
            uuid = one.uuid(f"{number:08x}")
            lines.append(f"slice {one.card} {one.index} gi={one.instance} ci=0 total_mib=9984 uuid={uuid} name=1g.10gb")
        return "\n".join(lines) + "\n"

    def driver_files(self, number):
        """Returns {path: text} below /proc/driver, as the real driver has them."""
        found = {}
        for position, minor in enumerate(self.minors):
            address = f"0000:{0x18 + position * 0x11:02x}:00.0"
            found[f"nvidia/gpus/{address}/information"] = INFORMATION.format(
                name=self.products.get(position, H100), uuid=self.uuid(number, position), address=address, minor=minor
            )
        found["nvidia-caps/mig-minors"] = "config 1\nmonitor 2\n" + "".join(
            f"gpu{minor}/gi{instance}/access {capability(minor, instance)}\n"
            + "".join(f"gpu{minor}/gi{instance}/ci{ci}/access {capability(minor, instance) + 1 + ci}\n" for ci in range(8))
            for minor in range(8)
            for instance in range(15)
        )
        return found


def capability(minor, instance):
    """Returns the number of the capability file of a GPU instance, as the real driver counts them."""
    return 3 + minor * 135 + instance * 9


INFORMATION = """\
Model: \t\t {name}
IRQ:   \t\t 24
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.5e.00.01
Bus Type: \t PCIe
DMA Size: \t 52 bits
DMA Mask: \t 0xfffffffffffff
Bus Location: \t {address}
Device Minor: \t {minor}
GPU Firmware: \t 570.86.15
GPU Excluded:\t No
"""


def written(slices, order, minors):
    """Returns the lines of gres.conf for slices in this order, as administrators write them."""
    node = DeviceList("", minors=minors, slices=slices)
    return tuple(f"Name=gpu Type=1g.10gb MultipleFiles={node.slice_files(slices[place])}" for place in order)


def links(position, count):
    """Returns the links of a device as the plugins write them: -1 at its own position, which is what slurmd sorts by."""
    return ",".join("-1" if place == position else "0" for place in range(count))


def found_devices(minors, types):
    """Returns lines of fake_gpus.conf for whole devices, in the driver's order."""
    count = len(minors)
    return tuple(
        f"{kind}|64|0-63|{links(position, count)}|/dev/nvidia{minor}|(null)|nvidia_gpu_env"
        for position, (minor, kind) in enumerate(zip(minors, types))
    )


TYPED = ("Name=gpu Type=a100 File=/dev/nvidia[4-5]", "Name=gpu Type=h100 File=/dev/nvidia3", "Name=gpu Type=h100 File=/dev/nvidia[0-2]")
SIX, EIGHT = tuple(range(6)), tuple(range(8))
SHARDS = "Name=shard Count=24"
SLICES = tuple(Slice(card, index, instance) for card in (0, 1) for index, instance in enumerate((7, 9, 11)))
# The library's index of a slice need not follow its instance.
CROSSED_SLICES = tuple(Slice(card, index, instance) for card in (0, 1) for index, instance in enumerate((12, 7, 9)))
# The driver's first card has the second device file.
CROSSED_CARDS = (1, 0)
DETECTED = (3, 2, 5, 1, 0, 4)


def found_slices(slices, minors):
    """Returns lines of fake_gpus.conf for slices as gpu/nvml of 22.05 writes them: -1 in the links at the place within the card."""
    node = DeviceList("", minors=minors, slices=slices)
    return tuple(
        f"1g.10gb|64|0-63|{links(one.index, 3)}|{node.slice_files(one)}|{one.uuid('NUMBER')}|nvidia_gpu_env" for one in slices
    )


# By name.
LISTS = {
    "plain": DeviceList("gpu:h100:6,shard:24", ("Name=gpu Type=h100 File=/dev/nvidia[0-5]", SHARDS), SIX),
    "backwards": DeviceList(
        "gpu:h100:6,shard:24", (*(f"Name=gpu Type=h100 File=/dev/nvidia{minor}" for minor in (5, 4, 3, 2, 1, 0)), SHARDS), SIX
    ),
    "range turned": DeviceList("gpu:h100:4", ("Name=gpu Type=h100 File=/dev/nvidia[2-3,0-1]",)),
    "by socket": DeviceList(
        "gpu:h100:4", ("Name=gpu Type=h100 File=/dev/nvidia[2-3] Cores=0-31", "Name=gpu Type=h100 File=/dev/nvidia[0-1] Cores=32-63")
    ),
    "shards by file": DeviceList(
        "gpu:h100:6,shard:24",
        ("Name=gpu Type=h100 File=/dev/nvidia[4-5,0-3]", *(f"Name=shard Count=4 File=/dev/nvidia{minor}" for minor in SIX)), SIX,
    ),
    "first left out": DeviceList("gpu:h100:7", ("Name=gpu Type=h100 File=/dev/nvidia[1-7]",), EIGHT, left_out=(0,)),
    "third left out": DeviceList("gpu:h100:7", ("Name=gpu Type=h100 File=/dev/nvidia[0-1,3-7]",), EIGHT, left_out=(2,)),
    "third missing": DeviceList("gpu:h100:7", ("Name=gpu Type=h100 File=/dev/nvidia[0-1,3-7]",), (0, 1, 3, 4, 5, 6, 7)),
    "two types": DeviceList("gpu:h100:4,gpu:a100:2", TYPED, SIX, {4: A100, 5: A100}),
    "two types turned": DeviceList("gpu:a100:2,gpu:h100:4", TYPED, SIX, {4: A100, 5: A100}),
    "types untold": DeviceList("gpu:6", TYPED, SIX, {4: A100, 5: A100}),
    "crossed": DeviceList("gpu:h100:4", ("Name=gpu Type=h100 File=/dev/nvidia[0-3]",), (2, 0, 3, 1)),
    "detected": DeviceList("gpu:h100:4", ("AutoDetect=nvml",), detected=found_devices((0, 1, 2, 3), ["h100"] * 4)),
    "detected crossed": DeviceList(
        "gpu:h100:4,gpu:a100:2", ("AutoDetect=nvml",), DETECTED, {1: A100, 4: A100},
        detected=found_devices(DETECTED, ["h100", "a100", "h100", "h100", "a100", "h100"]),
    ),
    "slices interleaved": DeviceList(
        "gpu:1g.10gb:6", written(SLICES, (0, 3, 1, 4, 2, 5), (0, 1)), (0, 1), slices=SLICES
    ),
    "slices in order": DeviceList("gpu:1g.10gb:6", written(SLICES, range(6), (0, 1)), (0, 1), slices=SLICES),
    "slices crossed": DeviceList(
        "gpu:1g.10gb:6", written(CROSSED_SLICES, (5, 0, 4, 2, 3, 1), CROSSED_CARDS), CROSSED_CARDS, slices=CROSSED_SLICES
    ),
    "slices detected": DeviceList(
        "gpu:1g.10gb:6", ("AutoDetect=nvml",), (0, 1), slices=SLICES, detected=found_slices(SLICES, (0, 1))
    ),
    "cards and slices": DeviceList(
        "gpu:h100:2,gpu:1g.10gb:6",
        ("Name=gpu Type=h100 File=/dev/nvidia[2-3]", *written(SLICES, range(6), EIGHT[:4])), slices=SLICES,
    ),
}  # fmt: skip
