//! gtop on terminals that lack something: a cursor, keys, standard input; and on one that is closed.
//!
//! `script` makes the terminals; without it, the tests are skipped with a message.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gtop_local::time::Clock;
use gtop_ui::{FleetSource, Keymap, ScreenSettings, UiConfig, UiContext};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a screen begins with.
const ALTERNATE_SCREEN: &str = "\x1b[?1049h";

/// A terminal of 100 x 30 in which a shell does this; `None` where there is no `script`.
fn terminal(term: &str, line: &str) -> Option<Child> {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("stty rows 30 cols 100; {line}"), "/dev/null"]);
    command.env_clear().env("HOME", "/nowhere").env("LC_ALL", "C.UTF-8").env("TERM", term);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("GTOP", GTOP);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn();
    if child.is_err() {
        assert!(std::env::var_os("GTOP_CI").is_none(), "there is no script, and here it must run");
        eprintln!("skipped: there is no script to make a terminal");
    }
    child.ok()
}

/// Reads until this appears, and returns all there was.
async fn read_until(child: &mut Child, words: &str) -> String {
    let mut output = Vec::new();
    let reading = async {
        let out = child.stdout.as_mut().unwrap();
        while !String::from_utf8_lossy(&output).contains(words) {
            if out.read_buf(&mut output).await.unwrap() == 0 {
                break;
            }
        }
    };
    let result = timeout(TIMEOUT, reading).await;
    let text = String::from_utf8_lossy(&output).into_owned();
    assert!(result.is_ok() && text.contains(words), "{words:?} never came: {text}");
    text
}

/// Reads to the end; returns what there was and the exit status.
async fn read_to_end(mut child: Child) -> (String, Option<i32>) {
    let mut output = Vec::new();
    let reading = async {
        child.stdout.as_mut().unwrap().read_to_end(&mut output).await.unwrap();
        child.wait().await.unwrap().code()
    };
    let Ok(code) = timeout(TIMEOUT, reading).await else {
        panic!("it goes on: {}", String::from_utf8_lossy(&output))
    };
    // It may begin within a letter.
    (String::from_utf8_lossy(&output).into_owned(), code)
}

#[tokio::test]
async fn a_dumb_terminal_gets_one_snapshot_and_the_reason() {
    let Some(child) = terminal("dumb", "exec $GTOP --demo=2") else { return };
    let (text, code) = read_to_end(child).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("gtop: TERM is dumb, so one snapshot is printed"), "{text}");
    assert!(text.contains("nodes fresh"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
    // No hint, because printing was asked for.
    let Some(child) = terminal("dumb", "exec $GTOP --demo=2 --once") else { return };
    let (text, code) = read_to_end(child).await;
    assert!(code == Some(0) && !text.contains("gtop:") && !text.contains('\x1b'), "{text:?}");
}

#[tokio::test]
async fn without_a_keyboard_one_snapshot_and_the_reason_are_printed() {
    let line = "exec setsid -w $GTOP --demo=2 </dev/null";
    let Some(child) = terminal("xterm-256color", line) else { return };
    let (text, code) = read_to_end(child).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("gtop: no keyboard (standard input is not a terminal"), "{text}");
    assert!(text.contains("nodes fresh") && !text.contains(ALTERNATE_SCREEN), "{text:?}");
}

#[tokio::test]
async fn hosts_are_read_from_standard_input_and_keys_from_the_terminal() {
    for (line, words) in [
        ("echo pod-1 | $GTOP -f - --exec 'env X={node} sh'", "pod-1"),
        ("$GTOP --demo=2 </dev/null", "gpu02"),
        ("$GTOP --demo=2 <&-", "gpu02"),
        // Without hosts it is this machine, whatever the other options.
        ("$GTOP --interval 2 --ascii", "machine"),
    ] {
        let Some(mut child) = terminal("xterm-256color", line) else { return };
        let text = read_until(&mut child, words).await;
        assert!(text.contains(ALTERNATE_SCREEN), "{line}: {text:?}");
        child.stdin.as_mut().unwrap().write_all(b"q").await.unwrap();
        let (text, code) = read_to_end(child).await;
        assert_eq!(code, Some(0), "{line}: {text:?}");
        assert!(text.ends_with("\x1b[?1049l"), "{line}: {text:?}");
    }
}

#[tokio::test]
async fn terminals_of_zero_and_huge_size_are_drawn_on() {
    for size in ["rows 0 cols 0", "rows 65535 cols 65535", "rows 1 cols 1"] {
        let line = format!("stty {size}; exec $GTOP --demo=2");
        let Some(mut child) = terminal("xterm-256color", &line) else { return };
        let words = if size.ends_with(" 1") { ALTERNATE_SCREEN } else { "gpu02" };
        read_until(&mut child, words).await;
        child.stdin.as_mut().unwrap().write_all(b"q").await.unwrap();
        assert_eq!(read_to_end(child).await.1, Some(0), "{size}");
    }
}

#[tokio::test]
async fn a_late_background_reply_in_pieces_changes_the_theme_and_presses_no_key() {
    /// What is faint is drawn so.
    const FAINT: [&str; 2] = ["\x1b[38;5;146m", "\x1b[38;5;60m"];
    for pieces in [
        &["\x1b]11;rgb:ffff/ffff/ffff\x07"][..],
        &["\x1b", "]1", "1;", "rgb:fdfd/f6", "f6/e3e3\x1b", "\\"],
        &["\x1b]", "11;rgba:ff/", "ff/ff/", "ff\x1b\\"],
    ] {
        let Some(mut child) = terminal("xterm-256color", "exec $GTOP --demo=2") else { return };
        let text = read_until(&mut child, FAINT[0]).await;
        assert!(text.contains("\x1b]11;?") && !text.contains(FAINT[1]), "{text:?}");
        for piece in pieces {
            child.stdin.as_mut().unwrap().write_all(piece.as_bytes()).await.unwrap();
            // Most of the pieces are read one by one.
            sleep(Duration::from_millis(30)).await;
        }
        read_until(&mut child, FAINT[1]).await;
        // Had a letter of it been a key, this one would be part of a filter.
        child.stdin.as_mut().unwrap().write_all(b"q").await.unwrap();
        let (text, code) = read_to_end(child).await;
        assert_eq!(code, Some(0), "{pieces:?}: {text:?}");
    }
}

#[tokio::test]
async fn an_immediate_background_reply_avoids_the_dark_theme() {
    // The answer waits already when the question comes.
    let line = "stty -echo; echo ready; sleep 1; exec $GTOP --demo=2 --theme hot";
    let Some(mut child) = terminal("xterm-256color", line) else { return };
    read_until(&mut child, "ready").await;
    let answer = b"\x1b]11;rgb:ffff/ffff/ffff\x07";
    child.stdin.as_mut().unwrap().write_all(answer).await.unwrap();
    let text = read_until(&mut child, "gpu02").await;
    assert!(text.contains("38;5;60m") && !text.contains("38;5;146"), "{text:?}");
    child.stdin.as_mut().unwrap().write_all(b"q").await.unwrap();
    assert_eq!(read_to_end(child).await.1, Some(0));
}

#[tokio::test]
async fn an_invalid_configuration_is_reported_and_gtop_starts() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("gtop");
    std::fs::create_dir(&folder).unwrap();
    for text in ["theme = \"pink\"\nintervall = 3\n", "[[[\x1b]0;x\x07", "\u{fe}\0\n"] {
        std::fs::write(folder.join("config.toml"), text).unwrap();
        let line = format!("XDG_CONFIG_HOME={} exec $GTOP --demo=2", home.path().display());
        let Some(mut child) = terminal("xterm-256color", &line) else { return };
        let text = read_until(&mut child, "config.toml:1:").await;
        assert!(text.contains(ALTERNATE_SCREEN) && !text.contains("]0;x"), "{text:?}");
        child.stdin.as_mut().unwrap().write_all(b"q").await.unwrap();
        assert_eq!(read_to_end(child).await.1, Some(0));
    }
}

/// Copies the node set of the demo, and returns what is printed after the screen, where the terminal's attributes are these.
async fn printed_after_copying(attributes: &str) -> Option<String> {
    let mut child = terminal("xterm-256color", "exec $GTOP --demo=2")?;
    // What is on the screen already is not drawn again, such as spaces.
    for (words, keys) in [("gpu02", "y"), ("shown", "a"), ("\x1b]52;c;Z3B1WzAxLTAyXQ==\x07", "q")] {
        read_until(&mut child, words).await;
        child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).await.unwrap();
    }
    // It asks once it has ended.
    read_until(&mut child, "\x1b[c").await;
    child.stdin.as_mut().unwrap().write_all(attributes.as_bytes()).await.unwrap();
    let (text, code) = read_to_end(child).await;
    assert_eq!(code, Some(0), "{text:?}");
    let printed = text.rsplit("\x1b[?1049l").next().map(str::to_owned);
    printed.filter(|printed| *printed != text)
}

#[tokio::test]
async fn what_was_copied_is_printed_at_the_end_unless_the_terminal_takes_it() {
    for (attributes, expected) in [
        ("\x1b[?62;22;52c", ""),
        ("\x1b[?1;2c", "copied all shown nodes:\r\ngpu[01-02]\r\n"),
        // It does not reply.
        ("", "copied all shown nodes:\r\ngpu[01-02]\r\n"),
    ] {
        let Some(printed) = printed_after_copying(attributes).await else { return };
        assert_eq!(printed, expected, "{attributes:?}");
    }
}

/// What turns modes of a terminal on for the screen, and off again.
const TERMINAL_MODES: [(&str, &str); 7] = [
    ("\x1b[?1049h", "\x1b[?1049l"),
    ("\x1b[?1000h", "\x1b[?1000l"),
    ("\x1b[?1006h", "\x1b[?1006l"),
    ("\x1b[?1004h", "\x1b[?1004l"),
    ("\x1b[?2004h", "\x1b[?2004l"),
    ("\x1b[?25l", "\x1b[?25h"),
    ("\x1b[?7l", "\x1b[?7h"),
];

/// What a shell prints of the terminal's modes around a program.
fn with_modes(program: &str) -> String {
    format!("echo \"<$(stty -g)>\"; {program}; echo \"<$(stty -g)>\"")
}

/// Checks that each mode was turned on, and is off at the end.
fn check_restored(text: &str) {
    let modes: Vec<_> =
        text.split('<').filter_map(|rest| rest.split_once(">\r\n")).map(|(m, _)| m).collect();
    assert!(modes.len() >= 2 && modes.first() == modes.last(), "modes {modes:?}: {text:?}");
    for (on, off) in TERMINAL_MODES {
        let (on, off) = (text.find(on), text.rfind(off));
        assert!(on.is_some() && off > on, "{on:?} {off:?}: {text:?}");
    }
    // Nothing turns any of them on afterwards.
    let last = text.rfind("\x1b[?1049l").unwrap();
    let rest = text.split_at(last).1;
    assert!(TERMINAL_MODES.iter().all(|(on, _)| !rest.contains(on)), "{rest:?}");
}

#[tokio::test]
async fn the_terminal_is_restored() {
    for end in ["q", "\x03"] {
        let Some(mut child) = terminal("xterm-256color", &with_modes("$GTOP --demo=2")) else {
            return;
        };
        let begun = read_until(&mut child, "gpu02").await;
        child.stdin.as_mut().unwrap().write_all(end.as_bytes()).await.unwrap();
        check_restored(&(begun + &read_to_end(child).await.0));
    }
    let folder = tempfile::tempdir().unwrap();
    let word = folder.path().join("word");
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        // Whoever waits for a word sends the signal to the shell that has become gtop.
        let program = format!(
            "mkfifo {0}; sh -c '(read _ <{0}; kill -{signal} $$) & exec $GTOP --demo=2'; rm {0}",
            word.display()
        );
        let Some(mut child) = terminal("xterm-256color", &with_modes(&program)) else { return };
        let begun = read_until(&mut child, "gpu02").await;
        std::fs::write(&word, "\n").unwrap();
        check_restored(&(begun + &read_to_end(child).await.0));
    }
}

/// Set where the test below is to be the program on the terminal, to how it panics: on the thread of the screen,
/// there once more while it unwinds, which ends a program at once, or on another thread.
const PANIC_VARIABLE: &str = "GTOP_TEST_PANICS";

#[tokio::test]
async fn a_key_in_pieces_is_that_key() {
    // However late the rest is read, it belongs to the key.
    let line = "ESCDELAY=10000 exec $GTOP --demo=2";
    // F1 opens the help, and F3 means nothing.
    for pieces in [&["\x1b", "OP"][..], &["\x1b", "[1", "3~", "\x1b", "O", "P"]] {
        let Some(mut child) = terminal("xterm-256color", line) else { return };
        read_until(&mut child, "gpu02").await;
        for piece in pieces {
            child.stdin.as_mut().unwrap().write_all(piece.as_bytes()).await.unwrap();
            // Most of the pieces are read one by one.
            sleep(Duration::from_millis(30)).await;
        }
        read_until(&mut child, "Signs").await;
        child.stdin.as_mut().unwrap().write_all(b"\x03").await.unwrap();
        assert_eq!(read_to_end(child).await.1, Some(130));
    }
}

#[tokio::test]
async fn a_panic_is_shown_on_the_restored_terminal() {
    if let Ok(how) = std::env::var(PANIC_VARIABLE) {
        return Box::pin(panic_on_the_screen(&how)).await;
    }
    let test_binary = std::env::current_exe().unwrap();
    for how in ["here", "twice", "elsewhere"] {
        let program = format!(
            "ulimit -c 0; {PANIC_VARIABLE}={how} {} --exact --nocapture \
             terminals::a_panic_is_shown_on_the_restored_terminal",
            test_binary.display()
        );
        let Some(child) = terminal("xterm-256color", &with_modes(&program)) else { return };
        let (text, _) = read_to_end(child).await;
        check_restored(&text);
        let shown_at = text.find("something broke").unwrap_or_else(|| panic!("{how}: {text:?}"));
        let left_at = text.find("\x1b[?1049l").unwrap();
        assert!(shown_at > left_at, "{how}: it is said on the other screen: {text:?}");
    }
}

/// Panics when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("something broke while it unwound");
    }
}

/// Shows a screen and panics meanwhile.
async fn panic_on_the_screen(how: &str) {
    let (_fleet, reader) = tokio::sync::watch::channel(gtop_fleet::Fleet::default());
    let (_source, sources) = mpsc::channel(1);
    let (requests, _asked) = mpsc::channel(1);
    let (_task, suspended_tasks) = mpsc::channel(1);
    let (_reply, replies) = mpsc::channel(1);
    let (_keys, host_keys) = mpsc::channel(1);
    let (_event, settings_events) = mpsc::channel(1);
    let context = UiContext {
        runs: None,
        source: FleetSource { fleet: reader, clock: Clock::system(), playback: None },
        sources,
        recorded: tokio::sync::watch::channel(gtop_model::RecordedBy::Nobody).1,
        clock: Clock::system(),
        zone: jiff::tz::TimeZone::UTC,
        title: "a title".to_owned(),
        requests,
        suspended_tasks,
        replies,
        host_keys,
        config: UiConfig {
            theme: ScreenSettings::default().chosen_theme(|_| None),
            detects_background: false,
            display: gtop_ui::DisplayOptions::default(),
            interval: Duration::from_secs(1),
            redraw: gtop_ui::RedrawPace::default(),
            settings: ScreenSettings::default(),
            setup: gtop_ui::Setup::default(),
        },
        keys: Keymap::default(),
        message: None,
        settings_events,
        filter: gtop_fleet::query::Filter::default(),
        recent_filters: Vec::new(),
        has_mouse: true,
    };
    let breaking = async {
        // The screen is on once it has been waited for.
        sleep(Duration::from_millis(300)).await;
        if how == "elsewhere" {
            let panicked = std::thread::spawn(|| panic!("something broke")).join();
            assert!(panicked.is_err());
            return;
        }
        let _fragile = (how == "twice").then_some(Fragile);
        panic!("something broke");
    };
    tokio::select! {
        _ending = gtop_ui::run(context) => {}
        () = breaking => {}
    }
}

#[tokio::test]
async fn a_closed_terminal_ends_gtop() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let is_alive = |pid: &str| {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
    };
    for input in ["", "</dev/null"] {
        let line = format!("echo $$ >{}; exec $GTOP --demo=2 {input}", file.display());
        let Some(mut child) = terminal("xterm-256color", &line) else { return };
        read_until(&mut child, "gpu02").await;
        let pid = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        assert!(is_alive(&pid));
        child.start_kill().unwrap();
        child.wait().await.unwrap();
        let gone = async {
            while is_alive(&pid) {
                sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(timeout(TIMEOUT, gone).await.is_ok(), "{pid} goes on without its terminal");
    }
}
