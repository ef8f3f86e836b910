//! Packs the probes' scripts: gtop carries what it sends, not what people read in `probes/`.
//!
//! Writes `probe.py.z` (zlib) and `probe.sh`; `src/probe.rs` says how they travel.

use std::fmt::Write as _;
use std::io::{Result, Write as _};
use std::path::Path;
use std::{env, fs};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The Python probe, in the order in which its parts build on each other.
const PYTHON: &[&str] =
    &["wire.py", "child.py", "host.py", "processes.py", "questions.py", "rare.py", "main.py"];

/// What a Python probe compiles only when it is needed: backends where such a device is, answers when
/// somebody asks.
const RARE: &[(&str, &[&str])] = &[
    ("answers", &["answers.py"]),
    ("hidden", &["hidden.py"]),
    ("nvml", &["part.py", "nvml_library.py", "nvml_device.py", "nvml.py"]),
    ("nvidia-smi", &["nvidia_smi.py"]),
    ("amdgpu", &["part.py", "amd_card.py", "amd.py"]),
    ("tpu", &["part.py", "grpc.py", "tpu_chips.py", "tpu_runtime.py", "tpu_library.py", "tpu.py"]),
];

/// The sh probe, likewise.
const SHELL: &[&str] = &["base.sh", "watch.sh", "jobs.sh", "frames.sh", "probe.sh"];

fn main() -> Result<()> {
    writeln!(
        std::io::stdout(),
        "cargo::rerun-if-changed=probes\ncargo::rerun-if-changed=build.rs"
    )?;
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let out = Path::new(&out);
    let mut python = String::from("PACKED={");
    for (kind, parts) in RARE {
        let part = STANDARD.encode(packed(&bare_python(parts)?)?);
        // Writing to a String cannot fail.
        let _ = write!(python, "\"{kind}\":\"{part}\",");
    }
    python.push_str("}\n");
    python.push_str(&bare_python(PYTHON)?);
    fs::write(out.join("probe.py.z"), packed(&python)?)?;
    fs::write(out.join("probe.sh"), bare_shell(SHELL)?)
}

/// Returns a text as zlib packs it.
fn packed(text: &str) -> Result<Vec<u8>> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(text.as_bytes())?;
    zlib.finish()
}

/// Joins parts without what is there for people, with a form feed before each class: what lies
/// between two of them is compiled by itself.
fn bare_python(parts: &[&str]) -> Result<String> {
    let mut text = String::new();
    for line in read(parts)?.lines().filter(|line| !is_for_people(line)) {
        if line.starts_with("class ") {
            text.push('\x0c');
        }
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

/// Likewise; indentation means nothing to sh, which reads what it is sent byte by byte.
fn bare_shell(parts: &[&str]) -> Result<String> {
    let text = read(parts)?;
    let lines = text.lines().filter(|line| !is_for_people(line));
    Ok(lines.flat_map(|line| [line.trim_start(), "\n"]).collect())
}

fn read(parts: &[&str]) -> Result<String> {
    parts.iter().map(|part| fs::read_to_string(Path::new("probes").join(part))).collect()
}

fn is_for_people(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}
