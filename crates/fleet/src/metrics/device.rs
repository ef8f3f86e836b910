//! The metrics of a device.

use std::sync::Arc;

use crate::Metric;
use crate::charted::{nvlink_rates, pcie_rates};
use crate::metrics::chart::MetricChart;
use crate::metrics::{Field, Value, ValueKind, metrics};
use gtop_model::{Device, Reading, xid_meaning};

metrics! {
    /// A metric of a device.
    DeviceMetric of Device;

    /// Metrics that most devices of most vendors report.
    DEVICE {
        Vendor = Text("vendor", "vendor", "vendor: nvidia, amd or google", vendor);
        Name = Text("name", "name", "model name", name);
        PciBus = Text("pci_bus", "pci", "PCI bus id", pci);
        DriverVersion = Text("driver_version", "driver", "driver version", statics?.driver);
        UtilizationPercent = Share("utilization_percent", "util",
            "share of time in which the device was executing work; in MIG mode, by hardware counters",
            |device| device.load().into())
            .chart(MetricChart::new(1, 'u', "utilization", Metric::Utilization));
        MemoryUtilizationPercent = Share("memory_utilization_percent", "membw",
            "share of time in which device memory was read or written",
            memory_utilization)
            .chart(MetricChart::new(5, 'b', "share of time the memory is busy", Metric::Bandwidth));
        MemoryUsedBytes = Integer("memory_used_bytes", "mem", "device memory in use", memory_used)
            .chart(MetricChart::new(2, 'm', "memory in use", Metric::Memory)
                .of(DeviceMetric::MemoryTotalBytes.reader()));
        MemoryTotalBytes = Integer("memory_total_bytes", "memtotal", "total device memory", memory_total);
        MemoryFreeBytes = Integer("memory_free_bytes", "memfree", "free device memory", memory_free);
        MemoryReservedBytes = Integer("memory_reserved_bytes", "memreserved",
            "device memory reserved by the driver", memory_reserved);
        MemoryIsHost = Flag("memory_is_host", "unified",
            "the device has no memory of its own: its memory is the host's, and in no sum",
            |device: &Device| device.memory_total.map(|_| device.has_host_memory).into());
        HiddenProcesses = Integer("hidden_processes", "hidden",
            "processes that use the device but are hidden from gtop on the node", hidden_processes);
        HiddenMemoryBytes = Integer("hidden_memory_bytes", "hiddenmem",
            "device memory in use that belongs to no visible process; part of it is the driver's", hidden_memory);
        TemperatureCelsius = Number("temperature_celsius", "temp", "core temperature", temperature)
            .chart(MetricChart::new(4, 't', "temperature, to 100 °C", Metric::Temperature)
                .of(|_| Value::Number(100.0)))
            .order('t', "hottest device", "by the highest device temperature");
        MemoryTemperatureCelsius = Number("memory_temperature_celsius", "memtemp",
            "memory temperature", memory_temperature)
            .column(("MEMTEMP", "memtemp"), (7, 4));
        PowerWatts = Number("power_watts", "power", "power draw", power)
            .chart(MetricChart::new(3, 'p', "power, of its limit", Metric::Power)
                .of(DeviceMetric::PowerLimitWatts.reader()));
        PowerLimitWatts = Number("power_limit_watts", "limit", "power limit in force", power_limit);
        SmClockMegahertz = Integer("sm_clock_megahertz", "smclock", "SM clock", sm_clock)
            .chart(MetricChart::new(6, 'c', "SM clock, of the highest", Metric::SmClock)
                .of(DeviceMetric::SmClockMaxMegahertz.reader()));
        MemoryClockMegahertz = Integer("memory_clock_megahertz", "memclock", "memory clock", memory_clock)
            .chart(MetricChart::new(7, 'l', "memory clock, of the highest", Metric::MemoryClock)
                .of(DeviceMetric::MemoryClockMaxMegahertz.reader()));
        SmClockMaxMegahertz = Integer("sm_clock_max_megahertz", "smclockmax",
            "maximum SM clock", statics?.sm_clock_max);
        MemoryClockMaxMegahertz = Integer("memory_clock_max_megahertz", "memclockmax",
            "maximum memory clock", statics?.memory_clock_max);
        FanPercent = Number("fan_percent", "fan", "intended fan speed; may exceed 100", fan)
            .chart(MetricChart::new(8, 'f', "fan speed", Metric::Fan));
        PerformanceState = Integer("performance_state", "pstate",
            "performance state, 0 (fastest) to 15", performance_state);
        ThrottleBits = Integer("throttle_bits", "throttlebits", "clock throttle reasons, as NVML's bit mask",
            throttle => |throttle| throttle.0);
        EccCorrectedErrors = Integer("ecc_corrected_errors", "eccfix",
            "corrected ECC errors since the driver was loaded", ecc_corrected)
            .counter();
        EccUncorrectedErrors = Integer("ecc_uncorrected_errors", "ecc",
            "uncorrected ECC errors since the driver was loaded", ecc_uncorrected)
            .counter();
        PcieGeneration = Integer("pcie_generation", "pciegen",
            "current PCIe generation", pcie => |(generation, _)| generation);
        PcieLanes = Integer("pcie_lanes", "pciewidth", "current PCIe link width, in lanes", pcie => |(_, lanes)| lanes);
        PersistenceEnabled = Flag("persistence_enabled", "persistence",
            "persistence mode: the driver stays loaded while the device is unused",
            persistence)
            .column(("PERS", "pers"), (4, 18));
        MigEnabled = Flag("mig_enabled", "mig", "MIG mode is enabled", mig)
            .column(("MIG", "MIG"), (3, 25));
    }

    /// Metrics beyond the common ones.
    DEVICE_DETAIL {
        EncoderPercent = Share("encoder_percent", "enc", "utilization of the video encoder", details?.encoder)
            .chart(MetricChart::new(9, 'e', "load of the video encoder", Metric::Encoder));
        DecoderPercent = Share("decoder_percent", "dec", "utilization of the video decoder", details?.decoder)
            .chart(MetricChart::new(10, 'd', "load of the video decoder", Metric::Decoder));
        JpegPercent = Share("jpeg_percent", "jpeg", "utilization of the JPEG engine", details?.jpeg);
        OpticalFlowPercent = Share("optical_flow_percent", "ofa",
            "utilization of the optical flow engine", details?.optical_flow);
        PowerAverageWatts = Number("power_average_watts", "poweravg",
            "power draw averaged over one second", details?.power_average);
        PowerInstantWatts = Number("power_instant_watts", "powernow",
            "instantaneous power draw", activity?.power_instant);
        PowerLimitRequestedWatts = Number("power_limit_requested_watts", "limitasked",
            "requested power limit", details?.power_limit_requested);
        PowerLimitDefaultWatts = Number("power_limit_default_watts", "limitdefault",
            "default power limit", statics?.power_limit_default);
        PowerLimitMinWatts = Number("power_limit_min_watts", "limitmin",
            "minimum power limit", statics?.power_limit_min);
        PowerLimitMaxWatts = Number("power_limit_max_watts", "limitmax",
            "maximum power limit", statics?.power_limit_max);
        EnergyJoules = Integer("energy_joules", "energy", "energy consumed since the driver was loaded",
            details?.energy_millijoules => |millijoules| millijoules / 1000)
            .counter();
        GraphicsClockMegahertz = Integer("graphics_clock_megahertz", "grclock",
            "graphics clock", details?.graphics_clock);
        VideoClockMegahertz = Integer("video_clock_megahertz", "videoclock", "video clock", details?.video_clock);
        GraphicsClockMaxMegahertz = Integer("graphics_clock_max_megahertz", "grclockmax",
            "maximum graphics clock", statics?.graphics_clock_max);
        VideoClockMaxMegahertz = Integer("video_clock_max_megahertz", "videoclockmax",
            "maximum video clock", statics?.video_clock_max);
        TemperatureMarginCelsius = Number("temperature_margin_celsius", "margin",
            "margin to the slowdown temperature", details?.temperature_margin);
        SlowdownTemperatureCelsius = Number("slowdown_temperature_celsius", "slowat",
            "slowdown temperature", statics?.slowdown_temperature);
        ShutdownTemperatureCelsius = Number("shutdown_temperature_celsius", "offat",
            "shutdown temperature", statics?.shutdown_temperature);
        ThrottleReasons = Text("throttle_reasons", "throttled", "clock throttle reasons, in words",
            throttle => |bits| Arc::<str>::from(bits.text()))
            .chart(MetricChart::new(12, 'h', "share of time throttled", Metric::Throttled));
        ThrottledPowerPercent = Share("throttled_power_percent", "capped",
            "share of time throttled by the power limit", rates?.power_throttled);
        ThrottledThermalPercent = Share("throttled_thermal_percent", "thermal",
            "share of time throttled by the driver for temperature", rates?.thermal_throttled);
        ThrottledHardwareThermalPercent = Share("throttled_hardware_thermal_percent", "hwthermal",
            "share of time throttled by the hardware for temperature", rates?.hardware_thermal_throttled);
        ThrottledPowerBrakePercent = Share("throttled_power_brake_percent", "brake",
            "share of time throttled by the power brake of the power supply", rates?.power_brake_throttled);
        ThrottledSyncBoostPercent = Share("throttled_sync_boost_percent", "syncboost",
            "share of time throttled to match other devices (sync boost)", rates?.sync_boost_throttled);
        EccEnabled = Flag("ecc_enabled", "eccmode", "ECC is enabled", details?.ecc_enabled);
        EccCorrectedTotalErrors = Integer("ecc_corrected_total_errors", "eccfixall",
            "corrected ECC errors over the device's lifetime",
            details?.ecc_corrected_total)
            .counter();
        EccUncorrectedTotalErrors = Integer("ecc_uncorrected_total_errors", "eccall",
            "uncorrected ECC errors over the device's lifetime",
            details?.ecc_uncorrected_total)
            .counter();
        RetiredSingleBitPages = Integer("retired_single_bit_pages", "retired1",
            "memory pages retired for single-bit errors",
            details?.retired_single)
            .counter();
        RetiredDoubleBitPages = Integer("retired_double_bit_pages", "retired2",
            "memory pages retired for double-bit errors",
            details?.retired_double)
            .counter();
        RetirementPending = Flag("retirement_pending", "retiring",
            "memory pages are pending retirement until the next reboot", details?.retirement_pending);
        RemappedCorrectedRows = Integer("remapped_corrected_rows", "remapfix",
            "memory rows remapped for corrected errors",
            details?.remapped_corrected)
            .counter();
        RemappedUncorrectedRows = Integer("remapped_uncorrected_rows", "remap",
            "memory rows remapped for uncorrected errors",
            details?.remapped_uncorrected)
            .counter();
        RemappingPending = Flag("remapping_pending", "remapping",
            "memory rows are pending remapping until the next reset", details?.remapping_pending);
        RemappingFailed = Flag("remapping_failed", "remapfail",
            "a memory row could not be remapped", details?.remapping_failed);
        SramThresholdExceeded = Flag("sram_threshold_exceeded", "sram",
            "SRAM errors exceed the threshold at which the device should be replaced",
            details?.sram_threshold_exceeded);
        Xid = Integer("xid", "xid", "last Xid error since gtop started", details?.xid);
        XidMeaning = Text("xid_meaning", "xidmeaning", "last Xid error, in words",
            details?.xid => |code| xid_meaning(code.into()).unwrap_or("unknown"));
        XidEvents = Integer("xid_events", "xids", "Xid errors since gtop started", details?.xids).counter();
        RecoveryAction = Text("recovery_action", "recover",
            "recovery action that the driver recommends", details?.recovery);
        PcieGenerationMax = Integer("pcie_generation_max", "pciegenmax", "maximum PCIe generation",
            statics?.pcie_max => |(generation, _)| generation);
        PcieLanesMax = Integer("pcie_lanes_max", "pciewidthmax", "maximum PCIe link width, in lanes",
            statics?.pcie_max => |(_, lanes)| lanes);
        PcieReceiveBytesPerSecond = Integer("pcie_receive_bytes_per_second", "pcierx",
            "PCIe receive rate", |device| pcie_rates(device).0.into());
        PcieTransmitBytesPerSecond = Integer("pcie_transmit_bytes_per_second", "pcietx",
            "PCIe transmit rate", |device| pcie_rates(device).1.into());
        PcieReplays = Integer("pcie_replays", "replays", "PCIe replays", details?.pcie_replays).counter();
        Nvlinks = Integer("nvlinks", "nvlinks", "number of NVLinks", statics?.nvlinks);
        NvlinksActive = Integer("nvlinks_active", "nvlinksup",
            "number of NVLinks that are up", details?.nvlinks_active);
        NvlinkReceiveBytesPerSecond = Integer("nvlink_receive_bytes_per_second", "nvrx", "receive rate of all NVLinks",
            |device| nvlink_rates(device).0.into());
        NvlinkTransmitBytesPerSecond = Integer("nvlink_transmit_bytes_per_second", "nvtx",
            "transmit rate of all NVLinks", |device| nvlink_rates(device).1.into());
        Bar1UsedBytes = Integer("bar1_used_bytes", "bar1",
            "BAR1 memory in use (device memory mapped by the host)", details?.bar1_used);
        Bar1TotalBytes = Integer("bar1_total_bytes", "bar1total", "total BAR1 memory", details?.bar1_total);
        Bar1FreeBytes = Integer("bar1_free_bytes", "bar1free", "free BAR1 memory", details?.bar1_free);
        DisplayActive = Flag("display_active", "display", "a display is attached and active", details?.display_active)
            .column(("DISP", "disp"), (4, 26));
        DisplayConnected = Flag("display_connected", "connected", "a display is connected", details?.display_connected);
        ComputeMode = Text("compute_mode", "mode", "compute mode: who may use the device", details?.compute_mode);
        ComputeCapability = Text("compute_capability", "cc", "CUDA compute capability", statics?.capability);
        NumaNode = Integer("numa_node", "numa", "nearest NUMA node", statics?.numa_node);
        DeviceMinor = Integer("device_minor", "minor",
            "minor number of the device file, by which schedulers count: 3 of /dev/nvidia3", statics?.minor);
        FabricState = Text("fabric_state", "fabric", "registration state with the NVLink fabric", details?.fabric);
        FabricHealth = Text("fabric_health", "fabrichealth", "health of the NVLink fabric", details?.fabric_health);
        GraphicsActivePercent = Share("graphics_active_percent", "gract",
            "share of time the graphics or compute engine was active, by hardware counters", activity?.graphics_active);
        SmActivePercent = Share("sm_active_percent", "smact",
            "SM activity: share of SMs that were busy", activity?.sm_active)
            .column(("SMACT", "smact"), (5, 12));
        SmOccupancyPercent = Share("sm_occupancy_percent", "occupancy",
            "SM occupancy: resident warps as a share of the maximum",
            activity?.sm_occupancy)
            .column(("OCC", "occ"), (4, 14));
        TensorActivePercent = Share("tensor_active_percent", "tensor", "tensor core activity", activity?.tensor_active)
            .column(("TENSOR", "tensor"), (6, 13));
        DramActivePercent = Share("dram_active_percent", "dram",
            "DRAM activity: share of peak memory bandwidth", activity?.dram_active);
        Fp64ActivePercent = Share("fp64_active_percent", "fp64", "FP64 pipe activity", activity?.fp64_active);
        Fp32ActivePercent = Share("fp32_active_percent", "fp32", "FP32 pipe activity", activity?.fp32_active);
        Fp16ActivePercent = Share("fp16_active_percent", "fp16", "FP16 pipe activity", activity?.fp16_active);
        GpuInstance = Integer("gpu_instance", "gi", "GPU instance id of a MIG slice", statics?.gpu_instance);
        ComputeInstance = Integer("compute_instance", "ci",
            "compute instance id of a MIG slice", statics?.compute_instance);
    }

    /// Metrics that only AMD devices report.
    DEVICE_AMD {
        GttUsedBytes = Integer("gtt_used_bytes", "gtt",
            "GTT memory in use (host memory mapped by the device)", details?.host_memory_used);
        GttTotalBytes = Integer("gtt_total_bytes", "gtttotal", "total GTT memory", statics?.host_memory_total);
        JunctionTemperatureCelsius = Number("junction_temperature_celsius", "junction",
            "junction temperature (hottest spot)",
            details?.junction_temperature)
            .column(("JUNCTION", "junction"), (8, 6));
        JunctionSlowdownTemperatureCelsius = Number("junction_slowdown_temperature_celsius", "jslowat",
            "junction slowdown temperature", statics?.junction_slowdown_temperature);
        MemorySlowdownTemperatureCelsius = Number("memory_slowdown_temperature_celsius", "mslowat",
            "memory slowdown temperature", statics?.memory_slowdown_temperature);
        FanRpm = Integer("fan_rpm", "rpm", "fan speed in revolutions per minute", details?.fan_rpm);
        VideoPercent = Share("video_percent", "vcn", "utilization of the video engine (VCN)", details?.video);
        PerformanceLevel = Text("performance_level", "level", "performance level of the driver, such as auto or high",
            details?.performance_level);
        ComputePartition = Text("compute_partition", "cpart",
            "compute partition mode, such as SPX", details?.compute_partition);
        MemoryPartition = Text("memory_partition", "mpart",
            "memory partition mode, such as NPS1", details?.memory_partition);
    }

    /// Metrics that only TPU chips report.
    DEVICE_TPU {
        DeviceNode = Text("device_node", "devnode", "TPU: device nodes", tpu?.nodes);
        TpuCores = Integer("tpu_cores", "cores", "TPU: cores of the chip, as the runtime reports", tpu?.cores);
        Held = Flag("held", "held", "TPU: a process has the chip open", tpu?.is_held);
        HbmBandwidthPercent = Share("hbm_bandwidth_percent", "hbmbw",
            "TPU: share of peak HBM bandwidth", tpu?.bandwidth);
        TensorcoreIdleSeconds = Number("tensorcore_idle_seconds", "tcidle",
            "TPU: time since a TensorCore last ran", tpu?.idle_seconds);
        HloQueue = Integer("hlo_queue", "hloq", "TPU: programs queued for the chip", tpu?.queue)
            .column(("HLOQ", "hloq"), (5, 20));
        RuntimeUptimeSeconds = Integer("runtime_uptime_seconds", "runtime",
            "TPU: uptime of the runtime", tpu?.uptime_seconds);
        Framework = Text("framework", "framework", "TPU: framework that uses the runtime", tpu?.framework);
        SliceError = Text("slice_error", "sliceerr", "TPU: fault of the slice", tpu?.slice_error);
        MegascaleError = Text("megascale_error", "megaerr", "TPU: fault between slices", tpu?.megascale_error);
        MetricsSource = Text("metrics_source", "metrics", "TPU: source of the metrics", tpu?.metrics_source);
        MetricsFault = Text("metrics_fault", "metricsfault",
            "TPU: why expected metrics are missing", tpu?.metrics_fault);
    }
}
