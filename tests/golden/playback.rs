//! Golden screens of recordings that are played, and what keys, clicks and jumps do there.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop_fleet::Fleet;
use gtop_local::time::Timestamp;
use gtop_model::{Mark, MarkKind, Playback, PlaybackCommand, RecordedBy, RecorderState};
use gtop_ui::{LoopEffect, Theme, Timeline, Ui, UiRequest, View};
use ratatui::buffer::Buffer;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

const MINUTE: Duration = Duration::from_secs(60);
const RECORDED: &str = "this is a recording; gtop sends nothing to nodes";

fn mark(ago: u32, kind: MarkKind, text: &str) -> Mark {
    Mark::plain(NOW.minus(MINUTE * ago), kind, text)
}

/// Three hours with a gap of a night, shown at `NOW`.
pub fn timeline() -> Timeline {
    let span = |from: u32, to: u32| (NOW.minus(MINUTE * from), NOW.minus(MINUTE * to));
    let last = (NOW.minus(MINUTE * 80), NOW.plus(MINUTE * 40));
    let playback = Playback {
        is_playing: false,
        speed: 2.0,
        spans: [span(1_000, 940), last].into(),
        marks: [
            mark(990, MarkKind::Job, "job 7 started"),
            mark(950, MarkKind::Device, "gpu01: Xid 79"),
            mark(80, MarkKind::Resumed, "recording resumed"),
            mark(60, MarkKind::Down, "gpu05 is down"),
            mark(40, MarkKind::Up, "gpu05 answers again"),
        ]
        .into(),
        loss: None,
        jumps: 1,
        reached: None,
        is_live: false,
    };
    Timeline { playback, position: NOW }
}

fn with(change: impl FnOnce(&mut Playback)) -> Timeline {
    let mut timeline = timeline();
    change(&mut timeline.playback);
    timeline
}

/// Shows a recording of a fleet.
pub fn new_replay(fleet: Fleet, timeline: Timeline, theme: Theme) -> Ui {
    let mut ui = new_ui(Fleet::default(), theme);
    ui.on_timeline(Some(timeline), NOW);
    ui.on_fleet(fleet, NOW);
    ui
}

fn screen(ui: &mut Ui) -> String {
    text(&draw(ui, 120, 40)).join("\n")
}

fn draw_at(ui: &mut Ui, now: Timestamp) -> String {
    let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 160, 40));
    ui.draw(now, &mut buffer);
    text(&buffer).join("\n")
}

#[test]
fn a_recording_in_every_size_and_theme() {
    let ui = |theme| new_replay(fleets::every_state(), timeline(), theme);
    Scene::of("replay", ui).check(&ALL_SIZES);
    Scene::of("replay-ascii", ui).check_look(ASCII, NARROW);
}

#[test]
fn a_recording_that_plays_and_one_with_losses() {
    let playing = with(|playback| {
        (playback.is_playing, playback.speed) = (true, 0.25);
        playback.spans = [(NOW.minus(MINUTE * 80), NOW.plus(MINUTE * 40))].into();
    });
    let lossy = with(|playback| {
        playback.loss = Some("12 blocks of the file are damaged".into());
        playback.is_live = true;
    });
    let scenes = [("playing", playing), ("lossy", lossy)].map(|(name, timeline)| {
        Scene::of(name, move |theme| {
            let mut ui = new_replay(fleets::with_jobs(), timeline.clone(), theme);
            press(&mut ui, &[KeyCode::Char('2')]);
            ui
        })
    });
    check_sheet("replay-states", NARROW, &scenes);
}

#[test]
fn the_time_prompt_shows_what_a_text_means_and_keeps_a_wrong_one() {
    const KEYS: &[KeyCode] = &[
        KeyCode::Char(':'),
        KeyCode::Char('-'),
        KeyCode::Char('3'),
        KeyCode::Char('m'),
        KeyCode::Char('x'),
        KeyCode::Enter,
    ];
    let pressed = |count: usize| {
        move |theme| {
            let mut ui = new_replay(fleets::every_state(), timeline(), theme);
            press(&mut ui, &KEYS[..count]);
            ui
        }
    };
    let scenes = [("empty", 1), ("typed", 4), ("wrong", 6)];
    let scenes = scenes.map(|(name, count)| Scene::of(name, pressed(count)));
    check_sheet("go-to", NARROW, &scenes);
    let mut ui = pressed(KEYS.len())(DARK);
    ui.on_key(key(KeyCode::Backspace), NOW);
    let effect = ui.on_key(key(KeyCode::Enter), NOW);
    let command = PlaybackCommand::GoTo(NOW.minus(MINUTE * 3));
    assert_eq!(effect, LoopEffect::Request(UiRequest::Playback(command)));
    let shown = screen(&mut ui);
    assert!(!shown.lines().last().unwrap().starts_with("go to "), "{shown}");
}

#[test]
fn a_live_screen_shows_its_recorder() {
    let state = RecorderState {
        from: Some(NOW.minus(MINUTE * 192)),
        to: Some(NOW),
        ..RecorderState::default()
    };
    let recorded = state.clone();
    let recorded = move |theme| {
        let mut ui = new_ui(fleets::every_state(), theme);
        ui.on_recorded(RecordedBy::This(recorded.clone()), NOW);
        ui
    };
    let mut ui = recorded(DARK);
    Scene::of("recorder", recorded).check(&[NARROW]);
    let header = |ui: &mut Ui, width| text(&draw(ui, width, 24))[0].clone();
    assert!(header(&mut ui, 120).contains("● rec 3h12m "));
    let thinned = RecorderState { every: Duration::from_secs(5), ..state.clone() };
    ui.on_recorded(RecordedBy::This(thinned), NOW);
    assert!(header(&mut ui, 120).contains("● rec 3h12m every 5s "));
    ui.on_recorded(RecordedBy::Another, NOW);
    assert!(header(&mut ui, 120).contains("○ another gtop records "));
    press(&mut ui, &[KeyCode::Char('(')]);
    assert!(screen(&mut ui).contains("gtop replay plays that"));
    let fault = "the disk is full; free some space";
    ui.on_recorded(
        RecordedBy::This(RecorderState { fault: Some(fault.into()), ..state.clone() }),
        NOW,
    );
    assert!(header(&mut ui, 120).contains("● rec failing") && screen(&mut ui).contains(fault));
    let later = NOW.plus(Duration::from_secs(11));
    assert!(!draw_at(&mut ui, later).contains(fault));
    ui.on_recorded(RecordedBy::This(state), later);
    assert!(draw_at(&mut ui, later).contains("recording again"));
}

/// Every key of a recording, with its command.
fn commands() -> Vec<(KeyEvent, PlaybackCommand)> {
    let letter = |letter| key(KeyCode::Char(letter));
    let alt = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::ALT);
    let step = |code, modifiers, seconds| {
        (KeyEvent::new(code, modifiers), PlaybackCommand::Step { seconds })
    };
    vec![
        (letter('x'), PlaybackCommand::TogglePlay),
        (letter('{'), PlaybackCommand::Slower),
        (letter('}'), PlaybackCommand::Faster),
        (letter('('), PlaybackCommand::Step { seconds: -10 }),
        (letter(')'), PlaybackCommand::Step { seconds: 10 }),
        step(KeyCode::Left, KeyModifiers::SHIFT, -10),
        step(KeyCode::Right, KeyModifiers::SHIFT, 10),
        step(KeyCode::Left, KeyModifiers::CONTROL, -600),
        step(KeyCode::Right, KeyModifiers::CONTROL, 600),
        (alt(','), PlaybackCommand::StepSample { ahead: false }),
        (alt('.'), PlaybackCommand::StepSample { ahead: true }),
        (letter('n'), PlaybackCommand::NextMark),
        (letter('N'), PlaybackCommand::PreviousMark),
    ]
}

#[test]
fn keys_are_commands_of_the_player_in_every_view_if_there_is_a_recording() {
    let mut recorded = new_ui(fleets::with_jobs(), DARK);
    recorded.on_recorded(RecordedBy::This(RecorderState::default()), NOW);
    let mut live = new_ui(fleets::with_jobs(), DARK);
    let mut replay = new_replay(fleets::with_jobs(), timeline(), DARK);
    for (view, code) in views() {
        for ui in [&mut recorded, &mut live, &mut replay] {
            press(ui, &[code]);
        }
        for (event, command) in commands() {
            let request = LoopEffect::Request(UiRequest::Playback(command));
            assert_eq!(replay.on_key(event, NOW), request, "{event:?} in {view:?}");
            assert_eq!(recorded.on_key(event, NOW), request, "{event:?} in {view:?}");
            assert_eq!(live.on_key(event, NOW), LoopEffect::Handled);
            let shown = draw_at(&mut live, NOW);
            assert!(shown.contains("with gtop --record FILE you can go back"), "{shown}");
        }
    }
    live.on_key(key(KeyCode::Char(':')), NOW);
    assert!(!screen(&mut live).contains("go to "));
}

#[test]
fn end_leads_back_to_now_only_if_the_recording_is_still_written() {
    let mut replay = new_replay(fleets::every_state(), timeline(), DARK);
    assert_eq!(replay.on_key(key(KeyCode::End), NOW), LoopEffect::Handled);
    let behind = with(|playback| playback.is_live = true);
    let mut behind = new_replay(fleets::every_state(), behind, DARK);
    let request = UiRequest::Playback(PlaybackCommand::End);
    assert_eq!(behind.on_key(key(KeyCode::End), NOW), LoopEffect::Request(request));
}

#[test]
fn a_recording_sends_nothing_to_nodes() {
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for view in ["", "2", "3", "4"] {
        for code in ["w", "r", "e", "t", "T", "K", "I"]
            .map(|letter| KeyCode::Char(letter.chars().next().unwrap()))
            .into_iter()
            .chain([KeyCode::F(5), KeyCode::F(9), KeyCode::Enter])
        {
            let mut ui = new_replay(fleets::with_jobs(), timeline(), DARK);
            press(&mut ui, &view.chars().map(KeyCode::Char).collect::<Vec<_>>());
            press(&mut ui, &[KeyCode::Down, KeyCode::Down]);
            assert_eq!(ui.on_key(key(code), NOW), LoopEffect::Handled, "{code:?} in {view}");
            let is_global = matches!(code, KeyCode::F(_) | KeyCode::Char('w'));
            if view == "4" || is_global {
                let shown = draw_at(&mut ui, NOW);
                assert!(shown.contains(RECORDED), "{code:?} in {view}:\n{shown}");
            }
            assert_eq!(ui.focus(), None);
            assert_eq!(ui.due(), None);
            assert!(matches!(ui.on_key(control_c, NOW), LoopEffect::Exit(_)), "{code:?} in {view}");
        }
    }
}

#[test]
fn a_click_on_the_bar_jumps_there() {
    let mut ui = new_replay(fleets::every_state(), timeline(), DARK);
    let shown = text(&draw(&mut ui, 80, 24));
    let row = shown.iter().position(|line| line.contains('●')).unwrap();
    let line: Vec<char> = shown[row].chars().collect();
    let mut click = |column: usize| {
        let event = MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: column.try_into().unwrap(),
            row: row.try_into().unwrap(),
            modifiers: KeyModifiers::NONE,
        };
        let effect = ui.on_mouse(event, NOW);
        if effect == LoopEffect::Ignored {
            return None;
        }
        let LoopEffect::Request(UiRequest::Playback(PlaybackCommand::GoTo(time))) = effect else {
            panic!("{effect:?}")
        };
        Some(time)
    };
    let find = |sign| line.iter().position(|letter| *letter == sign).unwrap();
    assert_eq!(click(0), None);
    assert_eq!(click(find('━')), Some(timeline().playback.spans[0].0));
    assert_eq!(click(find('✗')), Some(timeline().playback.marks[1].at));
    assert_eq!(click(find('╱') + 1), Some(timeline().playback.spans[1].0));
    let last = line.iter().rposition(|letter| *letter == '─').unwrap();
    let end = timeline().playback.spans[1].1;
    assert!(click(last).is_some_and(|time| time < end && end.since(time) < MINUTE * 15));
}

#[test]
fn the_snapshot_after_a_jump_is_not_compared_with_the_one_before() {
    let events = |ui: &mut Ui| {
        press(ui, &[KeyCode::Char('6')]);
        screen(ui)
    };
    let mut live = new_ui(fleets::with_jobs(), DARK);
    press(&mut live, &[KeyCode::Char('/')]);
    press(&mut live, &"gpu".chars().map(KeyCode::Char).collect::<Vec<_>>());
    press(&mut live, &[KeyCode::Enter, KeyCode::Down, KeyCode::Down, KeyCode::Char('z')]);
    live.on_fleet(fleets::a_minute_later(), NOW);
    let live_events = event_rows(&events(&mut live));
    assert!(!live_events.is_empty());
    live.on_source();
    let earlier = Timeline { position: NOW.minus(MINUTE * 60), ..timeline() };
    live.on_timeline(Some(earlier.clone()), NOW);
    live.on_fleet(fleets::large(3), NOW);
    let shown = screen(&mut live);
    assert!(!shown.contains("no longer monitored") && !shown.contains("FROZEN"), "{shown}");
    assert!(shown.contains("REPLAY") && shown.contains("/gpu"), "{shown}");
    // What was recorded before, and nothing that only the jump would show.
    let until = earlier.position;
    let marks = earlier.playback.marks.iter().filter(|mark| mark.at <= until);
    let marks = marks.filter(|mark| mark.kind != MarkKind::Device).count();
    assert_eq!(event_rows(&events(&mut live)).len(), marks, "{}", events(&mut live));
    // The same player jumps.
    let mut jumped = earlier;
    jumped.playback.jumps += 1;
    live.on_timeline(Some(jumped.clone()), NOW);
    live.on_fleet(fleets::a_minute_later(), NOW);
    assert!(!events(&mut live).contains("no longer monitored"));
    // What the snapshots show is no event: the marks are, however one gets to a time.
    live.on_timeline(Some(jumped.clone()), NOW);
    live.on_fleet(fleets::with_jobs(), NOW);
    assert_eq!(event_rows(&events(&mut live)).len(), marks, "{}", events(&mut live));
    let mut played = jumped.clone();
    played.position = NOW;
    live.on_timeline(Some(played.clone()), NOW);
    live.on_fleet(fleets::with_jobs(), NOW);
    let by_playing = event_rows(&events(&mut live));
    assert!(by_playing.len() > marks, "{by_playing:?}");
    played.playback.jumps += 1;
    live.on_timeline(Some(played), NOW);
    live.on_fleet(fleets::with_jobs(), NOW);
    assert_eq!(event_rows(&events(&mut live)), by_playing);
    // Back in time, later events are gone.
    jumped.playback.jumps += 2;
    live.on_timeline(Some(jumped), NOW);
    live.on_fleet(fleets::with_jobs(), NOW);
    assert_eq!(event_rows(&events(&mut live)).len(), marks, "{}", events(&mut live));
    // Back to the live fleet and what was noticed there.
    live.on_source();
    live.on_timeline(None, NOW);
    live.on_fleet(fleets::a_minute_later(), NOW);
    let shown = events(&mut live);
    assert!(!shown.contains("REPLAY"), "{shown}");
    assert_eq!(event_rows(&shown), live_events);
}

/// Returns the rows of the events view.
fn event_rows(shown: &str) -> Vec<String> {
    let rows = shown.lines().skip_while(|line| !line.contains("WHAT")).skip(1);
    rows.take_while(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

#[test]
fn messages_vanish_in_real_time_while_the_recording_stands() {
    let mut ui = new_replay(fleets::every_state(), timeline(), DARK);
    ui.on_key(key(KeyCode::F(5)), NOW);
    assert!(draw_at(&mut ui, NOW.plus(Duration::from_secs(3))).contains(RECORDED));
    let later = NOW.plus(Duration::from_secs(5));
    ui.on_timeline(Some(timeline()), later);
    ui.on_fleet(fleets::every_state(), later);
    let shown = draw_at(&mut ui, later);
    assert!(!shown.contains(RECORDED) && shown.contains("stale 42s"), "{shown}");
    // An hour passes within a second.
    ui.on_key(key(KeyCode::F(5)), later);
    ui.on_timeline(Some(Timeline { position: NOW.plus(MINUTE * 60), ..timeline() }), later);
    ui.on_fleet(fleets::every_state(), later);
    let shown = draw_at(&mut ui, later.plus(Duration::from_secs(1)));
    assert!(shown.contains(RECORDED) && shown.contains("stale 1h00m"), "{shown}");
}

#[test]
fn the_first_node_of_a_source_does_not_change_the_view() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &[KeyCode::Char('5')]);
    ui.on_source();
    ui.on_timeline(Some(timeline()), NOW);
    ui.on_fleet(Fleet::default(), NOW);
    ui.on_fleet(fleets::single(), NOW);
    let shown = screen(&mut ui);
    assert!(shown.contains(View::Users.title()) && shown.contains("USER"), "{shown}");
}

#[test]
fn what_a_jump_reached_is_told() {
    let mut replay = new_replay(fleets::with_jobs(), timeline(), DARK);
    let mut jumped = timeline();
    jumped.playback.jumps += 1;
    jumped.playback.reached = Some("gpu05: session lost, and another event".into());
    replay.on_timeline(Some(jumped.clone()), NOW);
    replay.on_fleet(fleets::with_jobs(), NOW);
    assert!(screen(&mut replay).contains("gpu05: session lost, and another event"));
    // Playing on does not say it again.
    jumped.position = NOW.plus(MINUTE);
    replay.on_timeline(Some(jumped), NOW.plus(MINUTE));
    replay.on_fleet(fleets::with_jobs(), NOW.plus(MINUTE));
    assert!(!draw_at(&mut replay, NOW.plus(MINUTE)).contains("and another event"));
}

#[test]
fn a_time_outside_of_the_recording_is_refused_with_what_is_recorded() {
    let mut replay = new_replay(fleets::with_jobs(), timeline(), DARK);
    press(&mut replay, &[KeyCode::Char(':')]);
    press(&mut replay, &"2026-11-01 03:12".chars().map(KeyCode::Char).collect::<Vec<_>>());
    assert_eq!(replay.on_key(key(KeyCode::Enter), NOW), LoopEffect::Handled);
    let shown = screen(&mut replay);
    assert!(
        shown.contains("2026-11-01 03:12:00 is not in the recording, which covers "),
        "{shown}"
    );
}
