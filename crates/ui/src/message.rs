//! The message of the last line: for how long it is shown, and which keys end it.

use std::time::Duration;

use crate::view::View;
use gtop_local::time::Timestamp;

/// How long a message is shown.
const MESSAGE_DURATION: Duration = Duration::from_secs(4);

/// The message on the screen, if there is one.
#[derive(Debug, Default)]
pub(crate) struct MessageLine(Option<ShownMessage>);

#[derive(Debug)]
pub(crate) struct ShownMessage {
    text: String,
    until: Timestamp,
    /// The view of the key that it answers; it ends with the next key. `None` if it answers none.
    view: Option<View>,
}

impl MessageLine {
    pub(crate) fn show(&mut self, text: impl Into<String>, now: Timestamp) {
        self.show_for(text, MESSAGE_DURATION, now);
    }

    pub(crate) fn show_for(&mut self, text: impl Into<String>, duration: Duration, now: Timestamp) {
        self.0 = Some(ShownMessage { text: text.into(), until: now.plus(duration), view: None });
    }

    /// Shows a message that answers a key of this view, and means nothing in another one or after the next key.
    pub(crate) fn answer(&mut self, text: impl Into<String>, view: View, now: Timestamp) {
        let until = now.plus(MESSAGE_DURATION);
        self.0 = Some(ShownMessage { text: text.into(), until, view: Some(view) });
    }

    /// Removes the answer to the last key.
    pub(crate) fn take_answer(&mut self) -> Option<ShownMessage> {
        self.0.take_if(|message| message.view.is_some())
    }

    /// Shows an answer again unless there is a newer message.
    pub(crate) fn restore(&mut self, answer: Option<ShownMessage>) {
        self.0 = self.0.take().or(answer);
    }

    /// Keeps the message after the next key.
    pub(crate) fn keep(&mut self) {
        if let Some(message) = &mut self.0 {
            message.view = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Ends a message whose time is over, and an answer to a key of another view.
    pub(crate) fn expire(&mut self, view: View, now: Timestamp) {
        self.0.take_if(|message| {
            message.until <= now || message.view.is_some_and(|answered| answered != view)
        });
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.0.as_ref().map(|message| message.text.as_str())
    }
}
