//! Caches the parsed configuration files, and evaluates them for hosts.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::config::resolve::{self, HasAddress};
use crate::config::resolved::ResolvedOptions;
use crate::config::tree::ConfigTree;
use crate::config::{AddressFamily, ConfigError, HostQuery, LocalEnv, host_names};
use gtop_local::lock::lock;

/// The system-wide configuration; some distributions have their own beside the administrator's.
const SYSTEM_FILES: [&str; 2] = ["/etc/ssh/ssh_config", "/usr/etc/ssh/ssh_config"];

/// The last parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct ConfigCache(Mutex<Option<Arc<ParsedConfig>>>);

/// All files, parsed.
#[derive(Debug)]
pub(crate) struct ParsedConfig {
    /// Increases with every re-read.
    pub(crate) version: u64,
    tree: ConfigTree,
}

impl ConfigCache {
    /// Returns the parsed files; reads them again if one has changed.
    pub(crate) fn current(&self, env: &LocalEnv, config_file: Option<&Path>) -> Arc<ParsedConfig> {
        let mut last = lock(&self.0);
        if let Some(config) = &*last
            && config.tree.is_current()
        {
            return Arc::clone(config);
        }
        let version = last.as_ref().map_or(0, |config| config.version + 1);
        let tree = ConfigTree::read(env, config_file, &SYSTEM_FILES);
        let config = Arc::new(ParsedConfig { version, tree });
        *last = Some(Arc::clone(&config));
        config
    }
}

impl ParsedConfig {
    /// Returns the options of a host.
    pub(crate) fn resolve(
        &self,
        query: &HostQuery,
        env: &LocalEnv,
        has_address: Option<HasAddress>,
    ) -> Result<ResolvedOptions, ConfigError> {
        resolve::resolve(&self.tree, query, env, has_address)
    }

    /// Returns the host names in the files, without patterns.
    pub(crate) fn hosts(&self) -> Result<Vec<String>, ConfigError> {
        host_names::hosts(&self.tree)
    }
}

/// Looks a name up, which can take long.
pub(crate) fn has_address(name: &str, family: AddressFamily) -> bool {
    let found = (name, 22).to_socket_addrs();
    found.is_ok_and(|mut found| found.any(|address| family.fits(&address)))
}
