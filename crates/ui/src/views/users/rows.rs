//! Builds the rows of the users table: sorted users, with the idle devices, nodes and processes of the unfolded one.

use std::sync::Arc;

use crate::render_context::RenderContext;
use crate::views::users::UserRowIdentity;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::RowId;
use gtop_fleet::insight::users::{UserUsage, Users};
use gtop_fleet::query::SortOrder;
use gtop_fleet::{Node, User};
use gtop_local::text::width_of;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum UserRow {
    /// The row with a user's sums.
    User { user: User },
    /// An idle device of the user: its index in `UserUsage::idle`.
    Idle { user: User, at: usize, node_index: usize, row_id: RowId },
    /// A node of the user: its index in `UserUsage::nodes` and in the fleet.
    Node { user: User, node_usage: usize, node_index: usize },
    /// A process of the user: the index of its node in the fleet, and of its use among the node's uses.
    Process { user: User, node_index: usize, use_index: usize, row_id: RowId },
}

impl UserRow {
    /// Returns the row's identity, which stays the same when rows are reordered.
    pub(super) fn identity(&self, context: RenderContext<'_>) -> UserRowIdentity {
        let (Self::User { user }
        | Self::Idle { user, .. }
        | Self::Node { user, .. }
        | Self::Process { user, .. }) = self;
        let row = match self {
            Self::User { .. } | Self::Node { .. } => None,
            Self::Process { row_id, .. } | Self::Idle { row_id, .. } => Some(row_id.clone()),
        };
        let node = self.node(context).map(|node| node.name.clone());
        UserRowIdentity { user: user.clone(), node, row }
    }

    /// Returns the node of the row; `None` for a user.
    pub(super) fn node<'a>(&self, context: RenderContext<'a>) -> Option<&'a Arc<Node>> {
        match self {
            Self::User { .. } => None,
            Self::Idle { node_index, .. }
            | Self::Node { node_index, .. }
            | Self::Process { node_index, .. } => context.view.fleet.nodes.get(*node_index),
        }
    }
}

#[derive(Debug)]
pub(super) struct UserRows {
    pub(super) list: Vec<UserRow>,
    /// Columns of the widest name, including the indent of nodes.
    pub(super) name_width: u16,
}

impl UserRows {
    /// Builds the rows: users sorted by `order`, with the nodes and processes of the user `unfolded`.
    pub(super) fn of(
        fleet_view: &FleetView,
        usage: &Arc<Users>,
        order: SortOrder,
        unfolded: Option<&User>,
    ) -> Self {
        let mut users: Vec<&(User, UserUsage)> = usage.entries.iter().collect();
        // `entries` is sorted by name and the sort is stable: ties stay in that order.
        if order.column != "user" {
            users.sort_by(|(_, one), (_, other)| one.compare(other, order.column));
        }
        if order.is_reversed {
            users.reverse();
        }
        let mut list = Vec::with_capacity(users.len());
        let mut name = 4;
        for (user, user_usage) in users {
            name = name.max(width_of(&user.text()));
            list.push(UserRow::User { user: user.clone() });
            if unfolded != Some(user) {
                continue;
            }
            list.extend(user_usage.idle.iter().enumerate().map(|(at, idle)| UserRow::Idle {
                user: user.clone(),
                at,
                node_index: idle.node_index,
                row_id: RowId::Device(Arc::clone(&idle.uuid)),
            }));
            for (index, node_usage) in user_usage.nodes.iter().enumerate() {
                let node = fleet_view.fleet.nodes.get(node_usage.node_index);
                name = name.max(node.map_or(0, |node| width_of(node.name.label()) + 2));
                list.push(UserRow::Node {
                    user: user.clone(),
                    node_usage: index,
                    node_index: node_usage.node_index,
                });
                list.extend(node_usage.uses.iter().map(|(use_index, row_id)| UserRow::Process {
                    user: user.clone(),
                    node_index: node_usage.node_index,
                    use_index: *use_index,
                    row_id: row_id.clone(),
                }));
            }
        }
        Self { list, name_width: name }
    }

    /// Returns the position of the node or else the user of a row that is gone.
    pub(super) fn replacement(
        &self,
        context: RenderContext<'_>,
        gone: &UserRowIdentity,
    ) -> Option<usize> {
        let node = UserRowIdentity { row: None, ..gone.clone() };
        let user = UserRowIdentity { node: None, ..node.clone() };
        [node, user]
            .iter()
            .find_map(|wanted| self.list.iter().position(|row| row.identity(context) == *wanted))
    }
}
