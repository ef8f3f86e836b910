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

#[path = "build/commit.rs"]
mod commit;

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
        "cargo::rerun-if-changed=probes\ncargo::rerun-if-changed=build.rs\ncargo::rerun-if-changed=build"
    )?;
    tell_commit()?;
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

/// Tells the compiler the commit, where nobody else does. Only a release says it: while one writes, each commit
/// would compile everything anew.
fn tell_commit() -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "cargo::rerun-if-env-changed=GTOP_COMMIT")?;
    let is_release = env::var_os("PROFILE").is_some_and(|profile| profile == "release");
    if !is_release || env::var_os("GTOP_COMMIT").is_some() {
        return Ok(());
    }
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    if let Some(commit) = commit::Commit::of(Path::new(&root)) {
        writeln!(out, "cargo::rustc-env=GTOP_COMMIT={}\ncargo::rerun-if-changed=src", commit.name)?;
        for file in commit.watched {
            writeln!(out, "cargo::rerun-if-changed={}", file.display())?;
        }
    }
    Ok(())
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
    let whole = read(parts)?;
    let lines: Vec<&str> = whole.lines().filter(|line| !is_for_people(line)).collect();
    let mut text = String::new();
    for line in without_docstrings(&lines) {
        if line.starts_with("class ") {
            text.push('\x0c');
        }
        let code = line.trim_start();
        // Levels of indentation are four blanks apart in `probes/`, and one here.
        text.extend(std::iter::repeat_n(' ', (line.len() - code.len()) / 4));
        // What stands behind code is set off by two blanks at least.
        text.push_str(code.split_once("  # ").map_or(code, |(code, _)| code.trim_end()));
        text.push('\n');
    }
    Ok(text)
}

/// Leaves out docstrings, except one that is all its class or function has.
fn without_docstrings<'a>(mut lines: &[&'a str]) -> Vec<&'a str> {
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let mut kept = Vec::new();
    while let Some(line) = lines.first() {
        let length = docstring(lines);
        let (these, after) = lines.split_at(length.unwrap_or(1));
        let has_more = after.first().is_some_and(|next| indentation(next) >= indentation(line));
        if length.is_none() || !has_more {
            kept.extend_from_slice(these);
        }
        lines = after;
    }
    kept
}

/// Returns how many lines the docstring has that begins here.
fn docstring(lines: &[&str]) -> Option<usize> {
    const QUOTES: &str = "\"\"\"";
    let (first, others) = lines.split_first()?;
    let opened = first.trim_start().strip_prefix(QUOTES)?;
    if opened.ends_with(QUOTES) {
        return Some(1);
    }
    others.iter().position(|line| line.ends_with(QUOTES)).map(|last| last + 2)
}

/// Joins the parts of the sh probe; indentation means nothing to sh, which reads what it is sent byte by byte.
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
