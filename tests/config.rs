//! Settings, with the real program: where they are read and written, which of several wins, what is
//! said of mistakes; and the pages of docs/ that are generated from the same tables.
#![expect(clippy::disallowed_methods, reason = "the program is run as it is")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A home of one's own.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(config: &str) -> Self {
        let home = Self::new();
        home.write("config.toml", config);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(".config/gtop").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path("")).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, line: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gtop"));
        command.args(line.split_whitespace()).env_clear().env("HOME", self.0.path());
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.envs(variables.iter().copied()).output().unwrap()
    }

    /// Returns the row of `config show` about a setting.
    fn row(&self, options: &str, variables: &[(&str, &str)], name: &str) -> String {
        let shown = out(&self.run(&format!("{options} config show"), variables));
        let row = shown.lines().find(|line| line.trim_start_matches('#').starts_with(name));
        row.unwrap_or(&shown).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Every file and folder there is.
    fn all(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.0.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(self.0.path()).unwrap().display().to_string());
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

fn out(done: &Output) -> String {
    String::from_utf8(done.stdout.clone()).unwrap()
}

fn err(done: &Output) -> String {
    String::from_utf8(done.stderr.clone()).unwrap()
}

#[test]
fn init_writes_a_file_once_and_nothing_else() {
    let home = Home::new();
    let done = home.run("config init", &[]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert_eq!(home.all(), [".config", ".config/gtop", ".config/gtop/config.toml"]);
    let text = fs::read_to_string(home.path("config.toml")).unwrap();
    assert!(text.contains("#interval = 1\n") && text.contains("#freeze = [\"z\"]"), "{text}");
    home.write("config.toml", "theme = 'mono'\n");
    let again = home.run("config init", &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("already exists and is not overwritten"), "{}", err(&again));
    assert_eq!(fs::read_to_string(home.path("config.toml")).unwrap(), "theme = 'mono'\n");
}

#[test]
fn path_and_check_and_show_write_nothing() {
    let home = Home::new();
    let path = home.path("config.toml");
    assert_eq!(out(&home.run("config path", &[])).trim(), path.display().to_string());
    let elsewhere = home.run("config path", &[("XDG_CONFIG_HOME", "/elsewhere")]);
    assert_eq!(out(&elsewhere), "/elsewhere/gtop/config.toml\n");
    let relative = home.run("config path", &[("XDG_CONFIG_HOME", "elsewhere")]);
    assert_eq!(out(&relative).trim(), path.display().to_string());
    let checked = home.run("config check", &[]);
    assert_eq!(checked.status.code(), Some(0));
    assert!(out(&checked).contains("does not exist"), "{}", out(&checked));
    assert_eq!(home.run("config show", &[]).status.code(), Some(0));
    assert_eq!(home.run("config", &[]).status.code(), Some(2));
    assert!(home.all().is_empty(), "{:?}", home.all());
}

#[test]
fn option_beats_environment_beats_setup_beats_file_beats_default() {
    let home = Home::new();
    let row = |options: &str, variables: &[(&str, &str)]| home.row(options, variables, "theme =");
    assert_eq!(row("", &[]), "theme = \"auto\" # default");
    home.write("config.toml", "\ntheme = \"mono\"\n");
    assert_eq!(row("", &[]), "theme = \"mono\" # config.toml:2");
    home.write("setup.toml", "theme = \"hot\"\n");
    assert_eq!(row("", &[]), "theme = \"hot\" # setup.toml:1");
    let foreign = ("NVITOP_MONITOR_MODE", "light");
    let background = home.row("", &[foreign], "background =");
    assert_eq!(background, "background = \"light\" # NVITOP_MONITOR_MODE");
    let own = ("GTOP_THEME", "dark");
    assert_eq!(row("", &[foreign, own]), "theme = \"dark\" # GTOP_THEME");
    let typed = row("--theme colour-blind", &[foreign, own]);
    assert_eq!(typed, "theme = \"colour-blind\" # command line");
    // An option may take back what a file says.
    home.write("config.toml", "ascii = true\n");
    assert_eq!(home.row("--no-ascii", &[], "ascii"), "ascii = false # command line");
}

#[test]
fn columns_are_chosen_by_name_and_a_wrong_one_is_told_with_the_nearest() {
    let home = Home::with("columns-users = [\"mem\", \"idle\"]\n");
    let row =
        |options: &str, variables: &[(&str, &str)], name: &str| home.row(options, variables, name);
    let users = row("", &[], "columns-users");
    assert_eq!(users, "columns-users = [\"mem\", \"idle-held\"] # config.toml:1");
    let fleet = row("--columns-fleet util,note", &[], "columns-fleet");
    assert_eq!(fleet, "columns-fleet = [\"util\", \"note\"] # command line");
    let node = row("", &[("GTOP_COLUMNS_NODE", "temp,util")], "columns-node");
    assert_eq!(node, "columns-node = [\"temp\", \"util\"] # GTOP_COLUMNS_NODE");
    home.write("config.toml", "columns-fleet = [\"utl\"]\ncolumns-node = [\"temp\", \"temp\"]\n");
    let told = out(&home.run("config check", &[]));
    let nearest = "config.toml:1: columns-fleet: unknown column \"utl\"; did you mean util? columns are node, job,";
    assert!(told.contains(nearest), "{told}");
    assert!(told.contains("config.toml:2: columns-node: duplicate temp"), "{told}");
    let typed = home.run("--columns-processes pidd config show", &[]);
    assert_eq!(typed.status.code(), Some(2));
    assert!(err(&typed).contains("did you mean pid?"), "{}", err(&typed));
}

#[test]
fn another_file_may_be_named_and_setup_stands_beside_it() {
    let home = Home::with("theme = \"mono\"\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    let own = file.display().to_string();
    let option = format!("--config {own}");
    let gone = home.run(&format!("{option} config check"), &[]);
    assert_eq!(gone.status.code(), Some(2));
    let words = format!("gtop: {own} not found; gtop --config {own} config init creates it\n");
    assert_eq!(err(&gone), words);
    assert_eq!(home.run(&format!("{option} --once --local"), &[]).status.code(), Some(2));
    let path = home.run(&format!("{option} config path"), &[]);
    assert_eq!((path.status.code(), out(&path)), (Some(0), format!("{own}\n")));
    let variable = home.run("config check", &[("GTOP_CONFIG", &own)]);
    assert!(out(&variable).contains("lab.toml: file not found"), "{}", out(&variable));
    assert_eq!(home.run(&format!("{option} config init"), &[]).status.code(), Some(0));
    fs::write(&file, "theme = \"hot\"\n").unwrap();
    let hot = "theme = \"hot\" # lab.toml:1";
    assert_eq!(home.row(&option, &[], "theme ="), hot);
    assert_eq!(home.row("", &[("GTOP_CONFIG", &own)], "theme ="), hot);
    assert_eq!(home.row("", &[("GTOP_CONFIG", "")], "theme ="), "theme = \"mono\" # config.toml:1");
    fs::write(folder.path().join("setup.toml"), "theme = \"dark\"\n").unwrap();
    assert_eq!(home.row(&option, &[], "theme ="), "theme = \"dark\" # setup.toml:1");
    let path = home.run(&format!("config path {option}"), &[]);
    assert_eq!(out(&path).trim(), own);
    let setup =
        home.run(&format!("--config {}/setup.toml config show", folder.path().display()), &[]);
    assert_eq!(setup.status.code(), Some(2));
    assert!(err(&setup).contains("name another file"), "{}", err(&setup));
}

#[test]
fn mistakes_are_told_with_line_key_and_nearest_name() {
    let home = Home::with("interval = 2\nintervall = 3\n[keys]\nfreze = \"F\"\nhelp = \"q\"\n");
    home.write("setup.toml", "theme = \"blue\"\n");
    let done = home.run("config check", &[("GTOP_REDRAW", "often")]);
    assert_eq!(done.status.code(), Some(1));
    let told = out(&done);
    for words in [
        "config.toml:2: unknown setting \"intervall\"; did you mean interval?",
        "config.toml:4: unknown action \"freze\"; did you mean freeze?",
        "q is bound to help and to quit",
        "setup.toml:1: theme: expected one of auto, dark, light, mono, colour-blind, hot",
        "GTOP_REDRAW: expected seconds between 0.02 and 3600",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_setup_file_of_another_version_is_read_and_what_is_unknown_is_kept() {
    let home = Home::new();
    home.write(
        "setup.toml",
        "theme = \"neon\"\ninterval = 2\nsparkle = [1, {a = 'b'}]\n[future]\nx = 1\n",
    );
    let shown = home.row("", &[], "interval");
    assert_eq!(shown, "interval = 2 # setup.toml:2");
    assert_eq!(home.row("", &[], "theme ="), "theme = \"auto\" # default");
    let done = home.run("config check", &[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    for words in [
        "note: setup.toml:1: theme: expected one of auto,",
        "note: setup.toml:3: sparkle: unknown in this version, ignored\n",
        "note: setup.toml:4: future: unknown in this version, ignored\n",
    ] {
        assert!(out(&done).contains(words), "{words}: {}", out(&done));
    }
    let once = home.run("--once --deadline 5 --transport local", &[]);
    assert!(once.status.success() && err(&once).is_empty(), "{once:?}");
}

#[test]
fn old_names_of_values_are_read_with_a_hint() {
    let home = Home::with("sort-users = \"idle\"\ncolumns-users = [\"idle\"]\n");
    assert_eq!(home.row("", &[], "sort-users"), "sort-users = \"idle-held\" # config.toml:1");
    let done = home.run("config check", &[("GTOP_CHARTED", "util,mclk")]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    for words in [
        "note: config.toml:1: sort-users: idle is now called idle-held\n",
        "note: config.toml:2: columns-users: idle is now called idle-held\n",
        "note: GTOP_CHARTED: mclk is now called memclock\n",
    ] {
        assert!(out(&done).contains(words), "{words}: {}", out(&done));
    }
    let typed = Home::new().run("--sort-users idle --once --deadline 5 --transport local", &[]);
    assert!(typed.status.success(), "{typed:?}");
    assert_eq!(err(&typed), "gtop: --sort-users: idle is now called idle-held\n");
}

#[test]
fn groups_that_name_each_other_are_told_by_check_and_harm_nobody_else() {
    let home = Home::with("ascii = true\n[groups]\na = \"@b\"\nb = \"@a,n1\"\nc = \"n2\"\n");
    let done = home.run("config check", &[]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let words =
        "config.toml: [groups]: these groups contain each other: @gtop:a → @gtop:b → @gtop:a;";
    assert!(out(&done).contains(words), "{done:?}");
    assert_eq!(home.row("", &[], "ascii"), "ascii = true # config.toml:1");
}

#[test]
fn every_complaint_begins_with_the_name_of_the_program() {
    let home = Home::new();
    for line in [
        "--no-such-option",
        "5 2",
        "-i 0",
        "doctr gpu01",
        "--config /nonexistent",
        "'[' ",
        "trust",
        "config",
    ] {
        let done = home.run(line, &[]);
        assert_eq!(done.status.code(), Some(2), "{line}: {done:?}");
        assert!(
            err(&done).starts_with("gtop: ") && !err(&done).contains("error:"),
            "{line}: {done:?}"
        );
    }
    let help = home.run("--help", &[]);
    assert!(help.status.success() && err(&help).is_empty() && !out(&help).contains("gtop: "));
}

#[test]
fn programs_are_shown_what_people_are() {
    let home = Home::with("only = [1]\n");
    let devices = |options: &str| {
        let done = home.run(&format!("--demo=1 --seed 3 --json {options}"), &[]);
        let picture: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
        let list = picture["nodes"][0]["devices"].as_array().unwrap();
        list.iter().map(|device| device["index"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(devices(""), [1]);
    assert_eq!(devices("-o=0,2"), [0, 2]);
}

#[test]
fn settings_that_cannot_be_together_are_mistakes_too() {
    for (config, words) in [
        ("exec = 'run {host}'\n", "put {node} where the node name belongs (exec: config.toml:1)"),
        ("exec = 'run \"{node}'\n", "--exec has an unclosed \" (exec: config.toml:1)"),
        (
            "transport = 'srun'\nexec = 'run {node}'\n",
            "--exec conflicts with --transport; leave one of them out (transport: config.toml:1, exec: config.toml:2)",
        ),
    ] {
        let home = Home::with(config);
        let checked = home.run("config check", &[]);
        assert_eq!(checked.status.code(), Some(1), "{config}");
        assert!(out(&checked).contains(words), "{}", out(&checked));
        let done = home.run("--once gpu01", &[]);
        assert_eq!(done.status.code(), Some(2), "{config}");
        assert!(err(&done).contains(words), "{}", err(&done));
    }
}

#[test]
fn a_broken_file_is_told_and_defaults_hold() {
    for config in ["interval = \n", "interval = 0.1\nnonsense = 1\n", "\u{0}\u{1b}[2J"] {
        let home = Home::with(config);
        let done = home.run("--once --deadline 5 --transport local", &[]);
        assert_eq!(done.status.code(), Some(0), "{}", err(&done));
        assert!(err(&done).starts_with("gtop: config.toml:"), "{}", err(&done));
        assert!(!err(&done).contains('\u{1b}'));
        assert_eq!(home.row("", &[], "interval"), "interval = 1 # default");
    }
    let home = Home::new();
    fs::create_dir_all(home.path("config.toml")).unwrap();
    let done = home.run("config check", &[]);
    assert_eq!(out(&done), "config.toml: cannot be read: not a regular file\n");
}

#[test]
fn what_stands_in_the_file_is_what_happens() {
    // A group of one's own, and hosts where the command line names none.
    let home = Home::with(
        "hosts = ['@few']\nexec = 'env NODE={node} sh -c {command}'\ndeadline = 20\nlog = '/dev/null'\n\
         [groups]\nfew = 'a[1-3]'\n",
    );
    let names = |done: &Output| {
        let text = out(done);
        let picture: serde_json::Value = serde_json::from_str(&text).unwrap();
        let nodes = picture["nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&home.run("--json", &[])), ["a1", "a2", "a3"]);
    assert_eq!(names(&home.run("--json @few!a2", &[])), ["a1", "a3"]);
    assert_eq!(names(&home.run("--json --exclude a1 @few", &[])), ["a2", "a3"]);
    let wrong = home.run("--json @fwe", &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        err(&wrong).contains("config.toml has no group \"fwe\"; known: few"),
        "{}",
        err(&wrong)
    );
    // What is typed turns off what stands against it in the file.
    let native = home.run("--json --transport native --deadline 1 127.0.0.1:1", &[]);
    assert!(out(&native).contains("connection refused"), "{}", out(&native));
    // What only files say, and cannot be, is told with its places.
    home.write("config.toml", "transport = 'local'\n");
    let done = home.run("--json gpu01", &[]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        err(&done).contains("leave the hosts out (transport: config.toml:1)"),
        "{}",
        err(&done)
    );
}

#[test]
fn a_home_that_cannot_be_written_is_told_and_left_alone() {
    let home = Home::new();
    let folder = home.0.path().join(".config");
    fs::create_dir(&folder).unwrap();
    // Whoever runs tests may be allowed everything; a file where the folder should be stops them too.
    fs::write(folder.join("gtop"), "").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let done = home.run("config init", &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).contains("cannot write"), "{}", err(&done));
    let once = home.run("--once --deadline 5 --transport local", &[]);
    assert_eq!(once.status.code(), Some(0), "{}", err(&once));
    assert_eq!(home.all(), [".config", ".config/gtop"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    for no_home in ["", "relative"] {
        let init = home.run("config init", &[("HOME", no_home), ("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(init.status.code(), Some(1));
        assert!(err(&init).contains("no configuration folder"), "{}", err(&init));
    }
}

#[test]
fn a_limit_of_length_is_told_and_ends_nothing_by_a_signal() {
    let home = Home::new();
    let limited = |line: &str| {
        let script = format!("ulimit -f 0; exec '{}' {line}", env!("CARGO_BIN_EXE_gtop"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env_clear().env("HOME", home.0.path());
        command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap()
    };
    let init = limited("config init");
    assert_eq!(init.status.code(), Some(1), "{init:?}");
    assert!(err(&init).ends_with("config.toml: File too large (os error 27)\n"), "{init:?}");
    assert_eq!(home.all(), [".config", ".config/gtop"]);
    let logged = limited("--once --local --log \"$HOME/log\"");
    assert_eq!(logged.status.code(), Some(0), "{logged:?}");
    assert_eq!(fs::read(home.0.path().join("log")).unwrap(), b"");
}

#[test]
fn a_log_that_nobody_reads_is_told_and_not_waited_for() {
    let home = Home::new();
    let pipe = home.0.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let done = home.run(&format!("--once --local --log {}", pipe.display()), &[]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(err(&done).contains("is a pipe that nobody reads"), "{done:?}");
    // Standard error is one, and is read here.
    let done = home.run("--once --local --log /dev/stderr", &[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(err(&done).contains(" INFO ") || err(&done).contains(" DEBUG "), "{done:?}");
}

/// Compares the text between two markers of a page with the generated one, or writes it with BLESS=1.
fn check_page(page: &str, name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (front, rest) = text.split_once(&begin).unwrap();
    let (found, back) = rest.split_once(&end).unwrap();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{front}{begin}{generated}{end}{back}")).unwrap();
        return;
    }
    assert_eq!(found, generated, "docs/{page} is out of date; BLESS=1 writes it");
}

#[test]
fn the_pages_of_settings_and_keys_match_their_tables() {
    check_page("settings.md", "settings", &gtop::config::table_text());
    check_page("keys.md", "keys", &gtop::config::keys_text());
}

#[test]
fn the_page_of_metrics_says_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let text = format!(
        "# Metrics\n\n\
         A metric has one word, the same in filters (`util<10`), columns, sort orders and charts, and one key in \
         JSON. Filters take the JSON key too, where only one metric has it.\n\n{}",
        gtop::config::metrics_text()
    );
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, text, "docs/metrics.md is out of date; BLESS=1 writes it");
}

#[test]
fn help_names_every_option_of_the_table() {
    let help = out(&Home::new().run("--help", &[]));
    let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in gtop::config::SETTINGS.iter().filter(|setting| setting.name != "hosts") {
        let off = if setting.is_on_by_default() { "no-" } else { "" };
        assert!(help.contains(&format!("--{off}{}", setting.name)), "{}", setting.name);
        let words = if setting.off_help.is_empty() { setting.help } else { setting.off_help };
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        // Options that are declared beside the hosts say it in their own words.
        assert!(!setting.has_option || flat.contains(&words), "{words}: {help}");
    }
}
