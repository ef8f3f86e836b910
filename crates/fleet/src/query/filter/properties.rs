//! What holds for every text that is typed as a filter.

use std::sync::Arc;
use std::time::Duration;

use crate::Node;
use crate::query::filter::expression::{Conditions, Expression};
use crate::query::filter::lexer::quoted;
use crate::query::filter::operand::Operand;
use crate::query::filter::parse::parse;
use crate::query::filter::words::StateWord;
use crate::query::filter::{Comparison, Filter, FilterField, MAX_FILTER_LENGTH, Predicate};
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeName};

const FRAGMENTS: [&str; 38] = [
    "util",
    "user",
    "mem",
    "left",
    "job",
    "name",
    "node",
    "<",
    ">=",
    "=",
    "!=",
    "~",
    "10",
    "50%",
    "-3.5",
    "99999999999999999999",
    " ",
    " ",
    " ",
    " ",
    "(",
    ")",
    "(",
    ")",
    " or ",
    " and ",
    "not ",
    "!",
    "\"",
    "'",
    "alice",
    "idle",
    "free ",
    "stale ",
    "unknown",
    "*",
    "é\u{301}",
    "\u{0}\u{202e}",
];

/// Writes conditions as a filter.
fn written(conditions: &Conditions, expression: &Expression) -> String {
    let part = |part: &Expression| match part {
        Expression::All(_) | Expression::Any(_) => format!("({})", written(conditions, part)),
        Expression::Is(_) | Expression::Not(_) => written(conditions, part),
    };
    let joined =
        |parts: &[Expression], joint: &str| parts.iter().map(part).collect::<Vec<_>>().join(joint);
    match expression {
        Expression::Is(predicate) => predicate_text(predicate),
        Expression::All(parts) => joined(parts, " "),
        Expression::Any(parts) => joined(parts, " or "),
        Expression::Not(index) => format!("!{}", part(&conditions.negated[*index])),
    }
}

fn predicate_text(predicate: &Predicate) -> String {
    match predicate {
        // Some names would be states or operators.
        Predicate::Word(word) => format!("{}''", quoted(word)),
        Predicate::StateWord(state) => {
            let word = StateWord::WORDS.iter().find(|(_, one, _)| one == state);
            word.unwrap().0.to_owned()
        }
        Predicate::Compare(field, comparison, operand) => {
            let symbol = Comparison::SYMBOLS.iter().find(|(_, one)| one == comparison).unwrap().0;
            let is_field = |other: FilterField| format!("{other:?}") == format!("{field:?}");
            let is_share = matches!(field, FilterField::MemoryShare);
            let alias = FilterField::all().find(|(.., other)| is_field(*other));
            let alias = if is_share { "mem" } else { alias.unwrap().0 };
            let value = match operand {
                Operand::Number(_, text) | Operand::Text(text) => quoted(text),
                Operand::Unknown => "unknown".to_owned(),
            };
            format!("{alias}{symbol}{value}")
        }
    }
}

#[test]
fn a_filter_that_is_written_and_read_again_is_the_same() {
    let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
    node.devices = vec![Device::default()].into();
    let node = Arc::new(node);
    let (mut state, mut read) = (7_u64, 0);
    let mut random = |limit: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % limit
    };
    for _ in 0..20_000 {
        let text: String = (0..random(14)).map(|_| FRAGMENTS[random(FRAGMENTS.len())]).collect();
        let Ok(conditions) = parse(&text) else { continue };
        let Some(matched) = &conditions.matched else { continue };
        let again = written(&conditions, matched);
        if again.len() > MAX_FILTER_LENGTH {
            continue;
        }
        let expected = format!("{conditions:?}");
        let found = parse(&again).map(|conditions| format!("{conditions:?}"));
        assert_eq!(found.as_deref(), Ok(expected.as_str()), "{text:?} is written {again:?}");
        Filter::new(&text).unwrap().match_node(&node, Timestamp::default());
        read += 1;
    }
    assert!(read > 500, "{read} are filters");
}
