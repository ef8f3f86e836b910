//! Answers the questions of ssh programs: gtop itself is their `SSH_ASKPASS`, and passes each question on to the gtop that
//! started them.
//!
//! The channel is a socket without a file, whose ends must belong to this user. Answers pass through it and the pipe
//! to ssh only, and are wiped.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Signal, geteuid, getppid, kill_process, set_parent_process_death_signal};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::auth::prompt::Secret;
use gtop_local::text;

/// The variable that makes gtop the `SSH_ASKPASS` of ssh: it holds the name of the socket.
pub const ASKPASS_VARIABLE: &str = "GTOP_ASKPASS";

/// Maximum length of a question.
const MAX_QUESTION_BYTES: usize = 16 * 1024;

/// Maximum length of an answer, with the byte before it.
const MAX_ANSWER_BYTES: usize = 1025;

/// Most lines shown of a question.
const MAX_LINES: usize = 24;

/// Most characters shown of a line of it.
const MAX_LINE_CHARS: usize = 300;

/// Timeout for a question to arrive once ssh has started to ask it.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Precedes an answer: without it there is none.
const ANSWERED: u8 = b'+';

/// Takes the questions of ssh programs.
#[derive(Debug)]
pub struct AskpassServer {
    name: String,
    program: OsString,
    questions: mpsc::Receiver<SshQuestion>,
    /// Accepts connections; ends with the server.
    _accepting: JoinSet<()>,
}

/// A question of an ssh program. Dropping it ends that program, which would send an empty answer instead.
#[derive(Debug)]
pub struct SshQuestion {
    /// What it expects.
    pub kind: QuestionKind,
    /// Its text, bounded and without control characters, by line.
    pub lines: Vec<String>,
    stream: UnixStream,
}

/// What a question expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// A password, a code or a passphrase.
    Secret,
    /// Yes or no, or a fingerprint, about a host key.
    HostKey,
    /// Yes or no.
    Confirmation,
    /// Nothing: it is a message, such as to touch a security key.
    Message,
}

impl AskpassServer {
    /// Starts to take questions; `program` is this gtop.
    pub fn start(program: OsString) -> io::Result<Self> {
        let mut number = [0; 16];
        getrandom(&mut number, GetRandomFlags::empty())?;
        let name = format!("gtop-askpass-{:032x}", u128::from_ne_bytes(number));
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let (sender, questions) = mpsc::channel(1);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // What is no question is dropped.
                if let Ok(Some(question)) = timeout(QUESTION_TIMEOUT, read_question(stream)).await
                    && sender.send(question).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { name, program, questions, _accepting: accepting })
    }

    /// Returns the variables that make ssh ask here, also versions before 8.4, which ask so only where there is a
    /// `DISPLAY` and no terminal.
    pub(crate) fn env(&self) -> Vec<(&'static str, OsString)> {
        let mut env = vec![
            ("SSH_ASKPASS", self.program.clone()),
            ("SSH_ASKPASS_REQUIRE", "force".into()),
            (ASKPASS_VARIABLE, self.name.clone().into()),
        ];
        if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
            env.push(("DISPLAY", "none:0".into()));
        }
        env
    }

    /// Drops questions of programs that have ended.
    pub fn discard(&mut self) {
        while self.questions.try_recv().is_ok() {}
    }

    /// Waits for the next question. Cancel-safe.
    pub async fn next(&mut self) -> SshQuestion {
        match self.questions.recv().await {
            Some(question) => question,
            None => std::future::pending().await,
        }
    }
}

/// Reads a question: its hint, a line break, its text.
async fn read_question(mut stream: UnixStream) -> Option<SshQuestion> {
    if stream.peer_cred().ok()?.uid() != geteuid().as_raw() {
        return None;
    }
    let mut bytes = Vec::new();
    (&mut stream).take(MAX_QUESTION_BYTES as u64).read_to_end(&mut bytes).await.ok()?;
    let question = String::from_utf8_lossy(&bytes);
    let (hint, text) = question.split_once('\n')?;
    let lines = text.lines().take(MAX_LINES).map(|line| text::excerpt(line, MAX_LINE_CHARS));
    Some(SshQuestion { kind: kind_of(hint, text), lines: lines.collect(), stream })
}

/// Returns what a question expects. ssh gives a hint for some. Those about host keys begin with words of its own; from
/// OpenSSH 8.6 on, prompts of nodes begin with the login.
fn kind_of(hint: &str, text: &str) -> QuestionKind {
    let is_about_host_key = text.starts_with("The authenticity of host ")
        || text.starts_with("Please type 'yes'")
        || text.starts_with("Accept updated hostkeys?");
    match hint {
        "none" => QuestionKind::Message,
        "confirm" => QuestionKind::Confirmation,
        _ if is_about_host_key => QuestionKind::HostKey,
        _ => QuestionKind::Secret,
    }
}

impl SshQuestion {
    /// Passes the answer to ssh.
    pub async fn answer(mut self, answer: &Secret) {
        let mut bytes = Zeroizing::new(Vec::with_capacity(answer.expose().len() + 1));
        bytes.push(ANSWERED);
        bytes.extend_from_slice(answer.expose().as_bytes());
        // ssh may have ended meanwhile.
        self.stream.write_all(&bytes).await.ok();
    }
}

/// Runs gtop as `SSH_ASKPASS`: passes the question to the gtop that listens at `socket`, and prints its answer.
///
/// Without an answer it ends ssh, which would otherwise send an empty one, and the node would count it.
///
/// # Errors
///
/// If there is no answer.
pub fn run_askpass_helper(
    socket: &OsStr,
    question: Option<OsString>,
    out: &mut impl io::Write,
) -> io::Result<()> {
    // If it fails, the helper ends with the gtop that it asks.
    set_parent_process_death_signal(Some(Signal::TERM)).ok();
    let hint = std::env::var("SSH_ASKPASS_PROMPT").unwrap_or_default();
    let answer = ask(socket, &hint, question.unwrap_or_default().as_bytes());
    if let Ok(Some(answer)) = &answer {
        out.write_all(answer)?;
        out.write_all(b"\n")?;
        return out.flush();
    }
    if let Some(ssh) = getppid().filter(|parent| !parent.is_init()) {
        kill_process(ssh, Signal::TERM).ok();
    }
    Err(answer.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
}

fn ask(socket: &OsStr, hint: &str, question: &[u8]) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let address = SocketAddr::from_abstract_name(socket.as_bytes())?;
    let mut stream = StdStream::connect_addr(&address)?;
    if socket_peercred(&stream)?.uid != geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let question = question.get(..MAX_QUESTION_BYTES - 64).unwrap_or(question);
    stream.write_all(&[hint.as_bytes(), b"\n", question].concat())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // Never reallocates, because that would leave a copy in freed memory.
    let mut answer = Zeroizing::new(Vec::with_capacity(MAX_ANSWER_BYTES + 64));
    stream.take(MAX_ANSWER_BYTES as u64).read_to_end(&mut answer)?;
    Ok((answer.first() == Some(&ANSWERED)).then(|| Zeroizing::new(answer.split_off(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_reaches_gtop_and_its_answer_comes_back() {
        let mut server = AskpassServer::start("gtop".into()).unwrap();
        let asking = |hint: &'static str, question: &'static str| {
            let name = server.name.clone();
            tokio::task::spawn_blocking(move || ask(name.as_ref(), hint, question.as_bytes()))
        };
        let answered = asking("", "(ada@gpu01) \u{1b}[2JCode: ");
        let declined = asking("confirm", "Allow?\nReally?");
        for _ in 0..2 {
            let question = server.next().await;
            if question.kind == QuestionKind::Secret {
                assert_eq!(question.lines, ["(ada@gpu01)  [2JCode: "]);
                question.answer(&Secret::from("123".to_owned())).await;
            } else {
                assert_eq!(question.kind, QuestionKind::Confirmation);
                assert_eq!(question.lines, ["Allow?", "Really?"]);
            }
        }
        assert_eq!(answered.await.unwrap().unwrap().unwrap().as_slice(), b"123");
        assert!(declined.await.unwrap().unwrap().is_none());
    }

    #[test]
    fn only_questions_of_ssh_itself_are_about_host_keys() {
        let host_key =
            "The authenticity of host 'n1 (127.0.0.1)' can't be established.\nED25519 ...";
        assert_eq!(kind_of("", host_key), QuestionKind::HostKey);
        assert_eq!(kind_of("", &format!("(ada@n1) {host_key}")), QuestionKind::Secret);
        assert_eq!(kind_of("", "ada@n1's password: "), QuestionKind::Secret);
        assert_eq!(kind_of("none", "Confirm user presence for key"), QuestionKind::Message);
    }
}
