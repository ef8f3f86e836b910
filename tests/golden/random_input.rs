//! Random input: thousands of keys, clicks, pastes, sizes and fleets from fixed seeds.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop_fleet::Fleet;
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, DeletionPlan, OutputFile, OutputGrowth, OutputId, ProcessRequest, ProcessResponse,
    Refusal, RequestError, RunReply, RunRequest, RunRequestError, RunResponse,
};
use gtop_ui::{DisplayOptions, Line, NodeReply, SpanContent, Symbol};
use gtop_ui::{Keymap, LoopEffect, Theme, Timeline, Ui, UiRequest};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::{ASCII, DARK, LIGHT, MONO, new_ui, text};
use crate::golden::playback;
use crate::golden::processes::{detail, environment, tree};
use crate::golden::runs;

/// The number of random steps on each fleet.
const STEPS: u64 = 300;
/// Keys that do something somewhere, so that most presses are not wasted.
const LETTERS: &[u8] = b"1234567mbBgGzwhjkKJpotesfcaTKI.,x{}():nN\\<>[]^$+-= /oqurdx?5nul";
const SIZES: [(u16, u16); 14] = [
    (1, 1),
    (2, 3),
    (5, 20),
    (20, 5),
    (40, 10),
    (80, 24),
    (79, 25),
    (120, 40),
    (200, 50),
    (300, 15),
    (500, 2),
    (33, 60),
    (100, 8),
    (0, 0),
];

/// Pseudo-random numbers (xorshift) from a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn key(&mut self) -> KeyEvent {
        let named = [
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Enter,
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Insert,
        ];
        let strange = ['é', '日', '👩', '\u{301}', '\u{202e}', '\0', '\u{1b}', 'ß', '–'];
        let code = match self.below(10) {
            0..5 => KeyCode::Char(char::from(*self.of(LETTERS))),
            5..8 => *self.of(&named),
            8 => KeyCode::F(u8::try_from(self.below(14)).unwrap()),
            _ => KeyCode::Char(*self.of(&strange)),
        };
        let modifiers = match self.below(20) {
            0 => KeyModifiers::CONTROL,
            1 => KeyModifiers::ALT,
            2 => KeyModifiers::SHIFT,
            _ => KeyModifiers::NONE,
        };
        KeyEvent::new(code, modifiers)
    }

    fn click(&mut self) -> MouseEvent {
        let kinds = [
            MouseEventKind::Down(MouseButton::Left),
            MouseEventKind::Down(MouseButton::Left),
            MouseEventKind::ScrollUp,
            MouseEventKind::ScrollDown,
            MouseEventKind::ScrollLeft,
            MouseEventKind::Up(MouseButton::Left),
        ];
        // Zero wraps to the largest coordinate, far outside the screen.
        let coordinate = |bound| u16::try_from(bound).unwrap().wrapping_sub(1);
        MouseEvent {
            kind: *self.of(&kinds),
            column: coordinate(self.below(210)),
            row: coordinate(self.below(55)),
            modifiers: KeyModifiers::NONE,
        }
    }
}

/// Returns what is wrong with a line; `None` if it is valid.
fn line_error(line: &Line, width: u16) -> Option<String> {
    if line.width() > width {
        return Some(format!("{} columns of {width}", line.width()));
    }
    let is_plain =
        |url: &str| url.starts_with("http") && url.bytes().all(|byte| byte.is_ascii_graphic());
    if let Some((.., url)) = line.links.iter().find(|(.., url)| !is_plain(url)) {
        return Some(format!("a hyperlink to {url:?}"));
    }
    line.spans.iter().find_map(|span| {
        let width = usize::from(span.width);
        let used = match &span.content {
            SpanContent::Text(text) => {
                if text.chars().any(char::is_control) {
                    return Some(format!("a control character in {text:?}"));
                }
                text.width()
            }
            SpanContent::Spark(points) | SpanContent::Area(points) => points.len(),
            SpanContent::Strip(symbols) => {
                let is_one_column = |symbol: &Symbol| {
                    let (Symbol::Char(letter) | Symbol::Letter(letter, _)) = symbol else {
                        return true;
                    };
                    letter.to_string().width() == 1
                };
                if !symbols.iter().all(|(symbol, _)| is_one_column(symbol)) {
                    return Some("a symbol that is not one column wide".to_owned());
                }
                0
            }
            SpanContent::Bar(_) | SpanContent::Graph { .. } | SpanContent::Rule => 0,
        };
        (used > width)
            .then(|| format!("{used} columns where {width} are kept, in {:?}", span.content))
    })
}

fn random_reply(reply: NodeReply, random: &mut Random) -> NodeReply {
    let response = match &reply.request.process_request {
        ProcessRequest::Signal(..) => ProcessResponse::Sent,
        ProcessRequest::Environment(_) => environment().result.unwrap(),
        ProcessRequest::Tree(_) => tree().result.unwrap(),
        ProcessRequest::Detail(_) => detail().result.unwrap(),
    };
    let result = match random.below(6) {
        0 => Err(RequestError::Down),
        2 => Err(RequestError::TimedOut(Duration::from_secs(5))),
        1 => Err(RequestError::from(Refusal::Reused)),
        _ => Ok(response),
    };
    NodeReply { result, ..reply }
}

/// Answers a request about runs, mostly with hostile bytes.
fn random_run_reply(request: RunRequest, random: &mut Random) -> RunReply {
    let output = |handle: u64| OutputFile {
        output: OutputId { session: 0, handle },
        path: "/home/alice/日本語/\u{301}log".into(),
        size: random_size(handle),
        identity: handle.to_string().into(),
        written_at: 1.0,
        is_deleted: handle == 2,
    };
    let bytes: Vec<u8> = (0..random.below(3_000))
        .map(|_| *random.of(b"abc \n\r\t\x1b[31m]8;;\x07\xe6\x97\xa5\xff\x00|#"))
        .collect();
    let size = bytes.len() as u64;
    let response = match &request {
        RunRequest::SetVariable { base, .. } => RunResponse::Changed(Arc::clone(base)),
        RunRequest::PlanDeletion(_) => RunResponse::Plan(DeletionPlan {
            folder: "/home/alice/progress".into(),
            entries: vec![("日本語".into(), Bytes(1)); random.below(40)],
            count: size,
            bytes: Bytes(u64::MAX),
            identity: "1".into(),
        }),
        RunRequest::Delete { .. } => RunResponse::Deleted(3),
        RunRequest::OpenOutputs(_) => RunResponse::Outputs([
            Ok(output(1)),
            if random.below(2) == 0 { Ok(output(2)) } else { Err("a pipe".into()) },
        ]),
        RunRequest::ReadOutput { offset, .. } => {
            RunResponse::Read { offset: *offset, data: bytes.into(), size }
        }
        RunRequest::FindInOutput { offset, .. } => RunResponse::Found {
            at: (random.below(3) == 0).then_some(size),
            searched: *random.of(&[0, *offset, offset + 100, u64::MAX / 4]),
            size,
        },
        RunRequest::FollowOutputs(_) | RunRequest::CloseOutputs(_) => RunResponse::Done,
    };
    let result = match random.below(6) {
        0 => Err(RunRequestError::Conflict),
        1 => Err(RunRequestError::Down("gpu01".into())),
        _ => Ok(response),
    };
    RunReply { request, result }
}

const fn random_size(handle: u64) -> u64 {
    if handle == 1 { 5 << 30 } else { 700 }
}

fn random_growth(random: &mut Random) -> OutputGrowth {
    let data = vec![b'x'; random.below(200)];
    let from = *random.of(&[0, 500, 5 << 30, u64::MAX / 4]);
    OutputGrowth {
        output: OutputId { session: 0, handle: 1 + random.below(2) as u64 },
        size: from + data.len() as u64,
        from,
        data: data.into(),
        is_truncated: random.below(5) == 0,
        is_rotated: random.below(9) == 0,
    }
}

/// Returns a place in a recording, or none: the fleet is live.
fn random_timeline(random: &mut Random) -> Option<Timeline> {
    let mut timeline = playback::timeline();
    let minutes = Duration::from_secs(60 * random.below(2_000) as u64);
    timeline.position = NOW.plus(Duration::from_secs(3_600)).minus(minutes);
    timeline.playback.jumps = random.below(3) as u64;
    timeline.playback.is_live = random.below(2) == 0;
    timeline.playback.is_playing = random.below(2) == 0;
    match random.below(5) {
        0 => timeline.playback.spans = [].into(),
        1 => {
            timeline.playback.loss =
                Some("the last 12 bytes are incomplete: up to 2 s are missing".into());
        }
        2 => timeline.playback.marks = [].into(),
        _ => {}
    }
    (random.below(3) > 0).then_some(timeline)
}

fn fleets() -> Vec<(&'static str, Fleet)> {
    vec![
        ("every state", fleets::every_state()),
        ("rare", fleets::rare()),
        ("none", Fleet::default()),
        ("one", fleets::single()),
        ("large", fleets::large(60)),
        ("jobs", fleets::with_jobs()),
        ("pending", fleets::only_pending_jobs()),
        ("hostile jobs", fleets::hostile_jobs()),
        ("later", fleets::a_minute_later()),
        ("process kinds", fleets::process_kinds()),
        ("first process ended", fleets::first_process_ended()),
        ("cluster", fleets::cluster()),
        ("accelerators", fleets::accelerators()),
        ("one large job", fleets::one_large_job(30)),
    ]
}

/// Answers requests about runs, and what the replies ask for.
fn answer_run_requests(ui: &mut Ui, first: UiRequest, random: &mut Random, now: Timestamp) {
    let mut waiting = vec![first];
    waiting.extend(ui.due_runs());
    for _ in 0..50 {
        let Some(request) = waiting.pop() else { return };
        let UiRequest::Runs(requests) = request else { continue };
        for request in requests {
            waiting.extend(ui.on_run_reply(&random_run_reply(request, random), now));
        }
    }
}

/// Sends random input to a UI, and sometimes replaces its fleet; checks each frame.
fn send_random_input(ui: &mut Ui, all: &[(&str, Fleet)], random: &mut Random, has_runs: bool) {
    let mut now = NOW;
    let mut size = (80, 24);
    let mut history = Vec::new();
    for step in 0..STEPS {
        let effect = match random.below(100) {
            0..78 => {
                let key = random.key();
                history.push(format!("{key:?}"));
                ui.on_key(key, now)
            }
            78..80 => {
                let pasted = *random.of(&["", "K\r", "user=a", "名\u{301}\x1b[2J"]);
                history.push(format!("{pasted:?}"));
                ui.on_paste(pasted, now);
                LoopEffect::Handled
            }
            80..88 => {
                let click = random.click();
                history.push(format!("{click:?}"));
                ui.on_mouse(click, now)
            }
            88..94 => {
                size = *random.of(&SIZES);
                history.push(format!("{size:?}"));
                LoopEffect::Handled
            }
            94..98 => {
                now = now.plus(Duration::from_secs(1));
                let (name, fleet) = random.of(all);
                history.push((*name).to_owned());
                if random.below(3) == 0 {
                    let timeline = random_timeline(random);
                    history.push(format!("{timeline:?}"));
                    ui.on_timeline(timeline, now);
                }
                ui.on_fleet(fleet.clone(), now);
                if has_runs {
                    let mut list = runs::list();
                    list.runs.truncate(random.below(13));
                    ui.on_runs(&Arc::new(list));
                    if let Some(request) = ui.on_output(&random_growth(random)) {
                        history.push(format!("{request:?}"));
                    }
                }
                LoopEffect::Handled
            }
            _ => {
                let later = [1, 60, 4_000][random.below(3)];
                now = now.plus(Duration::from_secs(later));
                ui.set_attended(random.below(2) == 0, now);
                LoopEffect::Handled
            }
        };
        let mut requests = Vec::new();
        if let LoopEffect::Request(UiRequest::QueryNodes(more) | UiRequest::SignalProcesses(more)) =
            effect
        {
            requests.extend(more);
        } else if let LoopEffect::Request(request) = effect {
            answer_run_requests(ui, request, random, now);
        }
        if let Some(request) = ui.due_runs() {
            answer_run_requests(ui, request, random, now);
        }
        if let Some(UiRequest::QueryNodes(more)) = ui.due() {
            requests.extend(more);
        }
        for request in requests {
            if random.below(3) > 0 {
                let reply = NodeReply { request, result: Ok(ProcessResponse::Sent), at: now };
                ui.on_reply(&random_reply(reply, random), now);
            }
        }
        if random.below(4) == 0 {
            // Several keys may arrive before the next frame.
            continue;
        }
        let (width, height) = size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        ui.draw(now, &mut buffer);
        let from = history.len().saturating_sub(40);
        assert!(
            ui.drawn().len() <= usize::from(height),
            "{} lines of {height} after {:?}",
            ui.drawn().len(),
            &history[from..]
        );
        for (y, line) in ui.drawn().iter().enumerate() {
            let line_error = line_error(line, width);
            assert!(
                line_error.is_none(),
                "row {y} of {width}x{height}, step {step}: {line_error:?}\nafter {:?}\n{}",
                &history[from..],
                text(&buffer).join("\n")
            );
        }
    }
}

fn check(theme: Theme, seed: u64, has_runs: bool) {
    let all = fleets();
    for (index, (_, fleet)) in all.iter().enumerate() {
        let mut random = Random(seed + index as u64 * 7_919);
        let display =
            DisplayOptions { is_readonly: seed.is_multiple_of(2), ..DisplayOptions::default() };
        let mut ui = new_ui(fleet.clone(), theme).with_options(display, Keymap::default());
        if has_runs {
            ui.on_runs(&Arc::new(runs::list()));
        }
        send_random_input(&mut ui, &all, &mut random, has_runs);
    }
}

#[test]
fn random_input_never_breaks_the_screen() {
    check(DARK, 1, false);
}

#[test]
fn random_input_never_breaks_the_screen_in_ascii() {
    check(ASCII, 20_002, false);
}

#[test]
fn random_input_never_breaks_the_screen_in_light() {
    check(LIGHT, 300_003, false);
}

#[test]
fn random_input_never_breaks_the_screen_in_mono() {
    check(MONO, 4_000_004, false);
}

#[test]
fn random_input_never_breaks_the_screen_of_runs() {
    check(DARK, 50_000_005, true);
    check(LIGHT, 600_000_006, true);
}
