//! The text with masked times, and the fields of the JSON.

use std::process::Stdio;

use gtop::internals::doctor::{Report, write_json, write_text};
use serde_json::Value;
use tokio::process::Command;

use crate::doctor::{diagnose, trusted_sshd};
use crate::harness::lab::{ADDRESS, Lab, free_port};

/// Returns a report as text, without values that differ between runs.
fn text(lab: &Lab, report: &Report) -> String {
    let mut out = Vec::new();
    write_text(&mut out, report).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.replace(&lab.folder.path().display().to_string(), "/lab")
        .replace(&format!("User {}", lab.user), "User ada")
}

/// Masks the duration of a step.
fn mask_duration(line: &str) -> String {
    let Some((before, after)) = line.split_once(" ms ") else { return line.to_owned() };
    let (before, _digits) = before.rsplit_once(' ').unwrap();
    format!("{before} ## {after}")
}

#[tokio::test]
async fn the_text_of_a_refused_connection() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "").await;
    let port = free_port().await;
    lab.write_config(port, "");
    let report = diagnose(&lab).await;
    let text: Vec<String> = text(&lab, &report)
        .replace(&port.to_string(), "PORT")
        .lines()
        .map(|line| mask_duration(line).split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "node".to_owned(),
        format!("ok configuration ## HostName {ADDRESS}, User ada, Port PORT"),
        format!("HostName {ADDRESS} (/lab/config:3)"),
        "User ada (/lab/config:5)".to_owned(),
        "Port PORT (/lab/config:4)".to_owned(),
        "IdentityFile /lab/id (/lab/config:6)".to_owned(),
        "UserKnownHostsFile /lab/known (/lab/config:7)".to_owned(),
        "GlobalKnownHostsFile /lab/global (/lab/config:8)".to_owned(),
        "ok route ## direct".to_owned(),
        format!("ok name ## {ADDRESS}"),
        "FAILED connection ## connection refused on port PORT".to_owned(),
        format!("{ADDRESS}:PORT: connection refused"),
        "> as root on node: systemctl start sshd || systemctl start ssh".to_owned(),
        "> or correct Port in /lab/config:4 if it is not PORT".to_owned(),
    ];
    assert_eq!(text, expected);
}

#[tokio::test]
async fn every_step_has_the_same_json_fields() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "").await;
    let mut out = Vec::new();
    write_json(&mut out, &[diagnose(&lab).await]).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(
        (&json["nodes"][0]["name"], &json["nodes"][0]["well"]),
        (&"node".into(), &true.into())
    );
    let steps = json["nodes"][0]["steps"].as_array().unwrap();
    for step in steps {
        let keys: Vec<&String> = step.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["details", "found", "mark", "milliseconds", "remedy", "step"]);
        assert!(["ok", "note", "apart", "failed"].contains(&step["mark"].as_str().unwrap()));
        assert!(step["milliseconds"].is_null() || step["milliseconds"].as_f64().unwrap() >= 0.0);
    }
    let names: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    let on_node = ["login shell", "interpreter", "probe", "nvml", "nvidia-smi", "clock"];
    assert_eq!(names, [&gtop::internals::doctor::STEPS[..], &on_node].concat());
}

/// Runs the program itself.
async fn gtop(words: &[&str]) -> (Option<i32>, String) {
    let mut gtop = Command::new(env!("CARGO_BIN_EXE_gtop"));
    let output = gtop.args(words).stdin(Stdio::null()).env("USER", "ada").output().await.unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn the_exit_code_is_1_if_a_node_fails_and_nodes_keep_their_order() {
    assert_eq!(gtop(&["doctor", "x[1"]).await.0, Some(2));
    let (code, text) = gtop(&["doctor"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("does not apply to this machine"), "{text}");
    let port = free_port().await;
    let words = [
        "doctor",
        "--local",
        "--max-connecting",
        "1",
        "nosuch.invalid",
        &format!("{ADDRESS}:{port}"),
    ];
    let (code, text) = gtop(&words).await;
    assert_eq!(code, Some(1), "{text}");
    let headings: Vec<&str> =
        text.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
    assert_eq!(headings[..2], ["nosuch.invalid", &format!("{ADDRESS}:{port}")]);
    assert_eq!(headings.len(), 3, "{text}");
    let (code, text) = gtop(&["doctor", "--json"]).await;
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, json["nodes"].as_array().unwrap().len()), (Some(0), 1));
}
