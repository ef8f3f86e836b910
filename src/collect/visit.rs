//! The first minute with a node, stage by stage: reach it, wake the loader, hear the probe's hello.
//!
//! A session begins so, and so does whoever wants to know in which stage it goes wrong.

use std::time::Duration;

use tokio::time::timeout;

use crate::collect::complaint::after;
use crate::collect::fault::of_transport;
use crate::collect::session::{self, first_frame, greet};
use crate::model::{Fault, FaultKind, NodeName, Via};
use crate::probe::{self, Greeting, Interpreter, Settings};
use crate::transport::{self, Channel, Output, Target, Transport};
use crate::wire::{Frame, FrameReader, Received, address_of};

/// How long a login shell may take to start the loader; a step has limits of its own.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// How long the probe may take for its first frame; Python on a slow file system takes seconds.
const HELLO_LIMIT: Duration = Duration::from_secs(30);

/// A node that has been reached and was sent the loader.
#[derive(Debug)]
pub struct Visit {
    node: NodeName,
    nonce: String,
    interval: Duration,
    pub(super) channel: Channel,
    pub(super) reader: FrameReader,
    noise: Vec<u8>,
}

impl Visit {
    /// Reaches a node and has its login shell start the loader.
    pub async fn begin(
        transport: &Transport,
        target: &Target,
        interval: Duration,
    ) -> Result<Self, transport::Fault> {
        let nonce = session::nonce();
        let node = target.name.clone();
        let settings = Settings { interval, ..Settings::new(node.as_str(), &nonce) };
        let line = probe::launch_line(&nonce, probe::source(Interpreter::Python, &settings).len());
        let step = |step| log::debug!("{node}: {step}");
        let shared = || {
            let probe::Shared { nonce, script, input } = probe::shared(&nonce, interval);
            transport::Shared { nonce, script, input, address_of }
        };
        let channel = transport.open_probe(target, &line, &shared, step).await?;
        // Whoever began the step has said how its loaders announce themselves.
        let nonce = channel.shared_nonce().map_or_else(|| nonce.clone(), str::to_owned);
        Ok(Self {
            node: target.name.clone(),
            nonce,
            interval,
            channel,
            reader: FrameReader::default(),
            noise: Vec::new(),
        })
    }

    /// Waits until the loader announces itself, and says what will run the probe.
    pub async fn wake(&mut self) -> Result<Interpreter, Fault> {
        let mut greeting = Greeting::new(&self.nonce);
        let late = self.channel.late(GREETING_LIMIT);
        let greeted = tokio::select! {
            biased;
            greeted = greet(&mut self.channel, &mut greeting) => Some(greeted),
            () = late => None,
        };
        self.noise = greeting.noise().to_vec();
        let is_shared = self.channel.shared_nonce().is_some();
        let Some(greeted) = greeted else {
            if is_shared {
                return Err(of_transport(&transport::Fault::late()));
            }
            let how =
                format!("the login shell did not start it within {} s", GREETING_LIMIT.as_secs());
            return Err(Fault::new(FaultKind::NoInterpreter, after(how, &self.noise)));
        };
        let (interpreter, rest) = greeted?;
        self.reader.push(&rest);
        Ok(interpreter)
    }

    /// Sends the probe and waits for its hello.
    pub async fn hello(&mut self, interpreter: Interpreter) -> Result<Box<Frame>, Fault> {
        // Only now: what answers is our loader, not a shell that would run the source as commands.
        // Where what is written goes to many nodes, their step does it for all of them.
        if self.channel.shared_nonce().is_none() {
            let settings = Settings {
                interval: self.interval,
                ..Settings::new(self.node.as_str(), &self.nonce)
            };
            let source = probe::source(interpreter, &settings);
            for part in source.parts() {
                self.channel.send(part).await.map_err(|fault| of_transport(&fault))?;
            }
        }
        match timeout(HELLO_LIMIT, first_frame(&mut self.channel, &mut self.reader)).await {
            Ok(frame) => frame,
            Err(_elapsed) => {
                let detail = format!("the probe said nothing within {} s", HELLO_LIMIT.as_secs());
                Err(Fault::new(FaultKind::Silent, detail))
            }
        }
    }

    /// Waits for what the probe sends after its hello.
    pub async fn next_frame(&mut self) -> Result<Box<Frame>, Fault> {
        loop {
            match self.reader.next_frame() {
                Some(Received::Frame(frame)) => return Ok(frame),
                Some(Received::Malformed(malformed)) => {
                    return Err(Fault::new(FaultKind::BadReply, malformed.to_string()));
                }
                None => {}
            }
            match self.channel.next().await {
                Output::Stdout(bytes) => self.reader.push(&bytes),
                Output::Stderr(_) => {}
                Output::Exit(exit) => return Err(session::ended(&exit)),
                Output::Closed(fault) => return Err(session::closed(fault)),
            }
        }
    }

    /// Returns what the login files printed before the loader, the last 4 kB of it.
    pub fn noise(&self) -> &[u8] {
        &self.noise
    }

    /// Returns the text the node showed before login, without control characters.
    pub fn banner(&self) -> Option<String> {
        self.channel.banner()
    }

    /// Returns how the node is reached.
    pub fn via(&self) -> Via {
        self.channel.via()
    }

    /// Takes leave.
    pub async fn end(self) {
        self.channel.shutdown().await;
    }
}
