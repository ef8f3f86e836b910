//! What a request is answered.

use crate::export::ExpositionOptions;
use crate::serve::access::{OwnNames, Token};
use crate::serve::renderer::{Renderer, ServedText, TextContent};
use crate::serve::{Peer, ServedContent};
use bytes::Bytes;
use gtop_fleet::FleetReader;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE,
    HOST, HeaderMap, HeaderName, HeaderValue, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};

const PATHS: &str = "gtop serves /metrics, /api/v1/snapshot and /healthz\n";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers requests.
pub(super) struct Responder {
    fleet: FleetReader,
    /// The metrics of those who may see everything.
    metrics: ExpositionOptions,
    token: Token,
    hosts: OwnNames,
    renderer: Renderer,
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

/// What a request is answered.
#[derive(Debug)]
pub(super) enum ServedAnswer {
    Ready(HttpResponse),
    /// A text, with its media type.
    Text(ServedText, &'static str),
}

pub(super) type HttpResponse = Response<Full<Bytes>>;

impl Responder {
    pub(super) fn new(content: ServedContent, token: Token, hosts: OwnNames) -> Self {
        let metrics = ExpositionOptions {
            is_open_metrics: false,
            has_names: true,
            has_processes: content.has_processes,
            compat: content.compat,
        };
        let fleet = content.fleet.clone();
        Self { fleet, metrics, token, hosts, renderer: Renderer::start(content) }
    }

    /// Answers a request, whose body is not read. The second value is true if its sender may see everything.
    pub(super) fn answer<B>(&self, peer: Peer, request: &Request<B>) -> (ServedAnswer, bool) {
        let access = Access::of(peer, self.given_token(request.headers()));
        (self.answer_to(peer, access, request), access == Access::Full)
    }

    /// Returns the answer as a response, when it is rendered.
    pub(super) async fn respond(&self, answer: ServedAnswer) -> HttpResponse {
        let (what, media_type) = match answer {
            ServedAnswer::Ready(response) => return response,
            ServedAnswer::Text(what, media_type) => (what, media_type),
        };
        let Some(body) = self.renderer.text(what).await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "too many slow clients; try again\n");
        };
        let mut response = response(StatusCode::OK, media_type, body);
        let headers = response.headers_mut();
        headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding, Authorization"));
        if what.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    /// Returns whether the token that came along is the right one.
    fn given_token(&self, headers: &HeaderMap) -> Option<bool> {
        let mut given = headers.get_all(AUTHORIZATION).iter().peekable();
        given.peek()?;
        Some(given.all(|value| self.token.is_given_by(value.as_bytes())))
    }

    fn answer_to<B>(&self, peer: Peer, access: Access, request: &Request<B>) -> ServedAnswer {
        match self.refusal(peer, access, request) {
            Some(refusal) => ServedAnswer::Ready(refusal),
            None => self.served(access, request.uri().path(), request.headers()),
        }
    }

    /// Returns why a request is not answered.
    fn refusal<B>(&self, peer: Peer, access: Access, request: &Request<B>) -> Option<HttpResponse> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response =
                text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(response);
        }
        if peer != Peer::Owner {
            let mut named = texts(request.headers(), &HOST);
            let header = named.next().filter(|host| !host.is_empty() && named.next().is_none());
            // The name in the address of the target counts more than the header.
            let Some(host) = request.uri().authority().map(Authority::as_str).or(header) else {
                return Some(text(StatusCode::BAD_REQUEST, "exactly one Host header is needed\n"));
            };
            if !self.hosts.has(host) {
                let message = "this host name is not allowed; --allow-host adds it\n";
                return Some(text(StatusCode::MISDIRECTED_REQUEST, message));
            }
        }
        if !access.allows(request.uri().path()) {
            let mut response = text(StatusCode::UNAUTHORIZED, "a token is needed\n");
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Some(response);
        }
        None
    }

    /// Returns what a path has.
    fn served(&self, access: Access, path: &str, headers: &HeaderMap) -> ServedAnswer {
        let is_gzip = accepts_gzip(texts(headers, &ACCEPT_ENCODING));
        match path {
            "/metrics" => {
                let has_names = access == Access::Full;
                let options = ExpositionOptions {
                    is_open_metrics: prefers_open_metrics(texts(headers, &ACCEPT)),
                    has_names,
                    has_processes: has_names && self.metrics.has_processes,
                    ..self.metrics
                };
                let content = TextContent::Metrics(options);
                ServedAnswer::Text(ServedText { content, is_gzip }, options.media_type())
            }
            "/api/v1/snapshot" => {
                let what = ServedText { content: TextContent::Snapshot, is_gzip };
                ServedAnswer::Text(what, "application/json; charset=utf-8")
            }
            // An error means that nothing publishes snapshots any more.
            "/healthz" if self.fleet.has_changed().is_err() => ServedAnswer::Ready(text(
                StatusCode::SERVICE_UNAVAILABLE,
                "gtop has stopped collecting\n",
            )),
            "/healthz" => ServedAnswer::Ready(text(StatusCode::OK, "ok\n")),
            "/" => ServedAnswer::Ready(text(StatusCode::OK, PATHS)),
            _ => ServedAnswer::Ready(text(StatusCode::NOT_FOUND, PATHS)),
        }
    }
}

/// Returns the values of a header.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// Returns what is accepted, each with its weight.
fn weighted<'a>(accepted: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'a str, f32)> {
    accepted.flat_map(|value| value.split(',')).map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
        (name, weight.unwrap_or(1.0))
    })
}

/// Returns true if gzip is accepted, and no text as it is wanted more (RFC 9110, 12.5.3).
fn accepts_gzip<'a>(accepted: impl Iterator<Item = &'a str>) -> bool {
    let (mut gzip, mut any, mut plain) = (None, None, 0.0_f32);
    for (name, weight) in weighted(accepted) {
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "*" => any = Some(weight),
            "identity" => plain = weight,
            _ => {}
        }
    }
    gzip.or(any).is_some_and(|weight| weight > 0.0 && weight >= plain)
}

/// Returns true if `OpenMetrics` is asked for at least as much as the text of Prometheus.
fn prefers_open_metrics<'a>(accepted: impl Iterator<Item = &'a str>) -> bool {
    let (mut open_metrics, mut text) = (0.0_f32, 0.0_f32);
    for (media_type, weight) in weighted(accepted) {
        if media_type.eq_ignore_ascii_case("application/openmetrics-text") {
            open_metrics = open_metrics.max(weight);
        } else if media_type.eq_ignore_ascii_case("text/plain") {
            text = text.max(weight);
        }
    }
    open_metrics > 0.0 && open_metrics >= text
}

fn text(status: StatusCode, body: &'static str) -> HttpResponse {
    response(status, PLAIN, Bytes::from_static(body.as_bytes()))
}

fn response(status: StatusCode, media_type: &'static str, body: Bytes) -> HttpResponse {
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
    use crate::serve::examples;

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

    /// Returns the status of the answer to a request with these headers.
    async fn status(path: &str, headers: &[(HeaderName, &str)]) -> u16 {
        let (responder, _publisher) = examples::responder();
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let (answer, _) = responder.answer(Peer::Loopback, &request.body(()).unwrap());
        responder.respond(answer).await.status().as_u16()
    }

    #[tokio::test]
    async fn a_right_token_beside_a_wrong_one_is_wrong_and_a_host_is_named_once() {
        let host = (HOST, "localhost");
        let (right, wrong) = ((AUTHORIZATION, "Bearer right"), (AUTHORIZATION, "Bearer wrong"));
        for (path, headers, expected) in [
            ("/api/v1/snapshot", vec![host.clone(), right.clone()], 200),
            ("/api/v1/snapshot", vec![host.clone(), right.clone(), wrong.clone()], 401),
            ("/api/v1/snapshot", vec![host.clone(), wrong, right.clone()], 401),
            ("/api/v1/snapshot", vec![host.clone()], 401),
            ("/metrics", vec![host.clone()], 200),
            ("/healthz", vec![host.clone(), host.clone()], 400),
            ("/healthz", vec![host, (HOST, "example.org")], 400),
            ("/healthz", vec![], 400),
            ("/healthz", vec![(HOST, "")], 400),
            ("/healthz", vec![(HOST, "example.org")], 421),
            ("http://example.org/healthz", vec![(HOST, "localhost")], 421),
        ] {
            assert_eq!(status(path, &headers).await, expected, "{path} {headers:?}");
        }
    }

    #[test]
    fn gzip_must_be_accepted() {
        for (accepted, is_accepted) in [
            ("", false),
            ("gzip", true),
            ("deflate, GZip;q=0.5, br", true),
            ("x-gzip", true),
            ("*", true),
            ("gzip;q=0, *", false),
            ("*;q=0", false),
            ("identity", false),
            ("gzip;q=0.2, identity;q=0.5", false),
            ("gzip, identity", true),
            ("br;q=1.0, gzip;q=0.0", false),
        ] {
            assert_eq!(accepts_gzip([accepted].into_iter()), is_accepted, "{accepted}");
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
