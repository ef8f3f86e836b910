//! The metrics of a node's host.

use crate::Node;
use crate::metrics::{Field, Value, ValueKind, metrics};

/// Returns true if a metric of the host is from its slow group, which has an age of its own.
pub fn is_slow_host_metric(id: &str) -> bool {
    id == "temperature_celsius"
}

metrics! {
    /// A metric of a node's host.
    HostMetric of Node;

    /// The metrics of a node's host.
    HOST {
        CpuPercent = Share("cpu_percent", "cpu", "CPU utilization of the node", host.cpu)
            .order('c', "CPU", "by CPU utilization");
        Load1Minute = Number("load_1_minute", "load",
            "load average over 1 minute", host.fast.load => |[one, _, _]| one);
        Load5Minutes = Number("load_5_minutes", "load5",
            "load average over 5 minutes", host.fast.load => |[_, five, _]| five);
        Load15Minutes = Number("load_15_minutes", "load15",
            "load average over 15 minutes", host.fast.load => |[_, _, fifteen]| fifteen);
        MemoryTotalBytes = Integer("memory_total_bytes", "hostmemtotal", "total host memory", host.fast.memory_total);
        MemoryAvailableBytes = Integer("memory_available_bytes", "hostmemfree",
            "available host memory", host.fast.memory_available);
        MemoryCachedBytes = Integer("memory_cached_bytes", "hostcached",
            "host memory that caches files and can be dropped, as htop counts it", host.fast.memory_cached);
        MemoryBuffersBytes = Integer("memory_buffers_bytes", "hostbuffers",
            "host memory that holds blocks of disks", host.fast.memory_buffers);
        SwapTotalBytes = Integer("swap_total_bytes", "swaptotal", "total swap", host.fast.swap_total);
        SwapFreeBytes = Integer("swap_free_bytes", "swapfree", "free swap", host.fast.swap_free);
        PressureCpuPercent = Share("pressure_cpu_percent", "psicpu",
            "CPU pressure: share of 10 s in which some task waited for a CPU", host.fast.pressure.cpu);
        PressureMemoryPercent = Share("pressure_memory_percent", "psimem",
            "memory pressure: share of 10 s in which some task waited for memory", host.fast.pressure.memory);
        PressureIoPercent = Share("pressure_io_percent", "psiio",
            "I/O pressure: share of 10 s in which some task waited for I/O", host.fast.pressure.io);
        TemperatureCelsius = Number("temperature_celsius", "cputemp",
            "temperature of the hottest CPU package", host.slow.temperature);
        UptimeSeconds = Integer("uptime_seconds", "uptime", "time since boot", host.fast.uptime_seconds);
    }
}
