//! Parses the subset of YAML that group files use: sources, groups, node sets.
//!
//! ```yaml
//! racks:                    # a source
//!     rack1: 'gpu[01-16]'   # a group; quotes may be left out
//!     rack2: gpu[17-32],
//!         gpu40             # a text may continue on the next line
//!     rack3: [gpu50, gpu51]
//!     rack4:
//!         - gpu[60-62]
//!     empty:
//! ```
//!
//! Anchors, tags, flow mappings and further documents are errors.

use std::collections::BTreeMap;

/// Groups with their node sets, by source.
pub(super) type Lists = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// A syntax error and its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) why: &'static str,
}

const NO_KEY: &str = "this is neither SOURCE: nor GROUP: NODES; indent groups below their source";
const NO_NODES: &str = "this is not a node set; write GROUP: 'gpu[01-16]' or a list of node sets";
const NO_QUOTE: &str = "the quote is not closed on this line";
const TABS: &str = "indent with spaces, not with tabs";
const UNSUPPORTED: &str =
    "anchors, tags, braces and multiple documents are not supported in group files";

/// A line that is not empty.
struct YamlLine<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// The source and group of the current line.
#[derive(Default)]
struct ParseContext {
    source: Option<String>,
    group: Option<String>,
    /// Indentation of the groups of this source.
    indent: usize,
    /// The group has no value on its line, so a list may follow.
    is_open: bool,
}

/// Parses a group file.
pub(super) fn parse(text: &str) -> Result<Lists, YamlError> {
    let mut lists = Lists::new();
    let mut context = ParseContext::default();
    let mut outermost = None;
    for line in lines(text) {
        let line = line?;
        let error = |why| YamlError { line: line.number, why };
        let outermost = *outermost.get_or_insert(line.indent);
        let item =
            line.text.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '));
        let ParseContext { source, group, indent, is_open } = &mut context;
        if line.indent == outermost && !(item.is_some() && *is_open && *indent == outermost) {
            let (name, rest) = split_key(line.text).ok_or(error(NO_KEY))?;
            if !parse_values(rest).map_err(error)?.is_empty() {
                return Err(error(NO_KEY));
            }
            lists.entry(name.clone()).or_default();
            context = ParseContext { source: Some(name), ..ParseContext::default() };
            continue;
        }
        let groups =
            source.as_ref().and_then(|source| lists.get_mut(source)).ok_or(error(NO_KEY))?;
        let texts = group.as_ref().and_then(|group| groups.get_mut(group));
        match (texts, item) {
            (Some(texts), Some(item)) if *is_open && line.indent >= *indent => {
                texts.extend(parse_values(item.trim()).map_err(error)?);
            }
            (Some(texts), None) if line.indent > *indent => {
                // A continued text; in a node set a space counts as a comma.
                let more = parse_values(line.text).map_err(error)?.join(" ");
                match texts.last_mut() {
                    Some(last) => *last = format!("{last} {more}"),
                    None => texts.push(more),
                }
            }
            (texts, None) if texts.is_none() || line.indent == *indent => {
                let (name, rest) = split_key(line.text).ok_or(error(NO_KEY))?;
                groups.insert(name.clone(), parse_values(rest).map_err(error)?);
                (*group, *indent, *is_open) = (Some(name), line.indent, rest.is_empty());
            }
            _ => return Err(error(NO_KEY)),
        }
    }
    Ok(lists)
}

/// Returns the lines that are not empty, without comments.
fn lines(text: &str) -> impl Iterator<Item = Result<YamlLine<'_>, YamlError>> {
    let mut has_begun = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let text = strip_comment(line).trim_end();
        let number = at + 1;
        let body = text.trim_start_matches(' ');
        match body {
            "" => None,
            // The first one only begins the document.
            "---" if !std::mem::replace(&mut has_begun, true) => None,
            "---" | "..." => Some(Err(YamlError { line: number, why: UNSUPPORTED })),
            _ if body.starts_with('\t') => Some(Err(YamlError { line: number, why: TABS })),
            _ => {
                has_begun = true;
                Some(Ok(YamlLine { number, indent: text.len() - body.len(), text: body }))
            }
        }
    })
}

fn strip_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') if before.is_whitespace() => return line.get(..at).unwrap_or_default(),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        before = letter;
    }
    line
}

/// Splits `key: rest`.
fn split_key(text: &str) -> Option<(String, &str)> {
    if let Some(open) = text.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        let (name, rest) = text.get(1..)?.split_once(open)?;
        return Some((name.to_owned(), rest.trim_start().strip_prefix(':')?.trim()));
    }
    let is_separator = |(at, _): &(usize, &str)| {
        text.get(at + 1..).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let (at, _) = text.match_indices(':').find(is_separator)?;
    let (name, rest) = text.split_at_checked(at)?;
    Some((name.trim_end().to_owned(), rest.get(1..)?.trim()))
}

/// Parses a scalar, or a list in brackets.
fn parse_values(text: &str) -> Result<Vec<String>, &'static str> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" | "|" | "|-" | "|+" | ">" | ">-" | ">+" => {
            return Ok(Vec::new());
        }
        _ => {}
    }
    if let Some(inside) = text.strip_prefix('[') {
        let inside = inside.strip_suffix(']').ok_or(NO_NODES)?;
        let parts = split_list(inside).into_iter().map(str::trim).filter(|part| !part.is_empty());
        return parts.map(parse_scalar).collect();
    }
    parse_scalar(text).map(|text| vec![text])
}

/// Splits at commas outside quotes and brackets.
fn split_list(text: &str) -> Vec<&str> {
    let (mut quote, mut depth) = (None, 0_usize);
    let is_separator = |letter: char| {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && quote.is_none() && depth == 0
    };
    text.split(is_separator).collect()
}

fn parse_scalar(text: &str) -> Result<String, &'static str> {
    match text.chars().next() {
        Some('\'') => {
            let inside = text.get(1..).and_then(|rest| rest.strip_suffix('\'')).ok_or(NO_QUOTE)?;
            Ok(inside.replace("''", "'"))
        }
        Some('"') => {
            let inside = text.get(1..).and_then(|rest| rest.strip_suffix('"')).ok_or(NO_QUOTE)?;
            if inside.contains('\\') { Err(NO_NODES) } else { Ok(inside.to_owned()) }
        }
        Some('&' | '*' | '!' | '{' | '}' | '%' | '`' | '?') => Err(UNSUPPORTED),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_hold_groups_of_node_sets() {
        let text = "# c\n---\nroles:\n    adm: 'example0'\n    io: '@racks:rack2,example2' # c\n\n\
            racks:\n  rack1: example[0,2]\n  \"rack2\": [ 'a[1,2]', b, ]\n  rack5:\n    - 'x[1-2]'  # c\n    \
            - y,z\n  rack6:\n  - w\n  long: a,\n    b # c\n    c\n  none:\n  nil: ~\n  fold: >\n    d\n    e\n";
        let lists = parse(text).unwrap();
        let group = |source: &str, group: &str| lists[source][group].clone();
        assert_eq!(lists.keys().collect::<Vec<_>>(), ["racks", "roles"]);
        assert_eq!(group("roles", "io"), ["@racks:rack2,example2"]);
        assert_eq!(group("racks", "rack1"), ["example[0,2]"]);
        assert_eq!(group("racks", "rack2"), ["a[1,2]", "b"]);
        assert_eq!(group("racks", "rack5"), ["x[1-2]", "y,z"]);
        assert_eq!(group("racks", "rack6"), ["w"]);
        assert_eq!(group("racks", "long"), ["a, b c"]);
        assert_eq!(group("racks", "fold"), ["d e"]);
        assert!(group("racks", "none").is_empty() && group("racks", "nil").is_empty());
    }

    #[test]
    fn a_comment_starts_after_a_space_and_never_in_quotes() {
        for (line, expected) in [
            ("a: b # c", "a: b "),
            ("# c", ""),
            ("a: b#c", "a: b#c"),
            ("a: 'b # c'", "a: 'b # c'"),
            ("a: 'b' # c", "a: 'b' "),
            ("a: \"b ' # c\" # d", "a: \"b ' # c\" "),
        ] {
            assert_eq!(strip_comment(line), expected, "{line}");
        }
    }

    #[test]
    fn a_list_is_split_at_commas_outside_quotes_and_brackets() {
        for (text, parts) in [
            ("", &[][..]),
            ("~", &[]),
            ("a", &["a"]),
            ("a,b", &["a,b"]),
            ("[a, b]", &["a", "b"]),
            ("[a[1,2], b[3,4]c[5,6], d]", &["a[1,2]", "b[3,4]c[5,6]", "d"]),
            ("['a,b', \"c,d\", e]", &["a,b", "c,d", "e"]),
            ("[a], b]", &["a]", "b"]),
            ("'it''s'", &["it's"]),
        ] {
            let expected = parts.iter().map(|part| (*part).to_owned()).collect();
            assert_eq!(parse_values(text), Ok(expected), "{text}");
        }
        for text in ["[a", "'a", "\"a", "\"a\\n\"", "&a", "*a", "!a", "{a}"] {
            assert!(parse_values(text).is_err(), "{text}");
        }
    }

    #[test]
    fn syntax_errors_have_a_line() {
        for (text, line, why) in [
            ("a: b\n", 1, NO_KEY),
            ("a:\n  b\n", 2, NO_KEY),
            ("a:\n  b: 'c\n", 2, NO_QUOTE),
            ("a:\n  b: &c d\n", 2, UNSUPPORTED),
            ("a:\n  b: {c: d}\n", 2, UNSUPPORTED),
            ("a:\n  b: [c\n", 2, NO_NODES),
            ("- a\n", 1, NO_KEY),
            ("a:\n\tb: c\n", 2, TABS),
            ("a:\n  b: c\n---\nd:\n", 3, UNSUPPORTED),
            ("a:\n    b: c\n  d: e\n", 3, NO_KEY),
        ] {
            assert_eq!(parse(text), Err(YamlError { line, why }), "{text}");
        }
        assert!(parse("").unwrap().is_empty());
    }
}
