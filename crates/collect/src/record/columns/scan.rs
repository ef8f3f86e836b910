//! The tokens of a line of JSON, each with its text as it was written.

use memchr::memchr2;

use crate::record::columns::MAX_DEPTH;

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonToken<'a> {
    Null,
    False,
    True,
    Number(&'a [u8]),
    /// What is between the quotes, with its escapes.
    Text(&'a [u8]),
    Object,
    Key(&'a [u8]),
    List,
    /// Of an object or a list.
    End,
}

/// Returns the tokens of a line; `None` if it has spaces between them, or is no JSON.
pub(super) fn scan<'a>(line: &'a [u8], tokens: &mut Vec<JsonToken<'a>>) -> Option<()> {
    tokens.clear();
    let mut scanner = JsonScanner { rest: line, tokens };
    scanner.value(0)?;
    scanner.rest.is_empty().then_some(())
}

struct JsonScanner<'a, 'b> {
    rest: &'a [u8],
    tokens: &'b mut Vec<JsonToken<'a>>,
}

impl<'a> JsonScanner<'a, '_> {
    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let token = match self.rest.first()? {
            b'{' => return self.object(depth),
            b'[' => return self.list(depth),
            b'"' => JsonToken::Text(self.text()?),
            b'n' => self.word(b"null", JsonToken::Null)?,
            b'f' => self.word(b"false", JsonToken::False)?,
            b't' => self.word(b"true", JsonToken::True)?,
            _ => JsonToken::Number(self.number()?),
        };
        self.tokens.push(token);
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        self.skip(b"{")?;
        self.tokens.push(JsonToken::Object);
        let mut is_first = true;
        while self.skip(b"}").is_none() {
            if !std::mem::take(&mut is_first) {
                self.skip(b",")?;
            }
            let key = self.text()?;
            self.skip(b":")?;
            self.tokens.push(JsonToken::Key(key));
            self.value(depth + 1)?;
        }
        self.tokens.push(JsonToken::End);
        Some(())
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.skip(b"[")?;
        self.tokens.push(JsonToken::List);
        let mut is_first = true;
        while self.skip(b"]").is_none() {
            if !std::mem::take(&mut is_first) {
                self.skip(b",")?;
            }
            self.value(depth + 1)?;
        }
        self.tokens.push(JsonToken::End);
        Some(())
    }

    fn skip(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn word(&mut self, text: &[u8], token: JsonToken<'a>) -> Option<JsonToken<'a>> {
        self.skip(text).map(|()| token)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        self.skip(b"\"")?;
        let mut end = 0;
        loop {
            end += memchr2(b'"', b'\\', self.rest.get(end..)?)?;
            if self.rest.get(end) == Some(&b'"') {
                break;
            }
            end += 2;
        }
        self.cut(end, 1)
    }

    fn number(&mut self) -> Option<&'a [u8]> {
        let is_of_number =
            |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let end = self.rest.iter().position(|byte| !is_of_number(byte)).unwrap_or(self.rest.len());
        if end == 0 { None } else { self.cut(end, 0) }
    }

    /// Returns the text before `end`, and goes on this many bytes after it.
    fn cut(&mut self, end: usize, after: usize) -> Option<&'a [u8]> {
        let text = self.rest.get(..end)?;
        self.rest = self.rest.get(end + after..)?;
        Some(text)
    }
}
