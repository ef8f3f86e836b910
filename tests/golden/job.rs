//! Golden screens of the job view, in every theme and on every kind of fleet.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_fleet::{Fleet, Node};
use gtop_model::DeviceFault;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

/// Opens the worst of the own jobs.
const KEYS: &[KeyCode] = &[KeyCode::Char('2'), KeyCode::Enter];
/// Opens the list of jobs.
const LIST: &[KeyCode] = &[KeyCode::Char('2')];

/// Returns the keys that open the first job, followed by `keys`.
fn view_keys(keys: &[KeyCode]) -> Vec<KeyCode> {
    KEYS.iter().chain(keys).copied().collect()
}

fn screen(fleet: Fleet, keys: &[KeyCode], (width, height): (u16, u16)) -> String {
    let mut ui = new_ui(fleet, DARK);
    press(&mut ui, keys);
    text(&draw(&mut ui, width, height)).join("\n")
}

#[test]
fn job_in_sizes_and_looks() {
    Scene::new("job", &fleets::with_jobs(), KEYS).check(&ALL_SIZES);
    Scene::new("job-light", &fleets::with_jobs(), KEYS).check_look(LIGHT, MEDIUM);
    Scene::new("job-ascii", &fleets::with_jobs(), KEYS).check_look(ASCII, NARROW);
}

#[test]
fn job_on_every_kind_of_fleet() {
    check_fleets("job-on", KEYS);
}

#[test]
fn jobs_of_every_kind() {
    let down = KeyCode::Down;
    let scenes = [
        ("idle", fleets::without_evidence(fleets::with_jobs()), view_keys(&[down, down])),
        ("unknown-devices", fleets::with_jobs(), view_keys(&[KeyCode::Char('j'); 3])),
        ("unlisted", fleets::with_jobs(), view_keys(&[down])),
        ("without-list", fleets::every_state(), view_keys(&[])),
        ("waiting", fleets::only_pending_jobs(), LIST.to_vec()),
        ("large", fleets::one_large_job(1_000), view_keys(&[KeyCode::Right, KeyCode::Right])),
        ("hostile", fleets::hostile_jobs(), view_keys(&[])),
        ("cursor", fleets::with_jobs(), view_keys(&[KeyCode::Enter, down])),
        ("power", fleets::with_jobs(), view_keys(&[KeyCode::Char('m'), KeyCode::Char('m')])),
    ];
    let scenes = scenes.map(|(name, fleet, keys)| Scene::new(name, &fleet, keys));
    check_sheet("job-kinds", NARROW, &scenes);
}

#[test]
fn the_list_of_jobs_in_every_size() {
    let scenes = [
        ("with-jobs", fleets::with_jobs(), LIST.to_vec()),
        ("without-list", fleets::every_state(), LIST.to_vec()),
        ("hostile", fleets::hostile_jobs(), LIST.to_vec()),
        ("many", fleets::many_jobs(300), [LIST, &[KeyCode::Down, KeyCode::PageDown]].concat()),
        ("queue", fleets::long_queue(400), [LIST, &[KeyCode::End]].concat()),
        ("by-user", fleets::with_jobs(), [LIST, &[KeyCode::F(6), KeyCode::Char('u')]].concat()),
    ];
    let scenes = scenes.map(|(name, fleet, keys)| Scene::new(name, &fleet, keys));
    check_sheet("jobs", NARROW, &scenes);
    Scene::new("jobs", &fleets::with_jobs(), LIST).check(&[SMALL, MEDIUM, WIDE]);
    Scene::new("jobs-ascii", &fleets::hostile_jobs(), LIST).check_look(ASCII, NARROW);
}

#[test]
fn the_worst_own_job_is_the_first_row_and_enter_opens_it() {
    let rows = screen(fleets::with_jobs(), LIST, (80, 24));
    let order = ["8421 ", "8450 ", "8451_[3-5%3] ", "8430 ", "8425 ", "8440 "];
    let first = rows.lines().position(|line| line.starts_with("ID")).unwrap() + 1;
    for (line, id) in rows.lines().skip(first).zip(order) {
        assert!(line.starts_with(id), "{id}: {rows}");
    }
    let first = screen(fleets::with_jobs(), KEYS, (80, 24));
    assert!(first.contains("job 8421") && first.contains("job 1 of 4"), "{first}");
}

#[test]
fn a_job_that_waits_stands_in_the_list_with_what_it_waits_for() {
    let rows = screen(fleets::with_jobs(), LIST, (120, 40));
    let row = rows.lines().find(|line| line.starts_with("8450 ")).unwrap();
    for text in ["eval-long", "alice", "1n", "Priority", "starts Fri 14:35, in 30:00", "h100"] {
        assert!(row.contains(text), "{text}: {row}");
    }
    let keys = [LIST, &[KeyCode::Down, KeyCode::Enter]].concat();
    let opened = screen(fleets::with_jobs(), &keys, (120, 40));
    assert!(opened.contains("job 8450 has no nodes yet: Priority"), "{opened}");
}

#[test]
fn jobs_that_have_ended_stand_below_with_how_they_ended() {
    Scene::new("jobs-finished", &fleets::with_finished_jobs(), LIST).check(&[NARROW]);
    let keys = [LIST, &[KeyCode::End, KeyCode::Enter]].concat();
    let opened = screen(fleets::with_finished_jobs(), &keys, (80, 24));
    assert!(opened.contains("job 8399 has ended: cancelled by root"), "{opened}");
    let keys = [LIST, &[KeyCode::End, KeyCode::Char('i')]].concat();
    let explained = screen(fleets::with_finished_jobs(), &keys, (120, 40));
    for text in ["job 8399 idle", "cancelled by root", "from accounting"] {
        assert!(explained.contains(text), "{text}: {explained}");
    }
}

#[test]
fn without_accounting_the_list_says_so_where_jobs_would_be_that_have_ended() {
    let rows = screen(fleets::without_accounting(), LIST, (80, 24));
    let text = "finished jobs are unknown: sacct failed: Slurm accounting storage is disabled";
    assert_eq!(rows.matches(text).count(), 1, "{rows}");
    let rows = screen(fleets::without_accounting(), LIST, (80, 8));
    assert!(!rows.contains(text), "{rows}");
}

#[test]
fn hundreds_of_jobs_that_wait_are_scrolled() {
    let keys = [LIST, &[KeyCode::End]].concat();
    let rows = screen(fleets::long_queue(400), &keys, (80, 24));
    assert!(rows.contains("402/402") || rows.contains("of 402"), "{rows}");
    assert!(rows.contains("9399"), "{rows}");
}

#[test]
fn escape_and_the_key_of_the_view_return_to_the_list_and_escape_leaves_it() {
    for back in [KeyCode::Esc, KeyCode::Char('2')] {
        let keys = view_keys(&[KeyCode::Down, back]);
        let rows = screen(fleets::with_jobs(), &keys, (80, 24));
        assert!(rows.contains("\nID ") && rows.contains("sort: worst"), "{rows}");
        // The cursor is on the job that was open.
        let again = [keys.clone(), vec![KeyCode::Enter]].concat();
        assert!(screen(fleets::with_jobs(), &again, (80, 24)).contains("job 8430"));
        let left = [keys, vec![KeyCode::Esc]].concat();
        assert!(screen(fleets::with_jobs(), &left, (80, 24)).contains("sort: node"));
    }
}

#[test]
fn the_fleet_opens_the_job_of_its_node() {
    let keys = [KeyCode::Down, KeyCode::Down, KeyCode::Char('J')];
    let opened = screen(fleets::with_jobs(), &keys, (80, 24));
    assert!(opened.contains("job 8425"), "{opened}");
    let back = screen(fleets::with_jobs(), &[&keys[..], &[KeyCode::Esc]].concat(), (80, 24));
    assert!(back.contains("\nID "), "{back}");
}

#[test]
fn a_job_that_ends_while_shown_says_so() {
    let later = NOW.plus(Duration::from_secs(60));
    let ended = move |theme| {
        let mut ui = new_ui(fleets::with_jobs(), theme);
        press(&mut ui, &view_keys(&[KeyCode::Down, KeyCode::Down]));
        ui.on_fleet(fleets::a_minute_later(), later);
        ui
    };
    Scene::of("job-ended", ended).at(later).check(&[NARROW]);
}

#[test]
fn stale_nodes_are_excluded_from_statistics_and_named() {
    let screen = screen(fleets::with_jobs(), KEYS, (120, 40));
    let fresh = "2 of 5 nodes fresh · gpu[05,08,99] excluded from min, mean and max";
    assert!(screen.contains(fresh), "{screen}");
    assert!(screen.contains("12!"), "{screen}");
    assert!(screen.contains("gpu02:3 at 12%, peers at 97%"), "{screen}");
}

#[test]
fn a_job_row_shows_only_the_devices_of_the_job() {
    let keys = view_keys(&[KeyCode::Down, KeyCode::Down]);
    let screen = screen(fleets::with_jobs(), &keys, (80, 24));
    let row = screen.lines().find(|line| line.contains("  gpu03 ")).unwrap();
    let numbers = row.split_whitespace().filter(|word| *word == "0").count();
    assert_eq!(numbers, 4, "{screen}");
}

#[test]
fn slices_of_a_job_are_told_apart_from_devices() {
    let job = screen(fleets::job_with_slices(), KEYS, (120, 40));
    assert!(job.contains("1 node · 1 device and 2 slices"), "{job}");
    let list = screen(fleets::job_with_slices(), LIST, (120, 40));
    let row = list.lines().find(|line| line.starts_with("8421 ")).unwrap();
    assert!(row.contains(" 1×3 "), "{list}");
}

#[test]
fn a_filter_tells_how_many_devices_of_a_job_match_in_the_list_and_in_the_job() {
    let typed: Vec<KeyCode> = "/node=gpu02".chars().map(KeyCode::Char).collect();
    let keys = [LIST, &typed, &[KeyCode::Enter]].concat();
    let list = screen(fleets::with_jobs(), &keys, (120, 40));
    assert!(list.contains("1 of 4 jobs with nodes matches") && list.contains(" 8/40 "), "{list}");
    let job = screen(fleets::with_jobs(), &[keys, vec![KeyCode::Enter]].concat(), (120, 40));
    assert!(job.contains("8 of 40 devices match") && job.contains("job 1 of 1"), "{job}");
}

#[test]
fn the_list_counts_the_jobs_that_can_be_opened_as_an_open_job_does() {
    let list = screen(fleets::with_jobs(), LIST, (120, 40));
    assert!(list.contains("4 jobs with nodes · 4 pending · 3 yours"), "{list}");
    assert!(screen(fleets::with_jobs(), KEYS, (120, 40)).contains("job 1 of 4"));
}

#[test]
fn the_explanation_of_a_job_begins_with_what_its_devices_do() {
    let keys = [LIST, &[KeyCode::Char('i')]].concat();
    let shown = screen(fleets::with_jobs(), &keys, (120, 40));
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}"));
    let order =
        ["problem", "idle", "outliers", "lowest", "start"].map(|name| at(&format!("\n  {name} ")));
    assert!(order.is_sorted(), "{shown}");
    assert!(shown.contains("12% gpu02:3") && shown.contains("1 of 16"), "{shown}");
}

#[test]
fn the_explanation_of_a_pending_job_says_what_it_waits_for() {
    let keys = [LIST, &[KeyCode::Down, KeyCode::Char('i')]].concat();
    let shown = screen(fleets::with_jobs(), &keys, (120, 40));
    for text in ["job 8450 eval-long", "from the scheduler", "pending", "Priority"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!shown.contains("its devices now"), "{shown}");
}

#[test]
fn the_list_of_jobs_is_reversed() {
    let ids = |keys: &[KeyCode]| -> Vec<String> {
        let shown = screen(fleets::with_jobs(), &[LIST, keys].concat(), (120, 40));
        let rows = shown.lines().skip_while(|line| !line.starts_with("ID")).skip(1);
        let id = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        rows.map(id).take_while(|id| !id.is_empty()).collect()
    };
    let by_id = [KeyCode::F(6), KeyCode::Char('#')];
    let reverse = [KeyCode::Char('\\')];
    let mut sorted = ids(&by_id);
    assert_eq!(sorted.len(), 6);
    sorted.reverse();
    assert_eq!(ids(&[&by_id[..], &reverse].concat()), sorted);
    // The worst come last, those that wait below them.
    assert_eq!(ids(&reverse)[..4], ["8440", "8425", "8430", "8421"]);
}

#[test]
fn the_order_of_jobs_stays_while_one_is_open() {
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    press(&mut ui, &view_keys(&[KeyCode::Down]));
    let shown = |ui: &mut _| text(&draw(ui, 80, 24)).join("\n");
    let open = shown(&mut ui);
    assert!(open.contains("job 8430") && open.contains("job 2 of 4"), "{open}");
    // A job below has lost a device.
    let mut fleet = fleets::with_jobs();
    let lose = |node: &Arc<Node>| {
        let mut node = Node::clone(node);
        if node.name.label() == "gpu03" {
            node.devices[0].fault = Some(DeviceFault::Lost);
        }
        Arc::new(node)
    };
    fleet.nodes = fleet.nodes.iter().map(lose).collect();
    ui.on_fleet(fleet, NOW);
    let open = shown(&mut ui);
    assert!(open.contains("job 8430") && open.contains("job 2 of 4"), "{open}");
    press(&mut ui, &[KeyCode::Esc]);
    let list = shown(&mut ui);
    let at = |id: &str| list.find(&format!("\n{id} ")).unwrap_or_else(|| panic!("{id}: {list}"));
    assert!(at("8425") < at("8430"), "{list}");
}

#[test]
fn keys_about_a_node_say_that_the_list_of_jobs_shows_none() {
    for key in ['w', 'p', 'm'] {
        let keys = [LIST, &[KeyCode::Char(key)]].concat();
        let shown = screen(fleets::with_jobs(), &keys, (120, 40));
        assert!(shown.contains("the list of jobs shows no node"), "{key}: {shown}");
    }
}

#[test]
fn while_no_job_runs_every_view_lists_the_jobs_that_wait() {
    for key in ['1', '3', '5'] {
        let shown = screen(fleets::only_pending_jobs(), &[KeyCode::Char(key)], (120, 40));
        assert!(shown.contains("pending: Priority"), "{key}: {shown}");
    }
}

#[test]
fn a_row_opens_its_node_and_escape_leaves_the_table() {
    let open_keys = view_keys(&[KeyCode::Enter, KeyCode::Down, KeyCode::Enter]);
    assert!(screen(fleets::with_jobs(), &open_keys, (80, 24)).contains("gpu02  8× H100"));
    let leave_keys = view_keys(&[KeyCode::Enter, KeyCode::Esc, KeyCode::Down]);
    assert!(screen(fleets::with_jobs(), &leave_keys, (80, 24)).contains("job 8430"));
}

#[test]
fn back_from_a_node_returns_to_the_same_job() {
    let open_keys = view_keys(&[KeyCode::Enter, KeyCode::Enter, KeyCode::Right, KeyCode::Right]);
    assert!(screen(fleets::with_jobs(), &open_keys, (80, 24)).contains("gpu03  8× H100"));
    let back_keys = [open_keys, vec![KeyCode::Esc]].concat();
    let screen = screen(fleets::with_jobs(), &back_keys, (80, 24));
    assert!(screen.contains("job 8421"), "{screen}");
}

#[test]
fn a_job_hidden_by_the_filter_is_not_shown_as_ended() {
    let typed: Vec<KeyCode> = "/node=gpu03".chars().map(KeyCode::Char).collect();
    let mut keys = view_keys(&typed);
    keys.push(KeyCode::Enter);
    let hidden = screen(fleets::with_jobs(), &keys, (80, 24));
    assert!(hidden.contains("none of its nodes match the filter"), "{hidden}");
    keys.push(KeyCode::Down);
    let other = screen(fleets::with_jobs(), &keys, (80, 24));
    assert!(other.contains("job 8425") && other.contains("job 1 of 1"), "{other}");
}

#[test]
fn jobs_users_and_events_draw_at_any_size() {
    let open = [KeyCode::Enter, KeyCode::Down, KeyCode::End];
    for fleet in [fleets::with_jobs(), fleets::hostile_jobs(), fleets::only_pending_jobs()] {
        for view in ['2', '5', '6'] {
            let mut ui = new_ui(fleet.clone(), ASCII);
            ui.on_fleet(fleets::a_minute_later(), NOW);
            ui.on_fleet(fleet.clone(), NOW);
            press(&mut ui, &[KeyCode::Char(view)]);
            press(&mut ui, &open);
            for width in (1..30).chain([40, 50, 59, 60, 79, 80, 100, 131, 200, 333]) {
                for height in [1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 19, 24, 34, 50, 200] {
                    draw(&mut ui, width, height);
                }
            }
        }
    }
}

/// Returns the CPU time of a key and the frame after it, the least of several.
fn cpu_time_of_key(fleet: Fleet, keys: &[KeyCode]) -> Duration {
    let mut ui = new_ui(fleet, DARK);
    press(&mut ui, LIST);
    let cpu_time = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
    };
    let times = keys.iter().cycle().take(12).map(|code| {
        let began = cpu_time();
        press(&mut ui, &[*code]);
        cpu_time().saturating_sub(began)
    });
    times.min().unwrap()
}

#[test]
fn a_key_costs_as_much_as_rows_are_visible_however_many_jobs_there_are() {
    let keys = [KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Home];
    let fleets: [fn(u32) -> Fleet; 2] = [fleets::long_queue, fleets::long_list];
    for (place, fleet) in fleets.into_iter().enumerate() {
        for key in keys {
            let [few, many] = [100, 20_000].map(|count| cpu_time_of_key(fleet(count), &[key]));
            assert!(many < few * 2 + Duration::from_millis(2), "{place} {key:?}: {few:?} {many:?}");
        }
    }
}
