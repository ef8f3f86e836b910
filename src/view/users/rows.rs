//! The rows of the user list: users in their order, and below one of them its nodes and processes.

use std::sync::Arc;

use crate::view::RenderContext;
use crate::view::fleet_view::FleetView;
use crate::view::line::width_of;
use crate::view::navigation::RowId;
use crate::view::sort_order::SortOrder;
use crate::view::users::Identity;
use crate::view::users::crew::{Account, Crew, Who};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Row {
    /// A user.
    User { who: Who },
    /// A node that he is on.
    Node { who: Who, stay: usize, place: usize },
    /// A process of his there, by its place among the node's uses.
    Process { who: Who, place: usize, at: usize, spot: RowId },
}

impl Row {
    /// Says what it is.
    pub(super) fn identity(&self, scene: RenderContext<'_>) -> Identity {
        let name =
            |place: usize| scene.picture.fleet.nodes.get(place).map(|node| node.name.clone());
        match self {
            Self::User { who } => Identity { who: who.clone(), node: None, process: None },
            Self::Node { who, place, .. } => {
                Identity { who: who.clone(), node: name(*place), process: None }
            }
            Self::Process { who, place, spot, .. } => {
                Identity { who: who.clone(), node: name(*place), process: Some(spot.clone()) }
            }
        }
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) list: Vec<Row>,
    /// The widest name.
    pub(super) name: u16,
}

impl Rows {
    /// Puts them in order.
    pub(super) fn of(
        picture: &FleetView,
        crew: &Arc<Crew>,
        order: SortOrder,
        open: Option<&Who>,
    ) -> Self {
        let mut users: Vec<&(Who, Account)> = crew.accounts.iter().collect();
        // By name where the column does not decide; sorting keeps that.
        if order.column != "user" {
            users.sort_by(|(_, one), (_, other)| one.compare(other, order.column));
        }
        if order.is_inverted {
            users.reverse();
        }
        let mut list = Vec::with_capacity(users.len());
        let mut name = 4;
        for (who, account) in users {
            name = name.max(width_of(&who.text()));
            list.push(Row::User { who: who.clone() });
            if open != Some(who) {
                continue;
            }
            for (stay, own) in account.nodes.iter().enumerate() {
                let node = picture.fleet.nodes.get(own.place);
                name = name.max(node.map_or(0, |node| width_of(node.name.label()) + 2));
                list.push(Row::Node { who: who.clone(), stay, place: own.place });
                list.extend(own.uses.iter().map(|(at, spot)| Row::Process {
                    who: who.clone(),
                    place: own.place,
                    at: *at,
                    spot: spot.clone(),
                }));
            }
        }
        Self { list, name }
    }

    /// Finds a row again; that of its node or its user when it is gone, and else the first.
    pub(super) fn position(&self, scene: RenderContext<'_>, identity: &Identity) -> usize {
        let is_node = |place: usize| {
            let node = scene.picture.fleet.nodes.get(place);
            node.is_some_and(|node| Some(&node.name) == identity.node.as_ref())
        };
        let (mut user, mut node) = (None, None);
        for (at, row) in self.list.iter().enumerate() {
            match row {
                Row::User { who } if *who == identity.who => user = Some(at),
                Row::Node { who, place, .. } if *who == identity.who && is_node(*place) => {
                    node = Some(at);
                }
                Row::Process { who, place, spot, .. }
                    if Some(spot) == identity.process.as_ref()
                        && *who == identity.who
                        && is_node(*place) =>
                {
                    return at;
                }
                Row::User { .. } | Row::Node { .. } | Row::Process { .. } => {}
            }
        }
        node.or(user).unwrap_or(0)
    }
}
