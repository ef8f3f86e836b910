//! A page of metrics that is read over HTTP.

use std::fmt;
use std::num::NonZeroU16;

use gtop_local::text::HTTP;
use gtop_local::time::Timestamp;

#[cfg(feature = "scrape")]
mod fetch;
#[cfg(not(feature = "scrape"))]
mod no_fetch;

/// The port of addresses that name none.
const HTTP_PORT: u16 = 80;

/// The address of a page of metrics: `http://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageUrl {
    host: String,
    port: u16,
    path: String,
}

/// A page that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPage {
    /// The page.
    pub text: String,
    /// When its server sent it, by the server's clock, if it says so.
    pub served_at: Option<Timestamp>,
}

/// Why a text is no address of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageUrlError {
    #[error("it has no host; write http://HOST:PORT/metrics")]
    NoHost,
    #[error("it has a login, which gtop does not send; write http://HOST:PORT/metrics")]
    Login,
    #[error("its port is not a number between 1 and 65535")]
    Port,
    #[error("its path has spaces or letters that are not ASCII")]
    Path,
}

impl PageUrl {
    /// Parses what follows `http://`.
    pub fn parse(rest: &str) -> Result<Self, PageUrlError> {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err(PageUrlError::Login);
        }
        let (host, port) = split_authority(authority).ok_or(PageUrlError::NoHost)?;
        let is_name = !host.is_empty()
            && !host.starts_with('-')
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte));
        if !is_name {
            return Err(PageUrlError::NoHost);
        }
        let port = port.map(str::parse::<NonZeroU16>).transpose();
        let port = port.map_err(|_invalid| PageUrlError::Port)?.map_or(HTTP_PORT, NonZeroU16::get);
        let path = path.split('#').next().unwrap_or_default();
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(PageUrlError::Path);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, path })
    }

    /// Returns the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the path, which begins with `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the host with its port.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", HTTP, self.authority(), self.path)
    }
}

/// Splits a host from its port; `None` for brackets that do not match.
fn split_authority(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((address, Some(port))),
            None => rest.is_empty().then_some((address, None)),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_port_and_path() {
        for (text, shown) in [
            ("gpu01:9100/metrics", "http://gpu01:9100/metrics"),
            ("gpu01", "http://gpu01:80/"),
            ("[::1]:9100/metrics", "http://[::1]:9100/metrics"),
            ("gpu01?a=b#c", "http://gpu01:80/?a=b"),
        ] {
            assert_eq!(PageUrl::parse(text).unwrap().to_string(), shown);
        }
        for (text, error) in [
            ("", PageUrlError::NoHost),
            ("/metrics", PageUrlError::NoHost),
            (":9100/metrics", PageUrlError::NoHost),
            ("[::1/metrics", PageUrlError::NoHost),
            ("::1/metrics", PageUrlError::NoHost),
            ("-x/metrics", PageUrlError::NoHost),
            ("a\r\nb/metrics", PageUrlError::NoHost),
            ("ada:x@gpu01/metrics", PageUrlError::Login),
            ("gpu01:0/metrics", PageUrlError::Port),
            ("gpu01:x/metrics", PageUrlError::Port),
            ("gpu01/a b", PageUrlError::Path),
            ("gpu01/é", PageUrlError::Path),
        ] {
            assert_eq!(PageUrl::parse(text), Err(error), "{text}");
        }
    }
}
