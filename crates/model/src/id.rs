//! Identifiers of nodes, sources, processes and jobs.

use std::fmt;
use std::sync::{Arc, LazyLock};

use gtop_local::text;

/// The name of a node as given by the user, or a label and a host if hosts are addresses: `w3 10.130.0.25`.
///
/// Contains only letters, digits, `. _ - : @ + [ ] /` and printable characters beyond ASCII, at most 255 bytes, and does not
/// begin with `-`, so it is safe in a command line, a file and on the screen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// Why a text is not a valid node name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// The name is empty.
    #[error("the host name \"\" is empty; give a host such as gpu01 or ada@gpu01:22")]
    Empty,
    /// The name is too long.
    #[error("the host name {0:?}… is longer than 255 bytes")]
    TooLong(String),
    /// `ssh` would take the name for an option.
    #[error("the host name {0:?} begins with '-'; options go before hosts")]
    Option(String),
    /// The name contains an invalid character.
    #[error(
        "the host name {name:?} contains {letter:?}; a host is letters, digits and . _ - and may be written user@host:port"
    )]
    Letter {
        /// The name.
        name: String,
        /// The first invalid character.
        letter: char,
    },
}

impl NodeName {
    /// Validates a name.
    pub fn new(name: &str) -> Result<Self, NodeNameError> {
        if name.is_empty() {
            return Err(NodeNameError::Empty);
        }
        if name.len() > 255 {
            return Err(NodeNameError::TooLong(name.chars().take(32).collect()));
        }
        if name.starts_with('-') {
            return Err(NodeNameError::Option(name.to_owned()));
        }
        if let Some(letter) = name.chars().find(|letter| !is_name_letter(*letter)) {
            return Err(NodeNameError::Letter { name: name.to_owned(), letter });
        }
        Ok(Self(name.into()))
    }

    /// Makes a name of a label and a host, after validating both.
    pub fn labelled(label: &str, host: &str) -> Result<Self, NodeNameError> {
        let (label, host) = (Self::new(label)?, Self::new(host)?);
        Ok(Self(format!("{label} {host}").into()))
    }

    /// Returns the label, or the whole name if it has none.
    pub fn label(&self) -> &str {
        self.0.split_once(' ').map_or(&self.0, |(label, _)| label)
    }

    /// Returns the label without the name of the user who logs in.
    pub fn without_login(&self) -> &str {
        let label = self.label();
        label.rsplit_once('@').map_or(label, |(_, host)| host)
    }

    /// Returns the host: the name without its label.
    pub fn host(&self) -> &str {
        self.0.split_once(' ').map_or(&self.0, |(_, host)| host)
    }
}

fn is_name_letter(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_alphanumeric() || "._-:@+[]/%".contains(letter);
    }
    is_visible(letter)
}

fn is_visible(letter: char) -> bool {
    !text::is_unprintable(letter) && !letter.is_whitespace()
}

/// A source of values, which has its own freshness: the host, a backend, or a slower group of either.
///
/// `host`, `host.slow`, `nvidia-smi`, `nvidia-smi.processes`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(Arc<str>);

/// Suffix of the source of the slow group of a backend.
const SLOW: &str = ".slow";

/// Suffix of the source of a backend's process list.
const PROCESSES: &str = ".processes";

impl Source {
    /// Makes a source with this name; characters other than `a-z 0-9 . -`, and those after the 40th, are dropped.
    pub fn new(name: &str) -> Self {
        // Fast path: nearly every name is valid.
        if name.len() <= 40 && name.chars().all(is_source_letter) {
            return Self(name.into());
        }
        let letters = name.chars().filter(|letter| is_source_letter(*letter)).take(40);
        Self(letters.collect::<String>().into())
    }

    /// Returns the name of the source as people know it: `the NVIDIA driver`.
    pub fn title(&self) -> String {
        if let Some(backend) = self.0.strip_suffix(PROCESSES) {
            return format!("the process list of {}", Self::new(backend).title());
        }
        match &*self.0 {
            "host" => "/proc of the node",
            "host.slow" => "/sys and the file systems of the node",
            "nvml" | "nvml.slow" => "the NVIDIA driver",
            "amdgpu" | "amdgpu.slow" => "the AMD driver",
            "tpu" => "the TPU runtime",
            other => other.strip_suffix(SLOW).unwrap_or(other),
        }
        .to_owned()
    }

    /// Returns the source of the host's fast group; cached, because it is used many times per second.
    pub fn host() -> Self {
        static HOST: LazyLock<Source> = LazyLock::new(|| Source::new("host"));
        HOST.clone()
    }

    /// Returns the source of the host's slow group.
    pub fn host_slow() -> Self {
        Self::new("host.slow")
    }

    /// Returns the source of the process list of this backend.
    #[must_use]
    pub fn processes(&self) -> Self {
        Self::new(&[&self.0, PROCESSES].concat())
    }

    /// Returns true if this is the source of a process list.
    pub fn is_processes(&self) -> bool {
        self.0.ends_with(PROCESSES)
    }

    /// Returns true if this is the source of the process list of `backend`.
    pub fn is_processes_of(&self, backend: &Self) -> bool {
        self.0.strip_suffix(PROCESSES) == Some(&backend.0)
    }

    /// Returns the source of the slow group of this backend.
    #[must_use]
    pub fn slow(&self) -> Self {
        Self::new(&[&self.0, SLOW].concat())
    }

    /// Returns true if this is the source of a slow group.
    pub fn is_slow(&self) -> bool {
        self.0.ends_with(SLOW)
    }

    /// Returns true if this is the source of the slow group of `backend`.
    pub fn is_slow_of(&self, backend: &Self) -> bool {
        self.0.strip_suffix(SLOW) == Some(&backend.0)
    }
}

fn is_source_letter(letter: char) -> bool {
    matches!(letter, 'a'..='z' | '0'..='9' | '.' | '-')
}

/// Identity of a process on a node: a pid alone may be reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// Process id on the node.
    pub pid: u32,
    /// Start time in clock ticks since the node booted; [`Self::UNKNOWN_START`] if the source does not tell it.
    pub start_ticks: u64,
}

impl ProcessKey {
    /// In place of a start that is not known.
    pub const UNKNOWN_START: u64 = u64::MAX;

    /// Returns the start time in clock ticks since the node booted, if it is known.
    pub fn start(self) -> Option<u64> {
        Some(self.start_ticks).filter(|ticks| *ticks != Self::UNKNOWN_START)
    }
}

/// The id of a job as its scheduler has it: `8421`, `8421[3].server`, `fA2x`, `namespace/pod`.
///
/// Any printable text of at most 64 bytes without blanks at its ends: safe on the screen, and quoted in commands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

/// Maximum length of a job id, in bytes.
const MAX_JOB_ID: usize = 64;

impl JobId {
    /// Makes a job id of a text; `None` if it cannot be one.
    pub fn new(id: &str) -> Option<Self> {
        let has_valid_length = (1..=MAX_JOB_ID).contains(&id.len());
        let is_valid =
            id.trim() == id && id.chars().all(|letter| letter == ' ' || is_visible(letter));
        (has_valid_length && is_valid).then(|| Self(id.into()))
    }
}

/// Declares that identifiers are texts.
macro_rules! texts {
    ($($name:ident)*) => {$(
        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

texts!(NodeName Source JobId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_node_names_are_refused() {
        let aliases = ["rack/gpu01", "rack:gpu01", "gpü", "\u{96fb}\u{8166}"];
        let plain = ["gpu01", "ada@gpu01:2222", "10.0.0.1", "[::1]:22", "n_1.cluster-a"];
        for good in plain.into_iter().chain(aliases) {
            assert_eq!(NodeName::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "-oProxyCommand=x",
            "a b",
            "a;b",
            "$(x)",
            "gpu\n",
            "a\u{202e}b",
            "a\u{3000}b",
            "a'b",
            "a\\b",
        ] {
            assert!(NodeName::new(bad).is_err(), "{bad:?}");
        }
        for (name, host) in
            [("ada@gpu01:22", "gpu01:22"), ("ada@site.org@gpu01", "gpu01"), ("gpu01", "gpu01")]
        {
            assert_eq!(NodeName::new(name).unwrap().without_login(), host);
        }
        assert!(NodeName::new(&"a".repeat(256)).is_err());
    }

    #[test]
    fn a_job_id_is_any_short_text_that_can_be_shown() {
        let longest = "a".repeat(64);
        for good in [
            "8421",
            "12_3",
            "8421[3].server",
            "fA2x",
            "\u{192}A2x",
            "ns/pod",
            "a b",
            "$(x)",
            &longest,
        ] {
            assert_eq!(JobId::new(good).unwrap().as_str(), good);
        }
        let long = "a".repeat(65);
        for bad in ["", " 1", "1 ", "1\n", "a\tb", "a\u{202e}b", "\u{1b}[31m", "a\u{3000}b", &long]
        {
            assert_eq!(JobId::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_label_precedes_the_host() {
        let name = NodeName::labelled("w3", "10.130.0.25").unwrap();
        assert_eq!(
            (name.as_str(), name.label(), name.host()),
            ("w3 10.130.0.25", "w3", "10.130.0.25")
        );
        let name = NodeName::new("gpu01").unwrap();
        assert_eq!((name.label(), name.host()), ("gpu01", "gpu01"));
        assert!(NodeName::labelled("w3", "-x").is_err() && NodeName::labelled("w 3", "x").is_err());
    }

    #[test]
    fn a_source_cannot_carry_control_characters() {
        assert_eq!(Source::new("nv\x1b[31m-smi").as_str(), "nv31m-smi");
        let nvml = Source::new("nvml");
        assert_eq!(nvml.processes().as_str(), "nvml.processes");
        assert!(nvml.processes().is_processes_of(&nvml) && !nvml.is_processes_of(&nvml));
    }
}
