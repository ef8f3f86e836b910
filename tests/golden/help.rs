//! Golden screens of the help page, of the explanations of rows and of the next problem, and what they answer.

use crossterm::event::KeyCode;
use gtop_ui::View;
use ratatui::style::Modifier;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

fn screen(fleet: &gtop_fleet::Fleet, keys: &[KeyCode], size: (u16, u16)) -> String {
    let mut ui = new_ui(fleet.clone(), DARK);
    draw(&mut ui, size.0, size.1);
    press(&mut ui, keys);
    text(&draw(&mut ui, size.0, size.1)).join("\n")
}

#[test]
fn the_help_begins_with_signs_and_columns() {
    let fleet = fleets::every_state();
    // That of the fleet is in a file of its own.
    let scenes = views().filter(|(view, _)| *view != View::Fleet).map(|(view, key)| {
        Scene::new(view.title().to_lowercase(), &fleet, [key, KeyCode::Char('?')])
    });
    check_sheet("help-views", NARROW, &scenes.collect::<Vec<_>>());
}

#[test]
fn the_page_about_the_screen_has_every_view() {
    for (view, digit) in View::ALL.into_iter().zip('1'..) {
        let row = format!("| `{digit}` {} |", view.title());
        assert!(include_str!("../../docs/screen.md").contains(&row), "no {row} in docs/screen.md");
    }
}

#[test]
fn a_column_is_explained_with_two_keys_at_most() {
    let fleet = fleets::large(300);
    let pages = [&[KeyCode::Char('?')][..], &[KeyCode::Char('?'), KeyCode::PageDown][..]];
    let answer: String = pages.iter().map(|keys| screen(&fleet, keys, (80, 24))).collect();
    for (title, meaning) in [
        ("USER", "users of its devices"),
        ("GiB", "device memory of all its devices"),
        ("AGE", "age of the numbers"),
        ("NOTE", "problems"),
    ] {
        let is_answer = |line: &str| line.contains(title) && line.contains(meaning);
        assert!(answer.lines().any(is_answer), "{title} in {answer}");
    }
}

#[test]
fn rows_are_explained_in_every_view() {
    let fleet = fleets::every_state();
    let enter = KeyCode::Enter;
    let explain = KeyCode::Char('i');
    let jobs = fleets::with_jobs();
    let scenes = [
        ("fleet", &fleet, &[explain][..]),
        ("group", &fleet, &[KeyCode::Char('g'), KeyCode::Home, explain][..]),
        ("map", &fleet, &[KeyCode::Char('m'), explain][..]),
        ("node", &fleet, &[KeyCode::Char('3'), explain][..]),
        ("device", &fleet, &[KeyCode::Char('3'), KeyCode::Down, KeyCode::Home, explain][..]),
        ("process", &fleet, &[KeyCode::Char('4'), KeyCode::Down, explain][..]),
        ("process-page", &fleet, &[KeyCode::Char('4'), KeyCode::Down, enter, explain][..]),
        ("user", &fleet, &[KeyCode::Char('5'), explain][..]),
        ("job", &jobs, &[KeyCode::Char('2'), explain][..]),
    ];
    let scenes = scenes.map(|(name, fleet, keys)| Scene::new(name, fleet, keys));
    check_sheet("explain", NARROW, &scenes);
}

#[test]
fn nodes_that_the_scheduler_counts_are_not_left_out_of_their_group() {
    let by_partition = [KeyCode::Char('g'), KeyCode::Char('g'), KeyCode::Home, KeyCode::Char('i')];
    let shown = screen(&fleets::partitioned(), &by_partition, (120, 60));
    // gpu020 is closed, gpu033 is down.
    for text in ["group gpu", "  reported ", "  1 node ", " gpu033 "] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!shown.contains("gpu[020"), "{shown}");
}

#[test]
fn an_explanation_scrolls_to_its_last_line_with_a_node_in_focus_too() {
    let fleet = fleets::single();
    let last = |keys: &[KeyCode]| {
        let down = [KeyCode::PageDown; 20];
        let screen = screen(&fleet, &[keys, &[KeyCode::Char('i')], &down].concat(), (80, 24));
        let mut lines = screen.lines().rev().skip_while(|line| !line.starts_with("  "));
        lines.next().map(str::trim_end).map(str::to_owned).unwrap_or_default()
    };
    let plain = last(&[]);
    assert!(!plain.is_empty() && !plain.contains("more lines"), "{plain}");
    assert_eq!(last(&[KeyCode::Char('w')]), plain);
}

#[test]
fn the_wheel_scrolls_an_explanation() {
    use crossterm::event::{KeyModifiers, MouseEvent, MouseEventKind};
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &[KeyCode::Char('i')]);
    let before = text(&draw(&mut ui, 80, 24));
    let wheel = |kind| MouseEvent { kind, column: 0, row: 0, modifiers: KeyModifiers::NONE };
    ui.on_mouse(wheel(MouseEventKind::ScrollDown), NOW);
    let below = text(&draw(&mut ui, 80, 24));
    assert_eq!(below[4..10], before[7..13]);
    ui.on_mouse(wheel(MouseEventKind::ScrollUp), NOW);
    assert_eq!(text(&draw(&mut ui, 80, 24)), before);
}

#[test]
fn the_sickest_node_is_one_key_away_and_its_reason_two() {
    let fleet = fleets::every_state();
    Scene::new("next-problem", &fleet, [KeyCode::Char('!')]).check(&[NARROW]);
    let answer = screen(&fleet, &[KeyCode::Char('!'), KeyCode::Char('i')], (80, 24));
    for part in ["✗ session lost", "→ ", "last seen", "state", "down"] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
    // All but the footer, in which the message leaves little space for hints.
    let explanation = answer.rsplit_once('\n').map_or("", |(body, _)| body);
    assert!(!explanation.contains('…'), "{answer}");
    let explain = [KeyCode::Char('!'), KeyCode::Char('i')];
    Scene::new("explain-down", &fleet, explain).check(&[SMALL, NARROW]);
    let twice = screen(&fleet, &[KeyCode::Char('!'), KeyCode::Char('!')], (80, 24));
    assert!(twice.contains("problem 2 of"), "{twice}");
}

#[test]
fn without_a_problem_the_key_says_so() {
    let answer = screen(&fleets::single(), &[KeyCode::Char('1'), KeyCode::Char('!')], (80, 24));
    assert!(answer.contains("no problem"), "{answer}");
    let none = gtop_fleet::Fleet::default();
    for key in ['i', '!', '?'] {
        screen(&none, &[KeyCode::Char(key), KeyCode::PageDown], (80, 24));
    }
}

#[test]
fn the_sort_menu_asks_before_it_reverses() {
    let fleet = fleets::every_state();
    let menu = [KeyCode::F(6), KeyCode::Char('u'), KeyCode::F(6)];
    let asked = screen(&fleet, &[&menu[..], &[KeyCode::Char('u')]].concat(), (80, 24));
    assert!(asked.contains("reverse the order? Press u or Enter again"), "{asked}");
    let kept = screen(&fleet, &[&menu[..], &[KeyCode::Char('u'), KeyCode::Esc]].concat(), (80, 24));
    let sorted = screen(&fleet, &menu[..2], (80, 24));
    assert_eq!(kept, sorted);
    let twice = [&menu[..], &[KeyCode::Char('u'), KeyCode::Char('u')]].concat();
    assert_ne!(screen(&fleet, &twice, (80, 24)), sorted);
}

#[test]
fn every_title_on_the_screen_is_in_the_help_of_its_view() {
    let group = [KeyCode::Char('1'), KeyCode::Char('g'), KeyCode::Char('g')];
    let views: Vec<_> = views().map(|(_, key)| vec![key]).collect();
    for fleet in [fleets::every_state(), fleets::accelerators(), fleets::with_jobs()] {
        for keys in views.iter().chain([&group.to_vec()]) {
            for width in [40, 80, 120, 200] {
                let mut ui = new_ui(fleet.clone(), DARK);
                draw(&mut ui, width, 50);
                press(&mut ui, keys);
                let shown = text(&draw(&mut ui, width, 50)).join("\n");
                press(&mut ui, &[KeyCode::Char('?')]);
                let mut help = String::new();
                for _ in 0..5 {
                    help.extend(text(&draw(&mut ui, width, 50)));
                    press(&mut ui, &[KeyCode::PageDown]);
                }
                for word in titles(&shown) {
                    assert!(
                        help.contains(word),
                        "{keys:?} {width}: {word} of\n{shown}\nin\n{help}"
                    );
                }
            }
        }
    }
}

/// Returns the words of the lines that are titles of tables: two columns at least that every table of a view has.
fn titles(screen: &str) -> Vec<&str> {
    const KNOWN: [&[&str]; 6] = [
        &["NODE", "NOTE"],
        &["TEMP", "W"],
        &["PID", "COMMAND"],
        &["USER", "DEVICES"],
        &["AGE", "WHAT"],
        &["NODE", "AGE"],
    ];
    let is_title = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        KNOWN.iter().any(|all| all.iter().all(|one| words.contains(one)))
    };
    let words = screen.lines().filter(is_title).flat_map(str::split_whitespace);
    words
        .filter(|word| word.chars().any(|letter| letter.is_ascii_uppercase()))
        .filter(|word| !word.ends_with(['↓', '↑', '…']))
        .collect()
}

#[test]
fn the_help_is_searched_as_in_a_pager() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    draw(&mut ui, 80, 24);
    let mut press = |keys: &str| {
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            ui.on_key(key(code), NOW);
        }
        let buffer = draw(&mut ui, 80, 24);
        let is_marked = |cell: &&ratatui::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
        (text(&buffer), buffer.content.iter().filter(is_marked).count())
    };
    let (typed, _) = press("?/GROUP");
    assert!(typed[22].starts_with("search: GROUP") && typed[23].contains("Enter search"));
    let (missing, marked) = press("\n");
    assert!(missing[23].starts_with("\"GROUP\" not found"), "{missing:#?}");
    assert_eq!(marked, 0);
    let (first, marked) = press("/group\n");
    assert!(first[3].contains("group") && marked % "group".len() == 0 && marked > 0, "{first:#?}");
    let (second, _) = press("n");
    assert!(second[3].contains("group") && second[3] != first[3], "{second:#?}");
    assert_eq!(press("N").0[..23], first[..23]);
    let (last, _) = press("N");
    assert!(last[23].starts_with("search continued from the end"), "{last:#?}");
    let (left, marked) = press("\x1b");
    assert!(left[23].contains("Esc close") && marked == 0, "{left:#?}");
    assert_eq!(left[3..22], last[3..22]);
    let (closed, _) = press("\x1b");
    assert!(closed[3].contains("NODE"), "{closed:#?}");
}
