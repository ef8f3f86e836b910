//! Shell constructs the sh probe must not use.
//!
//! A dash of 2014 (0.5.8: Debian 9, Ubuntu 16.04) silently parses three things differently from current shells: quotes
//! in a sum, single quotes within a quoted `${…}`, and assignments in front of a function's name, which the programs it
//! starts do not get to see.

use std::path::Path;

/// The construct around a character.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Context {
    Quotes,
    Sum,
    Braces { quoted: bool },
    Parentheses,
}

/// Returns the lines an old dash misreads, and why.
fn misread_lines(script: &str) -> Vec<(usize, &'static str)> {
    let letters: Vec<char> = script.chars().collect();
    let starts = |at: usize, what: &str| {
        what.chars().enumerate().all(|(offset, letter)| letters.get(at + offset) == Some(&letter))
    };
    let (mut found, mut stack, mut line, mut at) = (Vec::new(), Vec::new(), 1, 0);
    while at < letters.len() {
        let context = stack.last().copied();
        let is_quoted = context == Some(Context::Quotes);
        let (opens, taken) = if starts(at, "$((") {
            (Some(Context::Sum), 3)
        } else if starts(at, "$(") {
            (Some(Context::Parentheses), 2)
        } else if starts(at, "${") {
            (Some(Context::Braces { quoted: is_quoted }), 2)
        } else {
            (None, 1)
        };
        stack.extend(opens);
        let letter = letters[at];
        line += usize::from(letter == '\n');
        let mut next = at + taken;
        match (letter, context) {
            _ if opens.is_some() => {}
            ('\\', _) => {
                line += usize::from(letters.get(next) == Some(&'\n'));
                next += 1;
            }
            ('"', _) => {
                if stack.contains(&Context::Sum) {
                    found.push((line, "quotes in a sum"));
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
            (')', Some(Context::Sum)) if starts(at, "))") => {
                stack.truncate(stack.len() - 1);
                next += 1;
            }
            ('(', Some(Context::Sum | Context::Parentheses)) => stack.push(Context::Parentheses),
            ('\'', _) => {
                while next < letters.len() && letters[next] != '\'' {
                    line += usize::from(letters[next] == '\n');
                    next += 1;
                }
                next += 1;
            }
            ('#', None | Some(Context::Parentheses))
                if at == 0 || letters[at - 1].is_whitespace() =>
            {
                while next < letters.len() && letters[next] != '\n' {
                    next += 1;
                }
            }
            _ => {}
        }
        at = next;
    }
    assert!(stack.is_empty(), "something is open at the end: {stack:?}");
    found
}

/// Returns the lines in which an assignment stands in front of a function's name.
fn assignments_before_functions(script: &str, functions: &[&str]) -> Vec<(usize, &'static str)> {
    let is_assignment = |word: &str| {
        let word = word.rsplit('(').next().unwrap_or(word);
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let has_assignment = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).any(|two| {
            is_assignment(two[0])
                && !two[0].ends_with(';')
                && functions.contains(&two[1].trim_end_matches([')', ';']))
        })
    };
    let lines = script.lines().enumerate().filter(|(_, line)| has_assignment(line));
    lines.map(|(number, _)| (number + 1, "an assignment in front of a function")).collect()
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
    assert_eq!(misread_lines(quotes).first(), Some(&(2, "quotes in a sum")));
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
