//! Golden files of the report on standard output: one node and many, in each width, with and without styles.

use std::fmt::Write as _;

use gtop_fleet::Fleet;
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::DisplaySelection;
use gtop_ui::{DisplayOptions, RenderContext, report};
use gtop_ui::{Theme, render_text};
use jiff::tz::{Offset, TimeZone};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::{ASCII, DARK, LIGHT, check_text};

fn report_text(fleet: Fleet, theme: Theme, width: u16, has_styles: bool) -> String {
    let fleet_view = FleetView::printed(fleet, NOW, &DisplaySelection::default());
    let (display, zone) = (DisplayOptions::default(), TimeZone::fixed(Offset::constant(1)));
    let context = RenderContext { view: &fleet_view, options: &display, zone: &zone };
    render_text(&report(context, "gpu[01-16]", width), theme, width, has_styles)
}

/// Returns a fleet of the node at this index.
fn one_node(fleet: &Fleet, index: usize) -> Fleet {
    Fleet::new(vec![std::sync::Arc::clone(&fleet.nodes[index])].into())
}

#[test]
fn the_report_in_each_width() {
    let special = fleets::accelerators();
    let rare = fleets::rare();
    let files = [("report-80", 80), ("report-120", 120), ("report-200", 200)];
    let mut texts = files.map(|(file, width)| (file, width, String::new()));
    for (name, fleet) in [
        ("many", fleets::every_state()),
        ("rare", fleets::rare()),
        ("none", Fleet::default()),
        ("one", fleets::single()),
        ("gpus", one_node(&special, 0)),
        ("slices", one_node(&special, 1)),
        ("chips", one_node(&special, 2)),
        ("cards", one_node(&special, 3)),
        ("hostile", one_node(&rare, 0)),
        ("down", one_node(&fleets::every_state(), 4)),
    ] {
        for (_, width, all) in &mut texts {
            let text = report_text(fleet.clone(), DARK, *width, false);
            assert!(!text.contains('\u{1b}'));
            for line in text.lines() {
                let columns = unicode_width::UnicodeWidthStr::width(line);
                assert!(columns <= usize::from(*width), "{columns}: {line}");
            }
            write!(all, "=== {name}\n{text}").unwrap();
        }
    }
    for (file, _, all) in texts {
        check_text(file, &all);
    }
}

#[test]
fn the_report_in_each_theme_and_narrow() {
    let fleet = fleets::every_state();
    let ascii = report_text(fleet.clone(), ASCII, 80, false);
    assert!(ascii.is_ascii(), "{ascii}");
    check_text("report-ascii-80", &ascii);
    check_text("report-styles-80", &report_text(fleet.clone(), LIGHT, 80, true));
    for width in (1..80).step_by(6) {
        for fleet in [fleet.clone(), fleets::single(), fleets::rare()] {
            report_text(fleet, DARK, width, true);
        }
    }
}

#[test]
fn problems_are_printed_in_full() {
    let text = report_text(fleets::every_state(), DARK, 40, false);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "gpu05: authentication refused: offers hostbased, gssapi",
        "gpu[14-15]: host key unknown",
        "no answer from nvidia-smi",
    ] {
        assert!(words.contains(sentence), "{sentence}: {text}");
    }
}
