//! Parses one line of a configuration file.

use crate::config::algorithm_sets::{AlgorithmListError, AlgorithmSet};
use crate::config::lexer;
use crate::config::options::{self, Keyword, OptionSpec, OptionValueKind};
use crate::config::proxy_jump;
use crate::config::values;

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ParsedLine {
    Empty,
    /// A `Host` line.
    Host(Vec<Pattern>),
    /// A `Match` line.
    Match(Vec<Criterion>),
    /// File names, with wildcards.
    Include(Vec<String>),
    /// An option and its values, as `ssh -G` prints them.
    Set(&'static OptionSpec, Vec<String>),
    /// An unknown keyword, in lower case.
    Unknown(String),
}

/// A host name pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) is_negated: bool,
}

/// One condition of a `Match` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Criterion {
    pub(crate) attribute: MatchAttribute,
    pub(crate) is_negated: bool,
}

/// The attribute of a condition, with its pattern list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MatchAttribute {
    All,
    /// `final` and `canonical`: the second pass over the files.
    SecondPass {
        /// It requests the second pass.
        is_wanted: bool,
    },
    Host(String),
    OriginalHost(String),
    User(String),
    LocalUser(String),
    Tagged(String),
    SessionType(String),
    Command(String),
    /// Only the `ssh` program can evaluate it.
    NeedsSsh(&'static str),
}

/// Why a line is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineError {
    /// No version of OpenSSH accepts it.
    Invalid(String),
    /// Another version of OpenSSH may accept it.
    Unknown(String),
}

fn invalid<T>(why: impl Into<String>) -> Result<T, LineError> {
    Err(LineError::Invalid(why.into()))
}

/// Parses a line, without the newline.
pub(crate) fn parse_line(text: &str) -> Result<ParsedLine, LineError> {
    // A line ends at a NUL byte, as in C.
    let text = text.split('\0').next().unwrap_or_default();
    let mut rest = match text.trim_end_matches([' ', '\t', '\r', '\n', '\u{c}']) {
        "" => text.get(..1),
        trimmed => Some(trimmed),
    };
    let mut word = lexer::next_word(&mut rest);
    if word.as_deref() == Some("") {
        word = lexer::next_word(&mut rest);
    }
    let Some(word) = word.filter(|word| !word.is_empty() && !word.starts_with('#')) else {
        return Ok(ParsedLine::Empty);
    };
    let word = word.to_ascii_lowercase();
    let rest = rest.unwrap_or_default().trim_start_matches([' ', '\t', '\r', '\n']);
    if rest.is_empty() {
        return invalid(format!("no argument after keyword \"{word}\""));
    }
    let keyword = options::parse_keyword(&word);
    let Some(arguments) = lexer::split_arguments(rest) else { return invalid("invalid quotes") };
    let has_empty = arguments.iter().any(String::is_empty);
    match keyword {
        Keyword::Unknown => Ok(ParsedLine::Unknown(word)),
        Keyword::Obsolete => Ok(ParsedLine::Empty),
        Keyword::Host | Keyword::Include if has_empty => {
            invalid(format!("keyword {word} empty argument"))
        }
        Keyword::Host => Ok(ParsedLine::Host(arguments.into_iter().map(parse_pattern).collect())),
        Keyword::Match => parse_criteria(rest).map(ParsedLine::Match),
        Keyword::Include => Ok(ParsedLine::Include(arguments)),
        Keyword::Option(known) => Ok(ParsedLine::Set(
            known,
            Arguments { word: &word, rest, all: arguments }.parse_values(known)?,
        )),
    }
}

fn parse_pattern(text: String) -> Pattern {
    match text.strip_prefix('!') {
        Some(rest) => Pattern { text: rest.to_owned(), is_negated: true },
        None => Pattern { text, is_negated: false },
    }
}

/// Parses the conditions of a `Match` line.
fn parse_criteria(text: &str) -> Result<Vec<Criterion>, LineError> {
    let mut rest = Some(text);
    let mut criteria = Vec::new();
    while let Some(word) = lexer::next_word(&mut rest) {
        if word.is_empty() || word.starts_with('#') {
            break;
        }
        let (name, is_negated) = match word.strip_prefix('!') {
            Some(name) => (name.to_ascii_lowercase(), true),
            None => (word.to_ascii_lowercase(), false),
        };
        if name == "all" {
            let next = lexer::next_word(&mut rest).unwrap_or_default();
            if criteria.len() > 1 || !(next.is_empty() || next.starts_with('#')) {
                return invalid("'all' cannot be combined with other Match attributes");
            }
            criteria.push(Criterion { attribute: MatchAttribute::All, is_negated });
            return Ok(criteria);
        }
        let attribute = match name.as_str() {
            "final" => MatchAttribute::SecondPass { is_wanted: true },
            "canonical" => MatchAttribute::SecondPass { is_wanted: false },
            _ => parse_attribute(&name, &mut rest)?,
        };
        criteria.push(Criterion { attribute, is_negated });
    }
    if criteria.is_empty() {
        return invalid("one or more attributes required for Match");
    }
    Ok(criteria)
}

fn parse_attribute(name: &str, rest: &mut Option<&str>) -> Result<MatchAttribute, LineError> {
    let make = match name {
        "host" => MatchAttribute::Host,
        "originalhost" => MatchAttribute::OriginalHost,
        "user" => MatchAttribute::User,
        "localuser" => MatchAttribute::LocalUser,
        "tagged" => MatchAttribute::Tagged,
        "sessiontype" => MatchAttribute::SessionType,
        "command" => MatchAttribute::Command,
        "exec" => |_command| MatchAttribute::NeedsSsh("exec"),
        "localnetwork" => |_networks| MatchAttribute::NeedsSsh("localnetwork"),
        "version" => |_patterns| MatchAttribute::NeedsSsh("version"),
        _ => return Err(LineError::Unknown(format!("unsupported Match attribute {name}"))),
    };
    let may_be_empty = matches!(name, "tagged" | "command");
    match lexer::next_word(rest) {
        Some(list) if !list.starts_with('#') && (may_be_empty || !list.is_empty()) => {
            Ok(make(list.into_owned()))
        }
        _ => invalid(format!("missing Match criteria for {name}")),
    }
}

/// The arguments of a keyword.
struct Arguments<'a> {
    /// The keyword as it was written, in lower case.
    word: &'a str,
    rest: &'a str,
    all: Vec<String>,
}

impl Arguments<'_> {
    fn parse_values(self, option: &OptionSpec) -> Result<Vec<String>, LineError> {
        match option.kind {
            OptionValueKind::Any => Ok(vec![self.rest.to_owned()]),
            OptionValueKind::Validated(check) => {
                let words: Vec<&str> = self.all.iter().map(String::as_str).collect();
                check(&words).map_err(LineError::Invalid)?;
                Ok(vec![words.join(" ")])
            }
            OptionValueKind::Command => {
                let command = self.rest.trim_start_matches([' ', '\t', '\r', '\n', '=']);
                Ok(vec![command.to_owned()])
            }
            OptionValueKind::Jump => {
                let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n', '=']);
                let jump = proxy_jump::normalise(text);
                jump.map(|jump| vec![jump])
                    .ok_or_else(|| LineError::Invalid(format!("invalid ProxyJump \"{text}\"")))
            }
            OptionValueKind::Words(max) => self.parse_words(max),
            OptionValueKind::Domains => self.parse_domains(),
            OptionValueKind::PermittedCnames => self.parse_permitted_cnames(),
            OptionValueKind::SendEnv
                if self.all.iter().any(|name| name.is_empty() || name.contains('=')) =>
            {
                invalid("invalid environment name")
            }
            OptionValueKind::SetEnv if !self.all.iter().all(|pair| pair.contains('=')) => {
                invalid("invalid SetEnv")
            }
            OptionValueKind::SendEnv | OptionValueKind::SetEnv => Ok(self.all),
            OptionValueKind::Choice(words) => self.single(|text| parse_choice(words, &text)),
            OptionValueKind::Seconds => self.single(|text| match values::parse_seconds(&text) {
                _ if text == "none" => Ok(Vec::new()),
                Some(seconds) => Ok(vec![seconds.to_string()]),
                None => invalid("invalid time value"),
            }),
            OptionValueKind::Number => self.single(|text| match values::parse_number(&text) {
                Some(number) => Ok(vec![number.to_string()]),
                None => invalid(format!("'{text}' is not a number")),
            }),
            OptionValueKind::Port => self.single(|text| match values::parse_port(&text) {
                Some(port) => Ok(vec![port.to_string()]),
                None => invalid(format!("bad port '{text}'")),
            }),
            OptionValueKind::Algorithms(names) => {
                let word = self.word;
                self.single(|text| parse_algorithms(names, word, &text))
            }
            OptionValueKind::Agent => self.single(|text| Ok(vec![parse_agent(text)?])),
            OptionValueKind::Text | OptionValueKind::Files => self.single(|text| Ok(vec![text])),
        }
    }

    /// Parses the only argument.
    fn single(
        mut self,
        parse: impl FnOnce(String) -> Result<Vec<String>, LineError>,
    ) -> Result<Vec<String>, LineError> {
        let extra = self.all.len() > 1;
        if self.all.first().is_none_or(String::is_empty) {
            return invalid("missing argument");
        }
        let values = parse(self.all.swap_remove(0))?;
        if extra {
            return invalid(format!("keyword {} extra arguments at end of line", self.word));
        }
        Ok(values)
    }

    fn check_none(&self) -> Result<(), LineError> {
        let word = self.word;
        if self.all.iter().any(String::is_empty) {
            return invalid(format!("keyword {word} empty argument"));
        }
        if self.all.len() > 1 && self.all.iter().any(|text| text.eq_ignore_ascii_case("none")) {
            return invalid(format!("keyword {word} \"none\" argument must appear alone"));
        }
        Ok(())
    }

    fn parse_words(self, max: usize) -> Result<Vec<String>, LineError> {
        self.check_none()?;
        if self.all.len() > max {
            return invalid(format!("too many {} entries", self.word));
        }
        Ok(match self.all.as_slice() {
            [alone] if alone.eq_ignore_ascii_case("none") => vec!["none".to_owned()],
            _ => self.all,
        })
    }

    fn parse_domains(self) -> Result<Vec<String>, LineError> {
        self.check_none()?;
        if self.all.len() > 32 {
            return invalid("too many hostname suffixes");
        }
        self.all.iter().map(|text| values::parse_domain(text).map_err(LineError::Invalid)).collect()
    }

    fn parse_permitted_cnames(self) -> Result<Vec<String>, LineError> {
        let alone = self.all.len() == 1;
        let rules = self.all.into_iter().map(|text| {
            if text.eq_ignore_ascii_case("none") {
                let why = "CanonicalizePermittedCNAMEs \"none\" argument must appear alone";
                return if alone { Ok("none".to_owned()) } else { invalid(why) };
            }
            if text == "*" {
                return Ok("*:*".to_owned());
            }
            match text.split_once(':') {
                Some((_, targets)) if !targets.is_empty() => Ok(text.to_ascii_lowercase()),
                _ => invalid(format!("invalid permitted CNAME \"{text}\"")),
            }
        });
        rules.collect()
    }
}

fn parse_choice(words: &[(&str, &str)], text: &str) -> Result<Vec<String>, LineError> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    let printed = found.map(|(_, printed)| vec![(*printed).to_owned()]);
    printed.ok_or_else(|| LineError::Unknown(format!("unsupported option \"{text}\"")))
}

/// An empty result is an empty list, which is an error only if it takes effect.
fn parse_algorithms(
    names: &AlgorithmSet,
    word: &str,
    text: &str,
) -> Result<Vec<String>, LineError> {
    match names.expand(text) {
        Ok(names) => Ok(names),
        Err(AlgorithmListError::Empty) => Ok(Vec::new()),
        Err(AlgorithmListError::UnknownName) => {
            Err(LineError::Unknown(format!("bad {word} '{text}'")))
        }
    }
}

fn parse_agent(text: String) -> Result<String, LineError> {
    if !values::variables_are_set(&text) {
        return invalid(format!("invalid environment expansion {text}"));
    }
    let name = text.strip_prefix('$').filter(|name| !name.starts_with('{'));
    match name {
        Some(name) if !values::is_variable(name) => {
            invalid(format!("invalid environment name {text}"))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_option(text: &str) -> (&'static str, Vec<String>) {
        match parse_line(text) {
            Ok(ParsedLine::Set(known, values)) => (known.name, values),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn blank_lines_and_comments_are_empty() {
        for text in ["", " ", "\t \r", "# x", "  #Port 22", "\0Port 22", "UseRoaming no"] {
            assert_eq!(parse_line(text), Ok(ParsedLine::Empty), "{text:?}");
        }
    }

    #[test]
    fn values_are_normalised_as_ssh_prints_them() {
        for (text, name, value) in [
            ("  port=2222", "port", "2222"),
            ("PORT 22\r", "port", "22"),
            ("KeepAlive No", "tcpkeepalive", "no"),
            ("ConnectTimeout 1m30", "connecttimeout", "90"),
            ("ProxyCommand = nc \"%h\" # no comment", "proxycommand", "nc \"%h\" # no comment"),
            ("User \"a b\" # comment", "user", "a b"),
            ("StrictHostKeyChecking OFF", "stricthostkeychecking", "false"),
            ("ProxyJump a,ada@[::1]:7", "proxyjump", "a,ada@[::1]:7"),
            ("Port 22\0 nonsense", "port", "22"),
        ] {
            assert_eq!(parse_option(text), (name, vec![value.to_owned()]), "{text}");
        }
        assert_eq!(parse_option("ConnectTimeout none").1, Vec::<String>::new());
        assert_eq!(parse_option("UserKnownHostsFile a \"b c\"").1, ["a", "b c"]);
    }

    #[test]
    fn invalid_lines_are_distinguished_from_unknown_ones() {
        for text in [
            "Port",
            "Port 0",
            "Port abc",
            "Port 22 23",
            "Host \"a",
            "Host \"\"",
            "Match",
            "Match all x",
            "Match host",
            "ConnectTimeout x",
            "UserKnownHostsFile none a",
            "SetEnv a",
            "SendEnv a=b",
            "IdentityAgent ${GTOP_NO_SUCH_VARIABLE}",
            "IdentityAgent $a-b",
            "CanonicalDomains a..b",
            "ProxyJump a:b",
            "IdentityFile \"\"",
        ] {
            assert!(
                matches!(parse_line(text), Err(LineError::Invalid(_))),
                "{text}: {:?}",
                parse_line(text)
            );
        }
        for text in ["Match nobody x", "Ciphers rot13", "Compression perhaps"] {
            assert!(matches!(parse_line(text), Err(LineError::Unknown(_))), "{text}");
        }
        assert_eq!(parse_line("Hosst x"), Ok(ParsedLine::Unknown("hosst".to_owned())));
    }

    #[test]
    fn match_attributes_of_later_versions_are_accepted() {
        for text in [
            "Match tagged x",
            "Match tagged \"\"",
            "Match sessiontype exec",
            "Match command \"git *\"",
            "Match version OpenSSH_*",
            "Match localnetwork 10.0.0.0/8",
            "Match host=n1 !user root",
        ] {
            assert!(matches!(parse_line(text), Ok(ParsedLine::Match(_))), "{text}");
        }
    }
}
