//! Effects: what an action of a view asks of the screen, and what the screen asks of the event loop.

use crate::clipboard::Clip;
use crate::dialog::Dialog;
use crate::dialog::signal::SignalDialog;
use crate::process_target::SignalTargets;
use crate::render_context::RenderContext;
use crate::request::{NodeRequest, UiRequest};
use crate::signals::StopReason;
use crate::view::View;
use gtop_fleet::insight::RowId;
use gtop_model::{NodeName, RequestError, Signal};

/// What an action of a view asks of the screen, which performs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Effect {
    /// The action was handled; the screen needs a redraw.
    #[default]
    Handled,
    /// Nothing handles the action.
    Ignored,
    /// Shows this message once.
    Message(String),
    /// Switches to another view.
    SwitchView(View),
    /// Opens the node view at this node, with the cursor on this row of its tables.
    OpenNode(NodeName, Option<RowId>),
    /// Opens a dialog.
    OpenDialog(Dialog),
    /// Copies a text.
    Copy(Clip),
    /// Passes a request on; the replies of nodes go to the view or dialog that asked.
    Request(UiRequest),
}

/// What a key or a click asks of the event loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopEffect {
    /// The screen has handled it, and needs a redraw.
    Handled,
    /// Nothing handles it.
    Ignored,
    /// Passes a request to other tasks.
    Request(UiRequest),
    /// Copies a text to the clipboard of the terminal.
    Copy(Clip),
    /// Quits.
    Exit(StopReason),
    /// Suspends until the shell resumes gtop, as after Ctrl-Z.
    Suspend,
    /// Clears the terminal and draws everything again.
    Redraw,
}

impl Effect {
    /// Reads processes of a node.
    pub(crate) fn query(request: NodeRequest) -> Self {
        Self::Request(UiRequest::QueryNodes(vec![request]))
    }

    /// Opens the signal dialog for these processes, or shows why there are none.
    pub(crate) fn signal(
        context: RenderContext<'_>,
        signal: Option<Signal>,
        targets: Result<impl Into<SignalTargets>, String>,
    ) -> Self {
        if context.options.is_readonly {
            return Self::Message(RequestError::ReadOnly.to_string());
        }
        match targets {
            Ok(targets) => {
                let dialog = SignalDialog::new(signal, targets.into());
                Self::OpenDialog(Dialog::Signal(Box::new(dialog)))
            }
            Err(reason) => Self::Message(reason),
        }
    }
}

impl LoopEffect {
    /// Passes the request on, if there is one.
    pub(crate) fn of_request(request: Option<UiRequest>) -> Self {
        request.map_or(Self::Handled, Self::Request)
    }
}
