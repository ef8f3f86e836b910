//! gtop's parser of `ssh_config`, compared with the output of the real `ssh -G`.
//!
//! The cases are files in `tests/ssh_config/cases` and `pairs`; the rest are generated from a
//! grammar, `GTOP_FUZZ=N` of them (default 500), starting from seed `GTOP_SEED=N`. Without
//! OpenSSH 9.2 nothing is compared, and the tests say so.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]
#![expect(clippy::print_stderr, reason = "what is skipped is said")]

#[path = "ssh_config/case.rs"]
mod case;
#[path = "ssh_config/grammar.rs"]
mod grammar;
#[path = "ssh_config/oracle.rs"]
mod oracle;

use std::fs;
use std::path::Path;

use tokio::process::Command;

use crate::case::{Case, Home};
use crate::grammar::Dice;
use crate::oracle::{Oracle, Place, Said};

fn cases(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ssh_config").join(folder);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

#[tokio::test]
async fn every_case_is_read_as_ssh_reads_it() {
    let Some(oracle) = Oracle::new().await else { return };
    let cases = cases("cases");
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let home = Home::of(case);
        for asked in &case.asked {
            let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
            wrong.extend(oracle.compare(case, asked, &place).await);
        }
    }
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn random_configurations_are_read_as_ssh_reads_them() {
    let Some(oracle) = Oracle::new().await else { return };
    let number = |name: &str, or: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let (count, first) = (number("GTOP_FUZZ", 500), number("GTOP_SEED", 1));
    let (mut compared, mut refused, mut foreign) = (0, 0, 0);
    for seed in first..first + count {
        let case = grammar::case(&mut Dice::new(seed));
        let home = Home::of(&case);
        for asked in &case.asked {
            let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
            if let Some(why) = oracle.compare(&case, asked, &place).await {
                panic!("GTOP_SEED={seed} GTOP_FUZZ=1\n{why}\n{}", case.show());
            }
            match oracle.gtop(asked, &place).await {
                Said::Options(_) => compared += 1,
                Said::Mistake(_) => refused += 1,
                Said::Foreign(_) => foreign += 1,
            }
        }
    }
    eprintln!("{compared} equal, {refused} refused by both, {foreign} left to ssh");
    assert!(compared > refused && foreign * 10 < compared, "{compared} {refused} {foreign}");
}

#[tokio::test]
async fn random_bytes_are_no_harm() {
    let mut dice = Dice::new(7);
    let case = Case::default();
    let home = Home::of(&case);
    let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
    for _ in 0..500 {
        fs::write(home.path().join("config"), grammar::noise(&mut dice)).unwrap();
        let asked = case::Asked::read("n1");
        // Whatever it says, it says something.
        drop(oracle::gtop(&asked, &place).await);
    }
}

/// The machine's file can only be another one where nobody else sees it.
#[tokio::test]
async fn the_users_file_goes_before_the_machines() {
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
    // The password database says where the user's file is.
    let script = format!(
        "awk -F: -v OFS=: -v u=$(id -u) '$3 == u {{ $6 = \"{path}/home\" }} {{ print }}' \
         /etc/passwd >{path}/etc/passwd && \
         for file in passwd hosts ssh; do mount --bind {path}/etc/$file /etc/$file || exit 77; done && \
         HOME={path}/home exec \"$0\" --exact --ignored inside_a_namespace"
    );
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(own).env("GTOP_NAMESPACE", folder.path());
    let Ok(output) = command.output().await else {
        eprintln!("skipped: there is no unshare");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || errors.contains("unshare failed") {
        eprintln!("skipped: no mount namespace here: {errors}");
        return;
    }
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{errors}");
}

#[tokio::test]
#[ignore = "runs only in a mount namespace, started by the test above"]
async fn inside_a_namespace() {
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
        for asked in &case.asked {
            let place = Place { home: &folder.join("home"), chosen: None };
            wrong.extend(oracle.compare(&case, asked, &place).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn an_option_knows_its_line() {
    let home = Home::of(&Case::text(
        "hosts: n1\n--- config\nUser ada\nInclude more\nHost n1\n  Port 2222\n--- .ssh/more\n\nIdentityFile ~/k\n",
    ));
    let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
    let found = oracle::explain(&case::Asked::read("n1"), &place).await.unwrap();
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
async fn what_only_ssh_can_tell_names_the_line_when_there_is_no_ssh() {
    for (line, what) in [
        ("Match exec true", "config:2: Match exec"),
        ("Match host n1 localnetwork 10.0.0.0/8", "config:2: Match localnetwork"),
        ("Hosst x", "config:2: bad configuration option: hosst"),
        ("Ciphers rot13", "config:2: bad ciphers 'rot13'"),
        ("User %u", "config:2: User %u"),
    ] {
        let home = Home::of(&Case::text(&format!("hosts: n1\n--- config\n\n{line}\n Port 7\n")));
        let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
        let fault = oracle::explain(&case::Asked::read("n1"), &place).await.unwrap_err();
        let text = fault.to_string();
        assert!(text.contains(what) && text.contains("only the ssh program"), "{text}");
    }
    // Where another condition fails, nothing has to be asked.
    let text = "hosts: n1\n--- config\nMatch exec true host n2\n Port 7\n";
    let home = Home::of(&Case::text(text));
    let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
    assert!(oracle::explain(&case::Asked::read("n1"), &place).await.is_ok());
}

#[tokio::test]
async fn what_only_ssh_can_tell_is_asked() {
    if Oracle::new().await.is_none() {
        return;
    }
    let home =
        Home::of(&Case::text("hosts: n1\n--- config\nMatch exec \"test %n = n1\"\n Port 7\n"));
    let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
    for (host, port) in [("n1", "7"), ("n2", "22")] {
        let found = oracle::ask(&case::Asked::read(host), &place, "ssh").await.unwrap();
        let found = found.iter().find(|option| option.name == "port").unwrap();
        assert_eq!(found.values, [port], "{host}");
    }
}

#[tokio::test]
async fn a_changed_include_is_noticed_while_gtop_runs() {
    let home = Home::of(&Case::text("hosts: n1\n--- config\nInclude d/*\n--- .ssh/d/a\nPort 1\n"));
    let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
    let transport = oracle::transport(&place, "/no/ssh/here");
    let target = oracle::target(&case::Asked::read("n1"));
    for (file, text, want) in
        [("a", "Port 1", "1"), ("a", "Port 22222", "22222"), ("A", "Port 3", "3")]
    {
        fs::write(home.path().join(".ssh/d").join(file), text).unwrap();
        let found = transport.explain(&target).await.unwrap();
        let port = found.iter().find(|option| option.name == "port").unwrap();
        assert_eq!(port.values, [want], "{file}");
    }
}

/// One line each; `ssh` takes some of them and refuses the others.
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
async fn every_line_is_taken_or_refused_as_ssh_does() {
    let Some(oracle) = Oracle::new().await else { return };
    let mut wrong = Vec::new();
    for line in LINES {
        let case = Case::text(&format!("hosts: n1\n--- config\n{line}\n"));
        let home = Home::of(&case);
        let place = Place { home: home.path(), chosen: Some(&home.path().join("config")) };
        let differs = oracle.compare(&case, &case.asked[0], &place).await;
        wrong.extend(differs.map(|why| format!("{line}: {why}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What stands in no option of gtop's is what a later `ssh` knows.
#[tokio::test]
async fn ssh_has_no_option_that_is_not_known() {
    if Oracle::new().await.is_none() {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ssh-config.md");
    let page = fs::read_to_string(page).unwrap().to_ascii_lowercase();
    let said = Command::new("ssh").args(["-T", "-G", "-F", "none", "x"]).output().await.unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let names: Vec<_> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() > 70, "{said}");
    for name in names.into_iter().filter(|name| *name != "host") {
        let name = name.to_ascii_lowercase();
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/ssh-config.md");
    }
}
