//! Packs the probe scripts in `probes/` without comments and docstrings, as gtop sends them to nodes.
//!
//! Writes `probe.py.z` and `runs.py.z` (zlib), each with what is compressed in it as text, and `probe.sh`; `src/probe.rs`
//! describes how they are sent.

use std::fmt::Write as _;
use std::io::{Error, Result, Write as _};
use std::path::Path;
use std::{env, fs};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

#[path = "build/minify.rs"]
mod minify;

/// The files of the Python probe; each uses only those before it.
const PYTHON_FILES: &[&str] = &[
    "settings.py",
    "wire.py",
    "child.py",
    "host.py",
    "processes.py",
    "requests.py",
    "evidence.py",
    "pci.py",
    "lazy.py",
    "main.py",
];

/// Parts that the Python probe compiles on demand: backends if the node has such devices, answers at the first request, the
/// kernel's log as root.
const LAZY_PARTS: &[(&str, &[&str])] = &[
    ("answers", &["answers.py"]),
    ("hidden", &["hidden.py"]),
    ("kernel_log", &["kernel_log.py"]),
    ("nvml", &["device_values.py", "nvml_library.py", "nvml_device.py", "nvml.py"]),
    ("scheduler", &["groups.py", "scheduler.py"]),
    ("evidence", &["programs.py", "evidence_reader.py"]),
    ("nvidia-smi", &["programs.py", "nvidia_smi.py"]),
    ("amdgpu", &["device_values.py", "amd_card.py", "amd.py"]),
    (
        "tpu",
        &[
            "device_values.py",
            "grpc.py",
            "tpu_chips.py",
            "tpu_runtime.py",
            "tpu_library.py",
            "tpu.py",
        ],
    ),
];

/// The files of the script of `gtop runs`, in the same order.
const RUNS_FILES: &[&str] =
    &["runs_folder.py", "runs_changes.py", "runs_output.py", "runs_processes.py", "runs.py"];

/// The files of the sh probe, in the same order.
const SHELL_FILES: &[&str] = &["base.sh", "watch.sh", "jobs.sh", "frames.sh", "probe.sh"];

fn main() -> Result<()> {
    writeln!(
        std::io::stdout(),
        "cargo::rerun-if-changed=probes\ncargo::rerun-if-changed=build.rs\ncargo::rerun-if-changed=build"
    )?;
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let out = Path::new(&out);
    let mut python = String::from("PACKED={");
    let mut readable = String::new();
    for (kind, files) in LAZY_PARTS {
        let text = minify::python(&read_files(files)?);
        let part = STANDARD.encode(compress(&text)?);
        // Writing to a String cannot fail.
        let _ = write!(python, "\"{kind}\":\"{part}\",");
        let _ = write!(readable, "# PACKED[\"{kind}\"], decompressed\n{text}");
    }
    python.push_str("}\n");
    let resident = minify::python(&read_files(PYTHON_FILES)?);
    if let Some((kind, _)) =
        LAZY_PARTS.iter().find(|(kind, _)| !resident.contains(&format!("'{kind}'")))
    {
        return Err(Error::other(format!(
            "no file of the resident probe names {kind:?}, so nothing loads it"
        )));
    }
    python.push_str(&resident);
    readable.push_str("# the probe\n");
    readable.push_str(&resident);
    fs::write(out.join("probe.py"), readable)?;
    fs::write(out.join("probe.py.z"), compress(&python)?)?;
    let runs = minify::python(&read_files(RUNS_FILES)?);
    fs::write(out.join("runs.py.z"), compress(&runs)?)?;
    fs::write(out.join("runs.py"), runs)?;
    fs::write(out.join("probe.sh"), minify_shell(SHELL_FILES)?)
}

/// Compresses a text with zlib.
fn compress(text: &str) -> Result<Vec<u8>> {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(text.as_bytes())?;
    zlib.finish()
}

/// Joins the files of the sh probe without comments and indentation, because sh reads its input byte by byte.
fn minify_shell(files: &[&str]) -> Result<String> {
    let text = read_files(files)?;
    let lines = text.lines().filter(|line| !is_comment_or_blank(line));
    Ok(lines.flat_map(|line| [line.trim_start(), "\n"]).collect())
}

fn read_files(files: &[&str]) -> Result<String> {
    files.iter().map(|file| fs::read_to_string(Path::new("probes").join(file))).collect()
}

fn is_comment_or_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}
