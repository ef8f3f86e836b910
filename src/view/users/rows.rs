//! The rows of the user list: users in their order, and below one of them its nodes and processes.

use std::sync::Arc;

use crate::view::RenderContext;
use crate::view::fleet_view::FleetView;
use crate::view::line::width_of;
use crate::view::navigation::RowId;
use crate::view::sort_order::SortOrder;
use crate::view::users::RowIdentity;
use crate::view::users::usage::{User, UserUsage, Users};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum UserRow {
    /// A user.
    User { user: User },
    /// A node that he is on.
    Node { user: User, node_usage: usize, place: usize },
    /// A process of his there, by its place among the node's uses.
    Process { user: User, place: usize, at: usize, spot: RowId },
}

impl UserRow {
    /// Says what it is.
    pub(super) fn identity(&self, scene: RenderContext<'_>) -> RowIdentity {
        let name =
            |place: usize| scene.picture.fleet.nodes.get(place).map(|node| node.name.clone());
        match self {
            Self::User { user } => RowIdentity { user: user.clone(), node: None, process: None },
            Self::Node { user, place, .. } => {
                RowIdentity { user: user.clone(), node: name(*place), process: None }
            }
            Self::Process { user, place, spot, .. } => {
                RowIdentity { user: user.clone(), node: name(*place), process: Some(spot.clone()) }
            }
        }
    }
}

/// All rows.
#[derive(Debug)]
pub(super) struct UserRows {
    pub(super) list: Vec<UserRow>,
    /// The widest name.
    pub(super) name: u16,
}

impl UserRows {
    /// Puts them in order.
    pub(super) fn of(
        picture: &FleetView,
        usage: &Arc<Users>,
        order: SortOrder,
        open: Option<&User>,
    ) -> Self {
        let mut users: Vec<&(User, UserUsage)> = usage.entries.iter().collect();
        // By name where the column does not decide; sorting keeps that.
        if order.column != "user" {
            users.sort_by(|(_, one), (_, other)| one.compare(other, order.column));
        }
        if order.is_inverted {
            users.reverse();
        }
        let mut list = Vec::with_capacity(users.len());
        let mut name = 4;
        for (user, account) in users {
            name = name.max(width_of(&user.text()));
            list.push(UserRow::User { user: user.clone() });
            if open != Some(user) {
                continue;
            }
            for (node_usage, own) in account.nodes.iter().enumerate() {
                let node = picture.fleet.nodes.get(own.place);
                name = name.max(node.map_or(0, |node| width_of(node.name.label()) + 2));
                list.push(UserRow::Node { user: user.clone(), node_usage, place: own.place });
                list.extend(own.uses.iter().map(|(at, spot)| UserRow::Process {
                    user: user.clone(),
                    place: own.place,
                    at: *at,
                    spot: spot.clone(),
                }));
            }
        }
        Self { list, name }
    }

    /// Finds a row again; that of its node or its user when it is gone, and else the first.
    pub(super) fn position(&self, scene: RenderContext<'_>, identity: &RowIdentity) -> usize {
        let is_node = |place: usize| {
            let node = scene.picture.fleet.nodes.get(place);
            node.is_some_and(|node| Some(&node.name) == identity.node.as_ref())
        };
        let (mut user_row, mut node) = (None, None);
        for (at, row) in self.list.iter().enumerate() {
            match row {
                UserRow::User { user } if *user == identity.user => user_row = Some(at),
                UserRow::Node { user, place, .. } if *user == identity.user && is_node(*place) => {
                    node = Some(at);
                }
                UserRow::Process { user, place, spot, .. }
                    if Some(spot) == identity.process.as_ref()
                        && *user == identity.user
                        && is_node(*place) =>
                {
                    return at;
                }
                UserRow::User { .. } | UserRow::Node { .. } | UserRow::Process { .. } => {}
            }
        }
        node.or(user_row).unwrap_or(0)
    }
}
