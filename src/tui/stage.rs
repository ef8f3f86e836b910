//! What the screen stands on between events: the picture, where one is, and what was asked for.

use std::time::Duration;

use crossterm::event::KeyEvent;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleet::Fleet;
use crate::model::{JobId, Link, NodeName};
use crate::time::Timestamp;
use crate::tui::keys::{self, Action};
use crate::tui::look::Look;
use crate::tui::paint::paint;
use crate::tui::{Ending, Request};
use crate::view::{self, Chosen, Navigation, Picture, Setting, Step, View};

/// For how long a message stays.
const MESSAGE: Duration = Duration::from_secs(4);

/// What a key leads to outside of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing; the screen may look different.
    Nothing,
    /// Something to be done by others.
    Ask(Request),
    /// The end.
    End(Ending),
    /// To be stopped until the shell goes on.
    Suspend,
    /// To draw everything anew.
    Redraw,
}

/// The state of the screen.
#[derive(Debug)]
pub struct Stage {
    look: Look,
    title: String,
    interval: Duration,
    zone: TimeZone,
    live: Picture,
    frozen: Option<Picture>,
    navigation: Navigation,
    /// The first line of the help page, while it is shown.
    help: Option<usize>,
    is_focusing: bool,
    message: Option<(String, Timestamp)>,
}

impl Stage {
    /// Begins with an empty fleet.
    pub fn new(title: String, interval: Duration, zone: TimeZone, look: Look) -> Self {
        Self {
            look,
            title,
            interval,
            zone,
            live: Picture::default(),
            frozen: None,
            navigation: Navigation::default(),
            help: None,
            is_focusing: false,
            message: None,
        }
    }

    /// Takes a new fleet, or the same one a second later.
    pub fn show(&mut self, fleet: Fleet, now: Timestamp) {
        if self.live.fleet.nodes.is_empty() && fleet.nodes.len() == 1 {
            // A list of one says less than the one.
            self.navigation.view = View::Node;
        }
        self.live = Picture::new(fleet, now);
        if self.message.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.message = None;
        }
    }

    /// Returns the node that is to sample faster.
    pub fn focus(&self) -> Option<NodeName> {
        let node = self.navigation.node(self.picture()).filter(|_| self.is_focusing)?;
        Some(node.name.clone())
    }

    /// Takes a key.
    pub fn press(&mut self, key: KeyEvent, now: Timestamp) -> Effect {
        let Some(action) = keys::action(key, self.navigation.view) else { return Effect::Nothing };
        if let Some(top) = self.help
            && self.turn_help(action, top)
        {
            return Effect::Nothing;
        }
        self.act(action, now)
    }

    /// Takes a key on the help page; says whether that was all it meant.
    fn turn_help(&mut self, action: Action, top: usize) -> bool {
        let turned = |step: Step| Some(step.from(top, keys::help(u16::MAX).len(), 10));
        self.help = match action {
            Action::Move(step) => turned(step),
            Action::PreviousJob => turned(Step::Up),
            Action::NextJob => turned(Step::Down),
            Action::Help | Action::Back | Action::Open | Action::Quit => None,
            Action::Interrupt
            | Action::Suspend
            | Action::Redraw
            | Action::Freeze
            | Action::Focus
            | Action::Refresh
            | Action::Show(_)
            | Action::NextView
            | Action::PreviousNode
            | Action::NextNode
            | Action::Processes => return false,
        };
        true
    }

    fn act(&mut self, action: Action, now: Timestamp) -> Effect {
        match action {
            Action::Quit => return Effect::End(Ending::Quit),
            Action::Interrupt => return Effect::End(Ending::Interrupted),
            Action::Suspend => return Effect::Suspend,
            Action::Redraw => return Effect::Redraw,
            Action::Refresh => return self.refresh(now),
            Action::Help => self.help = Some(0),
            Action::Freeze => {
                self.frozen = if self.frozen.is_some() { None } else { Some(self.live.clone()) };
            }
            Action::Focus => self.is_focusing = !self.is_focusing,
            Action::Show(view) if self.has(view) => self.navigation.view = view,
            Action::Show(_) => {
                let text = "no jobs are watched; start gtop with --slurm".to_owned();
                self.message = Some((text, now.plus(MESSAGE)));
            }
            Action::NextView => {
                self.navigation.view = match self.navigation.view {
                    View::Fleet if self.has(View::Job) => View::Job,
                    View::Fleet | View::Job => View::Node,
                    View::Node => View::Fleet,
                };
            }
            Action::Move(step) => self.step(step),
            Action::Open => self.open(),
            Action::Back => self.back(),
            Action::PreviousNode => self.step_node(Step::Up),
            Action::NextNode => self.step_node(Step::Down),
            Action::PreviousJob => self.step_job(Step::Up),
            Action::NextJob => self.step_job(Step::Down),
            Action::Processes => {
                self.navigation.shows_processes = !self.navigation.shows_processes;
            }
        }
        Effect::Nothing
    }

    /// Asks for everything, and says so: nothing else would show that the key did something.
    fn refresh(&mut self, now: Timestamp) -> Effect {
        let is_down = |link: &Link| matches!(link, Link::Down { .. });
        let down = self.live.fleet.nodes.iter().filter(|node| is_down(&node.link)).count();
        let text = match down {
            0 => "asking every node for everything".to_owned(),
            1 => "trying 1 node that is down".to_owned(),
            _ => format!("trying {down} nodes that are down"),
        };
        self.message = Some((text, now.plus(MESSAGE)));
        Effect::Ask(Request::Refresh)
    }

    fn step(&mut self, step: Step) {
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        match self.navigation.view {
            View::Fleet => self.navigation.step_node(picture, step),
            View::Job | View::Node => self.navigation.step_table(picture, step),
        }
    }

    fn step_node(&mut self, step: Step) {
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        if self.navigation.view == View::Job {
            self.navigation.step_job_node(picture, step);
        } else {
            self.navigation.step_node(picture, step);
        }
    }

    fn step_job(&mut self, step: Step) {
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        if self.navigation.is_in_table() {
            self.navigation.step_table(picture, step);
        } else {
            self.navigation.step_job(picture, step);
        }
    }

    /// Says whether there is such a view here.
    fn has(&self, view: View) -> bool {
        view != View::Job || self.picture().fleet.jobs.is_some()
    }

    /// Returns the job that is looked at.
    pub fn job(&self) -> Option<JobId> {
        let is_shown = self.navigation.view == View::Job;
        match self.navigation.job(self.picture()).filter(|_| is_shown)? {
            Chosen::Listed { job, .. } => Some(job.id.clone()),
            Chosen::Ended(_) => None,
        }
    }

    fn open(&mut self) {
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        match self.navigation.view {
            View::Fleet => self.navigation.view = View::Node,
            View::Job | View::Node => self.navigation.enter_table(picture),
        }
    }

    fn back(&mut self) {
        if !self.navigation.leave_table() {
            self.navigation.view = View::Fleet;
        }
    }

    fn picture(&self) -> &Picture {
        self.frozen.as_ref().unwrap_or(&self.live)
    }

    /// Draws the screen.
    pub fn draw(&mut self, now: Timestamp, buffer: &mut Buffer) {
        let area: Rect = buffer.area;
        let focus = self.focus();
        let hints = match self.help {
            Some(_) => keys::help_hints(),
            None => keys::hints(self.navigation.view),
        };
        let help = self.help.map(|top| {
            let page = keys::help(area.width);
            let top = top.min(page.len().saturating_sub(1));
            page.into_iter().skip(top).collect::<Vec<_>>()
        });
        let setting = Setting {
            title: &self.title,
            interval: self.interval,
            zone: &self.zone,
            frozen: self.frozen.as_ref().map(|picture| now.since(picture.now)),
            focus: focus.as_ref(),
            message: self.message.as_ref().map(|(text, _)| text.as_str()),
            hints: &hints,
            help: help.as_deref(),
        };
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        let lines = view::screen(picture, &mut self.navigation, &setting, area.width, area.height);
        paint(&lines, self.look, area, buffer);
    }
}
