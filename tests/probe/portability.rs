//! Shell constructs the sh probe must not use.
//!
//! A dash of 2014 (0.5.8: Debian 9, Ubuntu 16.04) silently parses three things differently from current shells: quotes
//! in an arithmetic expansion, single quotes within a quoted `${…}`, and assignments before a function call, which the
//! programs started by the function do not get in their environment.

use std::path::Path;

/// The construct around a character.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Context {
    Quotes,
    Arithmetic,
    Braces { quoted: bool },
    Parentheses,
}

/// Returns the lines that an old dash misreads, and the reason.
fn misread_lines(script: &str) -> Vec<(usize, &'static str)> {
    let characters: Vec<char> = script.chars().collect();
    let starts = |at: usize, text: &str| {
        text.chars()
            .enumerate()
            .all(|(offset, character)| characters.get(at + offset) == Some(&character))
    };
    let (mut found, mut stack, mut line, mut at) = (Vec::new(), Vec::new(), 1, 0);
    while at < characters.len() {
        let context = stack.last().copied();
        let is_quoted = context == Some(Context::Quotes);
        let (opens, length) = if starts(at, "$((") {
            (Some(Context::Arithmetic), 3)
        } else if starts(at, "$(") {
            (Some(Context::Parentheses), 2)
        } else if starts(at, "${") {
            (Some(Context::Braces { quoted: is_quoted }), 2)
        } else {
            (None, 1)
        };
        stack.extend(opens);
        let character = characters[at];
        line += usize::from(character == '\n');
        let mut next = at + length;
        match (character, context) {
            _ if opens.is_some() => {}
            ('\\', _) => {
                line += usize::from(characters.get(next) == Some(&'\n'));
                next += 1;
            }
            ('"', _) => {
                if stack.contains(&Context::Arithmetic) {
                    found.push((line, "quotes in an arithmetic expansion"));
                }
                if is_quoted {
                    stack.truncate(stack.len() - 1);
                } else {
                    stack.push(Context::Quotes);
                }
            }
            ('\'', Some(Context::Braces { quoted: true })) => {
                found.push((line, "single quotes within a quoted ${…}"));
            }
            (_, Some(Context::Quotes)) => {}
            ('}', Some(Context::Braces { .. })) | (')', Some(Context::Parentheses)) => {
                stack.truncate(stack.len() - 1);
            }
            (')', Some(Context::Arithmetic)) if starts(at, "))") => {
                stack.truncate(stack.len() - 1);
                next += 1;
            }
            ('(', Some(Context::Arithmetic | Context::Parentheses)) => {
                stack.push(Context::Parentheses);
            }
            ('\'', _) => {
                while next < characters.len() && characters[next] != '\'' {
                    line += usize::from(characters[next] == '\n');
                    next += 1;
                }
                next += 1;
            }
            ('#', None | Some(Context::Parentheses))
                if at == 0 || characters[at - 1].is_whitespace() =>
            {
                while next < characters.len() && characters[next] != '\n' {
                    next += 1;
                }
            }
            _ => {}
        }
        at = next;
    }
    assert!(stack.is_empty(), "unclosed at the end: {stack:?}");
    found
}

/// Returns the lines with an assignment before a function call.
fn assignments_before_functions(script: &str, functions: &[&str]) -> Vec<(usize, &'static str)> {
    let is_assignment = |word: &str| {
        let word = word.rsplit('(').next().unwrap_or(word);
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let has_assignment = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).any(|pair| {
            is_assignment(pair[0])
                && !pair[0].ends_with(';')
                && functions.contains(&pair[1].trim_end_matches([')', ';']))
        })
    };
    let lines = script.lines().enumerate().filter(|(_, line)| has_assignment(line));
    lines.map(|(number, _)| (number + 1, "an assignment before a function call")).collect()
}

#[test]
fn an_old_dash_parses_the_probe_like_a_new_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("probes");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let scripts: Vec<(String, String)> = files
        .filter(|path| path.extension().is_some_and(|end| end == "sh"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap()))
        .collect();
    let functions: Vec<&str> = scripts
        .iter()
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.split_once("() {").map(|(name, _)| name))
        .collect();
    assert!(scripts.len() >= 5 && functions.contains(&"sample"), "{functions:?}");
    for (name, text) in &scripts {
        assert_eq!(misread_lines(text), [], "{name}");
        assert_eq!(assignments_before_functions(text, &functions), [], "{name}");
    }
}

#[test]
fn constructs_that_an_old_dash_misreads_are_found() {
    let quotes = "x=1 # isn't\ncs=$((2 + 1${f%\"${f#??}\"} - 100))\n";
    assert_eq!(misread_lines(quotes).first(), Some(&(2, "quotes in an arithmetic expansion")));
    let single = "case $x in *'\",\"'*) x=\",\\\"${x#*'\",\"'}\" ;; esac\n";
    assert_eq!(misread_lines(single).first(), Some(&(1, "single quotes within a quoted ${…}")));
    assert_eq!(
        misread_lines("x=$((${1%%.*} * (2 + 1))) y=\"it's $((1 + 2)) ${x#*:}\" z=${x#*'a'}\n"),
        []
    );
    let before = "x=1\nout=$(n=$n apps=$apps sample)\n";
    assert_eq!(assignments_before_functions(before, &["sample"])[0].0, 2);
    assert_eq!(
        assignments_before_functions("out=$(sample)\nname=$x awk sample\n", &["sample"]),
        []
    );
}
