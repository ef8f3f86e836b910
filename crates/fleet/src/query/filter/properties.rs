//! What holds for every text that is typed as a filter.

use std::sync::Arc;
use std::time::Duration;

use crate::Node;
use crate::query::filter::expression::{Conditions, Expression};
use crate::query::filter::lexer::quoted;
use crate::query::filter::operand::Operand;
use crate::query::filter::parse::parse;
use crate::query::filter::words::StateWord;
use crate::query::filter::{Comparison, Filter, MAX_FILTER_LENGTH, Predicate};
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeName};

/// Parts of filters, between `|`.
const FRAGMENTS: &str = "util|user|mem|left|job|name|node|<|>=|=|!=|~|10|50%|-3.5|99999999999999999999| | | | |(|)|(|)\
                         | or | and |not |!|\"|'|alice|idle|free |stale |unknown|*|é\u{301}|\u{0}\u{202e}";

/// Writes conditions as a filter.
fn written(conditions: &Conditions, expression: &Expression) -> String {
    let (parts, joint) = match expression {
        Expression::Is(predicate) => return predicate_text(predicate),
        Expression::Not(index) => {
            return format!("!{}", written_part(conditions, &conditions.negated[*index]));
        }
        Expression::All(parts) => (parts, " "),
        Expression::Any(parts) => (parts, " or "),
    };
    let parts: Vec<_> = parts.iter().map(|part| written_part(conditions, part)).collect();
    parts.join(joint)
}

fn written_part(conditions: &Conditions, part: &Expression) -> String {
    match part {
        Expression::All(_) | Expression::Any(_) => format!("({})", written(conditions, part)),
        Expression::Is(_) | Expression::Not(_) => written(conditions, part),
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
            let alias = field.description().alias;
            let value = match operand {
                Operand::Number(_, text) | Operand::Text(text) => quoted(text),
                Operand::Unknown => "unknown".to_owned(),
            };
            format!("{alias}{symbol}{value}")
        }
    }
}

fn random(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap() % limit
}

#[test]
fn a_filter_that_is_written_and_read_again_is_the_same() {
    let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
    node.devices = vec![Device::default()].into();
    let node = Arc::new(node);
    let fragments: Vec<&str> = FRAGMENTS.split('|').collect();
    let (mut state, mut read) = (7_u64, 0);
    for _ in 0..20_000 {
        let count = random(&mut state, 14);
        let text: String =
            (0..count).map(|_| fragments[random(&mut state, fragments.len())]).collect();
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
