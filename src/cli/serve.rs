//! The options of `gtop serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, ValueEnum};

use crate::cli::recording::WatchOptions;
use crate::cli::{Cli, CliCommand};
use crate::export::{CompatNames, MetricChoice};
use gtop_fleet::query::Filter;

const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9835);

/// Options of `gtop serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// Where to listen; default: 127.0.0.1:9835. Addresses that are not loopback need a certificate
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    listen: Option<SocketAddr>,
    /// Listen on a Unix socket that only you can open
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Add the names of another exporter; may be repeated
    #[arg(long, value_name = "SET", value_delimiter = ',', action = clap::ArgAction::Append)]
    compat: Vec<CompatSet>,
    /// Serve these metrics of gtop: core (those of the examples), all, or names with commas between them; default: all
    #[arg(long, value_name = "core|all|LIST", value_parser = MetricChoice::parse, default_value = "all", hide_default_value = true)]
    pub metrics: MetricChoice,
    /// Serve only what matches FILTER, in the syntax of / on the screen: 'util<10 user=ada'
    #[arg(long, value_name = "FILTER", value_parser = Filter::new, default_value = "", hide_default_value = true)]
    pub filter: Filter,
    /// Add the processes on devices, for those with the token
    #[arg(long)]
    pub processes: bool,
    /// The token, in a file that only you can read; default: serve-token in gtop's state folder, made if missing
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate chain, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Another name by which this machine is called in URLs
    #[arg(long, value_name = "NAME", action = clap::ArgAction::Append, value_parser = parse_name)]
    pub allow_host: Vec<String>,
    /// What is watched
    #[command(flatten)]
    pub(super) watched: WatchOptions,
    /// Recordings, whose last snapshot is served instead.
    #[arg(skip)]
    pub files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompatSet {
    /// dcgm-exporter
    Dcgm,
    /// Newer names of DCGM's fields
    DcgmCanonical,
    /// nvitop-exporter
    Nvitop,
}

/// Parses `ADDRESS:PORT`, `localhost:PORT` or `PORT`.
fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text).parse();
    let local = port.map(|port| SocketAddr::new(DEFAULT_ADDRESS.ip(), port));
    local.or_else(|_| text.parse()).map_err(|_error| {
        "write an IP address and a port: 127.0.0.1:9835, 0.0.0.0:9835 or [::1]:9835".to_owned()
    })
}

/// Parses the name of a host as it stands in URLs, without scheme and port.
fn parse_name(text: &str) -> Result<String, String> {
    let mut bytes = text.bytes();
    if !text.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        return Ok(text.to_owned());
    }
    Err("write only the name, such as login1.example.org, without http:// and the port".to_owned())
}

impl ServeOptions {
    /// Returns the address to listen on; `None` with only a Unix socket.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listen.or_else(|| self.socket.is_none().then_some(DEFAULT_ADDRESS))
    }

    /// Returns the other exporters whose names are added.
    pub(crate) fn compat(&self) -> CompatNames {
        CompatNames {
            dcgm: self.compat.contains(&CompatSet::Dcgm),
            dcgm_canonical: self.compat.contains(&CompatSet::DcgmCanonical),
            nvitop: self.compat.contains(&CompatSet::Nvitop),
        }
    }
}

impl Cli {
    /// Takes recordings out of the hosts: no host but an address has a slash in its name or ends so.
    pub(super) fn split_recordings(&mut self) {
        let Some(CliCommand::Serve(options)) = &mut self.command else { return };
        let files = self.hosts.extract_if(.., |name| {
            let is_recording = Path::new(name).extension().is_some_and(|ending| ending == "gtop");
            !name.contains("://") && (name.contains('/') || is_recording)
        });
        options.files = files.map(PathBuf::from).collect();
    }

    /// Checks rules about `gtop serve` that clap cannot express.
    pub(super) fn check_serve(&self) -> Result<(), clap::Error> {
        let Some(CliCommand::Serve(options)) = &self.command else { return Ok(()) };
        if self.names_nodes() && !options.files.is_empty() {
            let problem = "recordings are served alone; leave out the hosts and what selects them";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, problem));
        }
        if options.tls_cert.is_some() && options.address().is_none() {
            let problem = "--tls-cert is for a port; give --listen too, or leave it out: the socket is yours alone";
            return Err(Self::command().error(ErrorKind::ArgumentConflict, problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::parse_args(line.split_whitespace().map(Into::into))
    }

    fn options(line: &str) -> ServeOptions {
        match parse(line).unwrap().command {
            Some(CliCommand::Serve(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_is_a_loopback_port_by_default() {
        for (line, address) in [
            ("gtop serve gpu01", Some("127.0.0.1:9835")),
            ("gtop serve --listen 9000", Some("127.0.0.1:9000")),
            ("gtop serve --listen localhost:9000", Some("127.0.0.1:9000")),
            ("gtop serve --listen [::]:1", Some("[::]:1")),
            ("gtop serve --socket a.sock", None),
            ("gtop serve --socket a.sock --listen 1", Some("127.0.0.1:1")),
        ] {
            assert_eq!(options(line).address(), address.map(|it| it.parse().unwrap()), "{line}");
        }
        for wrong in ["login1:9835", ":9835", "127.0.0.1", "99999"] {
            assert!(parse(&format!("gtop serve --listen {wrong}")).is_err(), "{wrong}");
        }
        assert!(parse("gtop serve --tls-cert a.pem").is_err());
        assert!(parse("gtop serve --socket a.sock --tls-cert a.pem --tls-key b.pem").is_err());
        assert!(parse("gtop serve --allow-host login1.example.org --compat dcgm,nvitop").is_ok());
        for wrong in ["http://login1", "login1:9835", "a/b"] {
            assert!(parse(&format!("gtop serve --allow-host {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_with_a_slash_or_ending_is_a_recording() {
        let files = |line| options(line).files;
        assert_eq!(files("gtop serve a.gtop ./b"), [PathBuf::from("a.gtop"), PathBuf::from("./b")]);
        assert!(files("gtop serve gpu01 gpu02.gtop.example").is_empty());
        assert!(files("gtop serve http://gpu[01-04]:9100/metrics ssh://ada@gpu01/").is_empty());
        assert!(parse("gtop serve a.gtop gpu01").is_err());
        assert!(parse("gtop serve a.gtop --demo").is_err());
    }
}
