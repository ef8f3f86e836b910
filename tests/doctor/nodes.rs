//! Faults on the node itself: its login shell, its interpreters, its driver.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use gtop::internals::doctor::StepStatus;

use crate::doctor::{
    assert_contains, assert_healthy, diagnose, diagnose_with, only_failure, step, trusted_sshd,
};
use crate::harness::lab::{Lab, local_target};

/// Adds a program to the front of the node's `PATH`; returns the sshd option.
fn stub(lab: &Lab, name: &str, script: &str) -> String {
    let folder = lab.path("bin");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    // Login files would put other folders before it.
    format!("SetEnv HOME=/nonexistent PATH={}:/usr/bin:/bin", folder.display())
}

/// Returns the sshd option that replaces every command.
fn force_command(line: &str) -> String {
    format!("ForceCommand {line}")
}

/// Returns the sshd option that hides `/usr/bin/python3` from gtop's command.
fn without_system_python() -> String {
    force_command(
        "/bin/sh -c \"$(printf %s \"$SSH_ORIGINAL_COMMAND\" | sed s,/usr/bin/python3,/nowhere/python3,)\"",
    )
}

#[tokio::test]
async fn a_login_shell_that_exits_before_the_probe() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, &force_command("echo 'This account is closed'; exit 3")).await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "login shell");
    assert_contains(failed, "exit status 3, after: This account is closed");
    assert_contains(failed, "a login file that exits or starts a program");
    drop(sshd);
    let sshd =
        trusted_sshd(&lab, &force_command("echo 'Your password has expired' >&2; exit 1")).await;
    assert_contains(
        only_failure(&diagnose(&lab).await, "login shell"),
        "1, after: Your password has expired",
    );
    drop(sshd);
    let _sshd = trusted_sshd(&lab, "").await;
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_probe_that_exits_at_once_is_reported_with_its_last_line() {
    let Some(lab) = Lab::new().await else { return };
    let python = "case \"$*\" in *version_info*) exit 0 ;; esac\nprintf '\\n%s\\n' \"$5\"\n\
                  yes '  a line of a trace' | head -n 90 >&2\necho \"No module named 'os'\" >&2\nexit 1";
    let path = stub(&lab, "python3", python);
    let _sshd = trusted_sshd(&lab, &format!("{path}\n{}", without_system_python())).await;
    assert_contains(only_failure(&diagnose(&lab).await, "probe"), "No module named 'os'");
}

#[tokio::test]
async fn a_restricted_account() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "").await;
    let open = lab.text("authorized");
    lab.write("authorized", &format!("restrict,command=\"/bin/false\" {open}"));
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "login shell");
    assert_contains(failed, "the login shell ended first, exit status 1");
    assert_contains(failed, "a forced command");
    lab.write("authorized", &open);
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_login_shell_that_prints_text_is_a_note() {
    let Some(lab) = Lab::new().await else { return };
    let line =
        force_command("printf 'Welcome\\033[2J\\nto gpu01\\n'; eval \"$SSH_ORIGINAL_COMMAND\"");
    let _sshd = trusted_sshd(&lab, &line).await;
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    let shell = step(&report, "login shell");
    assert_eq!(shell.status, StepStatus::Note);
    assert_eq!(shell.finding, "21 bytes of output before the probe, first line: Welcome [2J");
}

#[tokio::test]
async fn a_node_without_python_is_a_note_with_its_reasons() {
    let Some(lab) = Lab::new().await else { return };
    let path = stub(&lab, "python3", "[ $1 = -V ] && echo Python 3.4.10; exit 1");
    let _sshd = trusted_sshd(&lab, &format!("{path}\n{}", without_system_python())).await;
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    let interpreter = step(&report, "interpreter");
    assert_eq!(interpreter.status, StepStatus::Note);
    assert_contains(interpreter, "sh (");
    assert_contains(interpreter, "/nowhere/python3: not there");
    assert_contains(interpreter, "Python 3.4.10, and 3.6 is needed");
}

#[tokio::test]
async fn python_is_reported_with_its_path() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "").await;
    let report = diagnose(&lab).await;
    let interpreter = step(&report, "interpreter");
    assert_eq!(interpreter.status, StepStatus::Ok);
    assert_contains(interpreter, "python3");
    assert_contains(step(&report, "clock"), " ms of this machine");
    assert_contains(step(&report, "probe"), "ticks per second");
}

#[tokio::test]
async fn a_driver_that_differs_from_its_library() {
    let Some(lab) = Lab::new().await else { return };
    let words = "Failed to initialize NVML: Driver/library version mismatch";
    let path = stub(&lab, "nvidia-smi", &format!("echo '{words}'; exit 18"));
    let _sshd = trusted_sshd(&lab, &path).await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "nvidia-smi");
    assert_contains(failed, "driver and library differ");
    assert_contains(failed, words);
    assert_contains(failed, "reload it or reboot the node");
    // The later steps are reported as well.
    assert_contains(step(&report, "clock"), " ms of this machine");
    fs::remove_file(lab.path("bin/nvidia-smi")).unwrap();
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_driver_that_hangs() {
    let Some(lab) = Lab::new().await else { return };
    let path = stub(&lab, "nvidia-smi", "exec sleep 60");
    let _sshd = trusted_sshd(&lab, &path).await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "nvidia-smi");
    // The driver may still be loading.
    assert_contains(failed, "starting nvidia-smi (");
    assert_contains(failed, "persistence mode");
}

#[tokio::test]
async fn a_node_without_a_driver_is_a_note() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "SetEnv PATH=/bin").await;
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    let smi = step(&report, "nvidia-smi");
    if smi.status == StepStatus::Note {
        assert_contains(smi, "nvidia-smi not found");
        assert_contains(smi, "a CPU node needs none");
    }
}

#[tokio::test]
async fn this_machine_needs_no_connection() {
    let Some(lab) = Lab::new().await else { return };
    let report = diagnose_with(&lab.transport(), &local_target()).await;
    assert_healthy(&report);
    for name in gtop::internals::doctor::STEPS {
        assert_eq!(step(&report, name).status, StepStatus::NotApplicable);
    }
}
