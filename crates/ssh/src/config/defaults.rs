//! Finishes the resolved options: defaults, `none`, and OpenSSH's final checks.

use crate::config::host_settings::TokenExpander;
use crate::config::proxy_jump::NO_JUMP;
use crate::config::resolved::{ResolvedOption, ResolvedOptions};
use crate::config::{ConfigError, DEFAULT_KEYS, HostQuery, LocalEnv};

/// Options that `none` unsets.
const NONE_CLEARS: [&str; 8] = [
    "controlpath",
    "knownhostscommand",
    "localcommand",
    "pkcs11provider",
    "proxycommand",
    "remotecommand",
    "revokedhostkeys",
    "securitykeyprovider",
];

/// Sets defaults, removes placeholders, and refuses what `ssh` refuses.
pub(crate) fn apply_defaults(
    resolved: &mut ResolvedOptions,
    query: &HostQuery,
    env: &LocalEnv,
) -> Result<(), ConfigError> {
    if resolved.first("proxyjump") == Some(NO_JUMP) {
        resolved.remove("proxyjump");
    }
    if resolved.has("proxyjump") && resolved.has("proxyusefdpass") {
        resolved.set("proxyusefdpass", vec!["no".to_owned()], None);
    }
    let user = resolved.first("user").unwrap_or(&env.user).to_owned();
    let refusal = resolved.iter().find_map(|(name, entry)| {
        let (value, origin) = (entry.values.first()?.as_str(), entry.origin.as_ref()?);
        match name {
            "connectionattempts" if value == "0" => Some((origin, format!("{name} is 0"))),
            "refuseconnection" if !value.eq_ignore_ascii_case("none") => {
                Some((origin, format!("connections are refused: {value}")))
            }
            _ => None,
        }
    });
    if let Some((origin, why)) = refusal {
        return Err(ConfigError::at_line(origin, why));
    }
    for (name, entry) in resolved.iter() {
        let Some(origin) = &entry.origin else { continue };
        if name == "user" && (user.contains('%') || user.contains("${")) {
            // Later versions of OpenSSH expand these.
            return Err(ConfigError::NeedsSsh { at: origin.clone(), what: format!("User {user}") });
        }
        if entry.values.is_empty() && name != "sendenv" {
            return Err(ConfigError::at_line(origin, format_args!("{name} leaves nothing to use")));
        }
    }
    if let Some(alias) = resolved.get("hostkeyalias").cloned() {
        let lower = alias.values.iter().map(|value| value.to_ascii_lowercase()).collect();
        resolved.set("hostkeyalias", lower, alias.origin);
    }
    for option in NONE_CLEARS {
        if resolved.first(option).is_some_and(|value| value.eq_ignore_ascii_case("none")) {
            resolved.clear(option);
        }
    }
    if !resolved.has("identityfile") {
        let keys = DEFAULT_KEYS.map(|name| format!("~/.ssh/{name}"));
        resolved.set("identityfile", keys.to_vec(), None);
    }
    for (option, folder) in [
        ("userknownhostsfile", "~/.ssh/known_hosts"),
        ("globalknownhostsfile", "/etc/ssh/ssh_known_hosts"),
    ] {
        if !resolved.has(option) {
            resolved.set(option, vec![folder.to_owned(), format!("{folder}2")], None);
        }
    }
    if !resolved.has("user") {
        resolved.set("user", vec![user], None);
    }
    if !resolved.has("port") {
        resolved.set("port", vec!["22".to_owned()], None);
    }
    check_jump_loop(resolved)?;
    check_tokens(resolved, query, env)
}

fn check_jump_loop(resolved: &ResolvedOptions) -> Result<(), ConfigError> {
    let Some(entry) = resolved.get("proxyjump") else { return Ok(()) };
    let (Some(value), Some(origin)) = (entry.values.first(), &entry.origin) else { return Ok(()) };
    let last = value.rsplit(',').next().unwrap_or_default();
    // An invalid name is refused elsewhere.
    let Ok(hop) = HostQuery::parse_jump(last) else { return Ok(()) };
    let is_itself = resolved.first("hostname") == Some(&hop.host)
        && resolved.first_or_default("port").parse() == Ok(hop.port.unwrap_or(22))
        && hop.user.is_none_or(|user| resolved.first("user") == Some(&user));
    if is_itself {
        return Err(ConfigError::at_line(origin, format_args!("jumphost loop via {}", hop.host)));
    }
    Ok(())
}

/// Refuses unknown tokens in options that affect trust and authentication.
fn check_tokens(
    resolved: &ResolvedOptions,
    query: &HostQuery,
    env: &LocalEnv,
) -> Result<(), ConfigError> {
    let tokens = TokenExpander::new(resolved, query, env);
    for name in ["userknownhostsfile", "identityagent"] {
        let Some(ResolvedOption { values, origin: Some(origin), .. }) = resolved.get(name) else {
            continue;
        };
        if let Some(value) = values.iter().find(|value| tokens.expand(value).is_none()) {
            let why = format_args!("{name} {value} cannot be expanded");
            return Err(ConfigError::at_line(origin, why));
        }
    }
    Ok(())
}
