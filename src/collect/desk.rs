//! Where questions to nodes are left, and where the sessions fetch them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::collect::rest::Haste;
use crate::model::{NodeName, ProcessRequest, ProcessResponse, RequestError};

/// Most questions that wait at one node, asked and not asked yet.
pub(super) const MOST_OPEN: usize = 16;

/// A question and who wants to know.
#[derive(Debug)]
pub(super) struct Inquiry {
    pub(super) question: ProcessRequest,
    reply: oneshot::Sender<Result<ProcessResponse, RequestError>>,
}

impl Inquiry {
    /// Hands the answer over, if anybody still waits for it.
    pub(super) fn answer(self, answer: Result<ProcessResponse, RequestError>) {
        self.reply.send(answer).ok();
    }

    /// Whether nobody waits for an answer any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }
}

/// The questions of one node.
#[derive(Debug, Default)]
struct Counter {
    /// What the probe of the present session can answer; `None` without a session.
    verbs: Option<Vec<&'static str>>,
    waiting: Vec<Inquiry>,
    bell: Arc<Notify>,
}

/// All nodes' questions.
#[derive(Debug, Default)]
pub(super) struct Desk(Mutex<BTreeMap<NodeName, Counter>>);

impl Desk {
    fn counters(&self) -> MutexGuard<'_, BTreeMap<NodeName, Counter>> {
        // Nothing is done under the lock that could leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a counter for a node; its bell rings when there is something to ask.
    pub(super) fn open(&self, node: &NodeName) -> Arc<Notify> {
        Arc::clone(&self.counters().entry(node.clone()).or_default().bell)
    }

    /// Takes note of what a node's probe can answer, or that there is none.
    pub(super) fn set_verbs(&self, node: &NodeName, verbs: Option<Vec<&'static str>>) {
        let mut counters = self.counters();
        let Some(counter) = counters.get_mut(node) else { return };
        if verbs.is_none() {
            for inquiry in counter.waiting.drain(..) {
                inquiry.answer(Err(RequestError::Down));
            }
        }
        counter.verbs = verbs;
    }

    /// Takes what is to be asked of a node.
    pub(super) fn take(&self, node: &NodeName) -> Vec<Inquiry> {
        self.counters()
            .get_mut(node)
            .map(|counter| std::mem::take(&mut counter.waiting))
            .unwrap_or_default()
    }

    fn leave(
        &self,
        node: &NodeName,
        question: ProcessRequest,
    ) -> Result<oneshot::Receiver<Result<ProcessResponse, RequestError>>, RequestError> {
        let mut counters = self.counters();
        let counter = counters.get_mut(node).ok_or(RequestError::UnknownNode)?;
        let verbs = counter.verbs.as_ref().ok_or(RequestError::Down)?;
        if !verbs.contains(&question.command()) {
            return Err(RequestError::Unsupported);
        }
        counter.waiting.retain(|inquiry| !inquiry.is_given_up());
        if counter.waiting.len() >= MOST_OPEN {
            return Err(RequestError::QueueFull);
        }
        let (reply, answered) = oneshot::channel();
        counter.waiting.push(Inquiry { question, reply });
        counter.bell.notify_one();
        Ok(answered)
    }
}

/// Asks nodes. A clone is cheap, and any number of questions may be open, at one node up to sixteen.
#[derive(Clone, Debug)]
pub struct Asker {
    desk: Arc<Desk>,
    haste: Arc<Haste>,
    is_readonly: bool,
}

impl Asker {
    pub(super) fn new(desk: Arc<Desk>, haste: Arc<Haste>) -> Self {
        Self { desk, haste, is_readonly: false }
    }

    /// Returns an asker that sends no signals.
    #[must_use]
    pub fn readonly(self) -> Self {
        Self { is_readonly: true, ..self }
    }

    /// Has what was ordered told to the nodes at once.
    pub fn wake(&self) {
        self.haste.wake();
    }

    /// Asks a node, and waits for its answer for no longer than this.
    ///
    /// A node without a session, or whose probe cannot do it, says so at once. An answer that comes later
    /// than the deadline is thrown away; the question may have been obeyed all the same.
    pub async fn ask(
        &self,
        node: &NodeName,
        question: ProcessRequest,
        deadline: Duration,
    ) -> Result<ProcessResponse, RequestError> {
        if self.is_readonly && matches!(question, ProcessRequest::Signal(..)) {
            return Err(RequestError::ReadOnly);
        }
        let answered = self.desk.leave(node, question)?;
        let _hurry = self.haste.wait();
        match timeout(deadline, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_dropped)) => Err(RequestError::SessionLost),
            Err(_elapsed) => Err(RequestError::TimedOut(deadline)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ProcessKey, Refusal, Signal};

    const KEY: ProcessKey = ProcessKey { pid: 42, start_ticks: 99 };
    const TERM: ProcessRequest = ProcessRequest::Signal(KEY, Signal::Terminate);
    const SOON: Duration = Duration::from_secs(5);

    fn opened(verbs: Option<&[&'static str]>) -> (Arc<Desk>, Asker, NodeName) {
        let desk = Arc::new(Desk::default());
        let node = NodeName::new("gpu01").unwrap();
        desk.open(&node);
        desk.set_verbs(&node, verbs.map(<[_]>::to_vec));
        (Arc::clone(&desk), Asker::new(desk, Arc::default()), node)
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_asked_is_said_at_once() {
        let (_, asker, node) = opened(None);
        assert_eq!(asker.ask(&node, TERM, SOON).await, Err(RequestError::Down));
        let other = NodeName::new("gpu02").unwrap();
        assert_eq!(asker.ask(&other, TERM, SOON).await, Err(RequestError::UnknownNode));
        let (_, asker, node) = opened(Some(&["tree"]));
        assert_eq!(asker.ask(&node, TERM, SOON).await, Err(RequestError::Unsupported));
        let (_, asker, node) = opened(Some(&["signal"]));
        assert_eq!(asker.readonly().ask(&node, TERM, SOON).await, Err(RequestError::ReadOnly));
    }

    #[tokio::test(start_paused = true)]
    async fn questions_wait_for_the_session_up_to_a_bound() {
        let (desk, asker, node) = opened(Some(&["signal"]));
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..MOST_OPEN {
            let (asker, node) = (asker.clone(), node.clone());
            asking.spawn(async move { asker.ask(&node, TERM, SOON).await });
        }
        tokio::task::yield_now().await;
        assert_eq!(asker.ask(&node, TERM, SOON).await, Err(RequestError::QueueFull));
        let inquiries = desk.take(&node);
        assert_eq!(inquiries.len(), MOST_OPEN);
        let mut inquiries = inquiries.into_iter();
        inquiries.next().unwrap().answer(Ok(ProcessResponse::Sent));
        inquiries.next().unwrap().answer(Err(Refusal::Gone.into()));
        drop(inquiries);
        let mut sent = 0;
        let mut lost = 0;
        while let Some(answer) = asking.join_next().await {
            sent += u32::from(answer.as_ref().unwrap() == &Ok(ProcessResponse::Sent));
            lost += u32::from(answer.unwrap() == Err(RequestError::SessionLost));
        }
        assert_eq!((sent, lost), (1, 14));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gave_up_is_not_asked_for_and_a_lost_session_answers_those_that_wait() {
        let (desk, asker, node) = opened(Some(&["signal"]));
        let late = asker.ask(&node, TERM, SOON).await;
        assert_eq!(late, Err(RequestError::TimedOut(SOON)));
        assert!(desk.take(&node).iter().all(Inquiry::is_given_up));
        let asking = tokio::spawn({
            let node = node.clone();
            async move { asker.ask(&node, TERM, SOON).await }
        });
        tokio::task::yield_now().await;
        desk.set_verbs(&node, None);
        assert_eq!(asking.await.unwrap(), Err(RequestError::Down));
    }
}
