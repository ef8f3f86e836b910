//! The theme, adapted to the background of the terminal.

use crate::theme::Theme;

/// The theme, and what is known of the terminal's background.
#[derive(Debug)]
pub(crate) struct Appearance {
    pub(crate) theme: Theme,
    /// The theme follows the background.
    pub(crate) detects_background: bool,
    /// True if the terminal reports a light background; `None` if it has not reported one.
    is_light: Option<bool>,
}

impl Appearance {
    pub(crate) const fn new(theme: Theme) -> Self {
        Self { theme, detects_background: false, is_light: None }
    }

    pub(crate) fn configure(&mut self, theme: Theme, detects_background: bool) {
        (self.theme, self.detects_background) = (theme, detects_background);
        self.adapt();
    }

    pub(crate) fn on_background(&mut self, is_light: bool) {
        self.is_light = Some(is_light);
        self.adapt();
    }

    fn adapt(&mut self) {
        if let Some(is_light) = self.is_light.filter(|_| self.detects_background) {
            self.theme = self.theme.for_background(Some(is_light));
        }
    }
}
