//! The label of a key hint in the footer, which depends on the current view.

use crate::insight::FleetView;
use crate::ui::View;
use crate::ui::action::{CommonAction, ViewAction};
use crate::ui::navigation::Navigation;
use crate::ui::views::{fleet, job};

/// Returns the label of an action in the current view, `usual` by default; `None` if the action has no effect
/// there.
pub fn hint<'a>(
    fleet_view: &FleetView,
    navigation: &Navigation,
    action: &ViewAction,
    default: &'a str,
) -> Option<&'a str> {
    let is_in_rows = match navigation.view {
        View::Job => navigation.job_state.is_in_table(),
        View::Node => {
            navigation.node(fleet_view).is_some_and(|node| navigation.cursor(node).is_some())
        }
        View::Fleet | View::Processes | View::Users | View::Events => false,
    };
    match (action, navigation.view) {
        (ViewAction::Common(CommonAction::SortMenu), View::Job | View::Node | View::Events) => None,
        (ViewAction::Common(CommonAction::SortMenu), View::Processes) => {
            navigation.processes.is_on_table().then_some(default)
        }
        // In the fleet view, Esc has only a filter to clear.
        (ViewAction::Common(CommonAction::Back), View::Fleet) => {
            (!fleet_view.filter.is_empty()).then_some(default)
        }
        (ViewAction::Common(CommonAction::Open), View::Job) => {
            Some(if is_in_rows { "node" } else { "rows" })
        }
        (ViewAction::Common(CommonAction::Open), View::Node) => (!is_in_rows).then_some("rows"),
        (ViewAction::Job(job::Action::PreviousJob), _) if is_in_rows => Some("row"),
        (ViewAction::Fleet(fleet::Action::ToggleLayout), _) if navigation.fleet.is_map() => {
            Some("list")
        }
        (ViewAction::Fleet(fleet::Action::NextMetric), _) => {
            navigation.fleet.is_map().then_some(default)
        }
        (ViewAction::Processes(action), View::Processes) => {
            navigation.processes.hint(*action, default)
        }
        (ViewAction::Common(CommonAction::Open), View::Processes) => {
            navigation.processes.is_on_rows().then_some(default)
        }
        _ => Some(default),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet::{Fleet, Node};
    use crate::model::NodeName;
    use crate::query::Filter;
    use crate::time::Timestamp;

    fn fleet_view(filter: &str) -> FleetView {
        let node = Node::new(NodeName::new("gpu01").unwrap(), std::time::Duration::ZERO);
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        FleetView::filtered(fleet, Timestamp::default(), Filter::new(filter).unwrap())
    }

    #[test]
    fn actions_without_effect_have_no_hint() {
        let hint_for = |view, filter: &str, action: ViewAction| {
            let mut navigation = Navigation::default();
            navigation.view.clone_from(&view);
            hint(&fleet_view(filter), &navigation, &action, "usual")
        };
        for (view, filter, action, expected) in [
            (View::Fleet, "", ViewAction::Common(CommonAction::Back), None),
            (View::Fleet, "gpu", ViewAction::Common(CommonAction::Back), Some("usual")),
            (View::Node, "", ViewAction::Common(CommonAction::Back), Some("usual")),
            (View::Fleet, "", ViewAction::Common(CommonAction::SortMenu), Some("usual")),
            (View::Job, "", ViewAction::Common(CommonAction::SortMenu), None),
            (View::Node, "", ViewAction::Common(CommonAction::SortMenu), None),
            (View::Events, "", ViewAction::Common(CommonAction::SortMenu), None),
            (View::Job, "", ViewAction::Common(CommonAction::Open), Some("rows")),
            (View::Node, "", ViewAction::Common(CommonAction::Open), Some("rows")),
            (View::Users, "", ViewAction::Common(CommonAction::Open), Some("usual")),
            (View::Fleet, "", ViewAction::Fleet(fleet::Action::ToggleLayout), Some("usual")),
            (View::Fleet, "", ViewAction::Fleet(fleet::Action::NextMetric), None),
        ] {
            assert_eq!(hint_for(view, filter, action.clone()), expected, "{view:?} {action:?}");
        }
    }
}
