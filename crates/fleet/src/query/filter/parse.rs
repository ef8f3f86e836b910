//! Parses a filter into an expression; errors carry their position.
//!
//! `not` binds more strongly than "and", which is also written as a space, and that more strongly than `or`.

use crate::query::filter::complete::described_by;
use crate::query::filter::expression::{Conditions, Expression};
use crate::query::filter::lexer::{FilterToken, TokenKind, tokens};
use crate::query::filter::operand::Operand;
use crate::query::filter::words::StateWord;
use crate::query::filter::{Comparison, FilterError, FilterField, MAX_FILTER_LENGTH, Predicate};
use gtop_local::text::excerpt;

const MAX_TERMS: usize = 32;
/// The maximum depth of parentheses and negations.
const MAX_DEPTH: usize = 16;
/// Characters of a word in an error.
const MAX_EXCERPT: usize = 24;

fn error(at: usize, message: impl Into<String>) -> FilterError {
    FilterError { at, message: message.into() }
}

/// Parses a filter; the empty one has no conditions.
pub(super) fn parse(text: &str) -> Result<Conditions, FilterError> {
    if text.len() > MAX_FILTER_LENGTH {
        return Err(error(0, format!("the filter is longer than {MAX_FILTER_LENGTH} bytes")));
    }
    let tokens = tokens(text)?;
    let mut terms =
        tokens.iter().filter(|token| matches!(token.kind, TokenKind::Word | TokenKind::QuotedWord));
    if let Some(token) = terms.nth(MAX_TERMS) {
        return Err(error(token.span.0, format!("more than {MAX_TERMS} terms")));
    }
    if tokens.is_empty() {
        return Ok(Conditions::default());
    }
    let mut parser = Parser { text, tokens: &tokens, next: 0, depth: 0, negated: Vec::new() };
    let matched = parser.any()?;
    // Only a parenthesis ends an expression before the text does.
    if let Some(token) = parser.peek() {
        let message = "no ( before this ); remove it, or put the word in quotes";
        return Err(error(token.span.0, message));
    }
    Ok(Conditions { matched: Some(matched), negated: parser.negated })
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [FilterToken],
    /// The index of the next token.
    next: usize,
    depth: usize,
    negated: Vec<Expression>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a FilterToken> {
        self.tokens.get(self.next)
    }

    fn previous(&self) -> Option<&'a FilterToken> {
        self.tokens.get(self.next.checked_sub(1)?)
    }

    /// Skips the next token if it is of this kind.
    fn skip(&mut self, kind: TokenKind) -> bool {
        let is_next = self.peek().is_some_and(|token| token.kind == kind);
        self.next += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> Result<Expression, FilterError> {
        let mut parts = vec![self.all()?];
        while self.skip(TokenKind::Or) {
            parts.push(self.all()?);
        }
        Ok(Expression::any(parts))
    }

    fn all(&mut self) -> Result<Expression, FilterError> {
        let mut parts = vec![self.one()?];
        loop {
            let next = self.peek().map(|token| token.kind);
            if matches!(next, None | Some(TokenKind::Or | TokenKind::Close)) {
                return Ok(Expression::all(parts));
            }
            self.skip(TokenKind::And);
            parts.push(self.one()?);
        }
    }

    fn one(&mut self) -> Result<Expression, FilterError> {
        let Some(token) = self.peek() else { return Err(self.nothing_here()) };
        match token.kind {
            TokenKind::Word | TokenKind::QuotedWord => {
                self.next += 1;
                Ok(Expression::Is(parse_predicate(token)?))
            }
            TokenKind::Not => {
                self.enter(token)?;
                let expression = self.one()?;
                self.depth -= 1;
                self.negated.push(expression);
                Ok(Expression::Not(self.negated.len() - 1))
            }
            TokenKind::Open => {
                self.enter(token)?;
                let expression = self.any()?;
                if !self.skip(TokenKind::Close) {
                    return Err(self.unclosed());
                }
                self.depth -= 1;
                Ok(expression)
            }
            TokenKind::And | TokenKind::Or | TokenKind::Close => Err(self.nothing_here()),
        }
    }

    fn enter(&mut self, token: &FilterToken) -> Result<(), FilterError> {
        (self.next, self.depth) = (self.next + 1, self.depth + 1);
        if self.depth > MAX_DEPTH {
            let message =
                format!("parentheses and negations are nested more than {MAX_DEPTH} deep");
            return Err(error(token.span.0, message));
        }
        Ok(())
    }

    /// Returns the text of a token as typed.
    fn source(&self, token: &FilterToken) -> String {
        let (start, end) = token.span;
        excerpt(&self.text.chars().skip(start).take(end - start).collect::<String>(), MAX_EXCERPT)
    }

    fn unclosed(&self) -> FilterError {
        let last = self.previous();
        let at = last.map_or(0, |token| token.span.1);
        let words = last.map_or_else(String::new, |token| self.source(token));
        error(at, format!("')' is missing after \"{words}\""))
    }

    /// Returns the error for a place where a term is missing.
    fn nothing_here(&self) -> FilterError {
        let (before, after) = (self.previous(), self.peek());
        let is_open = before.is_none_or(|token| token.kind == TokenKind::Open);
        match (before, after) {
            (Some(open), Some(FilterToken { kind: TokenKind::Close, .. })) if is_open => {
                error(open.span.0, "nothing between ( and )")
            }
            (_, Some(FilterToken { kind: TokenKind::Close, span, .. })) if is_open => {
                error(span.0, "no ( before this ); remove it, or put the word in quotes")
            }
            (_, Some(next)) if is_open => {
                let word = self.source(next);
                let example = format!("free {word} stale; put a name in quotes: \"{word}\"");
                error(next.span.0, format!("nothing before {word}; write {example}"))
            }
            (Some(last), _) => {
                let word = self.source(last);
                let example = match word.as_str() {
                    "!" => "!word".to_owned(),
                    "(" => "(free or stale)".to_owned(),
                    _ if last.kind == TokenKind::Not => format!("{word} stale"),
                    _ => format!("free {word} stale"),
                };
                error(last.span.1, format!("nothing after {word}; write {example}"))
            }
            (None, _) => error(0, "nothing to match"),
        }
    }
}

/// Parses a term.
pub(super) fn parse_predicate(token: &FilterToken) -> Result<Predicate, FilterError> {
    let (at, word) = (token.span.0, token.text.as_str());
    let Some((start, symbol, comparison)) = Comparison::find(word) else {
        let lower = word.to_lowercase();
        if word.is_empty() {
            return Err(error(at, "nothing between the quotes"));
        }
        if token.kind == TokenKind::QuotedWord {
            return Ok(Predicate::Word(lower));
        }
        if lower == "idle" {
            let message = "idle is idle-held (someone has it) or free (nobody has it); write one";
            return Err(error(at, message));
        }
        let state = StateWord::find(&lower).map(Predicate::StateWord);
        return Ok(state.unwrap_or(Predicate::Word(lower)));
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
        return Err(error(value_at, format!("a value is missing after {name}{symbol}")));
    }
    let is_memory = matches!(field, FilterField::Device(field) if field.id == "memory_used_bytes");
    let field = if is_memory && value.ends_with('%') { FilterField::MemoryShare } else { field };
    let is_part = matches!(comparison, Comparison::Contains | Comparison::NotContains);
    let index = (matches!(field, FilterField::Index) && !is_part)
        .then(|| without_leading_zeros(value))
        .flatten();
    let operand = Operand::new(index.as_deref().unwrap_or(value), field.unit(), comparison)
        .map_err(|message| error(value_at, message))?;
    Ok(Predicate::Compare(field, comparison, operand))
}

/// Returns the index of a device or of a slice as it is shown: `3.1` for `03.01`. `None` if it is none.
fn without_leading_zeros(index: &str) -> Option<String> {
    if !index.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let numbers: Vec<u32> = index.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join("."))
}

/// Returns the error for an unknown field; `meant` holds the aliases of all fields that the name could mean.
fn unknown_field_message(name: &str, candidates: &[&str]) -> String {
    if !candidates.is_empty() {
        return format!("{name} is ambiguous; write {}", candidates.join(" or "));
    }
    let lower = name.to_lowercase();
    if let Some(field) = described_by(&lower) {
        return format!("no field {name}; did you mean {field}?");
    }
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
        let error = parse(text).unwrap_err();
        (error.at, error.message)
    }

    /// Returns an expression with parentheses around everything that is joined.
    fn structure(text: &str) -> String {
        fn of(conditions: &Conditions, expression: &Expression) -> String {
            let joined = |parts: &[Expression], joint: &str| {
                let parts: Vec<_> = parts.iter().map(|part| of(conditions, part)).collect();
                format!("({})", parts.join(joint))
            };
            match expression {
                Expression::Is(Predicate::Word(word)) => word.clone(),
                Expression::Is(other) => format!("{other:?}"),
                Expression::All(parts) => joined(parts, " "),
                Expression::Any(parts) => joined(parts, "|"),
                Expression::Not(index) => {
                    format!("!{}", of(conditions, &conditions.negated[*index]))
                }
            }
        }
        let conditions = parse(text).unwrap();
        conditions.matched.as_ref().map_or_else(String::new, |matched| of(&conditions, matched))
    }

    #[test]
    fn a_term_is_a_word_a_state_or_a_comparison() {
        let read = parse("alice  stale util<10 mem>50% cmd \"a b\" 'free'").unwrap();
        let Some(Expression::All(parts)) = read.matched else { panic!("they are joined") };
        let shown: Vec<_> = parts.iter().map(|term| format!("{term:?}")).collect();
        assert_eq!(shown.len(), 7);
        assert!(shown[0].contains("Word(\"alice\")"));
        assert!(shown[1].contains("StateWord(Stale)"));
        assert!(shown[2].contains("utilization_percent, Less"));
        assert!(shown[3].contains("memory_share_percent, More"));
        assert!(shown[5].contains("Word(\"a b\")"));
        assert!(shown[6].contains("Word(\"free\")"), "a name in quotes is no state");
    }

    #[test]
    fn not_binds_before_and_and_that_before_or() {
        for (text, expected) in [
            ("a b or c d", "((a b)|(c d))"),
            ("a and b OR c", "((a b)|c)"),
            ("a (b or c)", "(a (b|c))"),
            ("a(b", "a(b"),
            ("not a b", "(!a b)"),
            ("!a !b", "(!a !b)"),
            ("not (a or not b) c", "(!(a|!b) c)"),
            ("not not a", "!!a"),
            ("((a))", "a"),
            ("(a b) (c d)", "(a b c d)"),
            ("a or (b or c)", "(a|b|c)"),
            ("\"or\" 'and'", "(or and)"),
            ("", ""),
        ] {
            assert_eq!(structure(text), expected, "{text}");
        }
    }

    #[test]
    fn an_error_has_its_position_and_a_remedy() {
        for (text, at, words) in [
            ("alice utl<10", 6, "no field utl; did you mean util?"),
            ("util<", 5, "a value is missing after util<"),
            ("<10", 0, "no field before <; write util<10"),
            ("util<warm", 5, "warm is not a value in %; write 50%"),
            ("a \"b", 2, "the quote \" is not closed"),
            ("!", 1, "nothing after !; write !word"),
            ("zzzzzzzzzz=1", 0, "no field zzzzzzzzzz; Tab lists them"),
            ("sm>80", 0, "sm is ambiguous; write smclock or smact"),
            ("busy hot>80", 5, "hot is ambiguous; write thermal or junction"),
            ("cpu_percent>80", 0, "cpu_percent is ambiguous; write pcpu or cpu"),
            ("(free or util<10", 16, "')' is missing after \"util<10\""),
            ("free)", 4, "no ( before this ); remove it, or put the word in quotes"),
            (")", 0, "no ( before this ); remove it, or put the word in quotes"),
            ("a ()", 2, "nothing between ( and )"),
            ("(", 1, "nothing after (; write (free or stale)"),
            ("free or", 7, "nothing after or; write free or stale"),
            ("free and or b", 8, "nothing after and; write free and stale"),
            ("or b", 0, "nothing before or; write free or stale; put a name in quotes: \"or\""),
            ("not", 3, "nothing after not; write not stale"),
            ("''", 0, "nothing between the quotes"),
            ("x !idle", 3, "idle is idle-held (someone has it) or free (nobody has it); write one"),
        ] {
            assert_eq!(error_of(text), (at, words.to_owned()), "{text}");
        }
    }

    #[test]
    fn long_and_deep_filters_are_refused() {
        assert!(error_of(&"x ".repeat(40)).1.contains("terms"));
        assert!(error_of(&"x".repeat(1000)).1.contains("bytes"));
        assert!(error_of(&"(".repeat(100)).1.contains("nested more than"));
        assert!(error_of(&"!".repeat(400)).1.contains("nested more than"));
        assert_eq!(structure(&format!("{}x{}", "(".repeat(16), ")".repeat(16))), "x");
        // Depth is counted from the outside, not in sum.
        assert_eq!(structure(&"!(x) ".repeat(20)).matches('x').count(), 20);
    }
}
