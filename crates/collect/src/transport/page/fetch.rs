//! Reads a page of metrics over HTTP: one request on one connection, with bounds on time and size.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, DATE, HOST, LOCATION, USER_AGENT,
};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::transport::page::{FetchedPage, PageUrl};
use gtop_local::fault::ScrapeFault;
use gtop_local::text::excerpt;
use gtop_local::time::Timestamp;

/// A page that takes longer is given up.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a page: those of exporters have some 100 KiB.
const MAX_PAGE_BYTES: usize = ScrapeFault::MAX_PAGE_MIB << 20;
/// Maximum length of an address to which a page points.
const MAX_LOCATION_LENGTH: usize = 300;
/// Maximum length of the text that a server sends in place of a page.
const MAX_EXPLANATION_LENGTH: usize = 120;
/// Timeout for that text.
const EXPLANATION_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of the name of an encoding.
const MAX_ENCODING_LENGTH: usize = 40;
/// The formats that are read, the first one rather.
const ACCEPTED: &str = "text/plain;version=0.0.4,text/plain;q=0.5,*/*;q=0.1";

/// How a page is sent that is not compressed.
const PLAIN: &str = "identity";

impl PageUrl {
    /// Reads the page, and when its server sent it, by the clock of the server; `limit` is the time for all of it, if the user has set one.
    pub async fn fetch(&self, limit: Option<Duration>) -> Result<FetchedPage, ScrapeFault> {
        let limit = limit.unwrap_or(DEFAULT_TIMEOUT);
        let is_answered = AtomicBool::new(false);
        let fetched = timeout(limit, Box::pin(self.fetch_all(&is_answered))).await;
        fetched.map_err(|_elapsed| {
            if is_answered.load(Ordering::Relaxed) {
                ScrapeFault::Late { after: limit }
            } else {
                ScrapeFault::TimedOut { after: limit }
            }
        })?
    }

    /// Reads the page; sets `is_answered` once its server has begun to send it.
    async fn fetch_all(&self, is_answered: &AtomicBool) -> Result<FetchedPage, ScrapeFault> {
        let stream = self.connect().await?;
        let (mut sender, connection) = http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| lost(&error))?;
        let mut exchange = pin!(async {
            let response =
                sender.send_request(self.request()?).await.map_err(|error| lost(&error))?;
            is_answered.store(true, Ordering::Relaxed);
            read_body(response).await
        });
        // The connection does the work of the exchange. When it has ended, what it read is still there, or why it failed.
        tokio::select! {
            page = &mut exchange => page,
            _ended = connection => exchange.await,
        }
    }

    async fn connect(&self) -> Result<TcpStream, ScrapeFault> {
        let addresses = tokio::net::lookup_host((&*self.host, self.port)).await;
        let addresses: Vec<_> = addresses.map_err(|_unknown| ScrapeFault::NameNotFound)?.collect();
        if addresses.is_empty() {
            return Err(ScrapeFault::NameNotFound);
        }
        TcpStream::connect(&*addresses).await.map_err(|error| {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                ScrapeFault::Refused { port: self.port }
            } else {
                ScrapeFault::Lost { why: error.to_string() }
            }
        })
    }

    fn request(&self) -> Result<Request<Empty<Bytes>>, ScrapeFault> {
        let request = Request::get(encoded(&self.path))
            .header(HOST, self.authority())
            .header(USER_AGENT, concat!("gtop/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, ACCEPTED)
            .header(ACCEPT_ENCODING, PLAIN)
            .body(Empty::new());
        request.map_err(|error| ScrapeFault::Lost { why: error.to_string() })
    }
}

/// Reads the body of a page. A redirection is not followed: it may lead anywhere.
async fn read_body(response: Response<Incoming>) -> Result<FetchedPage, ScrapeFault> {
    let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
    let served_at = date.and_then(Timestamp::from_http_date);
    let status = response.status();
    if status != StatusCode::OK {
        let location = response.headers().get(LOCATION).filter(|_| status.is_redirection());
        let location = location
            .map(|text| excerpt(&String::from_utf8_lossy(text.as_bytes()), MAX_LOCATION_LENGTH));
        let status = status.as_u16();
        return Err(ScrapeFault::Status { status, location, says: explanation(response).await });
    }
    if let Some(encoding) = response.headers().get(CONTENT_ENCODING).filter(|how| *how != PLAIN) {
        let encoding = excerpt(&String::from_utf8_lossy(encoding.as_bytes()), MAX_ENCODING_LENGTH);
        return Err(ScrapeFault::Compressed { encoding });
    }
    let body = Limited::new(response.into_body(), MAX_PAGE_BYTES);
    let collected = body.collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { ScrapeFault::TooLarge } else { ScrapeFault::BrokenOff }
    })?;
    let text = String::from_utf8(collected.to_bytes().into());
    Ok(FetchedPage { text: text.map_err(|_invalid| ScrapeFault::NotText)?, served_at })
}

/// Returns the first line of a plain text that came in place of a page.
async fn explanation(response: Response<Incoming>) -> String {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/plain")) {
        return String::new();
    }
    let first = timeout(EXPLANATION_TIMEOUT, response.into_body().frame()).await;
    let data = first.ok().flatten().and_then(Result::ok).and_then(|frame| frame.into_data().ok());
    let text = String::from_utf8_lossy(data.as_deref().unwrap_or_default()).into_owned();
    excerpt(text.trim().lines().next().unwrap_or_default(), MAX_EXPLANATION_LENGTH)
}

/// Returns the fault of an exchange in which no answer came.
fn lost(error: &hyper::Error) -> ScrapeFault {
    if error.is_parse() { ScrapeFault::NotHttp } else { ScrapeFault::Closed }
}

/// Returns a path with what HTTP does not take as it stands in the form that it does.
fn encoded(path: &str) -> String {
    let encoded = path.chars().map(|letter| match letter {
        '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => {
            format!("%{:02X}", u32::from(letter))
        }
        letter => letter.to_string(),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Serves one answer, and returns what a scrape of it gives.
    async fn scrape(answer: Vec<u8>, closes: bool) -> Result<String, ScrapeFault> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(&answer).await.ok();
            if !closes {
                std::future::pending::<()>().await;
            }
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let query = r#"x[]={a="b^c|d"}&y=1,2!"#;
        let url = PageUrl::parse(&format!("127.0.0.1:{port}/metrics?{query}")).unwrap();
        let page = url.fetch(Some(Duration::from_secs(if closes { 60 } else { 1 }))).await;
        let page = page.map(|page| page.text);
        if closes {
            let request = serving.await.unwrap();
            let sent = "GET /metrics?x[]=%7Ba=%22b%5Ec%7Cd%22%7D&y=1,2! HTTP/1.1\r\n";
            assert!(request.starts_with(sent), "{request}");
            assert!(request.to_lowercase().contains(&format!("host: 127.0.0.1:{port}\r\n")));
        }
        page
    }

    #[tokio::test]
    async fn a_page_is_read_whole_and_anything_else_is_a_fault() {
        let answer = |head: &str, body: &[u8]| [head.as_bytes(), b"\r\n\r\n", body].concat();
        let ok = "HTTP/1.0 200 OK";
        assert_eq!(scrape(answer(ok, b"a 1\n"), true).await.as_deref(), Ok("a 1\n"));
        let moved = "HTTP/1.1 302 Found\r\nLocation: http://else\u{1b}where/\r\nContent-Length: 0";
        let moved = scrape(answer(moved, b""), true).await;
        assert!(matches!(moved, Err(ScrapeFault::NotHttp)), "{moved:?}");
        let moved = "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0";
        let location = Some("http://elsewhere/".to_owned());
        assert_eq!(
            scrape(answer(moved, b""), true).await,
            Err(ScrapeFault::Status { status: 302, location, says: String::new() })
        );
        let missing =
            scrape(answer("HTTP/1.1 404 Not Found\r\nContent-Length: 0", b""), true).await;
        let says = String::new();
        assert_eq!(missing, Err(ScrapeFault::Status { status: 404, location: None, says }));
        let refused = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8";
        let refused = scrape(answer(refused, b"no such \x1b[2Jcollector\nmore"), true).await;
        let says = "no such  [2Jcollector".to_owned();
        assert_eq!(refused, Err(ScrapeFault::Status { status: 400, location: None, says }));
        assert_eq!(scrape(answer(ok, b"\xff\xfe"), true).await, Err(ScrapeFault::NotText));
        let large = vec![b'a'; MAX_PAGE_BYTES + 1];
        assert_eq!(scrape(answer(ok, &large), true).await, Err(ScrapeFault::TooLarge));
        let cut = scrape(answer("HTTP/1.1 200 OK\r\nContent-Length: 9", b"a"), true).await;
        assert_eq!(cut, Err(ScrapeFault::BrokenOff));
        let packed =
            scrape(answer("HTTP/1.0 200 OK\r\nContent-Encoding: gzip", b"a 1\n"), true).await;
        assert_eq!(packed, Err(ScrapeFault::Compressed { encoding: "gzip".to_owned() }));
        let plain = answer("HTTP/1.0 200 OK\r\nContent-Encoding: identity", b"a 1\n");
        assert_eq!(scrape(plain, true).await.as_deref(), Ok("a 1\n"));
        assert_eq!(scrape(Vec::new(), true).await, Err(ScrapeFault::Closed));
        let ssh = scrape(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), true).await;
        assert_eq!(ssh, Err(ScrapeFault::NotHttp));
        let silent = scrape(Vec::new(), false).await;
        let after = Duration::from_secs(1);
        assert_eq!(silent, Err(ScrapeFault::TimedOut { after }));
        let begun = scrape(answer(ok, b"a 1\n"), false).await;
        assert_eq!(begun, Err(ScrapeFault::Late { after }));
    }

    #[tokio::test]
    async fn a_port_without_a_server_is_a_fault() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = PageUrl::parse(&format!("127.0.0.1:{port}/metrics")).unwrap();
        assert_eq!(url.fetch(None).await, Err(ScrapeFault::Refused { port }));
    }
}
