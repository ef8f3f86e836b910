//! The certificate and key of the server, read again when they change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::{self, ServerConfig};
use webpki::{EndEntityCert, KeyUsage};

use gtop_local::lock::lock;
use gtop_local::storage::{self, FileVersion};
use gtop_local::time::Clock;

/// Bytes of a file of certificates.
const MAX_BYTES: u64 = 1 << 20;

/// Why a certificate or key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, io::Error),
    /// There is nothing in the file.
    #[error("{path} holds no {1} in PEM format, or a broken one", path = .0.display())]
    Empty(PathBuf, &'static str),
    /// The certificate cannot be used.
    #[error("{path}: the certificate cannot be used: {1}", path = .0.display())]
    Certificate(PathBuf, webpki::Error),
    /// The time of the certificate is over, or has not begun.
    #[error("{path}: the certificate {1} {2}; renew it", path = .0.display())]
    Time(PathBuf, &'static str, String),
    /// The certificate is of another key.
    #[error("{key} is not the key of the certificate in {path}", key = .1.display(), path = .0.display())]
    OtherKey(PathBuf, PathBuf),
    /// The certificate and key cannot be used together.
    #[error("{path} and {key}: {2}", path = .0.display(), key = .1.display())]
    Pair(PathBuf, PathBuf, rustls::Error),
}

/// A certificate chain with its key.
#[derive(Debug)]
pub struct Tls {
    certificates: PathBuf,
    key: PathBuf,
    clock: Clock,
    loaded: Mutex<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    versions: Versions,
}

/// The versions of both files.
type Versions = [Option<FileVersion>; 2];

impl Tls {
    /// Reads a certificate chain and its key, both in PEM format.
    ///
    /// # Errors
    ///
    /// If one cannot be read or used, if the certificate is not valid now, or if they do not belong together.
    pub fn load(certificates: PathBuf, key: PathBuf, clock: Clock) -> Result<Self, TlsError> {
        let versions = versions(&certificates, &key);
        let config = read_config(&certificates, &key, &clock)?;
        Ok(Self { certificates, key, clock, loaded: Mutex::new(Loaded { config, versions }) })
    }

    /// Returns what accepts a connection, with the certificate as it is now. One that cannot be used does not replace
    /// the one before, and is reported once.
    pub(super) fn acceptor(&self, notices: &mpsc::Sender<String>) -> TlsAcceptor {
        let mut loaded = lock(&self.loaded);
        let versions = versions(&self.certificates, &self.key);
        if versions != loaded.versions {
            loaded.versions = versions;
            match read_config(&self.certificates, &self.key, &self.clock) {
                Ok(config) => loaded.config = config,
                Err(error) => {
                    // Fails if an earlier one was not read yet.
                    notices.try_send(format!("the earlier certificate stays in use: {error}")).ok();
                }
            }
        }
        TlsAcceptor::from(Arc::clone(&loaded.config))
    }
}

fn versions(certificates: &Path, key: &Path) -> Versions {
    [certificates, key].map(FileVersion::of)
}

fn read_config(
    certificates: &Path,
    key: &Path,
    clock: &Clock,
) -> Result<Arc<ServerConfig>, TlsError> {
    let text = read(certificates)?;
    // A chain without a broken member would be refused by clients, without a reason.
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.unwrap_or_default();
    let Some(first) = chain.first() else {
        return Err(TlsError::Empty(certificates.to_owned(), "CERTIFICATE"));
    };
    check_time(certificates, first, clock)?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|_error| TlsError::Empty(key.to_owned(), "PRIVATE KEY"))?;
    let pair = |error| {
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            return TlsError::OtherKey(certificates.to_owned(), key.to_owned());
        }
        TlsError::Pair(certificates.to_owned(), key.to_owned(), error)
    };
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(pair)?;
    builder.with_no_client_auth().with_single_cert(chain, private).map(Arc::new).map_err(pair)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let content = storage::read(path, MAX_BYTES)
        .and_then(|content| content.ok_or_else(|| io::Error::other("the file is too large")));
    content.map_err(|error| TlsError::Read(path.to_owned(), error))
}

/// Checks the time of a certificate: a verification checks it before the signature.
fn check_time(
    path: &Path,
    certificate: &CertificateDer<'_>,
    clock: &Clock,
) -> Result<(), TlsError> {
    let seconds = u64::try_from(clock.now().as_micros() / 1_000_000).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let certificate = EndEntityCert::try_from(certificate)
        .map_err(|error| TlsError::Certificate(path.to_owned(), error))?;
    let usage = KeyUsage::server_auth();
    match certificate.verify_for_usage(&[], &[], &[], now, usage, None, None).err() {
        Some(webpki::Error::CertExpired { not_after, .. }) => {
            Err(TlsError::Time(path.to_owned(), "expired at", time_text(not_after)))
        }
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => {
            Err(TlsError::Time(path.to_owned(), "is not valid before", time_text(not_before)))
        }
        // The clients check who signed it.
        Some(_) | None => Ok(()),
    }
}

fn time_text(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or_default();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}
