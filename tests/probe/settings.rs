//! The settings that follow a script are data: each word is checked, and nothing behind their line is read.

use std::io::Write;
use std::process::{Command, Stdio};

/// Reads settings as the probe does, and prints them with what is left of the input.
const READER: &str = "exec(open('probes/settings.py').read())
print(NODE, INTERVAL, DEADMAN, SHORT, SUDO_REFUSAL, CLAIMS, ROOT_MODE, sys.stdin.read())";

/// Returns what is printed; `None` if the settings are refused.
fn read(input: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Option<String> {
    let mut python = Command::new("python3")
        .args(["-c", READER])
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn settings_are_six_words_and_what_follows_them_is_left() {
    for (input, expected) in [
        ("gpu[01]:22 1.0 30 0 - -\nrest", "gpu[01]:22 1.0 30 0 None [] None rest"),
        (
            "ada@n1 0.05 7 340 password a:A_ID:\n",
            "ada@n1 0.05 7 340 password [['a', 'A_ID', '']] None",
        ),
        ("n1 3600.125 0 0 a-b -\n", "n1 3600.125 1 0 None [] None"),
    ] {
        assert_eq!(read(input, &[], &[]).as_deref(), Some(expected));
    }
    let step = read("- 1.0 30 340 step -\n", &[], &[("SLURMD_NODENAME", "n7")]);
    assert_eq!(step.as_deref(), Some("n7 1.0 30 340 step [] None"));
}

#[test]
fn settings_that_are_anything_else_end_the_probe() {
    let long = "n".repeat(3 * 255 + 1);
    for input in [
        "",
        "n1 1.0 30 0 - -",
        "n1 1.0 30 0 -\n",
        "n1 1.0 30 0 - - -\n",
        "n1 1.0 30 0 - a:$(x):\n",
        "n1 1.0 30 0 - a:b\n",
        "n1 1.0 30 0 - :b:c\n",
        "n1\";id 1.0 30 0 - -\n",
        "n1 1e9 30 0 - -\n",
        "n1 -1 30 0 - -\n",
        "n1 nan 30 0 - -\n",
        "n1 1.0 1000000000000 0 - -\n",
        "n1 1.0 30 0x10 - -\n",
        "\u{e9} 1.0 30 0 - -\n",
        &format!("{long} 1.0 30 0 - -\n"),
        &format!("{} 1.0 30 0 - -\n", " ".repeat(2000)),
    ] {
        assert_eq!(read(input, &[], &[]), None, "{input:?}");
    }
}

#[test]
fn what_root_may_do_is_a_word_of_the_command_alone() {
    let mode = |arguments: &[&str]| {
        let all = [&["hash", "size"], arguments].concat();
        read("n1 1.0 30 0 - -\n", &all, &[])
    };
    assert_eq!(mode(&[]).as_deref(), Some("n1 1.0 30 0 None [] None"));
    assert_eq!(mode(&["anything"]).as_deref(), Some("n1 1.0 30 0 None [] None"));
    // Without a caller that sudo names, there is no probe as root.
    assert_eq!(mode(&["read-only"]), None);
}
