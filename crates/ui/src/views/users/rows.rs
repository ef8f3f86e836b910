//! Builds the rows of the users table: sorted users, with the idle devices, nodes and processes of the unfolded one.

use std::sync::Arc;

use crate::render_context::RenderContext;
use gtop_fleet::insight::users::{UserUsage, Users};
use gtop_fleet::insight::{FleetView, RowId};
use gtop_fleet::query::SortOrder;
use gtop_fleet::{Node, User};
use gtop_local::text::width_of;
use gtop_model::NodeName;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct UserRow {
    pub(super) user: User,
    pub(super) kind: UserRowKind,
    /// The index of its node in the fleet; `None` for the sums of the user.
    node_index: Option<usize>,
    /// The process or the idle device.
    pub(super) row_id: Option<RowId>,
}

/// Identifies a row independently of its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserRowIdentity {
    pub(super) user: User,
    pub(super) node: Option<NodeName>,
    /// A process, or an idle device.
    pub(super) row: Option<RowId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserRowKind {
    /// A user's sums.
    User,
    /// An idle device of the user: its index in `UserUsage::idle`.
    Idle(usize),
    /// A node of the user: its index in `UserUsage::nodes`.
    Node(usize),
    /// A process of the user: the index of its use among the node's uses.
    Process(usize),
}

impl UserRow {
    /// Returns the row's identity, which stays the same when rows are reordered.
    pub(super) fn identity(&self, context: RenderContext<'_>) -> UserRowIdentity {
        let node = self.node(context).map(|node| node.name.clone());
        UserRowIdentity { user: self.user.clone(), node, row: self.row_id.clone() }
    }

    /// Returns the node of the row; `None` for the sums of a user.
    pub(super) fn node<'a>(&self, context: RenderContext<'a>) -> Option<&'a Arc<Node>> {
        context.view.fleet.nodes.get(self.node_index?)
    }
}

#[derive(Debug, Default)]
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
            let row =
                |kind, node_index, row_id| UserRow { user: user.clone(), kind, node_index, row_id };
            list.push(row(UserRowKind::User, None, None));
            if unfolded != Some(user) {
                continue;
            }
            for (at, idle) in user_usage.idle.iter().enumerate() {
                let row_id = RowId::Device(Arc::clone(&idle.uuid));
                list.push(row(UserRowKind::Idle(at), Some(idle.node_index), Some(row_id)));
            }
            for (index, node_usage) in user_usage.nodes.iter().enumerate() {
                let node_index = node_usage.node_index;
                let node = fleet_view.fleet.nodes.get(node_index);
                name = name.max(node.map_or(0, |node| width_of(node.name.label()) + 2));
                list.push(row(UserRowKind::Node(index), Some(node_index), None));
                list.extend(node_usage.uses.iter().map(|(use_index, row_id)| {
                    row(UserRowKind::Process(*use_index), Some(node_index), Some(row_id.clone()))
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
