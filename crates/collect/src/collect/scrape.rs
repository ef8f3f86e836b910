//! Reads a node's page of metrics each interval, until that fails.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::collect::fault::from_transport;
use crate::collect::{Collector, CollectorConfig, until_session_ends};
use crate::transport::{self, PageUrl};
use crate::wire::{Delivery, DeliverySink, Exporter, RawUpdate, excerpt};
use gtop_local::fault::ScrapeFault;
use gtop_local::time::Clock;
use gtop_model::{Fault, Link, SessionUpdate, TransportKind};

/// The second page is read so soon, however long the interval: rates need two.
const MAX_FIRST_WAIT: Duration = Duration::from_secs(1);

/// A page that has been read once.
pub(super) struct ScrapeSession<'a> {
    url: &'a PageUrl,
    limit: Option<Duration>,
    interval: Duration,
    refresh: u64,
}

impl<'a> ScrapeSession<'a> {
    /// Reads the page for the first time, and delivers it.
    pub(super) async fn open(
        collector: &Collector,
        url: &'a PageUrl,
        sink: &mut DeliverySink,
    ) -> Result<Self, Fault> {
        let _no_delay = collector.no_delay.hold_until_reply();
        let (interval, refresh) = {
            let config = collector.config.borrow();
            (config.interval, config.refresh)
        };
        let session = Self { url, limit: collector.transport.connect_timeout(), interval, refresh };
        let page = session.scrape().await?;
        let updates = [
            SessionUpdate::Reached(TransportKind::Http),
            SessionUpdate::Link(Link::Up),
            SessionUpdate::Interval(interval),
        ];
        for raw in updates.map(RawUpdate::Session).into_iter().chain([page]) {
            sink(Delivery { at: collector.clock.now(), raw });
        }
        Ok(session)
    }

    /// Reads the page each interval. Returns why it could not be read; `None` when gtop stops or the node is powered down.
    pub(super) async fn run(
        mut self,
        config: &mut watch::Receiver<CollectorConfig>,
        clock: &Clock,
        sink: &mut DeliverySink,
    ) -> Option<Fault> {
        let mut stop = config.clone();
        let mut due = Instant::now() + self.interval.min(MAX_FIRST_WAIT);
        loop {
            tokio::select! {
                () = sleep_until(due) => {}
                changed = config.changed() => {
                    changed.ok()?;
                    let new = config.borrow_and_update().clone();
                    if new.ends_session() {
                        return None;
                    }
                    if !self.apply_config(&new, clock, sink) {
                        continue;
                    }
                }
            }
            due = Instant::now() + self.interval;
            let page = tokio::select! {
                page = self.scrape() => page,
                () = until_session_ends(&mut stop) => return None,
            };
            match page {
                Ok(raw) => sink(Delivery { at: clock.now(), raw }),
                Err(fault) => return Some(fault),
            }
        }
    }

    /// Takes a changed configuration over; returns true if the page is to be read at once.
    fn apply_config(
        &mut self,
        new: &CollectorConfig,
        clock: &Clock,
        sink: &mut DeliverySink,
    ) -> bool {
        let is_refreshed = std::mem::replace(&mut self.refresh, new.refresh) != new.refresh;
        let is_other = new.interval != self.interval;
        if is_other {
            self.interval = new.interval;
            let raw = SessionUpdate::Interval(new.interval).into();
            sink(Delivery { at: clock.now(), raw });
        }
        is_refreshed || is_other
    }

    async fn scrape(&self) -> Result<RawUpdate, Fault> {
        let page = self.url.fetch(self.limit).await;
        let text = page.and_then(|page| {
            let families = Exporter::wanted();
            excerpt(&page.text, page.served_at).ok_or(ScrapeFault::OtherFamilies { families })
        });
        text.map(RawUpdate::Scrape)
            .map_err(|fault| from_transport(&transport::Fault::Scrape(fault)))
    }
}
