//! What could stand where the caret is.

use std::collections::BTreeSet;

use crate::fields::{Usage, Value};
use crate::fleet::Fleet;
use crate::view::filter::{Relation, State, Subject};

/// Most proposals.
const MOST: usize = 24;
/// Most nodes whose values are proposed.
const MOST_NODES: usize = 200;

/// Returns the words that the one in front of the caret may become, the likeliest first.
///
/// `caret` counts characters. A field's name is proposed with nothing behind it; behind a sign of
/// comparison the values of that field in the fleet are.
pub fn complete(text: &str, caret: usize, fleet: &Fleet) -> Vec<String> {
    let front: String = text.chars().take(caret).collect();
    let word = front.rsplit(char::is_whitespace).next().unwrap_or_default();
    let (mark, word) = match word.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", word),
    };
    let signs = Relation::SIGNS.iter().filter_map(|(sign, _)| Some((word.find(sign)?, *sign)));
    // The first sign, and the longest that begins there.
    let found = signs.min_by_key(|(at, sign)| (*at, std::cmp::Reverse(sign.len())));
    let words: Vec<String> = match found {
        None => names(&word.to_lowercase()),
        Some((at, sign)) => {
            let (name, value) = word.split_at_checked(at).unwrap_or((word, ""));
            let value = value.strip_prefix(sign).unwrap_or_default().to_lowercase();
            let values = Subject::named(&name.to_lowercase())
                .map(|subject| values(subject, fleet))
                .unwrap_or_default();
            let fitting =
                values.into_iter().filter(|known| known.to_lowercase().starts_with(&value));
            fitting.map(|known| format!("{name}{sign}{known}")).collect()
        }
    };
    words.into_iter().take(MOST).map(|word| format!("{mark}{word}")).collect()
}

fn names(start: &str) -> Vec<String> {
    let states = State::WORDS.iter().map(|(word, _)| *word);
    let known = Subject::names().chain(states).filter(|name| name.starts_with(start));
    let mut known: Vec<&str> = known.collect();
    known.sort_by_key(|name| (name.len(), *name));
    known.dedup();
    known.into_iter().map(str::to_owned).collect()
}

/// Returns the words a field has somewhere; numbers are nobody's to propose.
fn values(subject: Subject, fleet: &Fleet) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for node in fleet.nodes.iter().take(MOST_NODES) {
        match subject {
            Subject::Node => {
                found.insert(node.name.to_string());
            }
            Subject::Device(field) => {
                found.extend(node.devices.iter().filter_map(|device| words((field.read)(device))));
            }
            Subject::Process(field) => {
                let usages = node.devices.iter().flat_map(|device| Usage::of(node, device));
                found.extend(usages.filter_map(|usage| words((field.read)(&usage))));
            }
            Subject::Host(_)
            | Subject::Index
            | Subject::Uuid
            | Subject::Pid
            | Subject::MemoryShare => {}
        }
    }
    found
}

/// A word as it must be typed; what would need quotes is not proposed.
fn words(value: Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.contains([' ', '"', '\'']) => Some(text.to_string()),
        Value::Flag(_) => Some("yes".to_owned()),
        Value::Text(_) | Value::Unknown(_) | Value::Number(_) | Value::Whole(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::fleet::Node;
    use crate::model::NodeName;

    #[test]
    fn fields_states_and_values_are_proposed() {
        let node = |name| Arc::new(Node::new(NodeName::new(name).unwrap(), Duration::ZERO));
        let fleet = Fleet::new(vec![node("gpu01"), node("gpu02"), node("login1")].into());
        let at_end = |text: &str| complete(text, text.chars().count(), &fleet);
        assert_eq!(at_end("alice ut"), ["util"]);
        assert!(at_end("st").contains(&"stale".to_owned()));
        assert_eq!(at_end("!thr").first().map(String::as_str), Some("!threads"));
        assert_eq!(at_end("x node=gpu"), ["node=gpu01", "node=gpu02"]);
        assert_eq!(at_end("nosuch=x"), [""; 0]);
        assert_eq!(complete("util<10 st", 2, &fleet).first().map(String::as_str), Some("util"));
    }
}
