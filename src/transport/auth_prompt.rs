//! What a node wants to know of a person before it lets them in, and the way of the answer.
//!
//! Logins put questions into a queue; whoever owns the terminal takes them out, one at a time, and
//! sends the answers back. It knows no terminal. Everything a node said is bounded and freed of
//! control characters before it gets in here; answers are wiped when they are dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use zeroize::Zeroizing;

use crate::model::NodeName;

/// How many questions may wait in the queue. More wait outside of it.
const QUEUE_SIZE: usize = 16;

/// Something nobody else may read: an answer, or a passphrase.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// One line a node asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What it says, on one line.
    pub text: String,
    /// Whether the answer may be seen on the screen.
    pub is_shown: bool,
}

/// What one node asks at once.
#[derive(Debug)]
pub struct PromptRequest {
    /// Who asks: `user@node`.
    pub who: String,
    /// What the node says before its prompts, line by line; often nothing.
    pub instruction: Vec<String>,
    /// What it wants to know.
    pub prompts: Vec<Prompt>,
    reply: oneshot::Sender<Vec<Secret>>,
}

impl PromptRequest {
    /// Returns whether anybody still waits for the answer.
    pub fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Answers, one text a prompt. A question that is dropped instead is skipped.
    pub fn answer(self, answers: Vec<Secret>) {
        // Who no longer waits has been told why.
        self.reply.send(answers).ok();
    }
}

/// Where logins put their questions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PromptQueue {
    state: watch::Sender<State>,
    queue: mpsc::Sender<PromptRequest>,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    /// Nodes whose first login is over, whatever came of it.
    settled: BTreeSet<NodeName>,
    /// Logins that are in the middle of being asked.
    busy: usize,
}

/// Why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptError {
    /// Nobody takes questions at the moment.
    Closed,
    /// The person does not want to answer.
    Skipped,
}

impl PromptQueue {
    /// Makes an interview that takes no questions yet, and the end where they come out.
    pub fn new() -> (Self, mpsc::Receiver<PromptRequest>) {
        let (queue, questions) = mpsc::channel(QUEUE_SIZE);
        (Self { state: watch::Sender::default(), queue }, questions)
    }

    /// Begins or ends taking questions; at the end those that wait stay without an answer.
    pub fn set_open(&self, is_open: bool) {
        self.state.send_modify(|state| state.is_open = is_open);
    }

    /// Returns whether questions are taken.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open
    }

    /// Waits until so many nodes have logged in or failed to, or until `patience` has passed and
    /// no login is in the middle of being asked.
    pub async fn quiet(&self, nodes: usize, patience: Duration) {
        let mut state = self.state.subscribe();
        let mut all = state.clone();
        let everybody = all.wait_for(|state| state.settled.len() >= nodes);
        let late = async {
            tokio::time::sleep(patience).await;
            // An error would mean that nobody can ask any more.
            drop(state.wait_for(|state| state.busy == 0).await);
        };
        tokio::select! {
            _everybody = everybody => {}
            () = late => {}
        }
    }

    /// Notes, when the result is dropped, that the first login of a node is over.
    pub(super) fn track_login(&self, node: NodeName) -> LoginGuard {
        LoginGuard { interview: self.clone(), node: Some(node) }
    }

    /// Notes that a login is in the middle of being asked, until the result is dropped.
    pub(super) fn busy(&self) -> PromptingGuard {
        self.state.send_modify(|state| state.busy += 1);
        PromptingGuard(self.clone())
    }

    /// Asks, and waits as long as the person takes.
    pub(super) async fn ask(
        &self,
        who: String,
        instruction: Vec<String>,
        prompts: Vec<Prompt>,
    ) -> Result<Vec<Secret>, PromptError> {
        if !self.is_open() {
            return Err(PromptError::Closed);
        }
        let mut state = self.state.subscribe();
        let wanted = prompts.len();
        let asking = async {
            let (reply, answered) = oneshot::channel();
            let query = PromptRequest { who, instruction, prompts, reply };
            self.queue.send(query).await.map_err(|_ended| PromptError::Closed)?;
            let answers = answered.await.map_err(|_dropped| PromptError::Skipped)?;
            if answers.len() == wanted { Ok(answers) } else { Err(PromptError::Skipped) }
        };
        tokio::select! {
            biased;
            answers = asking => answers,
            _shut = state.wait_for(|state| !state.is_open) => Err(PromptError::Closed),
        }
    }
}

/// A login that is not over yet.
#[derive(Debug)]
pub(super) struct LoginGuard {
    interview: PromptQueue,
    node: Option<NodeName>,
}

impl Drop for LoginGuard {
    fn drop(&mut self) {
        let Some(node) = self.node.take() else { return };
        self.interview.state.send_if_modified(|state| state.settled.insert(node));
    }
}

/// A login in the middle of being asked.
#[derive(Debug)]
pub(super) struct PromptingGuard(PromptQueue);

impl Drop for PromptingGuard {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.busy = state.busy.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts() -> Vec<Prompt> {
        vec![Prompt { text: "Code:".to_owned(), is_shown: false }]
    }

    async fn ask(interview: &PromptQueue) -> Result<Vec<Secret>, PromptError> {
        interview.ask("ada@gpu01".to_owned(), Vec::new(), prompts()).await
    }

    #[tokio::test]
    async fn an_answer_goes_to_who_asked_and_silence_is_no_answer() {
        let (interview, mut questions) = PromptQueue::new();
        interview.set_open(true);
        let answering = async {
            questions.recv().await.unwrap().answer(vec![Secret::from("123".to_owned())]);
            drop(questions.recv().await.unwrap());
            questions.recv().await.unwrap().answer(Vec::new());
        };
        let asking = async {
            assert_eq!(ask(&interview).await.unwrap()[0].expose(), "123");
            assert_eq!(ask(&interview).await.unwrap_err(), PromptError::Skipped);
            assert_eq!(ask(&interview).await.unwrap_err(), PromptError::Skipped, "one a prompt");
        };
        tokio::join!(answering, asking);
    }

    #[tokio::test]
    async fn questions_that_wait_when_the_interview_ends_are_let_go() {
        let (interview, mut questions) = PromptQueue::new();
        assert_eq!(ask(&interview).await.unwrap_err(), PromptError::Closed);
        interview.set_open(true);
        let ending = async {
            let query = questions.recv().await.unwrap();
            assert!(query.is_wanted());
            interview.set_open(false);
            tokio::task::yield_now().await;
            query
        };
        let (query, answer) = tokio::join!(ending, ask(&interview));
        assert_eq!(answer.unwrap_err(), PromptError::Closed);
        assert!(!query.is_wanted());
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_early_when_every_node_is_past_its_login() {
        let (interview, _questions) = PromptQueue::new();
        let began = tokio::time::Instant::now();
        let doors: Vec<_> = ["gpu01", "gpu02"]
            .map(|name| interview.track_login(NodeName::new(name).unwrap()))
            .into_iter()
            .collect();
        drop(interview.track_login(NodeName::new("gpu01").unwrap()));
        let both = interview.quiet(2, Duration::from_secs(1));
        tokio::join!(both, async { drop(doors) });
        assert_eq!(began.elapsed(), Duration::ZERO);
        interview.quiet(3, Duration::from_secs(1)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        let busy = interview.busy();
        let later = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(busy);
        };
        tokio::join!(later, interview.quiet(3, Duration::from_secs(1)));
        assert_eq!(began.elapsed(), Duration::from_secs(6));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::from("sesame".to_owned())), "Secret");
    }
}
