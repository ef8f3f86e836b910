//! What to do about a page of metrics that is not read.

use crate::advice::steps::Advice;
use gtop_local::fault::ScrapeFault;

pub(super) const PAGE_NOT_REACHED: &str =
    "check that the exporter runs on the host, and listens on an address that this machine reaches";

pub(super) const PAGE_NOT_READABLE: &str = "give the page of nvitop-exporter or node_exporter, such as http://HOST:9100/metrics, or the host itself, to watch it over SSH";

/// Returns what to do about a page of metrics that is not read.
pub(super) fn of_page(fault: &ScrapeFault) -> Advice {
    let words = match fault {
        ScrapeFault::NameNotFound => "check the spelling of the host in the address of the page",
        ScrapeFault::Refused { .. } | ScrapeFault::Lost { .. } => PAGE_NOT_REACHED,
        ScrapeFault::TimedOut { .. } => {
            "check that the exporter runs on the host, and that no firewall blocks it; or raise --connect-timeout"
        }
        ScrapeFault::Late { .. } => {
            "raise --connect-timeout, or turn off the slow collectors of the exporter"
        }
        ScrapeFault::BrokenOff => {
            "look at the logs of the exporter and of any proxy in front of it"
        }
        ScrapeFault::Status { status: 401 | 403 | 407, .. } => {
            "gtop sends no login: let the exporter serve this machine without one, or give the host itself, to watch it over SSH"
        }
        ScrapeFault::Status { location: Some(_), .. } => {
            "give the address that it points to, if it is the right one"
        }
        ScrapeFault::Status { status: 400, .. } => {
            "correct what follows the ? of the address; if the port wants TLS (https://), which gtop does not speak, give the host itself, to watch it over SSH"
        }
        ScrapeFault::Status { status: 500..=599, .. } => {
            "look at the logs of the exporter and of any proxy in front of it: the page cannot be served now"
        }
        ScrapeFault::Status { .. } => "check the path: most exporters serve their page at /metrics",
        ScrapeFault::TooLarge => {
            "give the page of one exporter, or turn off those of its collectors that nobody reads"
        }
        ScrapeFault::NotHttp | ScrapeFault::Closed => {
            "check the port; if it speaks TLS (https://), let the exporter serve without it, or give the host itself, to watch it over SSH"
        }
        ScrapeFault::Compressed { .. } => {
            "let the server send the page uncompressed, as gtop requests"
        }
        ScrapeFault::NotText | ScrapeFault::OtherFamilies { .. } => PAGE_NOT_READABLE,
        ScrapeFault::OnlyPage => "give the host itself, to reach it over SSH",
    };
    words.into()
}
