//! What starts a probe on a node, as text and as JSON.

use std::io::{self, Write};

use serde_json::json;

use super::{Script, hex_sha256};
use gtop_model::Privilege;

/// Stands for the random word of a session.
pub const NONCE: &str = "NONCE";

/// What starts a probe on a node.
#[derive(Debug)]
pub struct Listing {
    pub node: String,
    /// What the line is given to.
    pub carrier: &'static str,
    pub privilege: Privilege,
    /// What the transport is given.
    pub line: String,
    /// The line of data after the script.
    pub settings: String,
}

impl Listing {
    const fn privilege_text(&self) -> &'static str {
        match self.privilege {
            Privilege::Login => "the user who logs in",
            Privilege::Root { allows_signals: false } => "root by sudo, reading only",
            Privilege::Root { allows_signals: true } => "root by sudo, and may send signals",
        }
    }

    /// Returns the scripts that may follow the line.
    const fn scripts(&self) -> &'static [Script] {
        match self.privilege {
            Privilege::Login => &Script::ALL,
            Privilege::Root { .. } => &[Script::Python],
        }
    }

    /// Writes it for people.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { node, line, settings, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        writeln!(out, "What gtop {version} runs on {node}, as {}", self.privilege_text())?;
        writeln!(out, "\n1. A line, {} bytes, for {}.", line.len(), self.carrier)?;
        writeln!(out, "   {NONCE} stands for 32 random digits of each session.\n\n{line}")?;
        writeln!(
            out,
            "\n2. One script, once the line has found what runs it. Each is the same for every node of this"
        )?;
        writeln!(
            out,
            "   version. In Python it is sent compressed: gtop probe --script writes what is sent, and"
        )?;
        writeln!(out, "   gtop probe --readable the same as text.\n")?;
        for script in self.scripts() {
            let readable = script.readable();
            let about = about(*script);
            writeln!(out, "   {:<7} {about}", script.name())?;
            writeln!(out, "     sent  {:>7} bytes  sha256 {}", script.size(), script.sha256())?;
            let hash = hex_sha256(&[readable.as_bytes()]);
            writeln!(out, "     text  {:>7} bytes  sha256 {hash}", readable.len())?;
        }
        writeln!(
            out,
            "\n3. A line of data: node, seconds between samples, seconds until it ends without a sign of"
        )?;
        writeln!(
            out,
            "   gtop, longest piece of a frame (0: whole), why sudo refused.\n\n{settings}"
        )
    }

    /// Returns it for programs.
    pub fn json(&self) -> String {
        let scripts = self.scripts().iter().map(|script| {
            let readable = script.readable();
            json!({
                "name": script.name(),
                "bytes": script.size(),
                "sha256": script.sha256(),
                "readable_bytes": readable.len(),
                "readable_sha256": hex_sha256(&[readable.as_bytes()]),
            })
        });
        let scripts: Vec<_> = scripts.collect();
        let (is_root, allows_signals) = match self.privilege {
            Privilege::Login => (false, false),
            Privilege::Root { allows_signals } => (true, allows_signals),
        };
        let listing = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "node": self.node,
            "carrier": self.carrier,
            "root": is_root,
            "allow_signals": allows_signals,
            "line": self.line,
            "line_bytes": self.line.len(),
            "scripts": scripts,
            "settings": self.settings,
        });
        format!("{listing:#}\n")
    }
}

const fn about(script: Script) -> &'static str {
    match script {
        Script::Python => "the probe, with Python 3.6 or newer",
        Script::Shell => "the probe, where there is no such Python",
        Script::Runs => "the script of gtop runs",
    }
}
