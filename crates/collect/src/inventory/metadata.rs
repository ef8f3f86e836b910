//! A client for the metadata server of a Google Cloud machine: small values over plain HTTP.
//!
//! An answer counts only with the header `Metadata-Flavor: Google`, and all waiting is bounded.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Its address on all Google machines; the name would need DNS.
const DEFAULT_ADDRESS: &str = "169.254.169.254";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit for all requests together.
pub(super) const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum bytes of the response header.
const MAX_HEAD_SIZE: usize = 16 << 10;

/// Maximum bytes of a body: enough for ten thousand workers.
const MAX_BODY_SIZE: usize = 1 << 20;

/// Path of the instance attributes.
const INSTANCE_PATH: &str = "/computeMetadata/v1/instance/";

/// Why the metadata server gives no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// `GCE_METADATA_HOST` is malformed.
    #[error("GCE_METADATA_HOST {0:?} is not HOST or HOST:PORT")]
    BadAddress(String),
    #[error("no metadata server answers at {0} ({1})")]
    Unreachable(String, String),
    #[error("{0} did not answer within {secs} s", secs = METADATA_TIMEOUT.as_secs())]
    TimedOut(String),
    /// The answer lacks `Metadata-Flavor: Google`.
    #[error("{0} is not a metadata server: its answer lacks Metadata-Flavor: Google")]
    NotMetadataServer(String),
    /// The answer is malformed or incomplete.
    #[error("the answer of {0} is not HTTP")]
    NotHttp(String),
    /// The answer exceeds `MAX_BODY_SIZE`.
    #[error("the answer of {0} is longer than 1 MiB")]
    TooLarge(String),
    /// Status 404.
    #[error("the metadata server {0} has no {1}")]
    NotFound(String, &'static str),
    /// Any other status.
    #[error("the metadata server {0} answers {1} when asked for {2}")]
    Status(String, u16, &'static str),
}

/// The metadata server of this machine.
#[derive(Debug, Clone)]
pub(super) struct MetadataServer {
    /// `HOST` or `HOST:PORT`, as in `GCE_METADATA_HOST`.
    pub(super) address: String,
}

impl MetadataServer {
    /// Checks the value of `GCE_METADATA_HOST` or `GCE_METADATA_IP`; `None` is the default address.
    pub(super) fn new(address: Option<&str>) -> Result<Self, MetadataError> {
        let address = address.unwrap_or(DEFAULT_ADDRESS);
        let is_valid = (1..=255).contains(&address.len())
            && address
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter));
        if !is_valid {
            return Err(MetadataError::BadAddress(address.chars().take(60).collect()));
        }
        Ok(Self { address: address.to_owned() })
    }

    /// Returns the value of a path below `instance/`, before the deadline.
    pub(super) async fn get(
        &self,
        path: &'static str,
        deadline: Instant,
    ) -> Result<String, MetadataError> {
        let address = self.address.clone();
        let mut stream = self.connect(deadline).await?;
        let exchange = async {
            let request = format!(
                "GET {INSTANCE_PATH}{path} HTTP/1.1\r\nHost: {address}\r\nMetadata-Flavor: Google\r\n\
                 Accept: */*\r\nConnection: close\r\n\r\n",
            );
            // A server may have answered and closed the connection already.
            stream.write_all(request.as_bytes()).await.ok();
            read_response(&mut stream).await
        };
        match timeout_at(deadline, exchange).await {
            Err(_elapsed) => Err(MetadataError::TimedOut(address)),
            Ok(Err(error)) => Err(error(address)),
            Ok(Ok((200, text))) => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
            Ok(Ok((404, _))) => Err(MetadataError::NotFound(address, last_segment(path))),
            Ok(Ok((status, _))) => Err(MetadataError::Status(address, status, last_segment(path))),
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<TcpStream, MetadataError> {
        let limit = CONNECT_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
        let why = match timeout(limit, TcpStream::connect(self.with_port())).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => reason(&error),
            Err(_elapsed) => format!("nothing within {} s", CONNECT_TIMEOUT.as_secs()),
        };
        Err(MetadataError::Unreachable(self.address.clone(), why))
    }

    /// Returns the address with its port, by default 80.
    fn with_port(&self) -> String {
        if let Ok(address) = self.address.parse::<IpAddr>() {
            return SocketAddr::new(address, 80).to_string();
        }
        let port = self.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_some() { self.address.clone() } else { format!("{}:80", self.address) }
    }
}

/// Makes the error of a server, whose address it names.
type ResponseError = fn(String) -> MetadataError;

/// Reads the status and the body of a response.
async fn read_response(stream: &mut TcpStream) -> Result<(u16, Vec<u8>), ResponseError> {
    const NOT_HTTP: ResponseError = MetadataError::NotHttp;
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MAX_HEAD_SIZE || !read_more(stream, &mut bytes).await {
            return Err(NOT_HTTP);
        }
    };
    let mut text = bytes.split_off(head + 4);
    let head = ResponseHead::parse(&bytes).ok_or(NOT_HTTP)?;
    if !head.is_google {
        return Err(MetadataError::NotMetadataServer);
    }
    if head.length.is_some_and(|length| length > MAX_BODY_SIZE) {
        return Err(MetadataError::TooLarge);
    }
    while head.length.is_none_or(|length| text.len() < length) {
        if text.len() > MAX_BODY_SIZE {
            return Err(MetadataError::TooLarge);
        }
        if !read_more(stream, &mut text).await {
            // Without Content-Length the body ends with the connection.
            if head.length.is_some() {
                return Err(NOT_HTTP);
            }
            break;
        }
    }
    if head.is_chunked {
        text = join_chunks(&text).ok_or(NOT_HTTP)?;
    }
    text.truncate(head.length.unwrap_or(text.len()));
    Ok((head.status, text))
}

/// Status and headers of a response.
#[derive(Debug, Default, PartialEq, Eq)]
struct ResponseHead {
    status: u16,
    length: Option<usize>,
    is_chunked: bool,
    is_google: bool,
}

impl ResponseHead {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
        let mut head = Self { status, ..Self::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.trim().to_ascii_lowercase().as_str() {
                "content-length" => head.length = Some(value.parse().ok()?),
                "transfer-encoding" => head.is_chunked = value.eq_ignore_ascii_case("chunked"),
                "metadata-flavor" => head.is_google = value == "Google",
                _ => {}
            }
        }
        if head.is_chunked {
            head.length = None;
        }
        Some(head)
    }
}

/// Reads more bytes; returns false at the end.
async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    bytes.reserve(4096);
    stream.read_buf(bytes).await.is_ok_and(|count| count > 0)
}

/// Decodes a chunked body.
fn join_chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let (size, rest) = bytes.split_at_checked(end)?;
        let size = std::str::from_utf8(size).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(text);
        }
        let (chunk, rest) = rest.get(2..)?.split_at_checked(size)?;
        text.extend_from_slice(chunk);
        bytes = rest.strip_prefix(b"\r\n")?;
    }
}

/// Returns the last segment of a path.
fn last_segment(path: &'static str) -> &'static str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the operating system's message without the error number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_ascii_lowercase()
}
