//! What is known of the host where a connection failed, beside the fault.

/// What the configuration says of the host where a connection failed: the node, or a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginFacts {
    /// The name or address that is connected to.
    pub host_name: String,
    /// The port.
    pub port: u16,
    /// The user to log in as.
    pub user: String,
    /// The user of `--login`, if that is why.
    pub login_option: Option<String>,
    /// The first key file, if the configuration names any.
    pub key_file: Option<String>,
    /// An agent answers at `SSH_AUTH_SOCK`.
    pub has_agent: bool,
    /// A known host key would be kept in a file.
    pub keeps_host_keys: bool,
    /// The settings permit to use a connection that ssh or `gtop login` has opened.
    pub shares_logins: bool,
}
