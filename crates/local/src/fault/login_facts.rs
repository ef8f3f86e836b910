//! What is known of the host where a connection failed, beside the fault.

/// The configuration of the host where a connection failed: the node, or a gateway.
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
    /// What ssh does with a host key that is not known.
    pub unknown_host_key: UnknownHostKey,
    /// The settings permit to use a connection that ssh or `gtop login` has opened.
    pub shares_logins: bool,
}

/// What ssh does with a host key that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownHostKey {
    /// It is kept in a file once it is accepted.
    #[default]
    Kept,
    /// Each login asks about it, and it is kept nowhere.
    Forgotten,
    /// Each login refuses it, and it is kept nowhere.
    Refused,
}
