//! Joins the parts of `python/` into the one file that `gtop python` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Error, Result};

/// The parts; each uses only those before it. The first one has the docstring.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "header.py", "values.py", "server.py", "stream.py", "machine.py", "host.py", "process.py", "device.py",
    "collector.py", "callbacks.py", "training.py",
];

/// Imported modules, and the names imported from modules.
#[derive(Default)]
struct Imports {
    modules: BTreeSet<String>,
    names: BTreeMap<String, BTreeSet<String>>,
}

/// Returns the joined file: imports of the parts from each other are left out, all others come first, once.
pub(crate) fn join(version: &str) -> Result<String> {
    let mut imports = Imports::default();
    let mut parts = Vec::new();
    for name in PARTS {
        let path = format!("python/{name}");
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::new(error.kind(), format!("{path}: {error}")))?;
        parts.push(imports.take_from(&text));
    }
    let mut parts = parts.iter();
    let header = parts.next().map_or("", String::as_str);
    let mut joined = format!("{}\n", header.trim_end().replace("@VERSION@", version));
    // The imports stand after the docstring.
    let end = joined.find("\n\n__version__").unwrap_or(joined.len());
    joined.insert_str(end, &format!("\n\n{}", imports.text().trim_end()));
    for part in parts {
        let (title, code) = part.split_once('\n').unwrap_or((part, ""));
        // Writing to a String cannot fail.
        let title = title.trim_matches('"');
        let _ = write!(joined, "\n\n# {}\n# {title}\n\n{}\n", "-".repeat(118), code.trim());
    }
    Ok(joined)
}

impl Imports {
    /// Returns the text without the import statements after its docstring, and keeps those.
    fn take_from(&mut self, text: &str) -> String {
        let mut rest = String::new();
        let mut lines = text.lines();
        let mut is_code = false;
        while let Some(line) = lines.next() {
            let is_import = line.starts_with("import ") || line.starts_with("from ");
            if is_code || !is_import {
                is_code |= !line.is_empty() && !rest.is_empty();
                rest.push_str(line);
                rest.push('\n');
                continue;
            }
            let mut statement = line.to_owned();
            while statement.contains('(') && !statement.contains(')') {
                let Some(next) = lines.next() else { break };
                statement.push(' ');
                statement.push_str(next.trim());
            }
            self.add(&statement);
        }
        rest
    }

    fn add(&mut self, statement: &str) {
        if let Some(module) = statement.strip_prefix("import ") {
            self.modules.insert(module.to_owned());
        } else if let Some((module, names)) =
            statement.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
            && !module.starts_with('.')
        {
            let names =
                names.trim_matches(['(', ')']).split(',').map(|name| name.trim().to_owned());
            self.names.entry(module.to_owned()).or_default().extend(names);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for module in &self.modules {
            let _ = writeln!(text, "import {module}");
        }
        for (module, names) in &self.names {
            let _ = write!(text, "from {module} import (");
            let mut width = usize::MAX;
            for name in names {
                if width > 110 - name.len() {
                    text.push_str("\n   ");
                    width = 0;
                }
                let _ = write!(text, " {name},");
                width += name.len() + 2;
            }
            text.push_str("\n)\n");
        }
        text
    }
}
