//! The metadata server of a Google machine: a few small texts over plain HTTP, on the machine itself.
//!
//! Whatever answers there is believed only when it says that it is one, and never waited for long.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

/// Where it is on every Google machine; the name would need a name service.
const DEFAULT_ADDRESS: &str = "169.254.169.254";

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long everything may take.
pub(super) const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes before the text.
const MAX_HEAD_SIZE: usize = 16 << 10;

/// Most bytes of a text: ten thousand workers fit in.
const MAX_BODY_SIZE: usize = 1 << 20;

/// Where instance attributes stand.
const INSTANCE_PATH: &str = "/computeMetadata/v1/instance/";

/// Why the metadata server says nothing of use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Its address is none.
    #[error("GCE_METADATA_HOST {0:?} is no host and port")]
    BadAddress(String),
    /// It cannot be reached.
    #[error("no metadata server answers at {0} ({1})")]
    Unreachable(String, String),
    /// It takes too long.
    #[error("{0} did not answer within {secs} s", secs = METADATA_TIMEOUT.as_secs())]
    TimedOut(String),
    /// Something else answers there.
    #[error("what answers at {0} is no metadata server: its answer lacks Metadata-Flavor: Google")]
    NotMetadataServer(String),
    /// What answers does not speak HTTP, or stops in the middle.
    #[error("the answer of {0} is no HTTP answer")]
    NotHttp(String),
    /// The answer is larger than any list of workers.
    #[error("the answer of {0} is longer than 1 MiB")]
    TooLarge(String),
    /// It does not know the value.
    #[error("the metadata server {0} knows no {1}")]
    NotFound(String, &'static str),
    /// It refuses.
    #[error("the metadata server {0} answers {1} when asked for {2}")]
    Status(String, u16, &'static str),
}

/// The metadata server of this machine.
#[derive(Debug, Clone)]
pub(super) struct MetadataServer {
    /// As in `GCE_METADATA_HOST`: a host, maybe with a port.
    address: String,
}

impl MetadataServer {
    /// Takes what `GCE_METADATA_HOST` or `GCE_METADATA_IP` says, or the usual address.
    pub(super) fn new(address: Option<&str>) -> Result<Self, MetadataError> {
        let address = address.unwrap_or(DEFAULT_ADDRESS);
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter);
        if address.is_empty() || address.len() > 255 || !address.chars().all(allowed) {
            return Err(MetadataError::BadAddress(address.chars().take(60).collect()));
        }
        Ok(Self { address: address.to_owned() })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns a text below `instance/`, or why not, at this moment at the latest.
    pub(super) async fn get(
        &self,
        what: &'static str,
        latest: Instant,
    ) -> Result<String, MetadataError> {
        let address = || self.address.clone();
        let mut stream = self.connect(latest).await?;
        let asking = async {
            let request = format!(
                "GET {INSTANCE_PATH}{what} HTTP/1.1\r\nHost: {address}\r\nMetadata-Flavor: Google\r\n\
                 Accept: */*\r\nConnection: close\r\n\r\n",
                address = self.address
            );
            // A server that refuses may have answered and closed already.
            stream.write_all(request.as_bytes()).await.ok();
            self.read_response(&mut stream).await
        };
        let answered = timeout_at(latest, asking).await;
        let Response { status, text } =
            answered.map_err(|_elapsed| MetadataError::TimedOut(self.address.clone()))??;
        match status {
            200 => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
            404 => Err(MetadataError::NotFound(address(), last_segment(what))),
            status => Err(MetadataError::Status(address(), status, last_segment(what))),
        }
    }

    async fn connect(&self, latest: Instant) -> Result<TcpStream, MetadataError> {
        let failed = |why: String| MetadataError::Unreachable(self.address.clone(), why);
        let late = || failed(format!("nothing within {} s", CONNECT_TIMEOUT.as_secs()));
        let connecting = async {
            let addresses = self.addresses().await.map_err(|error| failed(reason(&error)))?;
            let mut last = failed("the name has no address".to_owned());
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = failed(reason(&error)),
                }
            }
            Err(last)
        };
        let limit = CONNECT_TIMEOUT.min(latest.saturating_duration_since(Instant::now()));
        timeout(limit, connecting).await.map_err(|_elapsed| late())?
    }

    async fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.address.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, 80)]);
        }
        if let Ok(address) = self.address.parse::<SocketAddr>() {
            return Ok(vec![address]);
        }
        let has_port =
            self.address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { self.address.clone() } else { format!("{}:80", self.address) };
        Ok(lookup_host(address).await?.collect())
    }

    async fn read_response(&self, stream: &mut TcpStream) -> Result<Response, MetadataError> {
        let no_http = || MetadataError::NotHttp(self.address.clone());
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if bytes.len() > MAX_HEAD_SIZE || !read_more(stream, &mut bytes).await {
                return Err(no_http());
            }
        };
        let mut text = bytes.split_off(head + 4);
        let head = ResponseHead::parse(&bytes).ok_or_else(no_http)?;
        if !head.is_google {
            return Err(MetadataError::NotMetadataServer(self.address.clone()));
        }
        let too_long = || MetadataError::TooLarge(self.address.clone());
        if head.length.is_some_and(|length| length > MAX_BODY_SIZE) {
            return Err(too_long());
        }
        while head.length.is_none_or(|length| text.len() < length) {
            if text.len() > MAX_BODY_SIZE {
                return Err(too_long());
            }
            if !read_more(stream, &mut text).await {
                // Without a length the end of the connection is the end of the text.
                if head.length.is_some() {
                    return Err(no_http());
                }
                break;
            }
        }
        if head.is_chunked {
            text = join_chunks(&text).ok_or_else(no_http)?;
        }
        text.truncate(head.length.unwrap_or(text.len()));
        Ok(Response { status: head.status, text })
    }
}

struct Response {
    status: u16,
    text: Vec<u8>,
}

/// What stands before the text of an answer.
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

/// Reads a piece; nothing more is the end.
async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    bytes.reserve(4096);
    stream.read_buf(bytes).await.is_ok_and(|count| count > 0)
}

/// Joins the chunks of a text.
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

/// Returns the last part of a path.
fn last_segment(what: &'static str) -> &'static str {
    what.rsplit('/').next().unwrap_or(what)
}

/// Returns what the operating system says, without Rust's error number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_ascii_lowercase()
}
