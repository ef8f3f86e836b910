//! Evaluates the files for one host: which blocks match, and which value comes first.

use std::sync::Arc;

use crate::config::lexer;
use crate::config::options::{OptionSpec, OptionValueKind};
use crate::config::parse::{Criterion, MatchAttribute, Pattern};
use crate::config::proxy_jump::NO_JUMP;
use crate::config::resolved::ResolvedOptions;
use crate::config::tree::{Block, BlockCondition, ConfigTree, Directive, SshConfigFile};
use crate::config::{AddressFamily, ConfigError, HostQuery, LocalEnv, Origin, defaults, values};
use gtop_local::fault::ssh::Fault;
use gtop_local::text::matches_pattern;

/// Most files of `IdentityFile` and of `CertificateFile`.
const MAX_FILES: usize = 100;

/// The command for `Match command`: the start of gtop's command line on a node.
const PROBE_COMMAND: &str = "exec /bin/sh";

/// Returns true if a fully qualified name, with its final dot, has an address of a family.
pub(crate) type HasAddress = fn(&str, AddressFamily) -> bool;

/// Resolves the options of one host.
///
/// Without `has_address` no name is looked up, and [`ConfigError::NeedsLookup`] says when one should be.
pub(crate) fn resolve(
    tree: &ConfigTree,
    query: &HostQuery,
    env: &LocalEnv,
    has_address: Option<HasAddress>,
) -> Result<ResolvedOptions, ConfigError> {
    let files = tree.files.as_ref().map_err(Clone::clone)?;
    let mut resolved = ResolvedOptions::default();
    if let Some(user) = &query.user {
        resolved.set("user", vec![user.clone()], None);
    }
    if let Some(port) = query.port {
        resolved.set("port", vec![port.to_string()], None);
    }
    let asked = query.host.as_str();
    let mut pass = Pass { query, env, host: asked, is_second: false, resolved: &mut resolved };
    pass.read_files(files)?;

    let name = pass.host_name()?;
    let host = canonical_host(name, &resolved, has_address)?;
    if tree.needs_second_pass || !resolved.first_or_default("canonicalizehostname").eq("false") {
        set_host_name(&mut resolved, &host);
        // Options about the name are fixed once there is one.
        for option in ["canonicalizefallbacklocal", "canonicalizehostname", "canonicalizemaxdots"] {
            if !resolved.has(option) {
                let default = resolved.first_or_default(option).to_owned();
                resolved.set(option, vec![default], None);
            }
        }
        let mut pass = Pass { query, env, host: &host, is_second: true, resolved: &mut resolved };
        pass.read_files(files)?;
    }
    set_host_name(&mut resolved, &host);
    defaults::apply_defaults(&mut resolved, query, env)?;
    Ok(resolved)
}

fn set_host_name(resolved: &mut ResolvedOptions, host: &str) {
    let origin = resolved.get("hostname").and_then(|entry| entry.origin.clone());
    resolved.set("hostname", vec![host.to_owned()], origin);
}

/// One pass over the files.
struct Pass<'a> {
    query: &'a HostQuery,
    env: &'a LocalEnv,
    /// The name that `Host` lines are matched against.
    host: &'a str,
    is_second: bool,
    resolved: &'a mut ResolvedOptions,
}

impl Pass<'_> {
    fn read_files(&mut self, files: &[SshConfigFile]) -> Result<(), ConfigError> {
        files.iter().try_for_each(|file| self.read_file(file, true))
    }

    fn read_file(&mut self, file: &SshConfigFile, is_active: bool) -> Result<(), ConfigError> {
        for block in &file.blocks {
            let matches = is_active && self.block_matches(file, block)?;
            if !matches && !block.is_always_read {
                continue;
            }
            for line in &block.lines {
                let origin = Origin { file: Arc::clone(&file.path), line: line.number };
                match &line.directive {
                    Directive::Set(known, values) if matches => {
                        self.set_option(known, values, file.is_user_file, origin)?;
                    }
                    Directive::Set(..) => {}
                    Directive::Include(files) => {
                        files.iter().try_for_each(|file| self.read_file(file, matches))?;
                    }
                    Directive::Unknown(keyword) => self.check_unknown(keyword, origin)?,
                    Directive::NeedsSsh(what) => {
                        return Err(ConfigError::NeedsSsh { at: origin, what: what.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_unknown(&self, keyword: &str, at: Origin) -> Result<(), ConfigError> {
        let ignored = self.resolved.first("ignoreunknown").unwrap_or_default();
        if lexer::is_listed_ignoring_case(keyword, ignored) {
            return Ok(());
        }
        let what = format!("bad configuration option: {keyword}");
        Err(ConfigError::NeedsSsh { at, what })
    }

    fn block_matches(&self, file: &SshConfigFile, block: &Block) -> Result<bool, ConfigError> {
        match &block.condition {
            BlockCondition::Always => Ok(true),
            BlockCondition::Host(patterns) => Ok(matches_any(self.host, patterns)),
            BlockCondition::Match(criteria) => {
                let at = Origin { file: Arc::clone(&file.path), line: block.line };
                self.criteria_match(criteria, at)
            }
        }
    }

    fn criteria_match(&self, criteria: &[Criterion], at: Origin) -> Result<bool, ConfigError> {
        let host = self.host_name()?;
        let user = self.resolved.first("user").unwrap_or(&self.env.user);
        let mut needs_ssh = None;
        for Criterion { attribute: test, is_negated } in criteria {
            let matches = match test {
                MatchAttribute::All => true,
                MatchAttribute::SecondPass { .. } => self.is_second,
                MatchAttribute::Host(list) => lexer::is_listed_ignoring_case(&host, list),
                MatchAttribute::OriginalHost(list) => {
                    lexer::is_listed_ignoring_case(&self.query.host, list)
                }
                MatchAttribute::User(list) => lexer::is_listed(user, list),
                MatchAttribute::LocalUser(list) => lexer::is_listed(&self.env.user, list),
                MatchAttribute::SessionType(list) => lexer::is_listed(self.session_type(), list),
                MatchAttribute::Command(list) => lexer::is_listed(PROBE_COMMAND, list),
                MatchAttribute::Tagged(list) => match self.resolved.first("tag") {
                    None | Some("") => list.is_empty(),
                    Some(tag) => lexer::is_listed(tag, list),
                },
                MatchAttribute::NeedsSsh(what) => {
                    needs_ssh = Some(*what);
                    continue;
                }
            };
            if matches == *is_negated {
                return Ok(false);
            }
        }
        match needs_ssh {
            Some(what) => Err(ConfigError::NeedsSsh { at, what: format!("Match {what}") }),
            None => Ok(true),
        }
    }

    fn session_type(&self) -> &str {
        match self.resolved.first_or_default("sessiontype") {
            "default" => "exec",
            other => other,
        }
    }

    /// Returns the host name as set so far.
    fn host_name(&self) -> Result<String, ConfigError> {
        let Some(entry) = self.resolved.get("hostname").filter(|_| !self.is_second) else {
            return Ok(self.host.to_owned());
        };
        let raw = entry.values.first().map_or("", String::as_str);
        let expanded = values::expand_percent(raw, |letter| match letter {
            'h' => Some(self.host.into()),
            '%' => Some("%".into()),
            _ => None,
        });
        expanded.ok_or_else(|| {
            let nowhere = Origin { file: Arc::from(std::path::Path::new("")), line: 0 };
            let at = entry.origin.as_ref().unwrap_or(&nowhere);
            ConfigError::at_line(at, format_args!("unknown token in HostName {raw}"))
        })
    }

    fn set_option(
        &mut self,
        known: &'static OptionSpec,
        values: &[String],
        is_user_file: bool,
        origin: Origin,
    ) -> Result<(), ConfigError> {
        if matches!(known.kind, OptionValueKind::Files) {
            return self.add_file(known, values, is_user_file, &origin);
        }
        if matches!(known.kind, OptionValueKind::SendEnv) {
            self.set_send_env(known, values, &origin);
            return Ok(());
        }
        if matches!(known.kind, OptionValueKind::Jump) {
            self.set_jump(values, origin);
            return Ok(());
        }
        // `none` for a time, or just a comment, sets nothing.
        let is_empty = values.is_empty() && !matches!(known.kind, OptionValueKind::Algorithms(_));
        if is_empty || self.resolved.has(known.name) {
            return Ok(());
        }
        let mut values = values.to_vec();
        if matches!(known.kind, OptionValueKind::SetEnv) {
            let mut seen = std::collections::BTreeSet::new();
            values.retain(|pair| seen.insert(pair.split('=').next().map(str::to_owned)));
        }
        self.resolved.set(known.name, values, Some(origin));
        Ok(())
    }

    fn set_send_env(&mut self, known: &OptionSpec, names: &[String], origin: &Origin) {
        let sent = self.resolved.entry(known, origin);
        for name in names {
            match name.strip_prefix('-') {
                Some(pattern) => sent.values.retain(|name| !matches_pattern(name, pattern)),
                None => sent.values.push(name.clone()),
            }
        }
    }

    fn add_file(
        &mut self,
        known: &OptionSpec,
        values: &[String],
        is_user_file: bool,
        origin: &Origin,
    ) -> Result<(), ConfigError> {
        let entry = self.resolved.entry(known, origin);
        for value in values {
            if entry.values.len() >= MAX_FILES {
                let why = format_args!("too many files of {}, at most {MAX_FILES}", known.name);
                return Err(ConfigError::at_line(origin, why));
            }
            let mut pairs = entry.values.iter().zip(&entry.from_user_file);
            if !pairs.any(|(known, of_user)| known == value && *of_user == is_user_file) {
                entry.values.push(value.clone());
                entry.from_user_file.push(is_user_file);
            }
        }
        Ok(())
    }

    /// `ProxyJump` and `ProxyCommand` exclude each other: the first one wins.
    fn set_jump(&mut self, values: &[String], origin: Origin) {
        let is_none = values.first().is_none_or(|value| value == NO_JUMP);
        if self.resolved.has("proxyjump") || (!is_none && self.resolved.has("proxycommand")) {
            return;
        }
        self.resolved.set("proxyjump", values.to_vec(), Some(origin));
        if !is_none {
            self.resolved.set("proxycommand", vec!["none".to_owned()], None);
        }
    }
}

/// Returns true if a pattern matches and no negated one does.
pub(crate) fn matches_any(host: &str, patterns: &[Pattern]) -> bool {
    let mut is_match = false;
    for pattern in patterns.iter().filter(|pattern| matches_pattern(host, &pattern.text)) {
        if pattern.is_negated {
            return false;
        }
        is_match = true;
    }
    is_match
}

/// Returns the name to connect to: a normalised address, or the name in lower case and, if configured,
/// canonicalised with its domain.
fn canonical_host(
    name: String,
    resolved: &ResolvedOptions,
    has_address: Option<HasAddress>,
) -> Result<String, ConfigError> {
    let family = AddressFamily::from_options(resolved);
    let address = values::normalise_address(&name, family);
    if address.is_some() || values::looks_like_address(&name) {
        return Ok(address.unwrap_or(name));
    }
    let name = name.to_ascii_lowercase();
    let mode = resolved.first_or_default("canonicalizehostname");
    let is_direct =
        resolved.first_unless_none("proxycommand").is_none() && !resolved.has("proxyjump");
    if mode == "false" || (!is_direct && mode != "always") {
        return Ok(name);
    }
    if let Some(rules) = resolved.get("canonicalizepermittedcnames")
        && rules.values.iter().any(|rule| rule != "none")
        && let Some(at) = &rules.origin
    {
        let what = "CanonicalizePermittedCNAMEs".to_owned();
        return Err(ConfigError::NeedsSsh { at: at.clone(), what });
    }
    let max_dots = resolved.first_or_default("canonicalizemaxdots").parse().unwrap_or(1);
    let candidates: Vec<String> = if name.ends_with('.') {
        vec![name.clone()]
    } else if name.matches('.').count() > max_dots {
        return Ok(name);
    } else {
        let domains = resolved.all("canonicaldomains").iter().take_while(|d| *d != "none");
        domains.map(|domain| format!("{name}.{domain}.")).collect()
    };
    let has_address = match has_address {
        Some(has_address) => has_address,
        None if candidates.is_empty() => |_: &str, _| false,
        None => return Err(ConfigError::NeedsLookup),
    };
    if let Some(mut full) = candidates.into_iter().find(|full| has_address(full, family)) {
        full.pop();
        return Ok(full);
    }
    if resolved.first_or_default("canonicalizefallbacklocal") == "no" {
        let why = "it is in none of CanonicalDomains".to_owned();
        return Err(ConfigError::Invalid(Fault::NameNotFound { host: Some(name), why }));
    }
    Ok(name)
}
