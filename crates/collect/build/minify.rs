//! Shortens Python scripts: no comments, no docstrings, and one space per level of indentation.

/// What encloses strings, the longest first.
const QUOTES: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

/// Reads Python code line by line.
#[derive(Default)]
struct Scanner {
    /// Brackets that are open.
    depth: usize,
    /// What ends the string that is open.
    quotes: Option<&'static str>,
}

/// A line without its comment.
struct CodeLine<'a> {
    code: &'a str,
    /// It begins inside a string, so all of it counts.
    is_in_string: bool,
    /// A statement may begin with it.
    is_statement: bool,
    /// It ends outside of strings.
    is_closed: bool,
}

impl Scanner {
    /// Returns the next line of the source.
    fn line<'a>(&mut self, text: &'a str) -> CodeLine<'a> {
        let is_in_string = self.quotes.is_some();
        let is_statement = !is_in_string && self.depth == 0;
        let code = self.code(text);
        CodeLine { code, is_in_string, is_statement, is_closed: self.quotes.is_none() }
    }

    fn code<'a>(&mut self, line: &'a str) -> &'a str {
        let mut rest = line;
        while let Some(letter) = rest.chars().next() {
            let mut length = letter.len_utf8();
            match (self.quotes, letter) {
                // It keeps the next letter from ending the string, in raw strings too.
                (Some(_), '\\') => length += rest.chars().nth(1).map_or(0, char::len_utf8),
                (Some(quotes), _) if rest.starts_with(quotes) => {
                    self.quotes = None;
                    length = quotes.len();
                }
                (None, '#') => {
                    return line.strip_suffix(rest).unwrap_or(line).trim_end();
                }
                (None, '"' | '\'') => {
                    self.quotes = QUOTES.into_iter().find(|quotes| rest.starts_with(quotes));
                    length = self.quotes.map_or(length, str::len);
                }
                (None, '(' | '[' | '{') => self.depth += 1,
                (None, ')' | ']' | '}') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        line
    }
}

impl CodeLine<'_> {
    fn indentation(&self) -> usize {
        self.code.len() - self.code.trim_start().len()
    }
}

/// Returns a script without comments and docstrings. A form feed before each class separates units that are compiled one
/// by one.
pub(crate) fn python(source: &str) -> String {
    let mut scanner = Scanner::default();
    let lines = source.lines().map(|text| scanner.line(text));
    let lines: Vec<CodeLine<'_>> =
        lines.filter(|line| line.is_in_string || !line.code.trim().is_empty()).collect();
    let mut text = String::new();
    for line in without_docstrings(&lines) {
        if line.is_in_string {
            text.push_str(line.code);
        } else {
            if line.code.starts_with("class ") {
                text.push('\x0c');
            }
            // A level of indentation is four spaces in `probes/`.
            text.extend(std::iter::repeat_n(' ', line.indentation() / 4));
            text.push_str(line.code.trim_start());
        }
        text.push('\n');
    }
    text
}

/// Removes docstrings, except one that is the whole body of its class or function.
fn without_docstrings<'a, 'b>(mut lines: &'b [CodeLine<'a>]) -> Vec<&'b CodeLine<'a>> {
    let mut kept = Vec::new();
    while let Some(line) = lines.first() {
        let length = docstring_length(lines);
        let (current, after) = lines.split_at(length.unwrap_or(1));
        let has_more = after.first().is_some_and(|next| next.indentation() >= line.indentation());
        if length.is_none() || !has_more {
            kept.extend(current);
        }
        lines = after;
    }
    kept
}

/// Returns the number of lines of a docstring that begins here; `None` if none does.
fn docstring_length(lines: &[CodeLine<'_>]) -> Option<usize> {
    let first = lines.first()?;
    if !first.is_statement || !first.code.trim_start().starts_with("\"\"\"") {
        return None;
    }
    let last = lines.iter().position(|line| line.is_closed)?;
    lines.get(last)?.code.ends_with("\"\"\"").then_some(last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_docstrings_and_indentation_are_cut() {
        let source = "\"\"\"Of the file.\"\"\"\n\n# One.\nclass A:  # Two.\n    \"\"\"Of the class,\n    in lines.\"\"\"\n\n    \
                      def b(self):\n        \"\"\"The whole body.\"\"\"\n\n    c = (\n        1,  # Three.\n    )\n";
        let short =
            "\x0cclass A:\n def b(self):\n  \"\"\"The whole body.\"\"\"\n c = (\n  1,\n )\n";
        assert_eq!(python(source), short);
    }

    #[test]
    fn nothing_is_cut_from_strings() {
        for code in [
            "a = 'b  # c'\n",
            "a = \"it's  # c\"\n",
            "a = \"\\\"  # c\"\n",
            "a = r'\\'  # c'\n",
            "a = \"\"\"b  # c\n\n    # d\n        e\"\"\"\n",
            "a = (\n\"\"\"b\"\"\"\n)\n",
            "a = 'b  # c \\\n    # d'\n",
        ] {
            assert_eq!(python(code), code);
        }
        assert_eq!(
            python("a = 'b # c'  # d\ne = f\"# {g}\"  #h\n"),
            "a = 'b # c'\ne = f\"# {g}\"\n"
        );
    }
}
