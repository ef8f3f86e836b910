//! Supervises one node: opens sessions and waits between them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::collect::backoff::Backoff;
use crate::collect::handshake::Handshake;
use crate::collect::login_shell::ShellHistory;
use crate::collect::scrape::ScrapeSession;
use crate::collect::session::{OpenError, ProbeSession};
use crate::collect::{Collector, CollectorConfig, until_session_ends};
use crate::transport::{PageUrl, Reach, Target, Transport};
use crate::wire::{Delivery, DeliverySink};
use gtop_model::{Fault, FaultKind, Link, SessionUpdate};

/// A connection attempt that takes longer gives its slot to another node, so that nodes that never answer do not
/// block those that would.
const SLOW_OPENING: Duration = Duration::from_secs(2);

/// Monitors one node until the configuration sets `is_stopping`.
pub(super) async fn monitor(mut collector: Collector, target: Target, sink: DeliverySink) {
    let mut node =
        NodeMonitor { target, sink, shell_history: ShellHistory::default(), shell: None };
    let mut backoff = Backoff::new();
    let mut attempt = 1;
    loop {
        if node.wait_for_power(&mut collector).await.is_none() {
            return;
        }
        let last_trigger = retry_trigger(&collector.config.borrow_and_update());
        let Some((fault, duration)) = node.run_session(&mut collector, attempt).await else {
            if !collector.config.borrow().is_powered_off {
                return;
            }
            (backoff, attempt) = (Backoff::new(), 1);
            continue;
        };
        if !duration.is_zero() {
            backoff.after_session(duration);
            attempt = 0;
        }
        log::info!("{}: {}", node.target.name, fault.message());
        if matches!(fault.kind, FaultKind::AccountRefused | FaultKind::NoJob) {
            backoff.after_refusal();
        } else if fault.kind == FaultKind::NoBanner {
            backoff.after_busy_server(attempt);
        }
        attempt += 1;
        let wait = fault.kind.is_retryable().then(|| backoff.next_wait(random_byte()));
        let retry_at = wait.map(|wait| collector.clock.now().plus(wait));
        node.send_link(&collector, Link::Down { fault, retry_at });
        let shell = node.shell.take();
        if wait_for_retry(&mut collector, wait, last_trigger, shell).await.is_none() {
            return;
        }
    }
}

/// Adds what is known of the host where a fault happened.
async fn with_login_facts(fault: Fault, target: &Target, transport: &Transport) -> Fault {
    let host = match fault.cause.as_deref() {
        Some(cause) => transport.login_facts(target, cause).await.map(Arc::new),
        None => None,
    };
    Fault { host, ..fault }
}

struct NodeMonitor {
    target: Target,
    sink: DeliverySink,
    /// What the login shell did at earlier attempts.
    shell_history: ShellHistory,
    /// A login shell that is still starting; the next attempt waits until it is gone.
    shell: Option<Box<Handshake>>,
}

impl NodeMonitor {
    /// Waits while the node is powered off. Returns `None` if gtop stops.
    async fn wait_for_power(&mut self, collector: &mut Collector) -> Option<()> {
        if collector.config.borrow().is_powered_off {
            self.send_link(collector, Link::Idle);
            let config = &mut collector.config;
            config.wait_for(|config| config.is_stopping || !config.is_powered_off).await.ok()?;
        }
        (!collector.config.borrow().is_stopping).then_some(())
    }

    /// Opens a session and runs it. Returns why it ended and how long it was up, or `None` when gtop stops or the node is
    /// powered down.
    async fn run_session(
        &mut self,
        collector: &mut Collector,
        attempt: u32,
    ) -> Option<(Fault, Duration)> {
        if let Reach::Page(url) = &self.target.reach {
            let url = url.clone();
            return self.read_pages(collector, &url, attempt).await;
        }
        let opened = {
            let mut config = collector.config.clone();
            // The future of opening is large and rarely needed, so it is dropped before the session runs.
            let mut opening = Box::pin(self.open(collector, attempt));
            tokio::select! {
                opened = &mut opening => opened,
                () = until_session_ends(&mut config) => return None,
            }
        };
        let session = match opened {
            Ok(session) => {
                self.shell_history.record(None);
                session
            }
            Err(OpenError { fault, delay, shell }) => {
                self.shell_history.record(delay);
                self.shell = shell;
                let fault = with_login_facts(fault, &self.target, &collector.transport).await;
                return Some((fault, Duration::ZERO));
            }
        };
        let began = collector.clock.now();
        let fault = session.run(collector, &mut self.sink).await.err()?;
        let duration = collector.clock.now().since(began);
        Some((fault, duration.max(Duration::from_millis(1))))
    }

    /// Reads a page of metrics until that fails. Returns the same.
    async fn read_pages(
        &mut self,
        collector: &mut Collector,
        url: &PageUrl,
        attempt: u32,
    ) -> Option<(Fault, Duration)> {
        let mut stop = collector.config.clone();
        let opened = tokio::select! {
            opened = self.open_page(collector, url, attempt) => opened,
            () = until_session_ends(&mut stop) => return None,
        };
        let session = match opened {
            Ok(session) => session,
            Err(fault) => return Some((fault, Duration::ZERO)),
        };
        let Collector { config, clock, .. } = collector;
        let began = clock.now();
        let fault = session.run(config, clock, &mut self.sink).await?;
        Some((fault, clock.now().since(began).max(Duration::from_millis(1))))
    }

    async fn open_page<'a>(
        &mut self,
        collector: &Collector,
        url: &'a PageUrl,
        attempt: u32,
    ) -> Result<ScrapeSession<'a>, Fault> {
        let permit = collector.permits.acquire().await;
        self.send_link(collector, Link::Opening { attempt });
        let mut opening = pin!(ScrapeSession::open(collector, url, &mut self.sink));
        tokio::select! {
            opened = &mut opening => opened,
            () = sleep(SLOW_OPENING) => {
                drop(permit);
                opening.await
            }
        }
    }

    async fn open(
        &mut self,
        collector: &Collector,
        attempt: u32,
    ) -> Result<Box<ProbeSession>, OpenError> {
        let permits = (collector.permits.acquire().await, collector.no_delay.hold_until_reply());
        self.send_link(collector, Link::Opening { attempt });
        let (interval, refresh) = {
            let config = collector.config.borrow();
            (config.interval, config.refresh)
        };
        let Collector { transport, clock, .. } = collector;
        let limits = self.shell_history.limits(transport.connect_timeout());
        let (slow_shell, mut slow_shells) = watch::channel(None);
        let (sink, target) = (&mut self.sink, &self.target);
        let mut on_slow = |fault: Fault, remaining| {
            log::info!("{}: {}", target.name, fault.message());
            slow_shell.send_replace(Some(fault.clone()));
            // The next attempt is due then, unless the shell starts the loader before.
            let retry_at = Some(clock.now().plus(remaining));
            let link = Link::Down { fault, retry_at };
            sink(Delivery { at: clock.now(), raw: SessionUpdate::Link(link).into() });
        };
        let mut opening =
            Box::pin(ProbeSession::open(transport, target, interval, limits, &mut on_slow));
        tokio::select! {
            opened = &mut opening => return opened,
            () = sleep(SLOW_OPENING) => drop(permits),
        }
        let _no_delay = collector.no_delay.hold_for_slow_opening();
        let mut config = collector.config.clone();
        tokio::select! {
            opened = &mut opening => opened,
            fault = until_refreshed(&mut config, refresh, &mut slow_shells) => Err(fault.into()),
        }
    }

    fn send_link(&mut self, collector: &Collector, link: Link) {
        (self.sink)(Delivery { at: collector.clock.now(), raw: SessionUpdate::Link(link).into() });
    }
}

/// Counters whose change triggers a retry before its time.
type RetryTrigger = (u64, u64);

fn retry_trigger(config: &CollectorConfig) -> RetryTrigger {
    (config.refresh, config.job_starts)
}

/// Waits until the next attempt is due and the login shell of the last one has ended, or until a retry is triggered.
/// Returns `None` if gtop stops.
async fn wait_for_retry(
    collector: &mut Collector,
    wait: Option<Duration>,
    last_trigger: RetryTrigger,
    shell: Option<Box<Handshake>>,
) -> Option<()> {
    let mut due = pin!(async {
        match wait {
            Some(wait) => sleep(wait).await,
            None => std::future::pending().await,
        }
        if let Some(mut shell) = shell {
            shell.wait_until_closed().await;
        }
    });
    loop {
        {
            let config = collector.config.borrow_and_update();
            if config.is_stopping {
                return None;
            }
            if config.is_powered_off || retry_trigger(&config) != last_trigger {
                return Some(());
            }
        }
        tokio::select! {
            () = &mut due => return Some(()),
            changed = collector.config.changed() => changed.ok()?,
        }
    }
}

/// Waits until a refresh is requested while the login shell is slow; returns its fault. The user may have mended it.
async fn until_refreshed(
    config: &mut watch::Receiver<CollectorConfig>,
    refresh: u64,
    slow_shells: &mut watch::Receiver<Option<Fault>>,
) -> Fault {
    let is_slow = slow_shells.wait_for(Option::is_some).await.is_ok();
    let is_refreshed = config.wait_for(|config| config.refresh != refresh).await.is_ok();
    let fault = slow_shells.borrow().clone();
    match fault {
        Some(fault) if is_slow && is_refreshed => fault,
        // A closed channel means that gtop stops.
        _ => std::future::pending().await,
    }
}

fn random_byte() -> u8 {
    let mut byte = [0];
    // Without randomness all nodes wait the full time, which does no harm.
    _ = getrandom(&mut byte, GetRandomFlags::empty());
    byte[0]
}
