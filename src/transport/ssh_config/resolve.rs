//! The files, read for one host: which blocks hold, and what is set first.

use std::sync::Arc;

use crate::transport::fault::Fault;
use crate::transport::ssh_config::lexer::{self, ListMatch};
use crate::transport::ssh_config::options::{OptionSpec, ValueKind};
use crate::transport::ssh_config::parse::{Criterion, MatchAttribute, Pattern};
use crate::transport::ssh_config::proxy_jump::NO_JUMP;
use crate::transport::ssh_config::resolved::ResolvedOptions;
use crate::transport::ssh_config::tree::{
    Block, BlockCondition, ConfigFile, ConfigTree, Directive,
};
use crate::transport::ssh_config::{
    AddressFamily, ConfigError, HostQuery, LocalEnv, Origin, defaults, values,
};

/// Most files of `IdentityFile` and of `CertificateFile`.
const MAX_FILES: usize = 100;

/// What `Match command` is compared with: how the line begins that gtop runs on a node.
const PROBE_COMMAND: &str = "exec /bin/sh";

/// Returns whether a name, its last dot included, has an address of a family.
pub(super) type HasAddress<'a> = &'a dyn Fn(&str, AddressFamily) -> bool;

/// Finds what holds for one host.
///
/// Without `has_address` no name is looked up, and [`ConfigError::OrderedNames`] says when one should be.
pub(super) fn resolve(
    tree: &ConfigTree,
    question: &HostQuery,
    around: &LocalEnv,
    has_address: Option<HasAddress<'_>>,
) -> Result<ResolvedOptions, ConfigError> {
    let files = tree.files.as_ref().map_err(Clone::clone)?;
    let mut answers = ResolvedOptions::default();
    if let Some(user) = &question.user {
        answers.put("user", vec![user.clone()], None);
    }
    if let Some(port) = question.port {
        answers.put("port", vec![port.to_string()], None);
    }
    let asked = question.host.as_str();
    let mut pass = Pass { question, around, host: asked, is_final: false, answers: &mut answers };
    pass.files(files)?;

    let name = pass.host_name()?;
    let host = canonical(name, &answers, has_address)?;
    if tree.wants_final || !answers.or_default("canonicalizehostname").eq("false") {
        rename(&mut answers, &host);
        // Whatever decides about the name cannot change once there is one.
        for option in ["canonicalizefallbacklocal", "canonicalizehostname", "canonicalizemaxdots"] {
            if !answers.has(option) {
                let default = answers.or_default(option).to_owned();
                answers.put(option, vec![default], None);
            }
        }
        let mut pass =
            Pass { question, around, host: &host, is_final: true, answers: &mut answers };
        pass.files(files)?;
    }
    rename(&mut answers, &host);
    defaults::finish(&mut answers, question, around)?;
    Ok(answers)
}

fn rename(answers: &mut ResolvedOptions, host: &str) {
    let origin = answers.get("hostname").and_then(|answer| answer.origin.clone());
    answers.put("hostname", vec![host.to_owned()], origin);
}

/// The files, read once from first to last.
struct Pass<'a> {
    question: &'a HostQuery,
    around: &'a LocalEnv,
    /// What `Host` lines are compared with.
    host: &'a str,
    is_final: bool,
    answers: &'a mut ResolvedOptions,
}

impl Pass<'_> {
    fn files(&mut self, files: &[ConfigFile]) -> Result<(), ConfigError> {
        files.iter().try_for_each(|file| self.file(file, true))
    }

    fn file(&mut self, file: &ConfigFile, holds_around: bool) -> Result<(), ConfigError> {
        for block in &file.blocks {
            let holds = holds_around && self.holds(file, block)?;
            if !holds && !block.is_always_read {
                continue;
            }
            for line in &block.lines {
                let origin = || Origin { file: Arc::clone(&file.path), line: line.number };
                match &line.item {
                    Directive::Set(known, values) if holds => {
                        self.set(known, values, file.is_users, origin)?;
                    }
                    Directive::Set(..) => {}
                    Directive::Include(files) => {
                        files.iter().try_for_each(|file| self.file(file, holds))?;
                    }
                    Directive::Unknown(keyword) => self.check_unknown(keyword, origin)?,
                    Directive::NeedsSsh(what) => {
                        return Err(ConfigError::NeedsSsh { at: origin(), what: what.clone() });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_unknown(&self, keyword: &str, origin: impl Fn() -> Origin) -> Result<(), ConfigError> {
        let ignored = self.answers.first("ignoreunknown").unwrap_or_default();
        if lexer::match_list_ignoring_case(keyword, ignored) == ListMatch::Yes {
            return Ok(());
        }
        let what = format!("bad configuration option: {keyword}");
        Err(ConfigError::NeedsSsh { at: origin(), what })
    }

    fn holds(&self, file: &ConfigFile, block: &Block) -> Result<bool, ConfigError> {
        match &block.when {
            BlockCondition::Always => Ok(true),
            BlockCondition::Host(patterns) => Ok(matches_any(self.host, patterns)),
            BlockCondition::Match(criteria) => {
                let at = || Origin { file: Arc::clone(&file.path), line: block.line };
                self.criteria_match(criteria, at)
            }
        }
    }

    fn criteria_match(
        &self,
        criteria: &[Criterion],
        at: impl FnOnce() -> Origin,
    ) -> Result<bool, ConfigError> {
        let host = self.host_name()?;
        let user = self.answers.first("user").unwrap_or(&self.around.user);
        let is = |holds: ListMatch| Some(holds == ListMatch::Yes);
        let mut foreign = None;
        for Criterion { test, is_negated } in criteria {
            let holds = match test {
                MatchAttribute::All => Some(true),
                MatchAttribute::SecondPass { .. } => Some(self.is_final),
                MatchAttribute::Host(list) => is(lexer::match_list_ignoring_case(&host, list)),
                MatchAttribute::OriginalHost(list) => {
                    is(lexer::match_list_ignoring_case(&self.question.host, list))
                }
                MatchAttribute::User(list) => is(lexer::judge(user, list)),
                MatchAttribute::LocalUser(list) => is(lexer::judge(&self.around.user, list)),
                MatchAttribute::SessionType(list) => is(lexer::judge(self.session_type(), list)),
                MatchAttribute::Command(list) => is(lexer::judge(PROBE_COMMAND, list)),
                MatchAttribute::Tagged(list) => match self.answers.first("tag").unwrap_or_default()
                {
                    "" => Some(list.is_empty()),
                    tag => is(lexer::judge(tag, list)),
                },
                MatchAttribute::NeedsSsh(what) => {
                    foreign = Some(*what);
                    None
                }
            };
            if holds == Some(*is_negated) {
                return Ok(false);
            }
        }
        match foreign {
            Some(what) => Err(ConfigError::NeedsSsh { at: at(), what: format!("Match {what}") }),
            None => Ok(true),
        }
    }

    fn session_type(&self) -> &str {
        match self.answers.or_default("sessiontype") {
            "default" => "exec",
            other => other,
        }
    }

    /// Returns the name of the host as far as it is known by now.
    fn host_name(&self) -> Result<String, ConfigError> {
        let Some(answer) = self.answers.get("hostname").filter(|_| !self.is_final) else {
            return Ok(self.host.to_owned());
        };
        let raw = answer.values.first().map_or("", String::as_str);
        let mut text = String::new();
        let mut rest = raw.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => match rest.next() {
                    Some('h') => text.push_str(self.host),
                    Some('%') => text.push('%'),
                    _ => {
                        let nowhere = Origin { file: Arc::from(std::path::Path::new("")), line: 0 };
                        let at = answer.origin.as_ref().unwrap_or(&nowhere);
                        return Err(ConfigError::wrong(
                            at,
                            format_args!("unknown token in HostName {raw}"),
                        ));
                    }
                },
                c => text.push(c),
            }
        }
        Ok(text)
    }

    fn set(
        &mut self,
        known: &'static OptionSpec,
        values: &[String],
        is_users: bool,
        origin: impl Fn() -> Origin,
    ) -> Result<(), ConfigError> {
        if known.kind == ValueKind::Files {
            return self.add_file(known, values, is_users, origin);
        }
        if known.kind == ValueKind::SendEnv {
            self.send(known, values, origin);
            return Ok(());
        }
        if known.kind == ValueKind::Jump {
            self.set_jump(values, origin);
            return Ok(());
        }
        // `none` for a time leaves it open, and a comment is no value.
        let says_nothing = values.is_empty() && !matches!(known.kind, ValueKind::Algorithms(_));
        if says_nothing || self.answers.has(known.name) {
            return Ok(());
        }
        let mut values = values.to_vec();
        if known.kind == ValueKind::SetEnv {
            let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
            let mut seen = std::collections::BTreeSet::new();
            values.retain(|pair| seen.insert(name(pair)));
        }
        self.answers.put(known.name, values, Some(origin()));
        Ok(())
    }

    fn send(&mut self, known: &'static OptionSpec, names: &[String], origin: impl Fn() -> Origin) {
        let sent = self.answers.add(known, origin);
        for name in names {
            match name.strip_prefix('-') {
                Some(pattern) => sent.values.retain(|one| !lexer::matches(one, pattern)),
                None => sent.values.push(name.clone()),
            }
        }
    }

    fn add_file(
        &mut self,
        known: &'static OptionSpec,
        values: &[String],
        is_users: bool,
        origin: impl Fn() -> Origin,
    ) -> Result<(), ConfigError> {
        let answer = self.answers.add(known, &origin);
        for value in values {
            if answer.values.len() >= MAX_FILES {
                let why = format_args!("too many files of {}, at most {MAX_FILES}", known.name);
                return Err(ConfigError::wrong(&origin(), why));
            }
            let mut pairs = answer.values.iter().zip(&answer.from_user_file);
            if !pairs.any(|(one, of)| one == value && *of == is_users) {
                answer.values.push(value.clone());
                answer.from_user_file.push(is_users);
            }
        }
        Ok(())
    }

    /// A jump and a command exclude each other: what is set first wins.
    fn set_jump(&mut self, values: &[String], origin: impl Fn() -> Origin) {
        let is_none = values.first().is_none_or(|value| value == NO_JUMP);
        if self.answers.has("proxyjump") || (!is_none && self.answers.has("proxycommand")) {
            return;
        }
        self.answers.put("proxyjump", values.to_vec(), Some(origin()));
        if !is_none {
            self.answers.put("proxycommand", vec!["none".to_owned()], None);
        }
    }
}

/// Returns whether a pattern takes the name and none with `!` does.
pub(super) fn matches_any(host: &str, patterns: &[Pattern]) -> bool {
    let mut is_in = false;
    for pattern in patterns.iter().filter(|pattern| lexer::matches(host, &pattern.text)) {
        if pattern.is_negated {
            return false;
        }
        is_in = true;
    }
    is_in
}

/// Returns the name to connect to: an address as usually spelt, else in lower case and, when that
/// is configured, with its domain.
fn canonical(
    name: String,
    answers: &ResolvedOptions,
    has_address: Option<HasAddress<'_>>,
) -> Result<String, ConfigError> {
    let family = AddressFamily::of(answers);
    let address = values::address(&name, family);
    if address.is_some() || values::looks_like_address(&name) {
        return Ok(address.unwrap_or(name));
    }
    let name = name.to_ascii_lowercase();
    let how = answers.or_default("canonicalizehostname");
    let is_direct = answers.chosen("proxycommand").is_none() && !answers.has("proxyjump");
    if how == "false" || (!is_direct && how != "always") {
        return Ok(name);
    }
    if let Some(rules) = answers.get("canonicalizepermittedcnames")
        && rules.values.iter().any(|rule| rule != "none")
        && let Some(at) = &rules.origin
    {
        let what = "CanonicalizePermittedCNAMEs".to_owned();
        return Err(ConfigError::NeedsSsh { at: at.clone(), what });
    }
    let most = answers.or_default("canonicalizemaxdots").parse().unwrap_or(1);
    let candidates: Vec<String> = if name.ends_with('.') {
        vec![name.clone()]
    } else if name.matches('.').count() > most {
        return Ok(name);
    } else {
        let domains = answers.all("canonicaldomains").iter().take_while(|d| *d != "none");
        domains.map(|domain| format!("{name}.{domain}.")).collect()
    };
    let has_address = match has_address {
        Some(has_address) => has_address,
        None if candidates.is_empty() => &|_: &str, _| false,
        None => return Err(ConfigError::NeedsLookup),
    };
    if let Some(mut full) = candidates.into_iter().find(|full| has_address(full, family)) {
        full.pop();
        return Ok(full);
    }
    if answers.or_default("canonicalizefallbacklocal") == "no" {
        let why = "it is in none of CanonicalDomains".to_owned();
        return Err(ConfigError::Invalid(Fault::NameNotFound { host: Some(name), why }));
    }
    Ok(name)
}
