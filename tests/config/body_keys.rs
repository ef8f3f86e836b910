//! The keys of bodies as tables in Markdown, from their declarations.

use std::fmt::Write as _;

const SOURCES: [&str; 3] = [
    include_str!("../../crates/collect/src/wire/body.rs"),
    include_str!("../../crates/collect/src/wire/body/device.rs"),
    include_str!("../../crates/collect/src/wire/body/tpu.rs"),
];

/// What the objects are called on the page, in its order; groups of keys are part of the object before.
const OBJECTS: [(&str, &[&str]); 29] = [
    ("a hello", &["Hello"]),
    ("`backends[]` of a hello", &["BackendState"]),
    ("a sample", &["Sample"]),
    ("`host`", &["Host"]),
    ("`host.pressure`", &["Pressure"]),
    ("`host.net[]`, `host.infiniband[]`", &["Traffic"]),
    ("`host.disk[]`", &["Disk"]),
    ("`host_slow`", &["HostSlow"]),
    ("`host_slow.space[]`", &["Space"]),
    ("`backends[]` of a sample", &["Backend"]),
    ("`devices[]`", &["Device", "DeviceCounters", "DeviceActivity", "DeviceDetails"]),
    ("`devices[]`, what does not change", &["DeviceStatics"]),
    ("`devices[].tpu`", &["Tpu"]),
    ("`devices[].tpu.by_core[]`", &["TpuCore"]),
    ("`backends[].uses`", &["Uses"]),
    ("`uses.list[]`", &["Use"]),
    ("`processes`", &["Processes"]),
    ("`processes.list[]`", &["Process", "ProcessStatics"]),
    ("`processes.unseen[]`", &["Unseen"]),
    ("`backends[].csv`, `backends[].more`", &["Csv"]),
    ("`backends[].mig`", &["Mig"]),
    ("`backends[].apps`", &["Apps"]),
    ("`cost`", &["Cost"]),
    ("`evidence`", &["Evidence"]),
    ("`evidence.daemon`", &["Daemon"]),
    ("`evidence.configuration`", &["Configuration"]),
    ("an error", &["SourceError"]),
    ("an event", &["Event"]),
    ("a bye", &["Bye"]),
];

/// Returns a table for each object.
pub(crate) fn body_text() -> String {
    let mut text = String::new();
    for (title, structs) in OBJECTS {
        write!(text, "\n| {title} | type | |\n|---|---|---|\n").unwrap();
        for name in structs {
            let rows = rows_of(name);
            assert!(!rows.is_empty(), "{name}");
            text += &rows;
        }
    }
    text
}

/// Returns the rows of a struct's keys.
fn rows_of(name: &str) -> String {
    let starts = [
        format!("pub struct {name} {{"),
        format!("pub struct {name} in "),
        format!("pub struct {name} =>"),
    ];
    let lines = SOURCES.iter().flat_map(|source| source.lines()).map(str::trim);
    let body = lines.skip_while(|line| !starts.iter().any(|start| line.starts_with(start))).skip(1);
    let (mut rows, mut help, mut renamed) = (String::new(), Vec::new(), None);
    for line in body.take_while(|line| *line != "}") {
        if let Some(words) = line.strip_prefix("/// ") {
            help.push(words);
        } else if let Some(rest) = line.strip_prefix("#[serde(rename = \"") {
            renamed = rest.split('"').next();
        } else if let Some((key, kind)) =
            line.strip_prefix("pub ").and_then(|line| line.split_once(": "))
        {
            let kind = kind.split(" =>").next().unwrap().trim_end_matches(',');
            let key = renamed.take().unwrap_or(key.trim_end_matches('?'));
            writeln!(
                rows,
                "| `{key}` | {} | {} |",
                type_text(kind),
                help.join(" ").replace("[`Device`]", "a device")
            )
            .unwrap();
            help.clear();
        }
    }
    rows
}

/// Returns the type of a key in JSON.
fn type_text(kind: &str) -> String {
    let inside = |start: &str, end: &str| kind.strip_prefix(start)?.strip_suffix(end);
    if let Some(inner) = ["Option<", "Raw<", "Box<"].iter().find_map(|start| inside(start, ">")) {
        return type_text(inner);
    }
    let of_array = inside("[", "]").and_then(|inner| Some(inner.split_once(';')?.0));
    if let Some(inner) = inside("Vec<", ">").or(of_array) {
        return format!("list of {}", type_text(inner));
    }
    if let Some(inner) = inside("BTreeMap<String, ", ">") {
        return format!("object of {}", type_text(inner));
    }
    if let Some(inner) = inside("(", ")") {
        return format!("[{}]", inner.split(", ").map(type_text).collect::<Vec<_>>().join(", "));
    }
    let word = match kind {
        "String" | "RawText" => "text",
        "bool" => "flag",
        "u8" | "u32" | "u64" => "whole number",
        "f64" => "number",
        _ => "object",
    };
    word.to_owned()
}
