//! gtop's parser of `ssh_config`, compared with the output of the real `ssh -G`.
//!
//! The cases are files in `tests/ssh_config/cases` and `pairs`; the rest are generated from a
//! grammar, `GTOP_FUZZ=N` of them (default 500), starting from seed `GTOP_SEED=N`. Without
//! OpenSSH 9.2 nothing is compared, and the tests say so.

mod case;
mod grammar;
mod oracle;

use std::fs;
use std::path::Path;

use tokio::process::Command;

use crate::ssh_config::case::{Case, Home};
use crate::ssh_config::grammar::Rng;
use crate::ssh_config::oracle::{ConfigFiles, Oracle, Outcome};

fn cases(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ssh_config").join(folder);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

#[tokio::test]
async fn every_case_is_resolved_as_by_ssh() {
    let Some(oracle) = Oracle::new().await else { return };
    let cases = cases("cases");
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let home = Home::new(case);
        for host in &case.hosts {
            let files =
                ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
            wrong.extend(oracle.compare(case, host, &files).await);
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn random_configurations_are_resolved_as_by_ssh() {
    let Some(oracle) = Oracle::new().await else { return };
    let number = |name: &str, or: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let (count, first) = (number("GTOP_FUZZ", 500), number("GTOP_SEED", 1));
    let (mut compared, mut refused, mut left_to_ssh) = (0, 0, 0);
    for seed in first..first + count {
        let case = grammar::case(&mut Rng::new(seed));
        let home = Home::new(&case);
        for host in &case.hosts {
            let files =
                ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
            if let Some(why) = oracle.compare(&case, host, &files).await {
                panic!("GTOP_SEED={seed} GTOP_FUZZ=1\n{why}\n{}", case.to_text());
            }
            match oracle.run_gtop(host, &files).await {
                Outcome::Options(_) => compared += 1,
                Outcome::Error(_) => refused += 1,
                Outcome::NeedsSsh(_) => left_to_ssh += 1,
            }
        }
    }
    eprintln!("{compared} equal, {refused} refused by both, {left_to_ssh} left to ssh");
    assert!(
        compared > refused && left_to_ssh * 10 < compared,
        "{compared} {refused} {left_to_ssh}"
    );
}

#[tokio::test]
async fn random_bytes_do_not_panic() {
    let mut rng = Rng::new(7);
    let case = Case::default();
    let home = Home::new(&case);
    let files = ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
    for _ in 0..500 {
        fs::write(home.path().join("config"), grammar::noise(&mut rng)).unwrap();
        let host = case::HostArg::parse("n1");
        // Any outcome is fine; it must not panic.
        drop(oracle::gtop(&host, &files).await);
    }
}

/// The system-wide file can be replaced only in a mount namespace.
#[tokio::test]
async fn the_users_file_precedes_the_system_wide_file() {
    if Oracle::new().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["home/.ssh", "etc/ssh"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    let hosts = fs::read_to_string("/etc/hosts").unwrap();
    let hosts = format!("{hosts}\n127.0.0.9 n1.site. n1.site\n");
    fs::write(folder.path().join("etc/hosts"), hosts).unwrap();
    let path = folder.path().display();
    // The user's file is found by the password database.
    let script = format!(
        "awk -F: -v OFS=: -v u=$(id -u) '$3 == u {{ $6 = \"{path}/home\" }} {{ print }}' \
         /etc/passwd >{path}/etc/passwd && \
         for file in passwd hosts ssh; do mount --bind {path}/etc/$file /etc/$file || exit 77; done && \
         HOME={path}/home exec \"$0\" --exact --ignored ssh_config::system_wide_cases_in_a_mount_namespace"
    );
    let test_binary = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script])
        .arg(test_binary)
        .env("GTOP_NAMESPACE", folder.path());
    let Ok(output) = command.output().await else {
        eprintln!("skipped: there is no unshare");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || errors.contains("unshare failed") {
        eprintln!("skipped: no mount namespace here: {errors}");
        return;
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{errors}");
}

#[tokio::test]
#[ignore = "runs only in a mount namespace, started by the test above"]
async fn system_wide_cases_in_a_mount_namespace() {
    let Some(folder) = std::env::var_os("GTOP_NAMESPACE") else { return };
    let folder = Path::new(&folder);
    let oracle = Oracle::new().await.unwrap();
    let mut wrong = Vec::new();
    for case in cases("pairs") {
        for name in ["home", "etc/ssh"] {
            for entry in fs::read_dir(folder.join(name)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
                    .unwrap();
            }
        }
        case.write(folder);
        for host in &case.hosts {
            let files = ConfigFiles { home: &folder.join("home"), config_file: None };
            wrong.extend(oracle.compare(&case, host, &files).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn an_option_names_its_origin() {
    let home = Home::new(&Case::parse(
        "hosts: n1\n--- config\nUser ada\nInclude more\nHost n1\n  Port 2222\n--- .ssh/more\n\nIdentityFile ~/k\n",
    ));
    let files = ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
    let found = oracle::options_without_ssh(&case::HostArg::parse("n1"), &files).await.unwrap();
    let origin = |name: &str| {
        let option = found.iter().find(|option| option.name == name).unwrap();
        let origin = option.origin.as_ref()?;
        Some(format!("{}:{}", origin.file.file_name()?.to_str()?, origin.line))
    };
    assert_eq!(origin("user").as_deref(), Some("config:1"));
    assert_eq!(origin("port").as_deref(), Some("config:4"));
    assert_eq!(origin("identityfile").as_deref(), Some("more:2"));
    assert_eq!(origin("stricthostkeychecking"), None);
}

#[tokio::test]
async fn a_line_only_ssh_can_evaluate_is_named_when_ssh_is_missing() {
    for (line, what) in [
        ("Match exec true", "config:2: Match exec"),
        ("Match host n1 localnetwork 10.0.0.0/8", "config:2: Match localnetwork"),
        ("Hosst x", "config:2: bad configuration option: hosst"),
        ("Ciphers rot13", "config:2: bad ciphers 'rot13'"),
        ("User %u", "config:2: User %u"),
    ] {
        let home = Home::new(&Case::parse(&format!("hosts: n1\n--- config\n\n{line}\n Port 7\n")));
        let files =
            ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
        let fault =
            oracle::options_without_ssh(&case::HostArg::parse("n1"), &files).await.unwrap_err();
        let text = fault.to_string();
        assert!(text.contains(what) && text.contains("only the ssh program"), "{text}");
    }
    // If another condition fails, ssh is not needed.
    let text = "hosts: n1\n--- config\nMatch exec true host n2\n Port 7\n";
    let home = Home::new(&Case::parse(text));
    let files = ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
    assert!(oracle::options_without_ssh(&case::HostArg::parse("n1"), &files).await.is_ok());
}

#[tokio::test]
async fn a_line_only_ssh_can_evaluate_is_left_to_ssh() {
    if Oracle::new().await.is_none() {
        return;
    }
    let home =
        Home::new(&Case::parse("hosts: n1\n--- config\nMatch exec \"test %n = n1\"\n Port 7\n"));
    let files = ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
    for (host, port) in [("n1", "7"), ("n2", "22")] {
        let found =
            oracle::options_with_ssh(&case::HostArg::parse(host), &files, "ssh").await.unwrap();
        let found = found.iter().find(|option| option.name == "port").unwrap();
        assert_eq!(found.values, [port], "{host}");
    }
}

#[tokio::test]
async fn a_changed_include_is_noticed_while_gtop_runs() {
    let home =
        Home::new(&Case::parse("hosts: n1\n--- config\nInclude d/*\n--- .ssh/d/a\nPort 1\n"));
    let files = ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
    let transport = oracle::transport(&files, "/no/ssh/here");
    let target = oracle::target(&case::HostArg::parse("n1"));
    for (file, text, want) in
        [("a", "Port 1", "1"), ("a", "Port 22222", "22222"), ("A", "Port 3", "3")]
    {
        fs::write(home.path().join(".ssh/d").join(file), text).unwrap();
        let found = transport.effective_options(&target).await.unwrap();
        let port = found.iter().find(|option| option.name == "port").unwrap();
        assert_eq!(port.values, [want], "{file}");
    }
}

/// Lines of which `ssh` accepts some and refuses the others.
#[rustfmt::skip]
const LINES: &[&str] = &[
    "RekeyLimit 10x", "RekeyLimit 10M", "RekeyLimit 1", "RekeyLimit 15", "RekeyLimit default none",
    "RekeyLimit none", "RekeyLimit 1G 1h", "RekeyLimit 1G 1q", "RekeyLimit 1.5G", "RekeyLimit 1G none x",
    "RekeyLimit -1", "RekeyLimit 1GB", "RekeyLimit 0", "RekeyLimit \" 20\"", "RekeyLimit 1e",
    "RekeyLimit 8E", "RekeyLimit 7E", "RekeyLimit +20", "RekeyLimit 20b", "RekeyLimit .5k",
    "RekeyLimit 1.K", "RekeyLimit DEFAULT", "RekeyLimit 20 \"\"",
    "AddKeysToAgent perhaps", "AddKeysToAgent 5m", "AddKeysToAgent confirm 5m", "AddKeysToAgent yes 5m",
    "AddKeysToAgent confirm x", "AddKeysToAgent YES", "AddKeysToAgent confirm 5m x",
    "ControlPersist perhaps", "ControlPersist 10m", "ControlPersist YES", "ControlPersist yes x",
    "EscapeChar ^?", "EscapeChar ^[", "EscapeChar none", "EscapeChar None", "EscapeChar ab",
    "EscapeChar ~", "EscapeChar ^", "EscapeChar ^1", "FingerprintHash md4", "FingerprintHash Sha256",
    "StreamLocalBindMask 0888", "StreamLocalBindMask 0177", "StreamLocalBindMask 1777",
    "StreamLocalBindMask 17x", "StreamLocalBindMask -1", "StreamLocalBindMask x",
    "SyslogFacility authpriv", "SyslogFacility MAIL", "SyslogFacility local8",
    "TunnelDevice any", "TunnelDevice any:any", "TunnelDevice 1:2", "TunnelDevice x", "TunnelDevice 1",
    "TunnelDevice 1:x", "TunnelDevice any:", "TunnelDevice 2147483646", "TunnelDevice 1.5",
    "IPQoS x", "IPQoS af11 cs0", "IPQoS EF", "IPQoS 0x10", "IPQoS 300", "IPQoS none", "IPQoS ef none x",
    "IPQoS af51", "IPQoS cs8", "IPQoS 010", "IPQoS -1",
    "User \"ada lovelace\"", "User ada\\ lovelace", "User host$", "User \"SITE\\\\ada\"",
    "HostName host#foo", "HostName a*b", "HostName a?b", "HostName a!b", "HostName #h",
    "HostName \"host#foo\" # a comment", "StdinNull perhaps", "SessionType none", "SessionType shell",
    "ForkAfterAuthentication perhaps", "RequestTTY perhaps", "NoHostAuthenticationForLocalhost yes",
    "NoHostAuthenticationForLocalhost perhaps", "ServerAliveCountMax 3x", "RequiredRSASize 10x",
];

#[tokio::test]
async fn every_line_is_accepted_or_refused_as_by_ssh() {
    let Some(oracle) = Oracle::new().await else { return };
    let mut wrong = Vec::new();
    for line in LINES {
        let case = Case::parse(&format!("hosts: n1\n--- config\n{line}\n"));
        let home = Home::new(&case);
        let files =
            ConfigFiles { home: home.path(), config_file: Some(&home.path().join("config")) };
        let differs = oracle.compare(&case, &case.hosts[0], &files).await;
        wrong.extend(differs.map(|why| format!("{line}: {why}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Fails for an option of a later `ssh`.
#[tokio::test]
async fn every_option_of_ssh_is_documented() {
    if Oracle::new().await.is_none() {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ssh-config.md");
    let page = fs::read_to_string(page).unwrap().to_ascii_lowercase();
    let output = Command::new("ssh").args(["-T", "-G", "-F", "none", "x"]).output().await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = printed.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 70, "{printed}");
    for name in names.into_iter().filter(|name| *name != "host") {
        let name = name.to_ascii_lowercase();
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/ssh-config.md");
    }
}
