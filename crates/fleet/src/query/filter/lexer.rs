//! Splits a filter into words, operators and parentheses.
//!
//! A parenthesis inside a word belongs to it, as in `command~f(x)`; at the start or end of a word it groups.

use crate::query::filter::FilterError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    /// A word of which a part is in quotes: a name, even if it is written like an operator or a state.
    QuotedWord,
    Open,
    Close,
    Not,
    And,
    Or,
}

/// A part of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilterToken {
    pub(super) kind: TokenKind,
    /// Where it begins and ends, in characters.
    pub(super) span: (usize, usize),
    /// Its text without quotes.
    pub(super) text: String,
}

/// Splits a filter.
pub(super) fn tokens(text: &str) -> Result<Vec<FilterToken>, FilterError> {
    let mut lexer = FilterLexer::read(text);
    if let Some((at, quote)) = lexer.quote {
        return Err(FilterError { at, message: format!("the quote {quote} is not closed") });
    }
    lexer.end_word();
    Ok(lexer.tokens)
}

/// Returns the last word of a text that is still being typed, without quotes, and where it begins, in characters.
pub(super) fn last_word(text: &str) -> (usize, String) {
    let lexer = FilterLexer::read(text);
    let end = lexer.at;
    lexer.word.map_or((end, String::new()), |word| (word.at, word.text))
}

/// Returns where the word that begins at `start` ends, in characters.
pub(super) fn word_end(text: &str, start: usize) -> usize {
    let mut lexer = FilterLexer::read(text);
    lexer.end_word();
    let word = lexer.tokens.iter().find(|token| token.span.0 == start);
    word.map_or(start, |token| token.span.1)
}

/// A word that has not ended.
struct PartialWord {
    at: usize,
    text: String,
    is_quoted: bool,
    /// Parentheses that are open inside it.
    open: usize,
}

impl PartialWord {
    fn kind(&self) -> TokenKind {
        let keywords = [("or", TokenKind::Or), ("and", TokenKind::And), ("not", TokenKind::Not)];
        let keyword = keywords.into_iter().find(|(word, _)| self.text.eq_ignore_ascii_case(word));
        match (self.is_quoted, keyword) {
            (true, _) => TokenKind::QuotedWord,
            (false, Some((_, kind))) => kind,
            (false, None) => TokenKind::Word,
        }
    }

    fn is_operator(&self) -> bool {
        !matches!(self.kind(), TokenKind::Word | TokenKind::QuotedWord)
    }
}

#[derive(Default)]
struct FilterLexer {
    tokens: Vec<FilterToken>,
    word: Option<PartialWord>,
    /// The open quote and its position.
    quote: Option<(usize, char)>,
    /// Characters read.
    at: usize,
}

impl FilterLexer {
    fn read(text: &str) -> Self {
        let mut lexer = Self::default();
        for letter in text.chars() {
            lexer.push(letter);
            lexer.at += 1;
        }
        lexer
    }

    fn push(&mut self, letter: char) {
        if let Some((_, quote)) = self.quote {
            if letter == quote {
                self.quote = None;
            } else {
                self.word().text.push(letter);
            }
            return;
        }
        match letter {
            '"' | '\'' => {
                self.quote = Some((self.at, letter));
                self.word().is_quoted = true;
            }
            '!' if self.word.is_none() => self.symbol(TokenKind::Not, letter),
            '(' if self.word.as_ref().is_none_or(PartialWord::is_operator) => {
                self.symbol(TokenKind::Open, letter);
            }
            ')' if self.word.as_ref().is_none_or(|word| word.open == 0) => {
                self.symbol(TokenKind::Close, letter);
            }
            _ if letter.is_whitespace() => self.end_word(),
            _ => {
                let word = self.word();
                word.text.push(letter);
                match letter {
                    '(' => word.open += 1,
                    ')' => word.open -= 1,
                    _ => {}
                }
            }
        }
    }

    fn word(&mut self) -> &mut PartialWord {
        let at = self.at;
        self.word.get_or_insert(PartialWord { at, text: String::new(), is_quoted: false, open: 0 })
    }

    fn symbol(&mut self, kind: TokenKind, letter: char) {
        self.end_word();
        let span = (self.at, self.at + 1);
        self.tokens.push(FilterToken { kind, span, text: letter.into() });
    }

    fn end_word(&mut self) {
        if let Some(word) = self.word.take() {
            let (kind, span) = (word.kind(), (word.at, self.at));
            self.tokens.push(FilterToken { kind, span, text: word.text });
        }
    }
}

/// Returns a word in quotes if it would not be read as it is.
pub(super) fn quoted(word: &str) -> String {
    let mut letters = word.chars();
    let is_plain = letters.all(|letter| letter.is_alphanumeric() || "-_.:*+/@".contains(letter));
    if !word.is_empty() && is_plain {
        return word.to_owned();
    }
    // A quote stands between quotes of the other kind.
    word.split('"').map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join("'\"'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, String)> {
        tokens(text).unwrap().into_iter().map(|token| (token.kind, token.text)).collect()
    }

    fn texts(text: &str) -> Vec<String> {
        kinds(text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn words_end_at_spaces_and_parentheses() {
        for (text, expected) in [
            ("a  b", vec!["a", "b"]),
            ("(a or b)c", vec!["(", "a", "or", "b", ")", "c"]),
            ("!(a)", vec!["!", "(", "a", ")"]),
            ("not(a) or(b)", vec!["not", "(", "a", ")", "or", "(", "b", ")"]),
            ("command~f(x)", vec!["command~f(x)"]),
            ("(command~f(x))", vec!["(", "command~f(x)", ")"]),
            ("name='H100 (80GB)'", vec!["name=H100 (80GB)"]),
            ("a!b", vec!["a!b"]),
            ("", vec![]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
    }

    #[test]
    fn words_in_quotes_are_names() {
        assert_eq!(kinds("OR")[0].0, TokenKind::Or);
        assert_eq!(kinds("'or'")[0].0, TokenKind::QuotedWord);
        assert_eq!(kinds("!\"not\"")[1], (TokenKind::QuotedWord, "not".to_owned()));
        assert_eq!(tokens("a \"b").unwrap_err().at, 2);
    }

    #[test]
    fn the_last_word_is_the_one_being_typed() {
        for (text, at, word) in [
            ("", 0, ""),
            ("a ", 2, ""),
            ("(ut", 1, "ut"),
            ("x !us", 3, "us"),
            ("name=\"NVIDIA H", 0, "name=NVIDIA H"),
            ("日本 é", 3, "é"),
            ("a)", 2, ""),
        ] {
            assert_eq!(last_word(text), (at, word.to_owned()), "{text}");
        }
    }

    #[test]
    fn quoted_words_are_read_back() {
        for word in [
            "alice",
            "a b",
            "it's",
            "say \"hi\"",
            "\"",
            "'\"'",
            "(x)",
            "!x",
            "",
            "日本 語",
            "\"\"a",
        ] {
            let written = quoted(word);
            assert_eq!(texts(&written), [word], "{written}");
        }
        assert_eq!(quoted("gpu-001"), "gpu-001");
    }
}
