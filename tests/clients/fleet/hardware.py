"""Models of devices."""

from dataclasses import dataclass

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Model:
    name: str
    devices_per_node: int
    memory: int                        # bytes
    reserved: int                      # bytes that the driver keeps
    idle_watts: int
    limit_watts: int
    clock: int                         # MHz, at most
    memory_clock: int                  # MHz
    nvlinks: int
    capability: str
    idle_celsius: int = 30
    busy_celsius: int = 65

    def watts(self, load):
        return self.idle_watts + (self.limit_watts - self.idle_watts) * 0.95 * load / 100

    def celsius(self, load):
        return self.idle_celsius + (self.busy_celsius - self.idle_celsius) * load / 100


MODELS = [
    Model("NVIDIA H100 80GB HBM3", 8, 81559 * MIB, 551 * MIB, 70, 700, 1980, 2619, 18, "9.0"),
    Model("NVIDIA A100-SXM4-40GB", 8, 40960 * MIB, 550 * MIB, 52, 400, 1410, 1215, 12, "8.0"),
    Model("NVIDIA L40S", 4, 46068 * MIB, 595 * MIB, 34, 350, 2520, 9001, 0, "8.9"),
]
# Slices of an H100: name, memory, share of the engines, its GPU instance.
SLICES = [("3g.40gb", 40192 * MIB, 3 / 7, 1), ("2g.20gb", 19968 * MIB, 2 / 7, 3), ("1g.10gb", 9984 * MIB, 1 / 7, 9)]
