//! Faults on the node itself: its login shell, its interpreters, its driver.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use gtop::doctor::StepStatus;

use crate::lab::{Lab, local};
use crate::{doctor, examine_with, failure, is_healthy, known, row, says};

/// Puts a program of this name before all others on the node's search path.
fn stub(lab: &Lab, name: &str, script: &str) -> String {
    let folder = lab.path("bin");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    // Login files would put other folders before it.
    format!("SetEnv HOME=/nonexistent PATH={}:/usr/bin:/bin", folder.display())
}

/// A server that runs this line in place of every command.
fn instead(line: &str) -> String {
    format!("ForceCommand {line}")
}

/// A server that runs the command of gtop with other places to look for Python in.
fn elsewhere() -> String {
    instead(
        "/bin/sh -c \"$(printf %s \"$SSH_ORIGINAL_COMMAND\" | sed s,/usr/bin/python3,/nowhere/python3,)\"",
    )
}

#[tokio::test]
async fn a_login_shell_that_ends_first() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, &instead("echo 'This account is closed'; exit 3")).await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "login shell");
    says(failed, "exit status 3, after: This account is closed");
    says(failed, "a login file that exits or starts a program");
    drop(sshd);
    let sshd = known(&lab, &instead("echo 'Your password has expired' >&2; exit 1")).await;
    says(failure(&doctor(&lab).await, "login shell"), "1, after: Your password has expired");
    drop(sshd);
    let _sshd = known(&lab, "").await;
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_probe_that_ends_at_once_says_its_last_words() {
    let Some(lab) = Lab::new().await else { return };
    let python = "case \"$*\" in *version_info*) exit 0 ;; esac\nprintf '\\n%s\\n' \"$5\"\n\
                  yes '  a line of a trace' | head -n 90 >&2\necho \"No module named 'os'\" >&2\nexit 1";
    let path = stub(&lab, "python3", python);
    let _sshd = known(&lab, &format!("{path}\n{}", elsewhere())).await;
    says(failure(&doctor(&lab).await, "probe"), "No module named 'os'");
}

#[tokio::test]
async fn a_restricted_account() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = known(&lab, "").await;
    let open = lab.text("authorized");
    lab.write("authorized", &format!("restrict,command=\"/bin/false\" {open}"));
    let report = doctor(&lab).await;
    let failed = failure(&report, "login shell");
    says(failed, "the login shell ended first, exit status 1");
    says(failed, "a forced command");
    lab.write("authorized", &open);
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_login_shell_that_talks_is_worth_a_note() {
    let Some(lab) = Lab::new().await else { return };
    let line = instead("printf 'Welcome\\033[2J\\nto gpu01\\n'; eval \"$SSH_ORIGINAL_COMMAND\"");
    let _sshd = known(&lab, &line).await;
    let report = doctor(&lab).await;
    is_healthy(&report);
    let shell = row(&report, "login shell");
    assert_eq!(shell.status, StepStatus::Note);
    assert_eq!(shell.finding, "21 bytes of output before the probe, first line: Welcome [2J");
}

#[tokio::test]
async fn a_node_without_python_is_a_note_with_its_reasons() {
    let Some(lab) = Lab::new().await else { return };
    let path = stub(&lab, "python3", "[ $1 = -V ] && echo Python 3.4.10; exit 1");
    let _sshd = known(&lab, &format!("{path}\n{}", elsewhere())).await;
    let report = doctor(&lab).await;
    is_healthy(&report);
    let interpreter = row(&report, "interpreter");
    assert_eq!(interpreter.status, StepStatus::Note);
    says(interpreter, "sh (");
    says(interpreter, "/nowhere/python3: not there");
    says(interpreter, "Python 3.4.10, and 3.6 is needed");
}

#[tokio::test]
async fn python_is_named_with_its_place() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = known(&lab, "").await;
    let report = doctor(&lab).await;
    let interpreter = row(&report, "interpreter");
    assert_eq!(interpreter.status, StepStatus::Ok);
    says(interpreter, "python3");
    says(row(&report, "clock"), " ms of this machine");
    says(row(&report, "probe"), "ticks per second");
}

#[tokio::test]
async fn a_driver_of_another_version_than_its_library() {
    let Some(lab) = Lab::new().await else { return };
    let words = "Failed to initialize NVML: Driver/library version mismatch";
    let path = stub(&lab, "nvidia-smi", &format!("echo '{words}'; exit 18"));
    let _sshd = known(&lab, &path).await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "nvidia-smi");
    says(failed, "driver and library differ");
    says(failed, words);
    says(failed, "reload it or reboot the node");
    // What comes after it is told all the same.
    says(row(&report, "clock"), " ms of this machine");
    fs::remove_file(lab.path("bin/nvidia-smi")).unwrap();
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_driver_that_hangs() {
    let Some(lab) = Lab::new().await else { return };
    let path = stub(&lab, "nvidia-smi", "exec sleep 60");
    let _sshd = known(&lab, &path).await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "nvidia-smi");
    // Nobody knows yet whether the driver is only slow to be loaded.
    says(failed, "starting for");
    says(failed, "persistence mode");
}

#[tokio::test]
async fn a_node_without_a_driver_is_a_note() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = known(&lab, "SetEnv PATH=/bin").await;
    let report = doctor(&lab).await;
    is_healthy(&report);
    let smi = row(&report, "nvidia-smi");
    if smi.status == StepStatus::Note {
        says(smi, "nvidia-smi not found");
        says(smi, "a CPU node needs none");
    }
}

#[tokio::test]
async fn this_machine_needs_no_way() {
    let Some(lab) = Lab::new().await else { return };
    let report = examine_with(&lab.transport(), &local()).await;
    is_healthy(&report);
    for step in gtop::doctor::STEPS {
        assert_eq!(row(&report, step).status, StepStatus::NotApplicable);
    }
}
