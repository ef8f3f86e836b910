//! Completions and man page in the programs that read them: shells load the completions, and groff formats the page
//! without a warning.
//!
//! Programs that are not installed are skipped with a message.

use std::io::Write;
use std::process::{Command, Stdio};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");

fn gtop(args: &[&str]) -> String {
    let output = Command::new(GTOP).args(args).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program with this input and returns its output; `None` if it is not installed. Fails if it prints to
/// stderr.
fn run_with_input(program: &str, args: &[&str], input: &str) -> Option<String> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{program}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A shell, its options that skip the user's files, and a script that loads the completions from a file and prints the
/// options that begin with `--tr`.
const SHELLS: [(&str, &[&str], &str); 3] = [
    (
        "bash",
        &["--norc", "--noprofile", "-c"],
        "source FILE && complete -p gtop >/dev/null && COMP_WORDS=(gtop --tr) COMP_CWORD=1 && \
         _gtop gtop --tr gtop && echo \"${COMPREPLY[@]}\"",
    ),
    (
        "zsh",
        &["-f", "-c"],
        "autoload -Uz compinit && compinit -D && source FILE && [[ $_comps[gtop] == _gtop ]] && \
         whence -w _gtop >/dev/null && grep -o -e --transport FILE | head -n 1",
    ),
    ("fish", &["--no-config", "-c"], "source FILE; and complete -C 'gtop --tr' | cut -f 1"),
];

#[test]
fn shells_load_the_completions_and_complete() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, args, script) in SHELLS {
        let file = folder.path().join(shell);
        std::fs::write(&file, gtop(&["completions", shell])).unwrap();
        let script = script.replace("FILE", file.to_str().unwrap());
        if let Some(answer) = run_with_input(shell, &[args, &[&script]].concat(), "") {
            assert_eq!(answer.trim(), "--transport", "{shell}");
        }
    }
}

#[test]
fn the_manual_page_formats_without_a_warning() {
    let page = gtop(&["man"]);
    let Some(text) = run_with_input("groff", &["-man", "-Tutf8", "-ww", "-P-cbou"], &page) else {
        return;
    };
    for words in ["NAME", "gtop - Watch every accelerator", "--interval", "GTOP DOCTOR", "EXAMPLES"]
    {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

#[test]
fn a_closed_pipe_does_not_panic() {
    for args in [["man"].as_slice(), &["completions", "zsh"], &["--version"]] {
        let mut child = Command::new(GTOP)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}
