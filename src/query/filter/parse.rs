//! Parses a filter into terms; errors carry their position.

use crate::query::filter::operand::Operand;
use crate::query::filter::{
    Comparison, FilterError, FilterField, MAX_FILTER_LENGTH, Predicate, StateWord, Term,
};

const MAX_TERMS: usize = 32;

fn error(at: usize, message: impl Into<String>) -> FilterError {
    FilterError { at, message: message.into() }
}

pub(super) fn parse_terms(text: &str) -> Result<Vec<Term>, FilterError> {
    if text.len() > MAX_FILTER_LENGTH {
        return Err(error(0, format!("filter is longer than {MAX_FILTER_LENGTH} bytes")));
    }
    let words = split_words(text)?;
    if let Some((at, _)) = words.get(MAX_TERMS) {
        return Err(error(*at, format!("more than {MAX_TERMS} terms")));
    }
    words.into_iter().map(|(at, word)| parse_term(at, &word)).collect()
}

/// Splits at spaces outside quotes, and removes the quotes.
fn split_words(text: &str) -> Result<Vec<(usize, String)>, FilterError> {
    let mut words = Vec::new();
    let mut word: Option<(usize, String)> = None;
    let mut quote: Option<(usize, char)> = None;
    for (at, letter) in text.chars().enumerate() {
        match quote {
            Some((_, open_quote)) if letter == open_quote => quote = None,
            None if letter == '"' || letter == '\'' => {
                word.get_or_insert_with(|| (at, String::new()));
                quote = Some((at, letter));
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_with(|| (at, String::new())).1.push(letter),
        }
    }
    if let Some((at, open_quote)) = quote {
        return Err(error(at, format!("the quote {open_quote} is not closed")));
    }
    words.extend(word);
    Ok(words)
}

fn parse_term(at: usize, word: &str) -> Result<Term, FilterError> {
    let (is_negated, rest) = match word.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let at = at + usize::from(is_negated);
    if rest.is_empty() {
        return Err(error(at, "nothing after !; write !word"));
    }
    Ok(Term { is_negated, predicate: parse_predicate(at, rest)? })
}

fn parse_predicate(at: usize, word: &str) -> Result<Predicate, FilterError> {
    let Some((start, symbol, comparison)) = find_comparison(word) else {
        let lower = word.to_lowercase();
        let state = StateWord::WORDS.iter().find(|(name, _)| *name == lower);
        return Ok(state.map_or(Predicate::Word(lower), |(_, state)| Predicate::StateWord(*state)));
    };
    let (name, value) = word.split_at_checked(start).unwrap_or((word, ""));
    let value = value.strip_prefix(symbol).unwrap_or_default();
    let value_at = at + name.chars().count() + symbol.len();
    if name.is_empty() {
        return Err(error(at, format!("no field before {symbol}; write util{symbol}10")));
    }
    let field = FilterField::from_name(&name.to_lowercase())
        .map_err(|candidates| error(at, unknown_field_message(name, &candidates)))?;
    if value.is_empty() {
        return Err(error(value_at, format!("no value after {name}{symbol}")));
    }
    let is_memory = matches!(field, FilterField::Device(field) if field.id == "memory_used_bytes");
    let field = if is_memory && value.ends_with('%') { FilterField::MemoryShare } else { field };
    let operand = if matches!(field, FilterField::Job) {
        Operand::parse_job_id(value, comparison)
    } else {
        Operand::new(value, field.unit(), comparison)
    };
    let operand = operand.map_err(|message| error(value_at, message))?;
    Ok(Predicate::Compare(field, comparison, operand))
}

/// Finds the first comparison sign.
fn find_comparison(word: &str) -> Option<(usize, &'static str, Comparison)> {
    let starts = word.char_indices().map(|(at, _)| at);
    starts.into_iter().find_map(|at| {
        let rest = word.get(at..)?;
        let found = Comparison::SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol));
        found.map(|(symbol, comparison)| (at, *symbol, *comparison))
    })
}

/// Returns the error for an unknown field; `meant` holds the aliases of all fields that the name could mean.
fn unknown_field_message(name: &str, candidates: &[&str]) -> String {
    if !candidates.is_empty() {
        return format!("{name} is ambiguous; write {}", candidates.join(" or "));
    }
    let lower = name.to_lowercase();
    let suggestion = FilterField::aliases()
        .map(|known| (strsim::levenshtein(&lower, known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .min();
    match suggestion {
        Some((_, suggestion)) => format!("no field {name}; did you mean {suggestion}?"),
        None => format!("no field {name}; Tab lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> (usize, String) {
        let error = parse_terms(text).unwrap_err();
        (error.at, error.message)
    }

    #[test]
    fn a_term_is_a_word_a_state_or_a_comparison() {
        let read = parse_terms("alice  stale util<10 mem>50% !user=bob cmd \"a b\"").unwrap();
        let shown: Vec<_> = read.iter().map(|term| format!("{term:?}")).collect();
        assert_eq!(shown.len(), 7);
        assert!(shown[0].contains("Word(\"alice\")"));
        assert!(shown[1].contains("StateWord(Stale)"));
        assert!(shown[2].contains("utilization_percent, Less"));
        assert!(shown[3].contains("memory share, More"));
        assert!(shown[4].contains("is_negated: true") && shown[4].contains("user, Equal"));
        assert!(shown[6].contains("Word(\"a b\")"));
    }

    #[test]
    fn an_error_has_its_position_and_a_remedy() {
        for (text, at, words) in [
            ("alice utl<10", 6, "no field utl; did you mean util?"),
            ("util<", 5, "no value after util<"),
            ("<10", 0, "no field before <; write util<10"),
            ("util<warm", 5, "warm is not a value in %; write 50%"),
            ("a \"b", 2, "the quote \" is not closed"),
            ("!", 1, "nothing after !; write !word"),
            ("zzzzzzzzzz=1", 0, "no field zzzzzzzzzz; Tab lists them"),
            ("sm>80", 0, "sm is ambiguous; write smclock or smact"),
            ("busy hot>80", 5, "hot is ambiguous; write thermal or junction"),
            ("cpu_percent>80", 0, "cpu_percent is ambiguous; write pcpu or cpu"),
        ] {
            assert_eq!(error_of(text), (at, words.to_owned()), "{text}");
        }
    }

    #[test]
    fn long_filters_are_refused() {
        assert!(error_of(&"x ".repeat(40)).1.contains("terms"));
        assert!(error_of(&"x".repeat(1000)).1.contains("bytes"));
    }
}
