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
use crate::fleet::Fleet;
use crate::serve::access::{OwnNames, Token};
use crate::serve::{Peer, ServedContent};

/// How long an answer is kept for others who ask the same: a flood of requests must not cost more than this.
const MAX_AGE: Duration = Duration::from_millis(500);
/// Bytes of earlier answers that slow clients still read; beyond, there are no new ones for their kind.
const MAX_IN_TRANSIT: usize = 64 << 20;

const PATHS: &str = "gtop serves /metrics, /api/v1/snapshot and /healthz\n";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers requests.
pub(super) struct Responder {
    content: ServedContent,
    token: Token,
    hosts: OwnNames,
    rendered: Mutex<Vec<Rendered>>,
}

/// What the sender of a request may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Everything: the owner, and who has the token.
    Full,
    /// What has no names: any user of this machine.
    Nameless,
    /// Whether gtop runs.
    Health,
    /// Nothing: who has a wrong token.
    Refused,
}

impl Access {
    /// `given` says whether the token that came along is the right one; `None` if there was none.
    fn of(peer: Peer, given: Option<bool>) -> Self {
        match (peer, given) {
            (Peer::Owner, _) | (_, Some(true)) => Self::Full,
            (_, Some(false)) => Self::Refused,
            (Peer::Loopback, None) => Self::Nameless,
            (Peer::Network, None) => Self::Health,
        }
    }

    fn allows(self, path: &str) -> bool {
        match self {
            Self::Full => true,
            Self::Nameless => path != "/api/v1/snapshot",
            Self::Health => path == "/healthz",
            Self::Refused => false,
        }
    }
}

/// What is rendered from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedText {
    Metrics(ExpositionOptions),
    Snapshot,
}

impl ServedText {
    const fn has_names(self) -> bool {
        match self {
            Self::Metrics(options) => options.has_names,
            Self::Snapshot => true,
        }
    }
}

/// An answer that may be given again.
struct Rendered {
    what: ServedText,
    at: Instant,
    body: Bytes,
}

type HttpResponse = Response<Full<Bytes>>;

impl Responder {
    pub(super) fn new(content: ServedContent, token: Token, hosts: OwnNames) -> Self {
        Self { content, token, hosts, rendered: Mutex::default() }
    }

    /// Answers a request, whose body is not read. The second value is true if its sender may see everything.
    pub(super) fn respond<B>(&self, peer: Peer, request: &Request<B>) -> (HttpResponse, bool) {
        let access = Access::of(peer, self.given_token(request.headers()));
        (self.response(peer, access, request), access == Access::Full)
    }

    /// Returns whether the token that came along is the right one.
    fn given_token(&self, headers: &HeaderMap) -> Option<bool> {
        let mut given = headers.get_all(AUTHORIZATION).iter().peekable();
        given.peek()?;
        Some(given.all(|value| self.token.is_given_by(value.as_bytes())))
    }

    fn response<B>(&self, peer: Peer, access: Access, request: &Request<B>) -> HttpResponse {
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
        let path = request.uri().path();
        if !access.allows(path) {
            let mut response = text(StatusCode::UNAUTHORIZED, "the token is needed\n");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        match path {
            "/metrics" => self.metrics(headers, access == Access::Full),
            "/api/v1/snapshot" => {
                self.rendered(ServedText::Snapshot, "application/json; charset=utf-8")
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
        self.rendered(ServedText::Metrics(options), options.media_type())
    }

    fn rendered(&self, what: ServedText, media_type: &'static str) -> HttpResponse {
        match self.body(what) {
            Some(body) => answer(StatusCode::OK, media_type, body),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "too many slow clients; try again\n"),
        }
    }

    /// Returns what is rendered from the latest snapshot, or was a moment ago; `None` if too much is in transit. Who has
    /// no token takes no room from those who have it.
    fn body(&self, what: ServedText) -> Option<Bytes> {
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        rendered.retain(|known| known.at.elapsed() < MAX_AGE || !known.body.is_unique());
        let is_new = |known: &&Rendered| known.what == what && known.at.elapsed() < MAX_AGE;
        if let Some(known) = rendered.iter().find(is_new) {
            return Some(known.body.clone());
        }
        let of_kind = rendered.iter().filter(|known| known.what.has_names() == what.has_names());
        if of_kind.map(|known| known.body.len()).sum::<usize>() > MAX_IN_TRANSIT {
            return None;
        }
        let body = Bytes::from(self.render(what));
        rendered.push(Rendered { what, at: Instant::now(), body: body.clone() });
        Some(body)
    }

    fn render(&self, what: ServedText) -> Vec<u8> {
        let ServedContent { fleet, clock, title, selection, .. } = &self.content;
        let (fleet, now) = (fleet.borrow().clone(), clock.now());
        let nodes = fleet.nodes.iter().map(|node| selection.filter_node(node)).collect();
        let fleet = Fleet { nodes, ..fleet };
        match what {
            ServedText::Metrics(options) => exposition(&fleet, now, options),
            ServedText::Snapshot => {
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
    fn names_are_for_the_owner_and_the_token() {
        use Peer::{Loopback, Network, Owner};
        for (peer, given, health, metrics, snapshot, has_names) in [
            (Owner, None, true, true, true, true),
            (Owner, Some(false), true, true, true, true),
            (Loopback, None, true, true, false, false),
            (Loopback, Some(true), true, true, true, true),
            (Loopback, Some(false), false, false, false, false),
            (Network, None, true, false, false, false),
            (Network, Some(true), true, true, true, true),
            (Network, Some(false), false, false, false, false),
        ] {
            let access = Access::of(peer, given);
            let allowed =
                ["/healthz", "/metrics", "/api/v1/snapshot"].map(|path| access.allows(path));
            assert_eq!(allowed, [health, metrics, snapshot], "{peer:?} {given:?}");
            assert_eq!(access == Access::Full, has_names, "{peer:?} {given:?}");
        }
    }

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
