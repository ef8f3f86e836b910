//! What a request is answered.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use crate::export::{ExpositionOptions, exposition, write_json};
use crate::serve::access::{OwnNames, Token};
use crate::serve::{Peer, ServedContent};

/// How long an answer is kept for others who ask the same: a flood of requests must not cost more than this.
const KEPT_FOR: Duration = Duration::from_millis(500);

const PATHS: &str = "gtop serves /metrics, /api/v1/snapshot and /healthz\n";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers requests.
pub(super) struct Responder {
    content: ServedContent,
    token: Token,
    hosts: OwnNames,
    rendered: Mutex<Vec<Rendered>>,
}

/// What is rendered from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedPicture {
    Metrics(ExpositionOptions),
    Snapshot,
}

/// An answer that may be given again.
struct Rendered {
    picture: ServedPicture,
    at: Instant,
    body: Bytes,
}

type HttpResponse = Response<Full<Bytes>>;

impl Responder {
    pub(super) fn new(content: ServedContent, token: Token, hosts: OwnNames) -> Self {
        Self { content, token, hosts, rendered: Mutex::default() }
    }

    /// Answers a request, whose body is not read.
    pub(super) fn respond<B>(&self, peer: Peer, request: &Request<B>) -> HttpResponse {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD work\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let headers = request.headers();
        if peer != Peer::Owner {
            let mut named = headers.get_all(HOST).iter().filter_map(|value| value.to_str().ok());
            let header = named.next().filter(|host| !host.is_empty() && named.next().is_none());
            // The name in the address of the target counts more than the header.
            let Some(host) = request.uri().authority().map(Authority::as_str).or(header) else {
                return text(StatusCode::BAD_REQUEST, "one header Host is needed\n");
            };
            if !self.hosts.has(host) {
                let message = "this name of the machine is not known here; --allow-host adds it\n";
                return text(StatusCode::MISDIRECTED_REQUEST, message);
            }
        }
        let mut given = headers.get_all(AUTHORIZATION).iter().peekable();
        let given = given
            .peek()
            .is_some()
            .then(|| given.all(|value| self.token.is_given_by(value.as_bytes())));
        let is_trusted = peer == Peer::Owner || given == Some(true);
        let path = request.uri().path();
        let is_refused = given == Some(false) && peer != Peer::Owner;
        let is_open = path == "/healthz" || (peer == Peer::Loopback && path != "/api/v1/snapshot");
        if is_refused || !(is_trusted || is_open) {
            let mut response = text(StatusCode::UNAUTHORIZED, "the token is needed\n");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        match path {
            "/metrics" => self.metrics(headers, is_trusted),
            "/api/v1/snapshot" => {
                self.picture(ServedPicture::Snapshot, "application/json; charset=utf-8")
            }
            // An error means that nothing publishes snapshots any more.
            "/healthz" if self.content.fleet.has_changed().is_err() => {
                text(StatusCode::SERVICE_UNAVAILABLE, "gtop collects no more\n")
            }
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/" => text(StatusCode::OK, PATHS),
            _ => text(StatusCode::NOT_FOUND, PATHS),
        }
    }

    fn metrics(&self, headers: &HeaderMap, has_names: bool) -> HttpResponse {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let options = ExpositionOptions {
            is_open_metrics: prefers_open_metrics(accepted),
            has_names,
            has_processes: has_names && self.content.has_processes,
            compat: self.content.compat,
        };
        self.picture(ServedPicture::Metrics(options), options.media_type())
    }

    fn picture(&self, picture: ServedPicture, media_type: &'static str) -> HttpResponse {
        answer(StatusCode::OK, media_type, self.body(picture))
    }

    /// Returns what is rendered from the latest snapshot, or was a moment ago.
    fn body(&self, picture: ServedPicture) -> Bytes {
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.retain(|known| known.at.elapsed() < KEPT_FOR);
        if let Some(known) = rendered.iter().find(|known| known.picture == picture) {
            return known.body.clone();
        }
        let body = Bytes::from(self.render(picture));
        rendered.push(Rendered { picture, at: Instant::now(), body: body.clone() });
        body
    }

    fn render(&self, picture: ServedPicture) -> Vec<u8> {
        let ServedContent { fleet, clock, title, .. } = &self.content;
        let (fleet, now) = (fleet.borrow().clone(), clock.now());
        match picture {
            ServedPicture::Metrics(options) => exposition(&fleet, now, options),
            ServedPicture::Snapshot => {
                let mut text = Vec::new();
                // Writing to memory cannot fail.
                write_json(&mut text, &fleet, now, title).ok();
                text
            }
        }
    }
}

/// Returns true if `OpenMetrics` is asked for at least as much as the text of Prometheus.
fn prefers_open_metrics<'a>(accepted: impl Iterator<Item = &'a str>) -> bool {
    let (mut open_metrics, mut text) = (0.0_f32, 0.0_f32);
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
            open_metrics = open_metrics.max(weight);
        } else if media_type.eq_ignore_ascii_case("text/plain") {
            text = text.max(weight);
        }
    }
    open_metrics > 0.0 && open_metrics >= text
}

fn text(status: StatusCode, body: &'static str) -> HttpResponse {
    answer(status, PLAIN, Bytes::from_static(body.as_bytes()))
}

fn answer(status: StatusCode, media_type: &'static str, body: Bytes) -> HttpResponse {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_must_be_asked_for() {
        for (accepted, is_open_metrics) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            (
                "application/openmetrics-text; version=1.0.0; q=0.5,text/plain;version=0.0.4;q=0.3",
                true,
            ),
            ("application/openmetrics-text;version=1.0.0;q=0.2, text/plain;q=0.9", false),
            ("application/openmetrics-text;q=0", false),
            ("text/html, Application/OpenMetrics-Text;q=nonsense", true),
        ] {
            assert_eq!(prefers_open_metrics([accepted].into_iter()), is_open_metrics, "{accepted}");
        }
    }
}
