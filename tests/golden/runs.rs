//! Golden screens of training runs: the table in every theme, unfolded and scrolled, and its dialogs.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_local::time::Timestamp;
use gtop_model::training::variables::parse_variables;
use gtop_model::{
    Bytes, DeletionPlan, Estimate, FoundProcess, MetricValue, NodeName, OutputFile, OutputId,
    ProcessKey, ProcessState, Progress, Run, RunFolder, RunHost, RunId, RunList, RunProcess,
    RunReply, RunRequest, RunRequestError, RunResponse, RunStatus, RunTask, RunTreeProcess,
    RunVariables, UserResources,
};
use gtop_ui::{Theme, Ui};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

const CONTROL: &str = r#"{"batch_size": 32, "lr": 1e-3, "amp": true, "opt": "adam", "sizes": [1, 2], "warmup": null}"#;

fn ago(seconds: u64) -> Timestamp {
    NOW.minus(Duration::from_secs(seconds))
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// A run in its third of ten epochs.
fn progress(host: &str, pid: u32, status: RunStatus) -> Progress {
    Progress {
        pid: Some(pid),
        host: Some(host.into()),
        started_at: Some(ago(7_300)),
        status: Some(status),
        phase: Some("training".into()),
        epoch: Some(2),
        total_epochs: Some(10),
        batch: Some(137),
        total_batches: Some(500),
        epoch_started_at: Some(ago(100)),
        training_started_at: Some(ago(100)),
        training: Estimate {
            rate: Some(1.37),
            elapsed: Some(100.0),
            remaining: Some(265.0),
            total: Some(365.0),
            durations: Arc::new([360.0, 370.0]),
        },
        validation: Estimate { durations: Arc::new([40.0, 42.0]), ..Estimate::default() },
        epoch_estimate: Estimate { durations: Arc::new([400.0, 412.0]), ..Estimate::default() },
        loss: Some(MetricValue::Number(0.318_25)),
        learning_rate: Some(MetricValue::Number(0.000_3)),
        samples: Some(36_544),
        ..Progress::default()
    }
}

fn run(name: &str, progress: Option<Progress>) -> Run {
    Run {
        id: RunId { folder: "./progress".into(), name: name.into() },
        is_flat: false,
        uid: Some(1000),
        user: Some("alice".into()),
        progress: progress.map(Arc::new),
        written_at: Some(ago(2)),
        fault: None,
        advanced_at: Some(ago(2)),
        seen_rate: None,
        variables: RunVariables {
            text: Some(CONTROL.into()),
            list: parse_variables(CONTROL).unwrap().into(),
            fault: None,
        },
    }
}

fn found(pid: u32) -> RunProcess {
    let one = |pid: u32, parent_pid: u32, name: &str, cpu: f64| RunTreeProcess {
        key: ProcessKey { pid, start_ticks: 9 },
        parent_pid,
        name: name.into(),
        cpu_percent: Some(cpu),
        resident: Bytes(3 << 30),
        threads: 17,
        tasks: [("python", 55.0), ("pin_memory", 4.0)]
            .map(|(name, cpu)| RunTask { tid: pid, name: name.into(), cpu_percent: Some(cpu) })
            .into(),
    };
    RunProcess::Found(Box::new(FoundProcess {
        key: ProcessKey { pid, start_ticks: 9 },
        state: Some(ProcessState::Running),
        started_at: ago(7_310),
        uid: 1000,
        is_kernel: false,
        pid_namespace: None,
        cpu_percent: Some(182.0),
        resident: Bytes(6 << 30),
        threads: 34,
        tree: [one(pid, 1, "python", 120.0), one(pid + 5_000, pid, "pt_data_worker", 62.0)].into(),
        outputs: [None, None],
    }))
}

pub fn list() -> RunList {
    let ended = |status, error: Option<&str>| Progress {
        ended_at: Some(ago(3_600)),
        error: error.map(Into::into),
        ..progress("gpu01", 7, status)
    };
    let mut stalled = run("run_2", Some(progress("gpu01", 41_212, RunStatus::Running)));
    stalled.advanced_at = Some(ago(1_900));
    stalled.written_at = stalled.advanced_at;
    let mut half = run("run_7_half", Some(progress("gpu01", 41_211, RunStatus::Running)));
    (half.fault, half.written_at) = (Some("incomplete JSON".into()), Some(ago(75)));
    let validating = Progress {
        phase: Some("validation".into()),
        metrics: [
            ("accuracy".into(), MetricValue::Number(0.912)),
            ("ppl".into(), MetricValue::Number(f64::NAN)),
        ]
        .into(),
        url: Some("https://wandb.ai/alice/demo/runs/1".into()),
        ..progress("gpu01", 41_211, RunStatus::Running)
    };
    let unknown_total =
        Progress { total_epochs: None, ..progress("gpu01", 41_211, RunStatus::Running) };
    let runs = [
        run("run_1", Some(validating)),
        stalled,
        run("run_3", Some(ended(RunStatus::Finished, None))),
        run("run_4", Some(ended(RunStatus::Failed, Some("RuntimeError: CUDA out of memory")))),
        run("run_5", Some(ended(RunStatus::Canceled, None))),
        run("run_6_gone", Some(progress("gpu01", 99, RunStatus::Running))),
        half,
        run("run_8_elsewhere", Some(progress("other.example", 5, RunStatus::Running))),
        run("run_9_unreachable", Some(progress("gpu02", 5, RunStatus::Running))),
        run("run_10_no_total", Some(unknown_total)),
        run(
            "日本語の実験・とても長い名前の学習ラン・さらに長い",
            Some(progress("gpu01", 41_211, RunStatus::Running)),
        ),
        run("run_12_empty", None),
    ];
    let host = |name: &str, fault: Option<&str>, processes: Vec<(u32, RunProcess)>| {
        Arc::new(RunHost {
            node: node(name),
            host_name: name.into(),
            pid_namespace: None,
            fault: fault.map(Into::into),
            answered_at: Some(ago(1)),
            clock_offset: 0,
            processes: processes.into_iter().collect(),
            user: fault.is_none().then_some(UserResources {
                cpu_percent: Some(402.0),
                resident: Bytes(31 << 30),
                cpus: 64,
                memory: Bytes(512 << 30),
            }),
        })
    };
    RunList {
        folders: vec![RunFolder {
            label: "./progress".into(),
            node: node("gpu01"),
            total: 12,
            is_polled: false,
            fault: None,
            answered_at: Some(ago(1)),
            clock_offset: 0,
        }],
        runs: runs.map(Arc::new).to_vec(),
        hosts: vec![
            host(
                "gpu01",
                None,
                vec![
                    (41_211, found(41_211)),
                    (41_212, found(41_212)),
                    (99, RunProcess::Gone { since: ago(1) }),
                ],
            ),
            host("gpu02", Some("timed out"), vec![]),
        ],
        ..RunList::default()
    }
}

pub fn ui(theme: Theme) -> Ui {
    let mut ui = new_ui(fleets::with_jobs(), theme);
    ui.on_runs(&Arc::new(list()));
    ui
}

/// The runs after some keys and replies.
fn scene(name: &'static str, keys: &[KeyCode], replies: &[RunReply]) -> Scene {
    let (keys, replies) = (keys.to_vec(), replies.to_vec());
    Scene::of(name, move |theme| {
        let mut ui = ui(theme);
        press(&mut ui, &keys);
        for reply in &replies {
            ui.on_run_reply(reply, NOW);
        }
        ui
    })
}

const DOWN: KeyCode = KeyCode::Down;

fn letter(letter: char) -> KeyCode {
    KeyCode::Char(letter)
}

#[test]
fn runs_in_sizes_and_looks() {
    scene("runs", &[], &[]).check(&SIZES);
    scene("runs-ascii", &[], &[]).check_look(ASCII, NARROW);
}

#[test]
fn runs_unfolded_scrolled_and_filtered() {
    let scenes = [
        scene("threads", &[letter('t'), letter('t'), DOWN, DOWN], &[]),
        scene("right", &[KeyCode::Right; 12], &[]),
        scene("last-column", &[KeyCode::Right; 60], &[]),
        scene("failed", &[letter('s'); 4], &[]),
        scene("none", &[letter('s'); 6], &[]),
    ];
    check_sheet("runs-rows", MEDIUM, &scenes);
}

#[test]
fn values_of_processes_stand_under_their_titles() {
    let mut ui = ui(DARK);
    press(&mut ui, &[letter('t')]);
    press(&mut ui, &[KeyCode::Right; 14]);
    let screen = text(&draw(&mut ui, 200, 50));
    let title = screen.iter().find(|line| line.starts_with("RUN ")).unwrap();
    let process = screen.iter().find(|line| line.contains("pt_data_worker")).unwrap();
    let column = |name: &str| {
        let end = title.find(name).unwrap() + name.len();
        let cell: String =
            process.chars().take(title.get(..end).unwrap().chars().count()).collect();
        cell.rsplit(' ').next().unwrap().to_owned()
    };
    let values = ["CPU%", "RAM", "THREADS", "PID"].map(column);
    assert_eq!(values, ["62", "3.0G", "17", "46211"], "{screen:#?}");
}

#[test]
fn the_page_of_a_run_is_a_hyperlink_with_its_whole_url() {
    let area = Rect::new(0, 0, 100, 30);
    for (theme, expected) in [(DARK, 1), (ASCII, 0)] {
        let mut ui = ui(theme);
        let mut buffer = Buffer::empty(area);
        let mut links = Vec::new();
        // The column is reached, and cut at the edge of the screen.
        for _ in 0..60 {
            press(&mut ui, &[KeyCode::Right]);
            links = ui.draw(NOW, &mut buffer);
            if !links.is_empty() {
                break;
            }
        }
        assert_eq!(links.len(), expected);
        for link in links {
            assert_eq!(&*link.url, "https://wandb.ai/alice/demo/runs/1");
            let cells = (link.x..link.x + link.width).map(|x| buffer[(x, link.y)].symbol());
            assert!(cells.collect::<String>().starts_with("https://"), "{link:?}");
        }
    }
}

#[test]
fn dialogs_of_a_run() {
    let run = RunId { folder: "./progress".into(), name: "run_3".into() };
    let to_run_3 = |key| vec![DOWN, DOWN, letter(key)];
    let typing = [to_run_3('e'), vec![DOWN, KeyCode::Enter, letter('x')]].concat();
    let set = RunRequest::SetVariable {
        run: run.clone(),
        base: CONTROL.into(),
        name: "lr".into(),
        json: "0.5".into(),
    };
    let conflict = RunReply { request: set, result: Err(RunRequestError::Conflict) };
    let plan = DeletionPlan {
        folder: "/home/alice/progress".into(),
        entries: ["run_3", "run_3/control.json", "run_3/progress.json"]
            .map(|path| (path.into(), Bytes(1_200)))
            .to_vec(),
        count: 3,
        bytes: Bytes(2_400),
        identity: "1:2:3".into(),
    };
    let reply = RunReply {
        request: RunRequest::PlanDeletion(run.clone()),
        result: Ok(RunResponse::Plan(plan)),
    };
    let output = OutputId { session: 0, handle: 1 };
    let lines =
        "epoch 1\n\u{1b}[33mwarning\u{1b}[0m: slow loader\n 10%|#  |\r100%|###|\nepoch 2 日本語\n"
            .repeat(20);
    let size = u64::try_from(lines.len()).unwrap();
    let file = OutputFile {
        output,
        path: "/home/alice/logs/run_3.log".into(),
        size,
        identity: "1:2".into(),
        written_at: 1.0,
        is_deleted: false,
    };
    let opened = RunReply {
        request: RunRequest::OpenOutputs(run.clone()),
        result: Ok(RunResponse::Outputs([
            Ok(file),
            Err("pipe:[5] on gpu01: a pipe, of which nothing is kept".into()),
        ])),
    };
    let read = RunReply {
        request: RunRequest::ReadOutput { output, offset: 0, length: 131_072 },
        result: Ok(RunResponse::Read { offset: 0, data: lines.into_bytes().into(), size }),
    };
    let scenes = [
        scene("variables", &to_run_3('e'), &[]),
        scene("typing", &typing, &[]),
        scene("conflict", &to_run_3('e'), &[conflict]),
        scene("delete", &to_run_3('c'), &[reply]),
        scene("output", &to_run_3('o'), &[opened, read]),
    ];
    check_sheet("runs-dialogs", NARROW, &scenes);
}

#[test]
fn rows_act_on_their_own_run_and_running_ones_are_not_deleted() {
    let mut ui = ui(DARK);
    // The second row below the first run.
    press(&mut ui, &[letter('t'), DOWN, DOWN, letter('c')]);
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.contains("run_1 was not deleted: it is running"), "{screen}");
    for (down, reason) in [(7, "is not watched; add the host"), (8, "its host does not answer")] {
        let mut ui = self::ui(DARK);
        let keys = [vec![DOWN; down], vec![letter('c')]].concat();
        press(&mut ui, &keys);
        let screen = text(&draw(&mut ui, 160, 40)).join("\n");
        assert!(screen.contains(reason), "{screen}");
    }
}

/// Returns a list of the runs that are kept.
fn list_of(keeps: impl Fn(&Run) -> bool) -> Arc<RunList> {
    let mut list = list();
    list.runs.retain(|run| keeps(run));
    Arc::new(list)
}

fn titles(ui: &mut Ui, width: u16) -> String {
    let screen = text(&draw(ui, width, 30));
    screen.into_iter().find(|line| line.starts_with("RUN ")).unwrap()
}

#[test]
fn the_last_metric_stands_beside_the_other_columns() {
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    ui.on_runs(&list_of(|run| &*run.id.name == "run_1"));
    // To the last column, which is a metric as there is no note.
    press(&mut ui, &[KeyCode::Right; 60]);
    let screen = text(&draw(&mut ui, 300, 30));
    for start in ["RUN ", "run_1 "] {
        let row = screen.iter().find(|line| line.starts_with(start)).unwrap().trim_end();
        assert!(row.ends_with(if start == "RUN " { "PPL" } else { "NaN" }), "{row}");
        assert!(!row.contains(&" ".repeat(60)), "{row}");
    }
}

#[test]
fn columns_stand_still_when_all_runs_validate() {
    let in_phase = |is_validating: bool| {
        let mut progress = progress("gpu01", 41_211, RunStatus::Running);
        if is_validating {
            progress.phase = Some("validation".into());
            (progress.training, progress.training_started_at) = (Estimate::default(), None);
            progress.validation_started_at = Some(ago(5));
            (progress.validation_batch, progress.total_validation_batches) = (Some(3), Some(9));
        } else {
            progress.validation = Estimate::default();
        }
        let mut list = list();
        list.runs = vec![Arc::new(run("run_1", Some(progress)))];
        Arc::new(list)
    };
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    ui.on_runs(&in_phase(false));
    let training = titles(&mut ui, 400);
    ui.on_runs(&in_phase(true));
    let validating = titles(&mut ui, 400);
    assert!(text(&draw(&mut ui, 400, 30)).join("\n").contains(" 3/9 "));
    for title in ["EP LEFT", "TR ELAPSED", "TR LEFT", "TR TOTAL", "IT/S", "GPU%"] {
        assert!(training.contains(title) && validating.contains(title), "{title}: {validating:?}");
    }
    assert!(validating.contains("VAL BATCH") && !training.contains("VAL BATCH"));
    ui.on_runs(&in_phase(false));
    assert_eq!(titles(&mut ui, 400), validating);
}

#[test]
fn esc_stays_with_the_runs() {
    let mut ui = ui(DARK);
    press(&mut ui, &[letter('t')]);
    for is_unfolded in [true, false, false] {
        let screen = text(&draw(&mut ui, 200, 50));
        assert!(screen.iter().any(|line| line.starts_with("RUN ")), "{screen:#?}");
        assert_eq!(screen.iter().any(|line| line.contains("[P]")), is_unfolded);
        let hints = screen.last().unwrap();
        assert_eq!(hints.contains("Esc back"), is_unfolded, "{hints}");
        press(&mut ui, &[KeyCode::Esc]);
    }
}

#[test]
fn the_cursor_stays_where_a_run_was_deleted() {
    for (down, deleted, next) in [(3, "run_4", "run_5"), (11, "run_12_empty", "日本語")] {
        let mut ui = ui(DARK);
        press(&mut ui, &vec![DOWN; down]);
        ui.on_runs(&list_of(|run| &*run.id.name != deleted));
        draw(&mut ui, 120, 40);
        press(&mut ui, &[letter('e')]);
        let screen = text(&draw(&mut ui, 120, 40)).join("\n");
        assert!(screen.contains(&format!("variables of {next}")), "{screen}");
    }
}

#[test]
fn the_editor_shows_the_rate_and_the_output_of_the_run() {
    let run = RunId { folder: "./progress".into(), name: "run_10_no_total".into() };
    let mut ui = ui(DARK);
    press(&mut ui, &[DOWN; 9]);
    press(&mut ui, &[letter('e')]);
    let screen = text(&draw(&mut ui, 160, 40)).join("\n");
    assert!(screen.contains("RUNNING  1.37 it/s  pid 41211"), "{screen}");
    assert!(!screen.contains("output of"), "{screen}");
    press(&mut ui, &[letter('o')]);
    let output = OutputId { session: 0, handle: 1 };
    let lines = "step 1\n".repeat(50) + "the last step\n";
    let size = u64::try_from(lines.len()).unwrap();
    let file = OutputFile {
        output,
        path: "/home/alice/run.log".into(),
        size,
        identity: "1:2".into(),
        written_at: 1.0,
        is_deleted: false,
    };
    let request = RunRequest::OpenOutputs(run.clone());
    let outputs = RunResponse::Outputs([Ok(file), Err("a pipe".into())]);
    ui.on_run_reply(&RunReply { request, result: Ok(outputs) }, NOW);
    let request = RunRequest::ReadOutput { output, offset: 0, length: 131_072 };
    let data = RunResponse::Read { offset: 0, data: lines.into_bytes().into(), size };
    ui.on_run_reply(&RunReply { request, result: Ok(data) }, NOW);
    let shown = |ui: &mut Ui| text(&draw(ui, 160, 40)).join("\n");
    let screen = shown(&mut ui);
    for part in ["batch_size", "warmup", "output of run_10_no_total", "the last step"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    // The variables are edited beside it, and it scrolls and is searched.
    press(&mut ui, &[DOWN, KeyCode::Enter, letter('o')]);
    assert!(shown(&mut ui).contains("\"1e-3o\" is not a number"));
    press(&mut ui, &[KeyCode::Esc, KeyCode::Home]);
    assert!(!shown(&mut ui).contains("the last step"));
    press(&mut ui, &[letter('/'), letter('q')]);
    assert!(shown(&mut ui).contains("search: q"));
    press(&mut ui, &[KeyCode::Esc, letter('o')]);
    let screen = shown(&mut ui);
    assert!(screen.contains("batch_size") && !screen.contains("output of"), "{screen}");
    press(&mut ui, &[KeyCode::Esc]);
    assert!(!shown(&mut ui).contains("variables of"));
}
