//! Keyboard-interactive prompts: what the user is asked, and the result of an answer or of none.
//!
//! The nodes are stubs, because a real sshd asks only what PAM asks; the lab has real ones.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gtop::transport::{
    Fault, Options, Prompt, PromptQueue, PromptRequest, Secret, Transport, UnansweredReason,
};
use russh::server::{self, Auth, Response};
use russh::{MethodKind, MethodSet};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use crate::LONG;
use crate::lab::{ADDRESS, Lab, node};

/// One thing to ask at once: what is said first, and the prompts with whether the answer is shown.
type Round = (&'static str, Vec<(&'static str, bool)>);

/// How a made-up node asks.
#[derive(Clone)]
struct Asking {
    rounds: Vec<Round>,
    /// The right answers, of all rounds.
    right: Vec<&'static str>,
    /// Whether a key is wanted first.
    wants_key: bool,
    /// What is wanted after the right answers.
    then: Option<MethodKind>,
}

impl Asking {
    fn code() -> Self {
        let rounds = vec![("", vec![("Code: ", false)])];
        Self { rounds, right: vec!["123456"], wants_key: false, then: None }
    }
}

/// A made-up node for one connection.
struct Asker {
    asking: Asking,
    has_key: bool,
    given: Vec<String>,
    round: usize,
    log: Arc<Mutex<Vec<String>>>,
}

impl Asker {
    fn reject(&self) -> Auth {
        let next = if self.asking.wants_key && !self.has_key {
            MethodKind::PublicKey
        } else {
            MethodKind::KeyboardInteractive
        };
        Auth::Reject {
            proceed_with_methods: Some(MethodSet::from(&[next][..])),
            partial_success: false,
        }
    }

    fn ask(&mut self) -> Option<Auth> {
        let (instructions, prompts) = self.asking.rounds.get(self.round)?.clone();
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

impl server::Handler for Asker {
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
            (self.given, self.round) = (Vec::new(), 0);
            return Ok(self.ask().unwrap());
        };
        self.given.extend(response.map(|text| String::from_utf8_lossy(&text).into_owned()));
        if let Some(more) = self.ask() {
            return Ok(more);
        }
        self.log.lock().unwrap().push(format!("got {:?}", self.given));
        if self.given != self.asking.right {
            return Ok(self.reject());
        }
        Ok(match self.asking.then {
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

/// A node that asks, on a port of its own, and what it heard.
struct Node {
    log: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Node {
    async fn start(lab: &Lab, asking: Asking, extra: &str) -> Self {
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
        let (told, mut serving) = (Arc::clone(&log), JoinSet::new());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (asking, log) = (asking.clone(), Arc::clone(&told));
                let asker = Asker { asking, has_key: false, given: Vec::new(), round: 0, log };
                let settings = Arc::clone(&settings);
                connections.spawn(async move {
                    let running = server::run_stream(settings, stream, asker).await.unwrap();
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
    let (prompt_queue, inquiries) = PromptQueue::new();
    prompt_queue.set_open(true);
    let options = Options { prompt_queue: Some(prompt_queue.clone()), ..lab.options() };
    (Transport::new(options), prompt_queue, inquiries)
}

async fn open(transport: &Transport) -> Result<(), Fault> {
    let opened = tokio::time::timeout(LONG, transport.open(&node(), "true", |_| ())).await;
    opened.unwrap().map(drop)
}

/// What a person was asked.
#[derive(Debug, PartialEq)]
struct Asked {
    who: String,
    instruction: Vec<String>,
    prompts: Vec<Prompt>,
}

/// Opens the node with somebody at the terminal who gives these answers, each to all prompts at
/// once; an empty one skips. Returns what was asked as well.
async fn answer(
    (transport, _, inquiries): &mut (Transport, PromptQueue, Receiver<PromptRequest>),
    answers: &[&[&str]],
) -> (Result<(), Fault>, Vec<Asked>) {
    let mut asked = Vec::new();
    let mut answers = answers.iter();
    let person = async {
        while let Some(inquiry) = inquiries.recv().await {
            let (who, instruction) = (inquiry.who.clone(), inquiry.instruction.clone());
            asked.push(Asked { who, instruction, prompts: inquiry.prompts.clone() });
            if let Some(texts) = answers.next().filter(|texts| !texts.is_empty()) {
                let texts = texts.iter().map(|text| Secret::from((*text).to_owned()));
                inquiry.answer(texts.collect());
            }
        }
    };
    let opened = tokio::select! {
        opened = open(transport) => opened,
        () = person => panic!("nobody asks any more"),
    };
    (opened, asked)
}

fn prompt(text: &str, is_shown: bool) -> Prompt {
    Prompt { text: text.to_owned(), is_shown }
}

fn silence(fault: &Fault) -> UnansweredReason {
    let Fault::Unanswered { why, .. } = fault else { panic!("{fault}") };
    assert!(!fault.retries_by_itself());
    *why
}

#[tokio::test]
async fn the_right_answer_authenticates() {
    let Some(lab) = Lab::new().await else { return };
    let node = Node::start(&lab, Asking::code(), "").await;
    let (opened, asked) = answer(&mut transport(&lab), &[&["123456"]]).await;
    opened.unwrap();
    let who = format!("{}@node", lab.user);
    assert_eq!(asked, [Asked { who, instruction: vec![], prompts: vec![prompt("Code:", false)] }]);
    assert_eq!(node.log(), ["began", "got [\"123456\"]"]);
}

#[tokio::test]
async fn a_wrong_answer_is_asked_again_at_most_three_times() {
    let Some(lab) = Lab::new().await else { return };
    let _node = Node::start(&lab, Asking::code(), "").await;
    let answers: [&[&str]; 4] = [&["1"], &["2"], &["123456"], &["never"]];
    let (opened, asked) = answer(&mut transport(&lab), &answers).await;
    opened.unwrap();
    assert_eq!(asked.len(), 3);
    let (opened, asked) = answer(&mut transport(&lab), &[&["1"], &["2"], &["3"], &["4"]]).await;
    let fault = opened.unwrap_err();
    assert_eq!(asked.len(), 3);
    assert!(matches!(fault, Fault::AuthenticationRefused { .. }), "{fault}");
    assert!(fault.to_string().contains("your answer"), "{fault}");
    assert!(!fault.retries_by_itself());
    let _node = Node::start(&lab, Asking::code(), "NumberOfPasswordPrompts 1").await;
    let (opened, asked) = answer(&mut transport(&lab), &[&["1"], &["2"]]).await;
    assert!(opened.is_err());
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_key_and_then_an_answer_authenticate_where_both_are_required() {
    let Some(lab) = Lab::new().await else { return };
    let asking = Asking { wants_key: true, ..Asking::code() };
    let _node = Node::start(&lab, asking.clone(), "").await;
    let (opened, asked) = answer(&mut transport(&lab), &[&["123456"]]).await;
    opened.unwrap();
    assert_eq!(asked.len(), 1);
    let asking = Asking { then: Some(MethodKind::Password), ..asking };
    let _node = Node::start(&lab, asking, "").await;
    let (opened, _) = answer(&mut transport(&lab), &[&["123456"]]).await;
    let wants = vec!["password".to_owned()];
    assert_eq!(opened, Err(Fault::MoreAuthenticationRequired { user: lab.user.clone(), wants }));
}

#[tokio::test]
async fn several_rounds_and_messages_without_prompts_are_gone_through() {
    let Some(lab) = Lab::new().await else { return };
    let asking = Asking {
        rounds: vec![
            ("Welcome to the\nlogin\x1b[2J node", vec![]),
            ("", vec![("User:", true), ("Password:", false)]),
            ("Now\r\nthe token", vec![("", false)]),
        ],
        right: vec!["ada", "sesame", "42"],
        ..Asking::code()
    };
    let _node = Node::start(&lab, asking, "").await;
    let (opened, asked) = answer(&mut transport(&lab), &[&["ada", "sesame"], &["42"]]).await;
    opened.unwrap();
    assert_eq!(asked[0].instruction, ["Welcome to the", "login [2J node"]);
    assert_eq!(asked[0].prompts, [prompt("User:", true), prompt("Password:", false)]);
    assert_eq!(asked[1].instruction, ["Now", "the token"]);
    assert_eq!(asked[1].prompts, [prompt("", false)]);
}

#[tokio::test]
async fn no_answer_is_distinguished_from_a_wrong_answer() {
    let Some(lab) = Lab::new().await else { return };
    let node = Node::start(&lab, Asking::code(), "").await;
    let (opened, _) = answer(&mut transport(&lab), &[&[]]).await;
    assert_eq!(silence(&opened.unwrap_err()), UnansweredReason::Skipped);
    assert_eq!(node.log(), ["began"]);

    // Where nobody can be asked, the node is not even made to ask.
    let node = Node::start(&lab, Asking::code(), "").await;
    assert_eq!(silence(&open(&lab.transport()).await.unwrap_err()), UnansweredReason::NoTerminal);
    let (transport, prompt_queue, mut inquiries) = transport(&lab);
    prompt_queue.set_open(false);
    let fault = open(&transport).await.unwrap_err();
    assert_eq!(silence(&fault), UnansweredReason::PromptsClosed);
    assert!(fault.to_string().contains("press F5"), "{fault}");
    assert!(node.log().is_empty());

    // Dropping a prompt queue releases the tasks that wait for an answer.
    prompt_queue.set_open(true);
    let ending = async {
        let inquiry = inquiries.recv().await.unwrap();
        prompt_queue.set_open(false);
        inquiry
    };
    let (opened, inquiry) = tokio::join!(open(&transport), ending);
    assert_eq!(silence(&opened.unwrap_err()), UnansweredReason::PromptsClosed);
    assert!(!inquiry.is_wanted());
}

#[tokio::test]
async fn no_prompts_in_batch_mode_or_where_they_are_disabled() {
    let Some(lab) = Lab::new().await else { return };
    for off in [
        "BatchMode yes",
        "KbdInteractiveAuthentication no",
        "PreferredAuthentications publickey,password",
    ] {
        let node = Node::start(&lab, Asking::code(), off).await;
        let (opened, asked) = answer(&mut transport(&lab), &[&["123456"]]).await;
        assert!(matches!(opened, Err(Fault::AuthenticationRefused { .. })), "{off}: {opened:?}");
        assert!(asked.is_empty() && node.log().is_empty(), "{off}");
    }
}

#[tokio::test]
async fn a_node_that_prompts_without_end_is_given_up() {
    let Some(lab) = Lab::new().await else { return };
    let many = vec![("", vec![("Another:", false); 9])];
    let _node = Node::start(&lab, Asking { rounds: many, ..Asking::code() }, "").await;
    let (opened, asked) = answer(&mut transport(&lab), &[]).await;
    assert_eq!(silence(&opened.unwrap_err()), UnansweredReason::TooManyPrompts(9));
    assert!(asked.is_empty());
    let endless = vec![("Wait.", vec![]); 100];
    let _node = Node::start(&lab, Asking { rounds: endless, ..Asking::code() }, "").await;
    let (opened, _) = answer(&mut transport(&lab), &[]).await;
    assert_eq!(silence(&opened.unwrap_err()), UnansweredReason::TooManyRounds);
    let long = vec![("", vec![(Box::leak("x".repeat(20_000).into_boxed_str()) as &str, false)])];
    let _node = Node::start(&lab, Asking { rounds: long, ..Asking::code() }, "").await;
    let (opened, asked) = answer(&mut transport(&lab), &[&["123456"]]).await;
    opened.unwrap();
    assert!(asked[0].prompts[0].text.chars().count() <= 201);
}

#[tokio::test]
async fn many_nodes_may_ask_at_once_and_each_gets_its_own_answer() {
    let Some(lab) = Lab::new().await else { return };
    let _node = Node::start(&lab, Asking::code(), "").await;
    let (transport, _interview, mut inquiries) = transport(&lab);
    let mut logins = JoinSet::new();
    for _ in 0..40 {
        let transport = transport.clone();
        logins.spawn(async move { open(&transport).await });
    }
    for at in 0..40 {
        let inquiry = inquiries.recv().await.unwrap();
        // Every other one is skipped.
        if at % 2 == 0 {
            inquiry.answer(vec![Secret::from("123456".to_owned())]);
        }
    }
    let mut opened = 0;
    while let Some(login) = logins.join_next().await {
        opened += u32::from(login.unwrap().is_ok());
    }
    assert_eq!(opened, 20);
}

#[tokio::test]
async fn the_time_a_person_takes_is_not_counted() {
    let Some(lab) = Lab::new().await else { return };
    let _node = Node::start(&lab, Asking::code(), "").await;
    let (transport, _interview, mut inquiries) = transport(&lab);
    let person = async {
        let inquiry = inquiries.recv().await.unwrap();
        // Longer than a login may take; the clock of this test jumps when nothing else goes on.
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(45)).await;
        tokio::time::resume();
        inquiry.answer(vec![Secret::from("123456".to_owned())]);
    };
    // Without a limit of the test's own, which would pass too.
    let node = node();
    let (opened, ()) = tokio::join!(transport.open(&node, "true", |_| ()), person);
    opened.unwrap();
}
