//! The launch line under all login shells and interpreters, with noise before the announcement.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gtop_collect::probe::Interpreter;

use crate::harness::probe::{BOTH, Rig, Setup, at_once, installed, pythons};

fn login_shells() -> Vec<Vec<String>> {
    let names = installed(&["sh", "bash", "dash", "zsh", "mksh", "tcsh", "fish"]);
    let mut shells: Vec<Vec<String>> =
        names.into_iter().map(|name| vec![name, "-c".into()]).collect();
    if !installed(&["busybox"]).is_empty() {
        shells.push(["busybox", "sh", "-c"].map(str::to_owned).to_vec());
    }
    shells
}

fn check_first_sample(mut rig: Rig, name: &str) {
    let hello = rig.next().unwrap();
    assert_eq!(hello["t"], "hello", "{name}");
    let sample = rig.sample();
    assert_eq!((&sample["n"], &sample["full"]), (&1.into(), &true.into()), "{name}");
    rig.finish();
}

#[test]
fn the_launch_line_works_under_every_login_shell() {
    at_once(BOTH, |interpreter| {
        at_once(login_shells(), |shell| {
            let name = format!("{shell:?} {interpreter:?}");
            eprintln!("{name}");
            check_first_sample(Setup { shell, ..Setup::new(interpreter) }.start(), &name);
        });
    });
}

#[test]
fn every_python_from_3_6_on_runs_the_probe_and_older_ones_are_skipped() {
    at_once(pythons(), |python| {
        let is_old = python.to_string_lossy().contains("/2.");
        let interpreter = if is_old { Interpreter::Shell } else { Interpreter::Python };
        let pythons = Some(python.display().to_string());
        eprintln!("{}: {interpreter:?}", python.display());
        let mut rig = Setup { pythons, ..Setup::new(interpreter) }.start();
        let version = rig.next().unwrap()["version"].as_str().unwrap().to_owned();
        assert_eq!(version.starts_with("3."), !is_old, "{version}");
        assert_eq!(rig.sample()["n"], 1);
        rig.finish();
    });
}

fn write_script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_broken_python_is_skipped_and_reads_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let broken =
        write_script(folder.path(), "broken", "#!/bin/sh\ncat\necho no encodings\nexit 1\n");
    let good = "#!/bin/sh\nexec /usr/bin/env python3 \"$@\"\n";
    let good = write_script(folder.path(), "good", good);
    let only_broken = Setup { pythons: Some(broken.clone()), ..Setup::new(Interpreter::Shell) };
    check_first_sample(only_broken.start(), "broken");
    let then_good =
        Setup { pythons: Some(format!("{broken} {good}")), ..Setup::new(Interpreter::Python) };
    check_first_sample(then_good.start(), "broken, then good");
}

#[test]
fn every_sh_and_awk_runs_the_probe() {
    let folder = tempfile::tempdir().unwrap();
    at_once(installed(&["mawk", "gawk", "busybox", "original-awk"]), |awk| {
        let bin = folder.path().join(&awk);
        std::fs::create_dir(&bin).unwrap();
        let program = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join(&awk))
            .find(|path| path.is_file());
        std::os::unix::fs::symlink(program.unwrap(), bin.join("awk")).unwrap();
        at_once(installed(&["dash", "bash", "busybox", "mksh", "yash"]), |shell| {
            let name = format!("{shell} with {awk}");
            eprintln!("{name}");
            let mut program = vec![shell.clone()];
            program.extend((shell == "busybox").then(|| "sh".to_owned()));
            let setup = Setup {
                program: Some(program),
                path: Some(bin.clone()),
                ..Setup::new(Interpreter::Shell)
            };
            check_first_sample(setup.start(), &name);
        });
    });
}

#[test]
fn output_of_login_files_precedes_the_announcement() {
    let home = tempfile::tempdir().unwrap();
    let noise = "printf 'Welcome\\n\\033[1m5eed no newline'\n";
    write_script(home.path(), "bash", noise);
    write_script(home.path(), ".zshenv", noise);
    write_script(home.path(), ".cshrc", "echo Welcome\necho -n no newline\n");
    at_once(BOTH, |interpreter| {
        at_once(installed(&["bash", "zsh", "tcsh"]), |shell| {
            let environment = vec![
                ("BASH_ENV".to_owned(), home.path().join("bash").into()),
                ("ZDOTDIR".to_owned(), home.path().into()),
                ("HOME".to_owned(), home.path().into()),
            ];
            let name = format!("{shell} {interpreter:?}");
            let shell = vec![shell, "-c".into()];
            let rig = Setup { shell, environment, ..Setup::new(interpreter) }.start();
            assert!(rig.noise.starts_with(b"Welcome\n"), "{name}");
            assert!(rig.noise.ends_with(b"no newline"), "{name}");
            check_first_sample(rig, &name);
        });
    });
}

#[test]
fn a_login_file_that_reads_stdin_gets_no_source() {
    let home = tempfile::tempdir().unwrap();
    write_script(home.path(), "bash", &format!("cat >{}/eaten\n", home.path().display()));
    let environment = vec![("BASH_ENV".to_owned(), home.path().join("bash").into())];
    let shell = vec!["bash".to_owned(), "-c".to_owned()];
    let mut rig = Setup { shell, environment, ..Setup::new(Interpreter::Python) }.start_loader();
    rig.close();
    // The reading login file gets nothing; the loader finds its stdin closed and ends too.
    assert_eq!(rig.read_announcement(), Some(Interpreter::Python));
    rig.finish();
    assert_eq!(std::fs::read(home.path().join("eaten")).unwrap(), b"");
}

#[test]
fn a_loader_whose_session_ends_early_runs_nothing() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).start_loader();
        assert_eq!(rig.read_announcement(), Some(interpreter));
        rig.write(b"import os;os.system('echo ran')\necho ran\n");
        rig.close();
        assert_eq!(rig.read_announcement(), None);
        rig.finish();
    });
}
