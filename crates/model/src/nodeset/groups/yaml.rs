//! Reads the YAML of group files: sources, groups, node sets.
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
//! Anchors, aliases, tags and further documents are errors. Nothing is expanded and nothing is nested deeper, so that a file
//! takes no more time and memory than its length allows.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// Groups with their node sets, by source.
pub(super) type Lists = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// A syntax error and its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) why: String,
}

const NO_KEY: &str = "this is neither SOURCE: nor GROUP: NODES; indent groups below their source";
const NO_NODES: &str = "this is not a node set; write GROUP: 'gpu[01-16]' or a list of node sets";
const UNSUPPORTED: &str =
    "anchors, aliases, tags and multiple documents are not supported in group files";

/// Parses a group file.
pub(super) fn parse(text: &str) -> Result<Lists, YamlError> {
    let mut reader = GroupReader { parser: Parser::new_from_str(text), line: 1 };
    let mut lists = Lists::new();
    // The first event is the start of the stream.
    reader.next()?;
    if reader.next()? == Event::StreamEnd {
        return Ok(lists);
    }
    if reader.is_mapping()? {
        while let Some(source) = reader.key()? {
            let groups = lists.entry(source).or_default();
            if reader.is_mapping()? {
                while let Some(group) = reader.key()? {
                    groups.insert(group, reader.node_sets()?);
                }
            }
        }
    }
    reader.next()?;
    if reader.next()? == Event::StreamEnd { Ok(lists) } else { Err(reader.error(UNSUPPORTED)) }
}

struct GroupReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The line of the last event.
    line: usize,
}

impl<'a> GroupReader<'a> {
    fn next(&mut self) -> Result<Event<'a>, YamlError> {
        let (event, span) = match self.parser.next_event() {
            Some(Ok(next)) => next,
            Some(Err(error)) => {
                let why = format!("{}; write GROUP: 'gpu[01-16]', in quotes", error.info());
                return Err(YamlError { line: error.marker().line(), why });
            }
            None => return Ok(Event::StreamEnd),
        };
        self.line = span.start.line();
        if let Event::Scalar(_, _, 1.., _)
        | Event::SequenceStart(1.., _)
        | Event::MappingStart(1.., _)
        | Event::Scalar(_, _, _, Some(_))
        | Event::SequenceStart(_, Some(_))
        | Event::MappingStart(_, Some(_))
        | Event::Alias(_) = event
        {
            return Err(self.error(UNSUPPORTED));
        }
        Ok(event)
    }

    fn error(&self, why: &str) -> YamlError {
        YamlError { line: self.line, why: why.to_owned() }
    }

    /// Returns true at the start of a mapping, false for no value.
    fn is_mapping(&mut self) -> Result<bool, YamlError> {
        let event = self.next()?;
        let is_mapping = matches!(event, Event::MappingStart(..));
        if is_mapping || is_null(&event) { Ok(is_mapping) } else { Err(self.error(NO_KEY)) }
    }

    /// Returns the next key of a mapping; `None` at its end.
    fn key(&mut self) -> Result<Option<String>, YamlError> {
        let event = self.next()?;
        if let Event::Scalar(name, ..) = event {
            return Ok(Some(name.into_owned()));
        }
        if event == Event::MappingEnd { Ok(None) } else { Err(self.error(NO_KEY)) }
    }

    /// Returns the node sets of a group: a text or a list of texts.
    fn node_sets(&mut self) -> Result<Vec<String>, YamlError> {
        let mut sets = Vec::new();
        let first = self.next()?;
        if !matches!(first, Event::SequenceStart(..)) {
            sets.extend(self.node_set(first)?);
            return Ok(sets);
        }
        loop {
            let event = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(sets);
            }
            sets.extend(self.node_set(event)?);
        }
    }

    fn node_set(&self, event: Event<'_>) -> Result<Option<String>, YamlError> {
        let is_empty = is_null(&event);
        let Event::Scalar(text, ..) = event else { return Err(self.error(NO_NODES)) };
        Ok((!is_empty).then(|| text.into_owned()))
    }
}

/// Returns true for no value: an empty text without quotes, or one of the words for it.
fn is_null(event: &Event<'_>) -> bool {
    const WORDS: [&str; 5] = ["", "~", "null", "Null", "NULL"];
    matches!(event, Event::Scalar(text, ScalarStyle::Plain, ..) if WORDS.contains(&&**text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_hold_groups_of_node_sets() {
        let text = "# c\n---\nroles:\n    adm: 'example0'\n    io: '@racks:rack2,example2' # c\n\n\
            racks:\n  rack1: example[0,2]\n  \"rack2\": [ 'a[1,2]', b, ]\n  rack5:\n    - 'x[1-2]'  # c\n    \
            - y,z\n  rack6:\n  - w\n  long: a,\n    b\n    c # c\n  none:\n  nil: ~\n  fold: >\n    d\n    e\n  it: 'it''s'\n\
            none:\nbraces: {a: b}\n";
        let lists = parse(text).unwrap();
        let group = |source: &str, group: &str| lists[source][group].clone();
        assert_eq!(lists.keys().collect::<Vec<_>>(), ["braces", "none", "racks", "roles"]);
        assert_eq!(group("roles", "io"), ["@racks:rack2,example2"]);
        assert_eq!(group("racks", "rack1"), ["example[0,2]"]);
        assert_eq!(group("racks", "rack2"), ["a[1,2]", "b"]);
        assert_eq!(group("racks", "rack5"), ["x[1-2]", "y,z"]);
        assert_eq!(group("racks", "rack6"), ["w"]);
        assert_eq!(group("racks", "long"), ["a, b c"]);
        assert_eq!(group("racks", "fold"), ["d e\n"]);
        assert_eq!(group("racks", "it"), ["it's"]);
        assert_eq!(group("braces", "a"), ["b"]);
        assert!(group("racks", "none").is_empty() && group("racks", "nil").is_empty());
        for text in ["", "# c\n", "---\n", "~"] {
            assert!(parse(text).unwrap().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn errors_have_a_line() {
        for (text, line, why) in [
            ("a: b\n", 1, NO_KEY),
            ("a:\n  b\n", 2, NO_KEY),
            ("- a\n", 1, NO_KEY),
            ("a:\n  b: [c, [d]]\n", 2, NO_NODES),
            ("a:\n  b: {c: d}\n", 2, NO_NODES),
            ("a:\n  b: &c d\n", 2, UNSUPPORTED),
            ("a:\n  b: *c\n", 2, "unknown anchor; write GROUP: 'gpu[01-16]', in quotes"),
            ("a:\n  b: !!str c\n", 2, UNSUPPORTED),
            ("a:\n  b: c\n---\nd:\n", 3, UNSUPPORTED),
            ("a:\n  b: 'c\n", 2, "in quotes"),
            ("a:\n  b: [c\n", 3, "in quotes"),
            ("a:\n  b: @c\n", 2, "in quotes"),
            ("a:\n\tb: c\n", 2, "in quotes"),
            ("a:\n    b: c\n  d: e\n", 3, "in quotes"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.why.ends_with(why), "{text}: {error:?}");
        }
    }

    #[test]
    fn hostile_files_take_no_more_than_their_length_allows() {
        let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n";
        let deep = 20_000;
        for text in [
            bomb.to_owned(),
            "[".repeat(deep),
            "{".repeat(deep),
            "- ".repeat(deep),
            "? ".repeat(deep),
            "a: ".repeat(deep),
            format!("a:\n  b: {}", "[".repeat(deep)),
            format!("a:\n  b: {}", "- ".repeat(deep)),
            format!("a:\n{}", "  b:\n".repeat(deep)),
            format!("a:\n  b: \"{}", "\\\n".repeat(deep)),
            "a:\n".repeat(deep),
            "\u{0}\u{feff}%YAML 9.9\n".repeat(deep / 10),
        ] {
            drop(parse(&text));
        }
    }
}
