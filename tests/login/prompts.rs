//! Keyboard-interactive prompts: what the user is shown, and the results of answers and of none.
//!
//! The nodes are stubs, because a real sshd prompts only as PAM does; the lab has real ones.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gtop_collect::transport::{Fault, Transport};
use gtop_fleet::advice::{self, Known, Reader};
use gtop_model::NodeName;
use gtop_ssh::{self as ssh, Prompt, PromptQueue, PromptRequest, Secret, UnansweredReason};
use russh::server::{self, Auth, Response};
use russh::{MethodKind, MethodSet};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::harness::lab::{ADDRESS, Lab, node};
use crate::login::LONG;

/// One information request: its instruction, and its prompts with their echo flags.
type Round = (&'static str, Vec<(&'static str, bool)>);

/// How a stub node prompts.
#[derive(Clone)]
struct PromptScript {
    rounds: Vec<Round>,
    /// The expected answers, of all rounds.
    expected: Vec<&'static str>,
    /// A key is required first.
    requires_key: bool,
    /// The method required after the expected answers.
    then: Option<MethodKind>,
}

impl PromptScript {
    fn code() -> Self {
        let rounds = vec![("", vec![("Code: ", false)])];
        Self { rounds, expected: vec!["123456"], requires_key: false, then: None }
    }
}

/// A stub node, for one connection.
struct PromptServer {
    script: PromptScript,
    has_key: bool,
    answers: Vec<String>,
    round: usize,
    log: Arc<Mutex<Vec<String>>>,
}

impl PromptServer {
    fn reject(&self) -> Auth {
        let next = if self.script.requires_key && !self.has_key {
            MethodKind::PublicKey
        } else {
            MethodKind::KeyboardInteractive
        };
        Auth::Reject {
            proceed_with_methods: Some(MethodSet::from(&[next][..])),
            partial_success: false,
        }
    }

    fn next_request(&mut self) -> Option<Auth> {
        let (instructions, prompts) = self.script.rounds.get(self.round)?.clone();
        self.round += 1;
        let prompts: Vec<_> =
            prompts.into_iter().map(|(text, is_shown)| (Cow::Borrowed(text), is_shown)).collect();
        Some(Auth::Partial {
            name: "".into(),
            instructions: instructions.into(),
            prompts: prompts.into(),
        })
    }
}

impl server::Handler for PromptServer {
    type Error = russh::Error;

    async fn auth_none(&mut self, _user: &str) -> Result<Auth, russh::Error> {
        Ok(self.reject())
    }

    async fn auth_publickey(
        &mut self,
        _user: &str,
        _key: server::VerifiedPublicKey<'_>,
    ) -> Result<Auth, russh::Error> {
        self.has_key = true;
        let next = MethodSet::from(&[MethodKind::KeyboardInteractive][..]);
        Ok(Auth::Reject { proceed_with_methods: Some(next), partial_success: true })
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        let Some(response) = response else {
            self.log.lock().unwrap().push("began".to_owned());
            (self.answers, self.round) = (Vec::new(), 0);
            return Ok(self.next_request().unwrap());
        };
        self.answers.extend(response.map(|text| String::from_utf8_lossy(&text).into_owned()));
        if let Some(more) = self.next_request() {
            return Ok(more);
        }
        self.log.lock().unwrap().push(format!("got {:?}", self.answers));
        if self.answers != self.script.expected {
            return Ok(self.reject());
        }
        Ok(match self.script.then {
            None => Auth::Accept,
            Some(then) => Auth::Reject {
                proceed_with_methods: Some(MethodSet::from(&[then][..])),
                partial_success: true,
            },
        })
    }

    async fn channel_open_session(
        &mut self,
        _channel: russh::Channel<server::Msg>,
        reply: server::ChannelOpenHandle,
        _session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: russh::ChannelId,
        _command: &[u8],
        session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)
    }
}

/// A stub node that prompts, and its log.
struct StubNode {
    log: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl StubNode {
    async fn start(lab: &Lab, script: PromptScript, extra: &str) -> Self {
        let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let key = lab.text("host_ed25519.pub");
        lab.write("known", &format!("[{ADDRESS}]:{port} {key}"));
        lab.write_config(port, extra);
        let key = russh::keys::decode_secret_key(&lab.text("host_ed25519"), None).unwrap();
        let settings = Arc::new(server::Config {
            keys: vec![key],
            methods: MethodSet::server_supported(),
            auth_rejection_time: Duration::ZERO,
            auth_rejection_time_initial: Some(Duration::ZERO),
            ..server::Config::default()
        });
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (shared_log, mut serving) = (Arc::clone(&log), JoinSet::new());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, log) = (script.clone(), Arc::clone(&shared_log));
                let server =
                    PromptServer { script, has_key: false, answers: Vec::new(), round: 0, log };
                let settings = Arc::clone(&settings);
                connections.spawn(async move {
                    let running = server::run_stream(settings, stream, server).await.unwrap();
                    running.await.ok();
                });
            }
        });
        Self { log, _serving: serving }
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

fn transport(lab: &Lab) -> (Transport, PromptQueue, Receiver<PromptRequest>) {
    let (prompt_queue, requests) = PromptQueue::new();
    prompt_queue.set_open(true);
    let mut options = lab.options();
    options.ssh.prompt_queue = Some(prompt_queue.clone());
    (Transport::new(options), prompt_queue, requests)
}

async fn open(transport: &Transport) -> Result<(), Fault> {
    let opened = tokio::time::timeout(LONG, transport.open(&node(), "true", |_| ())).await;
    opened.unwrap().map(drop)
}

/// A request as the user saw it.
#[derive(Debug, PartialEq)]
struct ShownRequest {
    login: String,
    instruction: Vec<String>,
    prompts: Vec<Prompt>,
}

/// Opens the node while a user answers the requests, one item per request; an empty one skips it. Returns the
/// requests too.
async fn open_with_answers(
    (transport, _, requests): &mut (Transport, PromptQueue, Receiver<PromptRequest>),
    answers: &[&[&str]],
) -> (Result<(), Fault>, Vec<ShownRequest>) {
    let mut shown = Vec::new();
    let mut answers = answers.iter();
    let user = async {
        while let Some(request) = requests.recv().await {
            let (login, instruction) = (request.login.clone(), request.instruction.clone());
            shown.push(ShownRequest { login, instruction, prompts: request.prompts.clone() });
            if let Some(texts) = answers.next().filter(|texts| !texts.is_empty()) {
                let texts = texts.iter().map(|text| Secret::from((*text).to_owned()));
                request.answer(texts.collect());
            }
        }
    };
    let opened = tokio::select! {
        opened = open(transport) => opened,
        () = user => panic!("the prompt queue has ended"),
    };
    (opened, shown)
}

fn prompt(text: &str, is_shown: bool) -> Prompt {
    Prompt { text: text.to_owned(), is_echoed: is_shown }
}

fn unanswered_reason(fault: &Fault) -> UnansweredReason {
    let Fault::Ssh(ssh::Fault::PromptUnanswered { why, .. }) = fault else { panic!("{fault}") };
    assert!(!fault.is_retryable());
    *why
}

#[tokio::test]
async fn the_right_answer_authenticates() {
    let Some(lab) = Lab::new().await else { return };
    let node = StubNode::start(&lab, PromptScript::code(), "").await;
    let (opened, shown) = open_with_answers(&mut transport(&lab), &[&["123456"]]).await;
    opened.unwrap();
    let login = format!("{}@node", lab.user);
    assert_eq!(
        shown,
        [ShownRequest { login, instruction: vec![], prompts: vec![prompt("Code:", false)] }]
    );
    assert_eq!(node.log(), ["began", "got [\"123456\"]"]);
}

#[tokio::test]
async fn a_wrong_answer_is_prompted_again_at_most_three_times() {
    let Some(lab) = Lab::new().await else { return };
    let _node = StubNode::start(&lab, PromptScript::code(), "").await;
    let answers: [&[&str]; 4] = [&["1"], &["2"], &["123456"], &["never"]];
    let (opened, shown) = open_with_answers(&mut transport(&lab), &answers).await;
    opened.unwrap();
    assert_eq!(shown.len(), 3);
    let (opened, shown) =
        open_with_answers(&mut transport(&lab), &[&["1"], &["2"], &["3"], &["4"]]).await;
    let fault = opened.unwrap_err();
    assert_eq!(shown.len(), 3);
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::AuthenticationRefused { .. })), "{fault}");
    assert!(fault.to_string().contains("your answer"), "{fault}");
    assert!(!fault.is_retryable());
    let _node = StubNode::start(&lab, PromptScript::code(), "NumberOfPasswordPrompts 1").await;
    let (opened, shown) = open_with_answers(&mut transport(&lab), &[&["1"], &["2"]]).await;
    assert!(opened.is_err());
    assert_eq!(shown.len(), 1);
}

#[tokio::test]
async fn a_key_and_then_an_answer_authenticate_where_both_are_required() {
    let Some(lab) = Lab::new().await else { return };
    let script = PromptScript { requires_key: true, ..PromptScript::code() };
    let _node = StubNode::start(&lab, script.clone(), "").await;
    let (opened, shown) = open_with_answers(&mut transport(&lab), &[&["123456"]]).await;
    opened.unwrap();
    assert_eq!(shown.len(), 1);
    let script = PromptScript { then: Some(MethodKind::Password), ..script };
    let _node = StubNode::start(&lab, script, "").await;
    let (opened, _) = open_with_answers(&mut transport(&lab), &[&["123456"]]).await;
    let required = vec!["password".to_owned()];
    assert_eq!(
        opened,
        Err(Fault::Ssh(ssh::Fault::MoreAuthenticationRequired {
            user: lab.user.clone(),
            required
        }))
    );
}

#[tokio::test]
async fn several_rounds_and_messages_without_prompts_are_handled() {
    let Some(lab) = Lab::new().await else { return };
    let script = PromptScript {
        rounds: vec![
            ("Welcome to the\nlogin\x1b[2J node", vec![]),
            ("", vec![("User:", true), ("Password:", false)]),
            ("Now\r\nthe token", vec![("", false)]),
        ],
        expected: vec!["ada", "sesame", "42"],
        ..PromptScript::code()
    };
    let _node = StubNode::start(&lab, script, "").await;
    let (opened, shown) =
        open_with_answers(&mut transport(&lab), &[&["ada", "sesame"], &["42"]]).await;
    opened.unwrap();
    assert_eq!(shown[0].instruction, ["Welcome to the", "login [2J node"]);
    assert_eq!(shown[0].prompts, [prompt("User:", true), prompt("Password:", false)]);
    assert_eq!(shown[1].instruction, ["Now", "the token"]);
    assert_eq!(shown[1].prompts, [prompt("", false)]);
}

#[tokio::test]
async fn no_answer_is_distinguished_from_a_wrong_answer() {
    let Some(lab) = Lab::new().await else { return };
    let node = StubNode::start(&lab, PromptScript::code(), "").await;
    let (opened, _) = open_with_answers(&mut transport(&lab), &[&[]]).await;
    assert_eq!(unanswered_reason(&opened.unwrap_err()), UnansweredReason::Skipped);
    assert_eq!(node.log(), ["began"]);

    // Without a terminal the exchange is not even started.
    let node = StubNode::start(&lab, PromptScript::code(), "").await;
    assert_eq!(
        unanswered_reason(&open(&lab.transport()).await.unwrap_err()),
        UnansweredReason::NoTerminal
    );
    let (transport, prompt_queue, mut requests) = transport(&lab);
    prompt_queue.set_open(false);
    let fault = open(&transport).await.unwrap_err();
    assert_eq!(unanswered_reason(&fault), UnansweredReason::PromptsClosed);
    let known = Known::of_node(&NodeName::new("node").unwrap(), Reader::Screen);
    let first = advice::of_cause(&fault, &known).first();
    assert!(first.contains("press R"), "{first}");
    assert!(node.log().is_empty());

    // Closing the queue ends the requests that wait for an answer.
    prompt_queue.set_open(true);
    let ending = async {
        let request = requests.recv().await.unwrap();
        prompt_queue.set_open(false);
        request
    };
    let (opened, request) = tokio::join!(open(&transport), ending);
    assert_eq!(unanswered_reason(&opened.unwrap_err()), UnansweredReason::PromptsClosed);
    assert!(!request.is_pending());
}

#[tokio::test]
async fn no_prompts_in_batch_mode_or_where_they_are_disabled() {
    let Some(lab) = Lab::new().await else { return };
    for off in [
        "BatchMode yes",
        "KbdInteractiveAuthentication no",
        "PreferredAuthentications publickey,password",
    ] {
        let node = StubNode::start(&lab, PromptScript::code(), off).await;
        let (opened, shown) = open_with_answers(&mut transport(&lab), &[&["123456"]]).await;
        assert!(
            matches!(opened, Err(Fault::Ssh(ssh::Fault::AuthenticationRefused { .. }))),
            "{off}: {opened:?}"
        );
        assert!(shown.is_empty() && node.log().is_empty(), "{off}");
    }
}

#[tokio::test]
async fn a_node_that_prompts_without_end_is_given_up() {
    let Some(lab) = Lab::new().await else { return };
    let many = vec![("", vec![("Another:", false); 9])];
    let _node =
        StubNode::start(&lab, PromptScript { rounds: many, ..PromptScript::code() }, "").await;
    let (opened, shown) = open_with_answers(&mut transport(&lab), &[]).await;
    assert_eq!(unanswered_reason(&opened.unwrap_err()), UnansweredReason::TooManyPrompts(9));
    assert!(shown.is_empty());
    let endless = vec![("Wait.", vec![]); 100];
    let _node =
        StubNode::start(&lab, PromptScript { rounds: endless, ..PromptScript::code() }, "").await;
    let (opened, _) = open_with_answers(&mut transport(&lab), &[]).await;
    assert_eq!(unanswered_reason(&opened.unwrap_err()), UnansweredReason::TooManyRounds);
    let long = vec![("", vec![(Box::leak("x".repeat(20_000).into_boxed_str()) as &str, false)])];
    let _node =
        StubNode::start(&lab, PromptScript { rounds: long, ..PromptScript::code() }, "").await;
    let (opened, shown) = open_with_answers(&mut transport(&lab), &[&["123456"]]).await;
    opened.unwrap();
    assert!(shown[0].prompts[0].text.chars().count() <= 201);
}

#[tokio::test]
async fn concurrent_prompts_each_get_their_own_answer() {
    let Some(lab) = Lab::new().await else { return };
    let _node = StubNode::start(&lab, PromptScript::code(), "").await;
    let (transport, _prompt_queue, mut requests) = transport(&lab);
    let mut logins = JoinSet::new();
    for _ in 0..40 {
        let transport = transport.clone();
        logins.spawn(async move { open(&transport).await });
    }
    for at in 0..40 {
        let request = requests.recv().await.unwrap();
        // Every other one is skipped.
        if at % 2 == 0 {
            request.answer(vec![Secret::from("123456".to_owned())]);
        }
    }
    let mut opened = 0;
    while let Some(login) = logins.join_next().await {
        opened += u32::from(login.unwrap().is_ok());
    }
    assert_eq!(opened, 20);
}

#[tokio::test]
async fn the_time_to_answer_does_not_count_against_the_timeout() {
    let Some(lab) = Lab::new().await else { return };
    let _node = StubNode::start(&lab, PromptScript::code(), "").await;
    let (transport, _prompt_queue, mut requests) = transport(&lab);
    let user = async {
        let request = requests.recv().await.unwrap();
        // Longer than the login timeout; the paused clock of this test jumps when all tasks are idle.
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(45)).await;
        tokio::time::resume();
        request.answer(vec![Secret::from("123456".to_owned())]);
    };
    // Without a timeout of the test, which would elapse too.
    let node = node();
    let (opened, ()) = tokio::join!(transport.open(&node, "true", |_| ()), user);
    opened.unwrap();
}
