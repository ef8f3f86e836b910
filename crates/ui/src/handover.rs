//! When a task takes the terminal: never while something is typed on the screen, because the rest would answer its prompt.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gtop_local::time::Timestamp;

/// Work that needs the terminal for itself, such as a password prompt. It runs on a thread that may block, and must
/// return soon after the flag it is given turns true.
pub type SuspendedTask = Box<dyn FnOnce(&AtomicBool) + Send>;

/// A task takes the terminal this long after the last input.
const QUIET_TIME: Duration = Duration::from_secs(1);

/// The task that waits for the terminal, and what it waits for.
#[derive(Default)]
pub(super) struct Handover {
    task: Option<SuspendedTask>,
    /// The last input; `None` if that asked for a login, whose prompt is then expected.
    typed_at: Option<Timestamp>,
    /// When the terminal was queried and has not replied; its reply is input too.
    pub(super) queried_at: Option<Timestamp>,
}

impl Handover {
    /// Returns true if no task waits.
    pub(super) const fn is_free(&self) -> bool {
        self.task.is_none()
    }

    pub(super) fn set_task(&mut self, task: SuspendedTask) {
        self.task = Some(task);
    }

    pub(super) const fn on_input(&mut self, now: Timestamp, asks_for_login: bool) {
        self.typed_at = if asks_for_login { None } else { Some(now) };
    }

    /// Returns how long the waiting task waits for the end of input; `None` if it does not.
    pub(super) fn delay(&self, now: Timestamp) -> Option<Duration> {
        let last = self.typed_at.max(self.queried_at).filter(|_| !self.is_free())?;
        let rest = QUIET_TIME.saturating_sub(now.since(last));
        (!rest.is_zero()).then_some(rest)
    }

    /// Takes the task that may have the terminal now.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<SuspendedTask> {
        if self.delay(now).is_some() { None } else { self.task.take() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000).plus(Duration::from_millis(millis))
    }

    fn with_task() -> Handover {
        let mut handover = Handover::default();
        handover.set_task(Box::new(|_is_over| ()));
        handover
    }

    #[test]
    fn a_task_takes_the_terminal_at_once_where_nothing_is_typed() {
        let mut handover = with_task();
        assert_eq!(handover.delay(at(0)), None);
        assert!(handover.take_due(at(0)).is_some());
        assert!(handover.is_free() && handover.take_due(at(0)).is_none());
    }

    #[test]
    fn a_task_waits_for_the_end_of_typing() {
        let mut handover = with_task();
        handover.on_input(at(0), false);
        assert_eq!(handover.delay(at(300)), Some(Duration::from_millis(700)));
        assert!(handover.take_due(at(300)).is_none());
        handover.on_input(at(900), false);
        assert!(handover.take_due(at(1000)).is_none());
        assert!(handover.take_due(at(1900)).is_some());
        // Without a task, nothing is waited for.
        assert_eq!(handover.delay(at(1900)), None);
    }

    #[test]
    fn a_task_that_a_key_asks_for_does_not_wait_for_more_keys() {
        let mut handover = with_task();
        handover.on_input(at(0), false);
        handover.on_input(at(10), true);
        assert!(handover.take_due(at(10)).is_some());
    }

    #[test]
    fn a_task_waits_for_the_reply_of_the_terminal() {
        let mut handover = with_task();
        handover.queried_at = Some(at(0));
        assert_eq!(handover.delay(at(20)), Some(Duration::from_millis(980)));
        handover.queried_at = None;
        assert!(handover.take_due(at(20)).is_some());
        let mut unanswered = with_task();
        unanswered.queried_at = Some(at(0));
        assert!(unanswered.take_due(at(1000)).is_some());
    }
}
