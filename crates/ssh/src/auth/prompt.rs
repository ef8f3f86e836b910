//! Keyboard-interactive prompts on their way to the user, and the answers on their way back.
//!
//! Logins push requests into a queue; the owner of the terminal takes them one at a time and sends the answers
//! back. Text from a node is bounded and stripped of control characters before it gets in here; answers are wiped
//! when dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use zeroize::Zeroizing;

use gtop_local::fault::ssh::{Fault, UnansweredReason};

/// Capacity of the queue; further logins wait to push.
const QUEUE_SIZE: usize = 16;

/// An answer or a passphrase. Wiped when dropped, never printed.
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

impl From<Zeroizing<String>> for Secret {
    fn from(text: Zeroizing<String>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// One prompt of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text, on one line.
    pub text: String,
    /// The answer may be echoed.
    pub is_echoed: bool,
}

/// One information request (RFC 4256) of a node.
#[derive(Debug)]
pub struct PromptRequest {
    /// `user@node`.
    pub login: String,
    /// The instruction above the prompts, by line; often empty.
    pub instruction: Vec<String>,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    reply: oneshot::Sender<Vec<Secret>>,
}

impl PromptRequest {
    /// Returns true if the login still waits for the answer.
    pub fn is_pending(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Sends the answers, one per prompt. Dropping the request instead skips it.
    pub fn answer(self, answers: Vec<Secret>) {
        // The login may have given up meanwhile.
        self.reply.send(answers).ok();
    }
}

/// The queue of requests. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PromptQueue {
    state: watch::Sender<State>,
    queue: mpsc::Sender<PromptRequest>,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    /// Nodes whose first login has ended, with whatever result.
    finished: BTreeSet<String>,
    /// Those of them that need a password.
    need_password: BTreeSet<String>,
    /// Logins that are being prompted now.
    prompting: usize,
}

impl PromptQueue {
    /// Returns a closed queue and its receiving end.
    pub fn new() -> (Self, mpsc::Receiver<PromptRequest>) {
        let (queue, requests) = mpsc::channel(QUEUE_SIZE);
        (Self { state: watch::Sender::default(), queue }, requests)
    }

    /// Opens or closes the queue; requests that wait when it closes fail.
    pub fn set_open(&self, is_open: bool) {
        self.state.send_modify(|state| state.is_open = is_open);
    }

    /// Returns true if the queue is open.
    pub fn is_open(&self) -> bool {
        self.state.borrow().is_open
    }

    /// Waits until `nodes` nodes have logged in or failed, or until `timeout` has passed and no login is being
    /// prompted.
    pub async fn wait_for_logins(&self, nodes: usize, timeout: Duration) {
        let mut state = self.state.subscribe();
        let mut all = state.clone();
        let all_finished = all.wait_for(|state| state.finished.len() >= nodes);
        let timed_out = async {
            tokio::time::sleep(timeout).await;
            // An error means that no login is left.
            drop(state.wait_for(|state| state.prompting == 0).await);
        };
        tokio::select! {
            _finished = all_finished => {}
            () = timed_out => {}
        }
    }

    /// Returns the nodes whose first login has ended for want of a password.
    pub fn password_nodes(&self) -> BTreeSet<String> {
        self.state.borrow().need_password.clone()
    }

    /// Marks the first login of a node as ended when the result is dropped.
    pub(crate) fn track_login(&self, node: String) -> LoginGuard {
        LoginGuard { prompt_queue: self.clone(), node }
    }

    /// Marks a login as being prompted until the result is dropped.
    pub(crate) fn start_prompting(&self) -> PromptingGuard {
        self.state.send_modify(|state| state.prompting += 1);
        PromptingGuard(self.clone())
    }

    /// Asks, and waits for the user without a timeout.
    pub(crate) async fn ask(
        &self,
        login: String,
        instruction: Vec<String>,
        prompts: Vec<Prompt>,
    ) -> Result<Vec<Secret>, UnansweredReason> {
        if !self.is_open() {
            return Err(UnansweredReason::PromptsClosed);
        }
        let mut state = self.state.subscribe();
        let prompt_count = prompts.len();
        let answers_in = async {
            let (reply, answered) = oneshot::channel();
            let request = PromptRequest { login, instruction, prompts, reply };
            self.queue.send(request).await.map_err(|_ended| UnansweredReason::PromptsClosed)?;
            let answers = answered.await.map_err(|_dropped| UnansweredReason::Skipped)?;
            if answers.len() == prompt_count { Ok(answers) } else { Err(UnansweredReason::Skipped) }
        };
        tokio::select! {
            biased;
            answers = answers_in => answers,
            _shut = state.wait_for(|state| !state.is_open) => Err(UnansweredReason::PromptsClosed),
        }
    }
}

/// A login in progress.
#[derive(Debug)]
pub(crate) struct LoginGuard {
    prompt_queue: PromptQueue,
    node: String,
}

impl LoginGuard {
    /// Notes why the login ends.
    pub(crate) fn note(&self, fault: &Fault) {
        if fault.needs_password() {
            self.prompt_queue.state.send_if_modified(|state| {
                !state.finished.contains(&self.node)
                    && state.need_password.insert(self.node.clone())
            });
        }
    }
}

impl Drop for LoginGuard {
    fn drop(&mut self) {
        let node = std::mem::take(&mut self.node);
        self.prompt_queue.state.send_if_modified(|state| state.finished.insert(node));
    }
}

/// A login that is being prompted.
#[derive(Debug)]
pub(crate) struct PromptingGuard(PromptQueue);

impl Drop for PromptingGuard {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.prompting = state.prompting.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts() -> Vec<Prompt> {
        vec![Prompt { text: "Code:".to_owned(), is_echoed: false }]
    }

    async fn ask(prompt_queue: &PromptQueue) -> Result<Vec<Secret>, UnansweredReason> {
        prompt_queue.ask("ada@gpu01".to_owned(), Vec::new(), prompts()).await
    }

    #[tokio::test]
    async fn an_answer_reaches_its_login_and_an_incomplete_one_counts_as_skipped() {
        let (prompt_queue, mut requests) = PromptQueue::new();
        prompt_queue.set_open(true);
        let answering = async {
            requests.recv().await.unwrap().answer(vec![Secret::from("123".to_owned())]);
            drop(requests.recv().await.unwrap());
            requests.recv().await.unwrap().answer(Vec::new());
        };
        let answers_in = async {
            assert_eq!(ask(&prompt_queue).await.unwrap()[0].expose(), "123");
            assert_eq!(ask(&prompt_queue).await.unwrap_err(), UnansweredReason::Skipped);
            assert_eq!(
                ask(&prompt_queue).await.unwrap_err(),
                UnansweredReason::Skipped,
                "one a prompt"
            );
        };
        tokio::join!(answering, answers_in);
    }

    #[tokio::test]
    async fn pending_prompts_fail_when_the_queue_closes() {
        let (prompt_queue, mut requests) = PromptQueue::new();
        assert_eq!(ask(&prompt_queue).await.unwrap_err(), UnansweredReason::PromptsClosed);
        prompt_queue.set_open(true);
        let ending = async {
            let request = requests.recv().await.unwrap();
            assert!(request.is_pending());
            prompt_queue.set_open(false);
            tokio::task::yield_now().await;
            request
        };
        let (request, answer) = tokio::join!(ending, ask(&prompt_queue));
        assert_eq!(answer.unwrap_err(), UnansweredReason::PromptsClosed);
        assert!(!request.is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_early_when_every_login_has_ended() {
        let (prompt_queue, _questions) = PromptQueue::new();
        let began = tokio::time::Instant::now();
        let guards: Vec<_> = ["gpu01", "gpu02"]
            .map(|name| prompt_queue.track_login(name.to_owned()))
            .into_iter()
            .collect();
        drop(prompt_queue.track_login("gpu01".to_owned()));
        let both = prompt_queue.wait_for_logins(2, Duration::from_secs(1));
        tokio::join!(both, async { drop(guards) });
        assert_eq!(began.elapsed(), Duration::ZERO);
        prompt_queue.wait_for_logins(3, Duration::from_secs(1)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        let prompting = prompt_queue.start_prompting();
        let later = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(prompting);
        };
        tokio::join!(later, prompt_queue.wait_for_logins(3, Duration::from_secs(1)));
        assert_eq!(began.elapsed(), Duration::from_secs(6));
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::from("sesame".to_owned())), "Secret");
    }
}
