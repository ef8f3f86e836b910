//! The wire schema, version 1, as a strict validator for tests: all writers of frames must pass it.
//!
//! gtop's decoder is lenient, so that a newer or broken probe loses single values and not a node. The
//! probes and simulated nodes of this project must send exactly what the schema allows.

use serde_json::Value;

/// The expected type of a value.
enum Shape {
    Flag,
    /// Text of at most this many characters, without control characters.
    Text(usize),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number of at most this.
    Count(u64),
    /// A number between these.
    Number(f64, f64),
    /// This, or `null`.
    Maybe(&'static Self),
    /// At most this many of these.
    List(&'static Self, usize),
    /// Exactly this many of these.
    Row(&'static Self, usize),
    /// Exactly these, in order.
    Tuple(&'static [Self]),
    /// Values of one type under any keys.
    Map(&'static Self),
    /// These keys: the marked ones are required, others are not allowed.
    Object(&'static [Key]),
    /// The same, with the keys of two lists.
    Extended(&'static [Key], &'static [Key]),
}

/// A key, whether it is required, and the type of its value.
type Key = (&'static str, bool, Shape);

use Shape::{Count, Extended, Flag, List, Map, Maybe, Number, Object, Row, Text, Tuple, Word};

const MUST: bool = true;
const MAY: bool = false;
const PERCENT: Shape = Number(0.0, 100.0);
const CLOCK: Shape = Number(0.0, 1e10);
const BYTES: Shape = Count(1 << 53);
const COUNTER: Shape = Count(u64::MAX);
const LOAD: Shape = Number(0.0, 1e6);
const MAYBE_PERCENT: Shape = Maybe(&PERCENT);
const MAYBE_BYTES: Shape = Maybe(&BYTES);
const MAYBE_CELSIUS: Shape = Maybe(&Number(-100.0, 300.0));
const MAYBE_FLAG: Shape = Maybe(&Flag);
const MAYBE_COUNT: Shape = Maybe(&COUNTER);
const MAYBE_MEGAHERTZ: Shape = Maybe(&Count(100_000));
const MAYBE_MILLIWATTS: Shape = Maybe(&Count(100_000_000));

const BACKEND_STATE: Shape = Object(&[
    ("kind", MUST, Text(32)),
    ("state", MUST, Word(&["starting", "ready", "absent"])),
    ("why", MAY, Text(200)),
    ("missing", MAY, Flag),
    ("code", MAY, Word(&["nodriver", "mismatch", "perm", "lost", "start"])),
    ("number", MAY, COUNTER),
    ("call", MAY, Text(96)),
    ("message", MAY, Text(200)),
    ("driver", MAY, Text(96)),
    ("library", MAY, Text(96)),
    ("cuda", MAY, Text(96)),
    ("devices", MAY, Count(256)),
    ("slices", MAY, Count(4096)),
    // Why there are no events.
    ("events", MAY, Text(96)),
    ("experimental", MAY, Flag),
]);

const HELLO: Shape = Object(&[
    ("t", MUST, Word(&["hello"])),
    ("v", MUST, Count(1)),
    ("probe", MUST, Text(16)),
    ("at", MUST, CLOCK),
    ("time", MAY, Number(1e9, 1e11)),
    ("host", MUST, Text(255)),
    ("boot", MUST, Text(64)),
    ("kernel", MUST, Text(128)),
    ("arch", MUST, Text(32)),
    ("cpus", MUST, Count(100_000)),
    ("tick", MUST, Count(10_000)),
    ("page", MUST, Count(1 << 24)),
    ("uid", MUST, Count(u32::MAX as u64)),
    ("user", MUST, Text(255)),
    ("hidepid", MUST, Count(4)),
    ("contained", MAY, Flag),
    ("kernel_log", MAY, Flag),
    ("driver_loaded", MAY, Maybe(&CLOCK)),
    ("pci", MAY, List(&Tuple(&[Text(32), Text(8), Text(8), Text(10), Text(64)]), 128)),
    ("evidence", MAY, Flag),
    ("cgroup", MAY, Text(512)),
    ("expected", MAY, List(&Text(32), 64)),
    ("version", MUST, Text(64)),
    ("path", MAY, Text(255)),
    ("commands", MUST, List(&Text(16), 16)),
    ("intervals", MUST, Map(&Number(0.05, 36_000.0))),
    ("backends", MUST, List(&BACKEND_STATE, 16)),
]);

const TRAFFIC: Shape =
    Object(&[("name", MUST, Text(64)), ("rx", MUST, COUNTER), ("tx", MUST, COUNTER)]);
const DISK: Shape =
    Object(&[("name", MUST, Text(64)), ("read", MUST, COUNTER), ("write", MUST, COUNTER)]);
const SPACE: Shape =
    Object(&[("path", MUST, Text(256)), ("total", MUST, BYTES), ("free", MUST, BYTES)]);

const HOST_SHARE: Shape = Object(&[
    ("cpus", MAY, Number(0.0, 65_536.0)),
    ("cpu", MAY, COUNTER),
    ("memory_limit", MAY, BYTES),
    ("memory", MAY, BYTES),
]);
const SHARES: Shape =
    Object(&[("at", MUST, CLOCK), ("own", MUST, HOST_SHARE), ("jobs", MUST, Map(&HOST_SHARE))]);

const HOST: Shape = Object(&[
    ("at", MUST, CLOCK),
    ("cpu", MAY, Row(&COUNTER, 8)),
    ("load", MAY, Row(&LOAD, 3)),
    ("memory_total", MAY, MAYBE_BYTES),
    ("memory_available", MAY, MAYBE_BYTES),
    ("memory_cached", MAY, MAYBE_BYTES),
    ("memory_buffers", MAY, MAYBE_BYTES),
    ("swap_total", MAY, MAYBE_BYTES),
    ("swap_free", MAY, MAYBE_BYTES),
    (
        "pressure",
        MAY,
        Object(&[
            ("cpu", MAY, MAYBE_PERCENT),
            ("memory", MAY, MAYBE_PERCENT),
            ("io", MAY, MAYBE_PERCENT),
        ]),
    ),
    ("uptime", MAY, Number(0.0, 1e10)),
    ("net", MAY, List(&TRAFFIC, 16)),
    ("infiniband", MAY, List(&TRAFFIC, 16)),
    ("disk", MAY, List(&DISK, 16)),
]);

const TPU_CORE: Shape = Object(&[
    ("used", MAY, MAYBE_BYTES),
    ("total", MAY, MAYBE_BYTES),
    ("util", MAY, MAYBE_PERCENT),
]);

const TPU: Shape = Object(&[
    ("nodes", MAY, Maybe(&Text(96))),
    ("cores", MAY, Maybe(&Count(16))),
    ("held", MAY, MAYBE_FLAG),
    ("hbm_util", MAY, MAYBE_PERCENT),
    ("idle", MAY, Maybe(&CLOCK)),
    ("queue", MAY, MAYBE_COUNT),
    ("source", MAY, Maybe(&Text(32))),
    ("trouble", MAY, Maybe(&Text(200))),
    ("by_core", MAY, List(&TPU_CORE, 16)),
    ("uptime", MAY, Maybe(&CLOCK)),
    ("framework", MAY, Maybe(&Text(96))),
    ("slice_error", MAY, Maybe(&Text(200))),
    ("megascale_error", MAY, Maybe(&Text(200))),
]);

const DEVICE: Shape = Object(&[
    ("uuid", MUST, Text(96)),
    ("index", MAY, MAYBE_COUNT),
    ("parent", MAY, Text(96)),
    ("name", MAY, Text(96)),
    ("pci", MAY, Text(32)),
    ("util", MAY, MAYBE_PERCENT),
    ("memory_util", MAY, MAYBE_PERCENT),
    ("memory_total", MAY, MAYBE_BYTES),
    ("memory_used", MAY, MAYBE_BYTES),
    ("memory_free", MAY, MAYBE_BYTES),
    ("memory_reserved", MAY, MAYBE_BYTES),
    ("temperature", MAY, MAYBE_CELSIUS),
    ("temperature_memory", MAY, MAYBE_CELSIUS),
    ("power", MAY, MAYBE_MILLIWATTS),
    ("power_limit", MAY, MAYBE_MILLIWATTS),
    ("clock_sm", MAY, MAYBE_MEGAHERTZ),
    ("clock_memory", MAY, MAYBE_MEGAHERTZ),
    ("clock_sm_max", MAY, MAYBE_MEGAHERTZ),
    ("clock_memory_max", MAY, MAYBE_MEGAHERTZ),
    // The speed a fan should have may be beyond its full speed.
    ("fan", MAY, Maybe(&Number(0.0, 1000.0))),
    ("pstate", MAY, Maybe(&Count(15))),
    ("throttle", MAY, MAYBE_COUNT),
    ("ecc_corrected", MAY, MAYBE_COUNT),
    ("ecc_uncorrected", MAY, MAYBE_COUNT),
    ("driver", MAY, Text(64)),
    ("users", MAY, MAYBE_FLAG),
    ("encoder", MAY, MAYBE_PERCENT),
    ("decoder", MAY, MAYBE_PERCENT),
    ("power_average", MAY, MAYBE_MILLIWATTS),
    ("power_instant", MAY, MAYBE_MILLIWATTS),
    ("power_limit_requested", MAY, MAYBE_MILLIWATTS),
    ("power_limit_default", MAY, MAYBE_MILLIWATTS),
    ("power_limit_min", MAY, MAYBE_MILLIWATTS),
    ("power_limit_max", MAY, MAYBE_MILLIWATTS),
    ("energy", MAY, MAYBE_COUNT),
    ("clock_graphics", MAY, MAYBE_MEGAHERTZ),
    ("clock_video", MAY, MAYBE_MEGAHERTZ),
    ("clock_graphics_max", MAY, MAYBE_MEGAHERTZ),
    ("clock_video_max", MAY, MAYBE_MEGAHERTZ),
    ("temperature_margin", MAY, MAYBE_CELSIUS),
    ("temperature_slowdown", MAY, MAYBE_CELSIUS),
    ("temperature_shutdown", MAY, MAYBE_CELSIUS),
    ("display", MAY, MAYBE_FLAG),
    ("display_mode", MAY, MAYBE_FLAG),
    ("persistence", MAY, MAYBE_FLAG),
    ("compute_mode", MAY, Maybe(&Count(15))),
    ("ecc_mode", MAY, MAYBE_FLAG),
    ("ecc_corrected_total", MAY, MAYBE_COUNT),
    ("ecc_uncorrected_total", MAY, MAYBE_COUNT),
    ("retired_single", MAY, MAYBE_COUNT),
    ("retired_double", MAY, MAYBE_COUNT),
    ("retired_pending", MAY, MAYBE_FLAG),
    ("remapped_corrected", MAY, MAYBE_COUNT),
    ("remapped_uncorrected", MAY, MAYBE_COUNT),
    ("remap_pending", MAY, MAYBE_FLAG),
    ("remap_failed", MAY, MAYBE_FLAG),
    ("pcie_generation", MAY, MAYBE_COUNT),
    ("pcie_lanes", MAY, MAYBE_COUNT),
    ("pcie_generation_max", MAY, MAYBE_COUNT),
    ("pcie_lanes_max", MAY, MAYBE_COUNT),
    ("pcie_rx", MAY, MAYBE_COUNT),
    ("pcie_tx", MAY, MAYBE_COUNT),
    ("pcie_replays", MAY, MAYBE_COUNT),
    ("nvlinks", MAY, MAYBE_COUNT),
    ("nvlinks_active", MAY, MAYBE_COUNT),
    ("nvlink_rx", MAY, MAYBE_COUNT),
    ("nvlink_tx", MAY, MAYBE_COUNT),
    ("links", MAY, List(&Row(&MAYBE_COUNT, 2), 64)),
    ("held_power", MAY, MAYBE_COUNT),
    ("held_thermal", MAY, MAYBE_COUNT),
    ("held_sync_boost", MAY, MAYBE_COUNT),
    ("held_hw_thermal", MAY, MAYBE_COUNT),
    ("held_power_brake", MAY, MAYBE_COUNT),
    ("bar1_total", MAY, MAYBE_BYTES),
    ("bar1_used", MAY, MAYBE_BYTES),
    ("bar1_free", MAY, MAYBE_BYTES),
    ("numa_node", MAY, MAYBE_COUNT),
    ("minor", MAY, MAYBE_COUNT),
    ("integrated", MAY, Flag),
    ("capability", MAY, Text(16)),
    ("fabric", MAY, Maybe(&Count(15))),
    ("fabric_health", MAY, MAYBE_COUNT),
    ("recovery", MAY, Maybe(&Count(15))),
    ("xid", MAY, MAYBE_COUNT),
    ("xids", MAY, MAYBE_COUNT),
    ("activity", MAY, Maybe(&Row(&MAYBE_PERCENT, 8))),
    ("flow", MAY, Maybe(&Row(&Maybe(&Number(0.0, 1e9)), 4))),
    ("jpeg", MAY, MAYBE_PERCENT),
    ("ofa", MAY, MAYBE_PERCENT),
    ("sram_threshold", MAY, MAYBE_FLAG),
    ("gpu_instance", MAY, MAYBE_COUNT),
    ("compute_instance", MAY, MAYBE_COUNT),
    ("mig", MAY, MAYBE_FLAG),
    ("gtt_total", MAY, MAYBE_BYTES),
    ("gtt_used", MAY, MAYBE_BYTES),
    ("temperature_junction", MAY, MAYBE_CELSIUS),
    ("junction_slowdown", MAY, MAYBE_CELSIUS),
    ("memory_slowdown", MAY, MAYBE_CELSIUS),
    ("fan_rpm", MAY, MAYBE_COUNT),
    ("video", MAY, MAYBE_PERCENT),
    ("performance_level", MAY, Maybe(&Text(32))),
    ("compute_partition", MAY, Maybe(&Text(32))),
    ("memory_partition", MAY, Maybe(&Text(32))),
    ("tpu", MAY, TPU),
    ("lacks", MAY, Map(&Text(96))),
    ("fault", MAY, Text(160)),
]);

const USE: Shape = Object(&[
    ("device", MAY, Text(96)),
    ("lacks", MAY, Map(&Text(96))),
    ("pid", MUST, Count(u32::MAX as u64)),
    ("memory", MAY, MAYBE_BYTES),
    ("sm", MAY, MAYBE_PERCENT),
    ("mem", MAY, MAYBE_PERCENT),
    ("enc", MAY, MAYBE_PERCENT),
    ("dec", MAY, MAYBE_PERCENT),
    ("occupancy", MAY, MAYBE_PERCENT),
    ("kind", MAY, Word(&["C", "G", "C+G"])),
]);

const BACKEND: Shape = Object(&[
    ("kind", MUST, Text(32)),
    ("at", MUST, CLOCK),
    ("slow", MAY, CLOCK),
    (
        "csv",
        MAY,
        Object(&[
            ("columns", MUST, List(&Text(64), 64)),
            ("rows", MUST, List(&Text(1024), 64)),
            ("noise", MAY, List(&Text(200), 8)),
        ]),
    ),
    (
        "more",
        MAY,
        Object(&[("columns", MUST, List(&Text(64), 64)), ("rows", MUST, List(&Text(1024), 64))]),
    ),
    (
        "mig",
        MAY,
        Object(&[("list", MUST, List(&Text(200), 1024)), ("table", MUST, List(&Text(200), 1024))]),
    ),
    ("minors", MAY, Map(&Count(999_999_999))),
    ("apps", MAY, Object(&[("at", MUST, CLOCK), ("rows", MUST, List(&Text(1024), 1024))])),
    ("devices", MAY, List(&DEVICE, 256)),
    (
        "uses",
        MAY,
        Object(&[
            ("at", MUST, CLOCK),
            ("list", MUST, List(&USE, 4096)),
            ("nameless", MAY, Map(&Count(65536))),
        ]),
    ),
]);

const PROCESS: Shape = Object(&[
    ("pid", MUST, Count(u32::MAX as u64)),
    ("start", MUST, COUNTER),
    ("cpu", MAY, MAYBE_COUNT),
    ("rss", MAY, MAYBE_BYTES),
    ("ppid", MAY, MAYBE_COUNT),
    ("uid", MAY, MAYBE_COUNT),
    ("user", MAY, Maybe(&Text(255))),
    ("command", MAY, Maybe(&Text(514))),
    ("cgroup", MAY, Maybe(&Text(512))),
    ("state", MAY, STATE),
    ("threads", MAY, MAYBE_COUNT),
    ("cwd", MAY, Maybe(&Text(512))),
    ("job", MAY, Text(32)),
    ("step", MAY, Text(32)),
    ("visible", MAY, List(&Text(96), 64)),
    ("parents", MAY, List(&Tuple(&[Count(1 << 22), COUNTER, Text(64)]), 16)),
]);

const STATE: Shape = Word(&["R", "S", "D", "T", "t", "Z", "X", "x", "I", "P", "W", "K"]);

const UNSEEN: Shape = Object(&[
    ("pid", MUST, Count(u32::MAX as u64)),
    ("why", MUST, Word(&["gone", "hidden", "elsewhere", "ambiguous"])),
    ("uid", MAY, MAYBE_COUNT),
    ("user", MAY, Maybe(&Text(255))),
    ("cgroup", MAY, Maybe(&Text(512))),
]);

const RELATIVE: &[Key] = &[
    ("pid", MUST, Count(1 << 22)),
    ("ppid", MUST, Count(1 << 22)),
    ("start", MUST, COUNTER),
    ("uid", MUST, MAYBE_COUNT),
    ("user", MUST, Maybe(&Text(255))),
    ("state", MUST, STATE),
    ("cpu", MUST, COUNTER),
    ("rss", MUST, BYTES),
];

const TREE_ROW: Shape = Extended(RELATIVE, &[("command", MUST, Text(514))]);

const DETAIL: Shape = Extended(
    RELATIVE,
    &[
        ("command", MUST, Text(4096)),
        ("threads", MUST, COUNTER),
        ("nice", MUST, Number(-20.0, 19.0)),
        ("vsize", MUST, COUNTER),
        ("peak", MAY, COUNTER),
        ("swap", MAY, COUNTER),
        ("voluntary", MAY, COUNTER),
        ("involuntary", MAY, COUNTER),
        ("cwd", MUST, Maybe(&Text(4096))),
        ("exe", MUST, Maybe(&Text(4096))),
        ("cgroup", MUST, Text(512)),
        ("wchan", MUST, Maybe(&Text(64))),
        ("io", MUST, Maybe(&Row(&COUNTER, 4))),
        ("limits", MUST, List(&Row(&Text(64), 3), 32)),
    ],
);

const ANSWER: Shape = Object(&[
    ("t", MUST, Word(&["answer"])),
    ("id", MUST, COUNTER),
    ("at", MUST, CLOCK),
    ("result", MUST, Word(&["ok", "sent", "gone", "reused", "zombie", "refused", "failed", "bad"])),
    ("why", MAY, Text(160)),
    ("errno", MAY, Count(200)),
    ("cut", MAY, Flag),
    ("environ", MAY, List(&Text(131_072), 131_072)),
    ("tree", MAY, List(&TREE_ROW, 1024)),
    ("detail", MAY, DETAIL),
]);

const MINOR: Shape = Count(u32::MAX as u64);
const EVIDENCE: Shape = Object(&[
    ("complete", MAY, Flag),
    ("node", MAY, Text(255)),
    (
        "daemon",
        MAY,
        Object(&[
            ("started", MAY, Number(1.0, 1e11)),
            ("version", MAY, Text(64)),
            ("list", MAY, List(&Text(4096), 4096)),
            ("error", MAY, Text(200)),
        ]),
    ),
    ("config", MAY, List(&Text(16_384), 16_384)),
    ("files", MAY, Map(&Maybe(&MINOR))),
    ("devices", MAY, List(&Tuple(&[MINOR, Text(32), Maybe(&Text(96))]), 64)),
    ("slices", MAY, List(&Tuple(&[MINOR, MINOR, MINOR, Maybe(&MINOR)]), 512)),
    ("jobs", MAY, Map(&Maybe(&List(&MINOR, 256)))),
    (
        "configuration",
        MAY,
        Object(&[
            ("changed", MAY, Maybe(&Number(1.0, 1e11))),
            ("checked", MAY, Number(1.0, 1e11)),
            ("cached", MAY, Flag),
            ("constrained", MAY, MAYBE_FLAG),
            ("constrained_changed", MAY, Maybe(&Number(1.0, 1e11))),
        ]),
    ),
    ("openable", MAY, List(&MINOR, 256)),
]);

const SAMPLE: Shape = Object(&[
    ("t", MUST, Word(&["sample"])),
    ("n", MUST, Count(1 << 53)),
    ("at", MUST, CLOCK),
    ("took", MAY, Number(0.0, 1e6)),
    ("shares", MAY, SHARES),
    ("cost", MAY, Object(&[("cpu", MUST, LOAD), ("seconds", MUST, Number(0.0, 1e6))])),
    ("full", MAY, Flag),
    ("host", MAY, HOST),
    (
        "host_slow",
        MAY,
        Object(&[
            ("at", MUST, CLOCK),
            ("temperature", MAY, MAYBE_CELSIUS),
            ("space", MAY, List(&SPACE, 8)),
        ]),
    ),
    ("backends", MAY, List(&BACKEND, 16)),
    ("evidence", MAY, EVIDENCE),
    (
        "processes",
        MAY,
        Object(&[
            ("at", MUST, CLOCK),
            ("list", MUST, List(&PROCESS, 1024)),
            ("unseen", MAY, List(&UNSEEN, 1024)),
        ]),
    ),
]);

const CODES: &[&str] = &[
    "starting", "slow", "silent", "stuck", "nolib", "nodriver", "mismatch", "perm", "lost",
    "parse", "failed",
];

const ERROR: Shape = Object(&[
    ("t", MUST, Word(&["error"])),
    ("at", MUST, CLOCK),
    ("source", MUST, Text(64)),
    ("scope", MUST, Word(&["host", "device"])),
    ("code", MUST, Word(CODES)),
    ("call", MUST, Text(200)),
    ("for", MAY, Number(0.0, 1e9)),
    ("message", MAY, Text(200)),
    ("device", MAY, Text(96)),
]);

const EVENT: Shape = Object(&[
    ("t", MUST, Word(&["event"])),
    ("at", MUST, CLOCK),
    ("source", MUST, Text(64)),
    (
        "kind",
        MUST,
        Word(&["xid", "ecc", "retirement", "poison", "unavailable", "recovery", "lost", "reset"]),
    ),
    ("device", MUST, Text(96)),
    ("code", MAY, MAYBE_COUNT),
    ("count", MAY, COUNTER),
    ("message", MAY, Text(200)),
    ("pci", MAY, Text(16)),
    ("instance", MAY, Count(99)),
    ("pid", MAY, Count(999_999_999)),
    ("process", MAY, Text(32)),
    ("seq", MAY, COUNTER),
    ("logged", MAY, CLOCK),
    ("first", MAY, COUNTER),
    ("since", MAY, CLOCK),
]);

const BYE: Shape =
    Object(&[("t", MUST, Word(&["bye"])), ("at", MUST, CLOCK), ("why", MUST, Text(200))]);

/// Validates one line as a probe writes it, without its newline, and returns the frame.
pub(crate) fn line(line: &[u8]) -> Result<Value, String> {
    if line.len() > (1 << 20) {
        return Err(format!("a line of {} bytes", line.len()));
    }
    if let Some(byte) = line.iter().skip(1).find(|byte| !(b' '..=b'~').contains(*byte)) {
        return Err(format!("byte {byte:#x} in {}", String::from_utf8_lossy(line)));
    }
    let json = line.strip_prefix(b"\x1egtop1 ").ok_or_else(|| {
        format!("no frame: {}", String::from_utf8_lossy(line.get(..200).unwrap_or(line)))
    })?;
    let frame = serde_json::from_slice(json)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(json)))?;
    self::frame(&frame).map_err(|error| format!("{error}: {frame}"))?;
    Ok(frame)
}

/// Validates one frame.
pub(crate) fn frame(frame: &Value) -> Result<(), String> {
    let shape = match frame.get("t").and_then(Value::as_str) {
        Some("hello") => &HELLO,
        Some("sample") => &SAMPLE,
        Some("error") => &ERROR,
        Some("answer") => &ANSWER,
        Some("event") => &EVENT,
        Some("bye") => &BYE,
        other => return Err(format!("a frame of kind {other:?}")),
    };
    check(frame, shape).map_err(|(path, error)| format!("{path}: {error}"))
}

/// The path of an invalid value, and the reason.
type Mismatch = (String, String);

fn check(value: &Value, shape: &Shape) -> Result<(), Mismatch> {
    let is_valid = match shape {
        Flag => value.is_boolean(),
        Text(max) => value.as_str().is_some_and(|text| {
            text.chars().count() <= *max && !text.chars().any(char::is_control)
        }),
        Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Count(max) => value.as_u64().is_some_and(|count| count <= *max),
        Number(min, max) => value.as_f64().is_some_and(|number| (*min..=*max).contains(&number)),
        Maybe(shape) => return if value.is_null() { Ok(()) } else { check(value, shape) },
        List(shape, max) => return list(value, shape, 0, *max),
        Row(shape, count) => return list(value, shape, *count, *count),
        Tuple(shapes) => {
            let all = value.as_array().filter(|list| list.len() == shapes.len());
            let Some(all) = all else { return mismatch(value) };
            let mut pairs = all.iter().zip(*shapes).enumerate();
            return pairs
                .try_for_each(|(i, (value, shape))| at(&i.to_string(), check(value, shape)));
        }
        Map(shape) => {
            let Some(map) = value.as_object() else { return mismatch(value) };
            return map.iter().try_for_each(|(key, value)| at(key, check(value, shape)));
        }
        Object(keys) => return object(value, keys, &[]),
        Extended(keys, more) => return object(value, keys, more),
    };
    if is_valid { Ok(()) } else { mismatch(value) }
}

fn list(value: &Value, shape: &Shape, min: usize, max: usize) -> Result<(), Mismatch> {
    let Some(list) = value.as_array().filter(|list| (min..=max).contains(&list.len())) else {
        return mismatch(value);
    };
    list.iter().enumerate().try_for_each(|(i, value)| at(&i.to_string(), check(value, shape)))
}

fn object(value: &Value, keys: &[Key], more: &[Key]) -> Result<(), Mismatch> {
    let Some(object) = value.as_object() else { return mismatch(value) };
    let keys = || keys.iter().chain(more);
    for (key, needed, shape) in keys() {
        match object.get(*key) {
            Some(value) => at(key, check(value, shape))?,
            None if *needed => return at(key, Err((String::new(), "is missing".to_owned()))),
            None => {}
        }
    }
    match object.keys().find(|key| !keys().any(|(known, ..)| known == key)) {
        Some(unknown) => at(unknown, Err((String::new(), "is not in the schema".to_owned()))),
        None => Ok(()),
    }
}

fn at(key: &str, result: Result<(), Mismatch>) -> Result<(), Mismatch> {
    result.map_err(|(path, error)| (format!(".{key}{path}"), error))
}

fn mismatch(value: &Value) -> Result<(), Mismatch> {
    Err((String::new(), format!("{value} is invalid")))
}
