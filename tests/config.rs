//! Settings, with the real program: their files, precedence and errors; and the generated pages of docs/.

mod body_keys;
mod pages;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gtop::internals::report::{ReportCriteria, VerdictWord};
use gtop_collect::wire::Exporter;
use gtop_fleet::settings::Choice as _;
use gtop_ui::KeyScheme;

/// A temporary home directory.
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

    /// Returns the line of `config show` for a setting.
    fn row(&self, options: &str, variables: &[(&str, &str)], name: &str) -> String {
        let shown = out(&self.run(&format!("{options} config show"), variables));
        let row = shown.lines().find(|line| line.trim_start_matches('#').starts_with(name));
        row.unwrap_or(&shown).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the paths of all files and folders in it.
    fn entries(&self) -> Vec<String> {
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
fn config_init_creates_one_file_and_never_overwrites_it() {
    let home = Home::new();
    let done = home.run("config init", &[]);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    assert_eq!(home.entries(), [".config", ".config/gtop", ".config/gtop/config.toml"]);
    let text = fs::read_to_string(home.path("config.toml")).unwrap();
    assert!(text.contains("#interval = 1\n") && text.contains("#freeze = [\"z\"]"), "{text}");
    home.write("config.toml", "theme = 'mono'\n");
    let again = home.run("config init", &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("already exists and is not overwritten"), "{}", err(&again));
    assert_eq!(fs::read_to_string(home.path("config.toml")).unwrap(), "theme = 'mono'\n");
}

#[test]
fn config_path_check_and_show_write_nothing() {
    let home = Home::new();
    for (options, name, row) in [
        ("--exclude gpu[03,07]", "exclude", r#"exclude = ["gpu[03,07]"] # command line"#),
        ("--slurm", "slurm", "slurm = true # command line"),
        ("", "exclude", "#exclude = # not set"),
    ] {
        assert_eq!(home.row(options, &[], name), row);
    }
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
    assert!(home.entries().is_empty(), "{:?}", home.entries());
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
    let nvitop = ("NVITOP_MONITOR_MODE", "light");
    let background = home.row("", &[nvitop], "background =");
    assert_eq!(background, "background = \"light\" # NVITOP_MONITOR_MODE");
    let gtop = ("GTOP_THEME", "dark");
    assert_eq!(row("", &[nvitop, gtop]), "theme = \"dark\" # GTOP_THEME");
    let row_of_option = row("--theme colour-blind", &[nvitop, gtop]);
    assert_eq!(row_of_option, "theme = \"colour-blind\" # command line");
    // An option can switch off what a file switches on.
    home.write("config.toml", "ascii = true\n");
    assert_eq!(home.row("--no-ascii", &[], "ascii"), "ascii = false # command line");
}

#[test]
fn columns_are_chosen_by_name_and_an_unknown_one_gets_a_suggestion() {
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
    let output = out(&home.run("config check", &[]));
    let nearest = "config.toml:1: columns-fleet: unknown column \"utl\"; did you mean util? the columns are node, job,";
    assert!(output.contains(nearest), "{output}");
    assert!(output.contains("config.toml:2: columns-node: duplicate temp"), "{output}");
    let typed = home.run("--columns-processes pidd config show", &[]);
    assert_eq!(typed.status.code(), Some(2));
    assert!(err(&typed).contains("did you mean pid?"), "{}", err(&typed));
}

#[test]
fn another_file_can_be_given_and_setup_is_in_the_same_folder() {
    let home = Home::with("theme = \"mono\"\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    let path_text = file.display().to_string();
    let option = format!("--config {path_text}");
    let missing = home.run(&format!("{option} config check"), &[]);
    assert_eq!(missing.status.code(), Some(2));
    let message =
        format!("gtop: {path_text} not found; gtop --config {path_text} config init creates it\n");
    assert_eq!(err(&missing), message);
    assert_eq!(home.run(&format!("{option} --once --local"), &[]).status.code(), Some(2));
    let path = home.run(&format!("{option} config path"), &[]);
    assert_eq!((path.status.code(), out(&path)), (Some(0), format!("{path_text}\n")));
    let variable = home.run("config check", &[("GTOP_CONFIG", &path_text)]);
    assert!(out(&variable).contains("lab.toml: file not found"), "{}", out(&variable));
    assert_eq!(home.run(&format!("{option} config init"), &[]).status.code(), Some(0));
    fs::write(&file, "theme = \"hot\"\n").unwrap();
    let hot = "theme = \"hot\" # lab.toml:1";
    assert_eq!(home.row(&option, &[], "theme ="), hot);
    assert_eq!(home.row("", &[("GTOP_CONFIG", &path_text)], "theme ="), hot);
    assert_eq!(home.row("", &[("GTOP_CONFIG", "")], "theme ="), "theme = \"mono\" # config.toml:1");
    fs::write(folder.path().join("setup.toml"), "theme = \"dark\"\n").unwrap();
    assert_eq!(home.row(&option, &[], "theme ="), "theme = \"dark\" # setup.toml:1");
    let path = home.run(&format!("config path {option}"), &[]);
    assert_eq!(out(&path).trim(), path_text);
    let setup =
        home.run(&format!("--config {}/setup.toml config show", folder.path().display()), &[]);
    assert_eq!(setup.status.code(), Some(2));
    assert!(err(&setup).contains("name another file"), "{}", err(&setup));
}

#[test]
fn all_nodes_and_sets_of_nodes_are_no_errors() {
    let home = Home::with("sudo = [\"*\"]\nexclude = [\"gpu[03,07]\"]\n");
    for sudo in ["*", "gpu[1,3],ada@n[1-2]"] {
        let checked = home.run("config check", &[("GTOP_SUDO", sudo)]);
        assert_eq!(checked.status.code(), Some(0), "{}", out(&checked));
    }
    assert_eq!(home.run("config check", &[]).status.code(), Some(0));
    assert_eq!(home.run("--sudo config check", &[]).status.code(), Some(0));
}

#[test]
fn errors_have_a_line_a_key_and_a_suggestion() {
    let home = Home::with("interval = 2\nintervall = 3\n[keys]\nfreze = \"F\"\nhelp = \"q\"\n");
    home.write("setup.toml", "theme = \"blue\"\n");
    let done = home.run("config check", &[("GTOP_REDRAW", "often"), ("GTOP_EXCLUDE", "b,gpu[1")]);
    assert_eq!(done.status.code(), Some(1));
    let output = out(&done);
    for words in [
        "config.toml:2: unknown setting \"intervall\"; did you mean interval?",
        "config.toml:4: unknown action \"freze\"; did you mean freeze?",
        "q is bound to help and to quit",
        "setup.toml:1: theme: expected one of auto, dark, light, mono, colour-blind, hot",
        "GTOP_REDRAW: expected seconds between 0.02 and 3600",
        "GTOP_EXCLUDE: exclude: '[' without ']'",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
}

#[test]
fn a_setup_file_of_another_version_is_read_and_its_unknown_entries_are_kept() {
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
fn old_names_of_keys_are_read_with_a_hint() {
    let home = Home::with("[keys]\n\"fleet.by\" = \"x\"\n\"users.invert\" = []\n");
    let done = home.run("config check", &[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    for text in [
        "note: config.toml:2: fleet.by is now called fleet.next-metric\n",
        "note: config.toml:3: users.invert is now called users.reverse\n",
    ] {
        assert!(out(&done).contains(text), "{text}: {}", out(&done));
    }
}

#[test]
fn cyclic_groups_are_reported_by_check_and_do_not_affect_other_settings() {
    let home = Home::with("ascii = true\n[groups]\na = \"@b\"\nb = \"@a,n1\"\nc = \"n2\"\n");
    let done = home.run("config check", &[]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    let words =
        "config.toml: [groups]: these groups contain each other: @gtop:a → @gtop:b → @gtop:a;";
    assert!(out(&done).contains(words), "{done:?}");
    assert_eq!(home.row("", &[], "ascii"), "ascii = true # config.toml:1");
}

#[test]
fn every_error_begins_with_the_name_of_the_program() {
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
    let is_error = |line: &str| line.starts_with("gtop: ");
    assert!(help.status.success() && err(&help).is_empty() && !out(&help).lines().any(is_error));
}

#[test]
fn filters_apply_to_json_too() {
    let home = Home::with("only = [1]\n");
    let devices = |options: &str| {
        let done = home.run(&format!("--demo=1 --seed 3 --json {options}"), &[]);
        let snapshot: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
        let list = snapshot["nodes"][0]["devices"].as_array().unwrap();
        list.iter().map(|device| device["index"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(devices(""), [1]);
    assert_eq!(devices("-o=0,2"), [0, 2]);
}

#[test]
fn conflicting_settings_are_errors() {
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
fn a_file_with_errors_is_reported_and_defaults_apply() {
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
fn settings_of_the_file_take_effect() {
    // A group, and hosts for a command line without any.
    let home = Home::with(
        "hosts = ['@few']\nexec = 'env NODE={node} sh -c {command}'\ndeadline = 20\nlog = '/dev/null'\n\
         [groups]\nfew = 'a[1-3]'\n",
    );
    let names = |done: &Output| {
        let text = out(done);
        let snapshot: serde_json::Value = serde_json::from_str(&text).unwrap();
        let nodes = snapshot["nodes"].as_array().unwrap().clone();
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
    // An option disables conflicting settings of the file.
    let native = home.run("--json --transport native --deadline 1 127.0.0.1:1", &[]);
    assert!(out(&native).contains("connection refused"), "{}", out(&native));
    // A conflict between settings of files names their origins.
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
fn an_unwritable_home_is_reported_and_left_unchanged() {
    let home = Home::new();
    let folder = home.0.path().join(".config");
    fs::create_dir(&folder).unwrap();
    // Root may write anywhere; a file in place of the folder stops root too.
    fs::write(folder.join("gtop"), "").unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let done = home.run("config init", &[]);
    assert_eq!(done.status.code(), Some(1));
    assert!(err(&done).contains("cannot write"), "{}", err(&done));
    let once = home.run("--once --deadline 5 --transport local", &[]);
    assert_eq!(once.status.code(), Some(0), "{}", err(&once));
    assert_eq!(home.entries(), [".config", ".config/gtop"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    for no_home in ["", "relative"] {
        let init = home.run("config init", &[("HOME", no_home), ("XDG_CONFIG_HOME", "relative")]);
        assert_eq!(init.status.code(), Some(1));
        assert!(err(&init).contains("no configuration folder"), "{}", err(&init));
    }
}

#[test]
fn a_file_size_limit_is_an_error_and_not_a_signal() {
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
    assert_eq!(home.entries(), [".config", ".config/gtop"]);
    let logged = limited("--once --local --log \"$HOME/log\"");
    assert_eq!(logged.status.code(), Some(0), "{logged:?}");
    assert_eq!(fs::read(home.0.path().join("log")).unwrap(), b"");
}

#[test]
fn a_log_pipe_without_a_reader_is_refused_at_once() {
    let home = Home::new();
    let pipe = home.0.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let done = home.run(&format!("--once --local --log {}", pipe.display()), &[]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(err(&done).contains("is a pipe without a reader"), "{done:?}");
    // Standard error is a pipe with a reader.
    let done = home.run("--once --local --log /dev/stderr", &[]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(err(&done).contains(" INFO ") || err(&done).contains(" DEBUG "), "{done:?}");
}

/// Compares the text between two markers of a page with the generated text; writes it with BLESS=1.
fn check_page(page: &str, name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (found, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{before}{begin}{generated}{end}{after}")).unwrap();
        return;
    }
    let differing =
        found.lines().zip(generated.lines()).find(|(found, generated)| found != generated);
    assert!(
        found == generated,
        "docs/{page} is out of date; BLESS=1 writes it; first {differing:#?}"
    );
}

#[test]
fn the_pages_of_settings_and_keys_match_their_tables() {
    check_page("settings.md", "settings", &pages::table_text());
    check_page("keys.md", "keys", &pages::keys_text());
    for scheme in KeyScheme::ALL.into_iter().skip(1) {
        let marker = format!("{} keys", scheme.name());
        check_page("coming-from.md", &marker, &pages::foreign_keys_text(scheme));
    }
}

#[test]
fn the_page_of_reports_has_the_columns_of_tables() {
    check_page("reports.md", "columns", &pages::sample_columns_text());
}

#[test]
fn the_page_of_reports_has_the_words_of_verdicts() {
    let criteria = ReportCriteria::default();
    let rows = VerdictWord::ALL
        .map(|word| format!("| {} | {} |\n", word.as_str(), word.definition(&criteria)))
        .concat();
    check_page("reports.md", "verdicts", &format!("\n| word | when |\n|---|---|\n{rows}\n"));
}

#[test]
fn the_page_of_recordings_has_every_key_of_bodies() {
    check_page("recordings.md", "body", &body_keys::body_text());
}

#[test]
fn the_page_of_recordings_has_every_family_of_pages_of_metrics() {
    let rows = Exporter::ALL.into_iter().map(|exporter| {
        let families = exporter.families().iter().copied().flatten();
        let families: Vec<String> = families.map(|family| format!("`{family}`")).collect();
        format!("| {} | {} |\n", exporter.name(), families.join(", "))
    });
    let table = format!("\n| exporter | families |\n|---|---|\n{}\n", rows.collect::<String>());
    check_page("recordings.md", "scrape", &table);
}

#[test]
fn the_page_of_metrics_matches_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let text = format!(
        "# Metrics\n\n\
         Each metric has one name, the same in filters (`util<10`), columns, sort orders, charts and `--fields`, and one \
         key in JSON and CSV. `gtop fields` lists them all. Filters also accept the JSON key if only one metric has it.\n\n{}",
        pages::metrics_text()
    );
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, text, "docs/metrics.md is out of date; BLESS=1 writes it");
}

#[test]
fn help_has_every_option_of_the_table() {
    let help = out(&Home::new().run("--help", &[]));
    let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_option = |name: &str| name != "hosts" && !name.starts_with("report-");
    for setting in
        gtop::internals::setting_table::settings().filter(|setting| has_option(setting.name))
    {
        let off = if setting.is_on_by_default() { "no-" } else { "" };
        assert!(help.contains(&format!("--{off}{}", setting.option_name())), "{}", setting.name);
        let text = if setting.off_help.is_empty() { setting.help } else { setting.off_help };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Options that the table does not generate have their own help.
        assert!(!setting.has_option || flat.contains(&text), "{text}: {help}");
    }
}
