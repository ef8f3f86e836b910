"""Fleets that are made up: a scenario, the recording of it that gtop would have made, and what is true of it.

    hardware     models of devices
    cluster      nodes, devices, jobs, and what each device does from when to when
    workloads    what jobs do: one class each
    incidents    what happens to nodes and devices: one class each
    scenarios    which workloads and incidents a fleet has: one function each
    recording    what probes and a recorder write of it
    truth        the facts, computed from the cluster alone

All times are seconds since the recording began, and whole multiples of the sampling interval: a value changes when it is
sampled. What a device does is constant from one such time to another (`Activity`), so that sums over time are exact.
"""
