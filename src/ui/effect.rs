//! Effects: what a view wants done after an action.

use crate::insight::RowId;
use crate::model::{NodeName, RequestError, Signal};
use crate::ui::RenderContext;
use crate::ui::View;
use crate::ui::action::NodeRequest;
use crate::ui::dialog::Dialog;
use crate::ui::dialog::signal::SignalDialog;
use crate::ui::process_target::ProcessTarget;

/// The effect of an action on the rest of the UI.
#[derive(Debug, Default)]
pub(crate) enum Effect {
    /// The action was handled; the screen needs a redraw.
    #[default]
    Handled,
    /// The view does not handle the action.
    Ignored,
    /// Shows this message once.
    Message(String),
    /// Switches to another view.
    SwitchView(View),
    /// Opens the node view at this node, with the cursor on this row of its tables.
    OpenNode(NodeName, Option<RowId>),
    /// Opens a dialog.
    OpenDialog(Dialog),
    /// Sends requests to nodes; the replies go to the view or dialog that sent them.
    RequestNodes(Vec<NodeRequest>),
}

impl Effect {
    /// Opens the signal dialog for these processes, or tells why there are none.
    pub(crate) fn signal(
        context: RenderContext<'_>,
        signal: Option<Signal>,
        targets: Result<Vec<ProcessTarget>, String>,
    ) -> Self {
        if context.options.is_readonly {
            return Self::Message(RequestError::ReadOnly.to_string());
        }
        match targets {
            Ok(targets) => {
                Self::OpenDialog(Dialog::Signal(Box::new(SignalDialog::new(signal, targets))))
            }
            Err(reason) => Self::Message(reason),
        }
    }
}
