//! Why a page of metrics is not read.

use std::time::Duration;

/// Why a page of metrics is not read.
///
/// The text does not name the host, so that equal faults of many nodes group into one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeFault {
    /// No address for the name.
    #[error("no address is known for the host's name")]
    NameNotFound,
    /// Nothing listens on the port.
    #[error("connection refused, port {port}")]
    Refused {
        /// The port.
        port: u16,
    },
    /// The page was not there in time.
    #[error("not there within {} s", after.as_secs_f32())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// The connection could not be made, or broke off.
    #[error("connection lost: {why}")]
    Lost {
        /// The error of the system or of the protocol.
        why: String,
    },
    /// The connection was made, and ended before anything came.
    #[error("closed without an answer")]
    Closed,
    /// The answer began, and was not whole in time.
    #[error("not whole within {} s", after.as_secs_f32())]
    Late {
        /// The limit.
        after: Duration,
    },
    /// The connection ended before the page did.
    #[error("the page breaks off")]
    BrokenOff,
    /// Another protocol is spoken there.
    #[error("the answer is not HTTP")]
    NotHttp,
    /// The status is not 200.
    #[error("HTTP status {status}{}{}", pointing(.location.as_deref()), saying(.says))]
    Status {
        /// The status.
        status: u16,
        /// Where a redirection leads, which is not followed.
        location: Option<String>,
        /// The first line of a plain text that came with it; empty without one.
        says: String,
    },
    /// The page is larger than gtop reads.
    #[error("larger than {} MiB", Self::MAX_PAGE_MIB)]
    TooLarge,
    /// It is compressed, which was not asked for.
    #[error("compressed: {encoding}")]
    Compressed {
        /// How.
        encoding: String,
    },
    /// It is not UTF-8.
    #[error("not a text")]
    NotText,
    /// No family of metrics on it is known.
    #[error("none of the families looked for: {families}")]
    OtherFamilies {
        /// Those that were looked for.
        families: String,
    },
    /// Something else than reading values was asked for.
    #[error("a page of metrics is read, so nothing can be run there")]
    OnlyPage,
}

impl ScrapeFault {
    /// Maximum size of a page, in MiB.
    pub const MAX_PAGE_MIB: usize = 8;

    /// Returns true if something answers at the address.
    pub const fn is_answer(&self) -> bool {
        !matches!(
            self,
            Self::NameNotFound
                | Self::Refused { .. }
                | Self::TimedOut { .. }
                | Self::Lost { .. }
                | Self::Closed
        )
    }
}

fn saying(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn pointing(location: Option<&str>) -> String {
    location.map(|location| format!(", which points to {location}")).unwrap_or_default()
}
