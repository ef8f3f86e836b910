//! What the last line of the screen calls a key: not every key does something everywhere.

use crate::view::navigation::{Navigation, View};
use crate::view::outcome::{Command, Deed};
use crate::view::picture::Picture;
use crate::view::{fleet, job};

/// Returns what a deed is called where one is, `usual` unless there is a better word; none where it
/// leads nowhere.
pub fn hint<'a>(
    picture: &Picture,
    navigation: &Navigation,
    deed: &Deed,
    usual: &'a str,
) -> Option<&'a str> {
    let is_in_rows = match navigation.view {
        View::Job => navigation.job_place.is_in_table(),
        View::Node => {
            navigation.node(picture).is_some_and(|node| navigation.cursor(node).is_some())
        }
        View::Fleet | View::Processes | View::Users | View::Events => false,
    };
    match (deed, navigation.view) {
        (Deed::Do(Command::SortMenu), View::Job | View::Node | View::Events) => None,
        (Deed::Do(Command::SortMenu), View::Processes) => {
            navigation.processes.is_on_table().then_some(usual)
        }
        // There is nothing to go back to from the first view, but from a filter.
        (Deed::Do(Command::Back), View::Fleet) => (!picture.filter.is_empty()).then_some(usual),
        (Deed::Do(Command::Open), View::Job) => Some(if is_in_rows { "node" } else { "rows" }),
        (Deed::Do(Command::Open), View::Node) => (!is_in_rows).then_some("rows"),
        (Deed::Job(job::Own::PreviousJob), _) if is_in_rows => Some("row"),
        (Deed::Fleet(fleet::Own::Form), _) if navigation.fleet.is_map() => Some("list"),
        (Deed::Fleet(fleet::Own::Quantity), _) => navigation.fleet.is_map().then_some(usual),
        (Deed::Processes(own), View::Processes) => navigation.processes.hint(*own, usual),
        (Deed::Do(Command::Open), View::Processes) => {
            navigation.processes.is_on_rows().then_some(usual)
        }
        _ => Some(usual),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet::{Fleet, Node};
    use crate::model::NodeName;
    use crate::time::Timestamp;
    use crate::view::Filter;

    fn picture(filter: &str) -> Picture {
        let node = Node::new(NodeName::new("gpu01").unwrap(), std::time::Duration::ZERO);
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        Picture::filtered(fleet, Timestamp::default(), Filter::new(filter).unwrap())
    }

    #[test]
    fn what_leads_nowhere_is_not_named() {
        let word = |view, filter: &str, deed: Deed| {
            let mut navigation = Navigation::default();
            navigation.view.clone_from(&view);
            hint(&picture(filter), &navigation, &deed, "usual")
        };
        for (view, filter, deed, expected) in [
            (View::Fleet, "", Deed::Do(Command::Back), None),
            (View::Fleet, "gpu", Deed::Do(Command::Back), Some("usual")),
            (View::Node, "", Deed::Do(Command::Back), Some("usual")),
            (View::Fleet, "", Deed::Do(Command::SortMenu), Some("usual")),
            (View::Job, "", Deed::Do(Command::SortMenu), None),
            (View::Node, "", Deed::Do(Command::SortMenu), None),
            (View::Events, "", Deed::Do(Command::SortMenu), None),
            (View::Job, "", Deed::Do(Command::Open), Some("rows")),
            (View::Node, "", Deed::Do(Command::Open), Some("rows")),
            (View::Users, "", Deed::Do(Command::Open), Some("usual")),
            (View::Fleet, "", Deed::Fleet(fleet::Own::Form), Some("usual")),
            (View::Fleet, "", Deed::Fleet(fleet::Own::Quantity), None),
        ] {
            assert_eq!(word(view, filter, deed.clone()), expected, "{view:?} {deed:?}");
        }
    }
}
