//! What a key or a reply does to a dialog.

use std::ops::ControlFlow;

use crate::action::Action;
use crate::request::UiRequest;

/// What a key does to a dialog: it closes, and an action is performed; or it stays open and makes a request.
pub(crate) type DialogStep = ControlFlow<Option<Action>, Option<UiRequest>>;

/// What a reply does to a dialog: it closes with a message; or it stays open and makes a request.
pub(crate) type ReplyStep = ControlFlow<String, Option<UiRequest>>;
