"""Prints the processes by device from an older nvidia-ml-py: JSON, {uuid: [[pid, bytes or null, type], ...]}."""

import json

import pynvml as n

n.nvmlInit()
out = {}
for number in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(number)
    found = {}
    for letter, lists in (("C", n.nvmlDeviceGetComputeRunningProcesses), ("G", n.nvmlDeviceGetGraphicsRunningProcesses)):
        for row in lists(h):
            found.setdefault(row.pid, [row.pid, row.usedGpuMemory, ""])[2] += letter
    uuid = n.nvmlDeviceGetUUID(h)
    rows = [[pid, used, "+".join(letters)] for pid, used, letters in found.values()]
    out[uuid if isinstance(uuid, str) else uuid.decode()] = sorted(rows)
print(json.dumps(out))
