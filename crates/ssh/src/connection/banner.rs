//! The version line of an SSH server, found among other lines before it, with the limits of OpenSSH.

use gtop_local::fault::ssh::Fault;
use gtop_local::text;

/// Most lines before the version line, as in OpenSSH (`SSH_MAX_PRE_BANNER_LINES`).
const MAX_LINES: usize = 1024;

/// Most bytes of a line, as in OpenSSH (`SSH_MAX_BANNER_LEN`).
const MAX_LINE_BYTES: usize = 8192;

/// The first bytes of a version line.
const PREFIX: &[u8] = b"SSH-";

/// Why a server has no version line that gtop can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BannerError {
    /// There are too many other lines.
    TooManyLines,
    LineTooLong,
    InvalidCharacter,
    /// The version line has no version.
    NoVersion(String),
    /// The server speaks another version of the protocol.
    OtherProtocol(String),
}

impl BannerError {
    pub(crate) fn fault(self, port: u16) -> Fault {
        let why = match self {
            Self::OtherProtocol(version) => return Fault::OtherProtocol { version },
            Self::TooManyLines => format!("no SSH version in its first {MAX_LINES} lines"),
            Self::LineTooLong => format!("it sends a line of more than {MAX_LINE_BYTES} bytes"),
            Self::InvalidCharacter => "invalid characters before its SSH version".to_owned(),
            Self::NoVersion(line) => format!("no protocol version in {line}"),
        };
        Fault::NoBanner { port, why, is_closed: false }
    }
}

/// Searches the first bytes of a connection for the version line.
#[derive(Debug, Default)]
pub(crate) struct BannerScan {
    line: Vec<u8>,
    /// The version line, or the first one before it.
    first_line: Option<Vec<u8>>,
    /// The other lines before.
    line_count: usize,
    is_found: bool,
}

impl BannerScan {
    pub(crate) const fn is_found(&self) -> bool {
        self.is_found
    }

    /// Returns the version line or, without one, the first line that was received.
    pub(crate) fn first_line(&self) -> &[u8] {
        self.first_line.as_ref().unwrap_or(&self.line)
    }

    /// Takes received bytes. Returns what SSH is to read once the version line is complete: that line and what follows.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, BannerError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (part, following) = rest.split_at(end + 1);
            self.extend_line(part.strip_suffix(b"\n").unwrap_or(part))?;
            rest = following;
            let line = std::mem::take(&mut self.line);
            if line.starts_with(PREFIX) {
                let read = [&line, &b"\n"[..], rest].concat();
                let checked = check_version(&line);
                self.first_line = Some(line);
                checked?;
                self.is_found = true;
                return Ok(Some(read));
            }
            self.first_line.get_or_insert(line);
            self.line_count += 1;
            if self.line_count >= MAX_LINES {
                return Err(BannerError::TooManyLines);
            }
        }
        self.extend_line(rest)?;
        Ok(None)
    }

    fn extend_line(&mut self, part: &[u8]) -> Result<(), BannerError> {
        let room = (MAX_LINE_BYTES + 2).saturating_sub(self.line.len());
        self.line.extend(part.iter().take(room));
        let text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if text.contains(&b'\0') || text.contains(&b'\r') {
            return Err(BannerError::InvalidCharacter);
        }
        if text.len() > MAX_LINE_BYTES { Err(BannerError::LineTooLong) } else { Ok(()) }
    }
}

/// Checks that a version line is of protocol 2, or of 1.99, which is both.
fn check_version(line: &[u8]) -> Result<(), BannerError> {
    let line = text::excerpt_line(String::from_utf8_lossy(line).trim_end());
    let version = line.strip_prefix("SSH-").and_then(|rest| rest.split_once('-'));
    let version = version.map_or("", |(version, _software)| version);
    let numbers = version.split_once('.').map(|(major, minor)| (major.parse(), minor.parse()));
    match numbers {
        Some((Ok(2_u32), Ok(_)) | (Ok(1), Ok(99_u32))) => Ok(()),
        Some((Ok(_), Ok(_))) => Err(BannerError::OtherProtocol(version.to_owned())),
        _ => Err(BannerError::NoVersion(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes the text whole and byte by byte; returns what is read, or why not.
    fn scan(text: &str) -> Result<Option<String>, BannerError> {
        let whole = BannerScan::default().push(text.as_bytes());
        let mut scan = BannerScan::default();
        let mut in_pieces = Ok(None);
        for byte in text.bytes() {
            match &mut in_pieces {
                Ok(None) => in_pieces = scan.push(&[byte]),
                Ok(Some(read)) => read.push(byte),
                Err(_) => break,
            }
        }
        assert_eq!(whole, in_pieces, "{text:?}");
        Ok(whole?.map(|read| String::from_utf8(read).unwrap()))
    }

    #[test]
    fn the_version_line_is_found_after_other_lines() {
        let version = "SSH-2.0-OpenSSH_9.2\r\nbinary";
        let long = format!("{}\r\n", "x".repeat(MAX_LINE_BYTES));
        for before in ["", "be nice\r\n", "\n\r\n SSH-2.0-x\n", &long, &"a\n".repeat(MAX_LINES - 1)]
        {
            assert_eq!(scan(&format!("{before}{version}")), Ok(Some(version.to_owned())));
        }
        for text in ["", "SSH-2.0-x", "HTTP/1.1 400 SSH-\r\n", "SSSH-2.0-x\n"] {
            assert_eq!(scan(text), Ok(None), "{text:?}");
        }
        for line in ["SSH-1.99-Cisco-1.25\n", "SSH-2.0-\n"] {
            assert_eq!(scan(line), Ok(Some(line.to_owned())));
        }
    }

    #[test]
    fn what_ssh_refuses_is_refused() {
        let other = |version: &str| Err(BannerError::OtherProtocol(version.to_owned()));
        assert_eq!(scan("SSH-1.5-OpenSSH_3.9\n"), other("1.5"));
        assert_eq!(scan("hello\nSSH-9.9-x\n"), other("9.9"));
        let no_version = |line: &str| Err(BannerError::NoVersion(line.to_owned()));
        assert_eq!(scan("SSH-two\n"), no_version("SSH-two"));
        assert_eq!(scan("SSH-2-x\n"), no_version("SSH-2-x"));
        assert_eq!(scan(&"a\n".repeat(MAX_LINES)), Err(BannerError::TooManyLines));
        assert_eq!(scan(&"x".repeat(MAX_LINE_BYTES + 1)), Err(BannerError::LineTooLong));
        for text in ["a\0b\n", "a\rb\n"] {
            assert_eq!(scan(text), Err(BannerError::InvalidCharacter), "{text:?}");
        }
    }
}
