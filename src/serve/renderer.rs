//! Renders what is served, on a thread of its own with a lower priority than collecting: once for all who ask at a time.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::export::{ExpositionOptions, exposition, write_json};
use crate::serve::{ServedContent, lower_priority};
use gtop_fleet::insight::FleetView;
use gtop_local::lock::lock;

/// How long a text is given to others who ask the same.
const MIN_AGE: Duration = Duration::from_millis(500);
/// It is given for so many times as long as it took, too: however many ask, most of the processor time is left.
const AGE_PER_COST: u32 = 4;
/// Bytes of earlier texts that slow clients still read; beyond, there are no new ones for their kind.
const MAX_IN_TRANSIT: usize = 64 << 20;
/// Texts that wait to be rendered: each kind once.
const MAX_WAITING: usize = 16;

/// What is rendered from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServedText {
    pub(super) content: TextContent,
    pub(super) is_gzip: bool,
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextContent {
    Metrics(ExpositionOptions),
    Snapshot,
}

impl ServedText {
    const fn has_names(self) -> bool {
        match self.content {
            TextContent::Metrics(options) => options.has_names,
            TextContent::Snapshot => true,
        }
    }
}

/// A text that may be given again.
#[derive(Clone, Debug)]
struct RenderedBody {
    body: Bytes,
    /// Until when it is new enough.
    until: Instant,
}

/// A text that is rendered or will be.
struct RenderedText {
    what: ServedText,
    /// `None` until it is rendered.
    rendered: watch::Receiver<Option<RenderedBody>>,
}

impl RenderedText {
    /// Returns true if it can be given to those who ask now, or is about to be rendered.
    fn is_new(&self) -> bool {
        match &*self.rendered.borrow() {
            Some(rendered) => Instant::now() < rendered.until,
            // Its sender is gone if rendering has failed.
            None => self.rendered.has_changed().is_ok(),
        }
    }

    /// Returns how many bytes of it slow clients still read.
    fn in_transit(&self) -> usize {
        let rendered = self.rendered.borrow();
        rendered.as_ref().filter(|it| !it.body.is_unique()).map_or(0, |it| it.body.len())
    }
}

struct RenderJob {
    what: ServedText,
    sender: watch::Sender<Option<RenderedBody>>,
}

/// Renders texts, each kind one at a time.
pub(super) struct Renderer {
    entries: Mutex<Vec<RenderedText>>,
    jobs: SyncSender<RenderJob>,
}

impl Renderer {
    /// Starts the thread, which ends when this is dropped.
    pub(super) fn start(content: ServedContent) -> Self {
        let (jobs, waiting) = sync_channel(MAX_WAITING);
        // Without the thread, no text is ever rendered, and each request fails.
        thread::Builder::new()
            .name("render".to_owned())
            .spawn(move || run(&waiting, &content))
            .ok();
        Self { entries: Mutex::default(), jobs }
    }

    /// Returns what is rendered from the latest snapshot, or was a moment ago; `None` if too much is in transit. Who has
    /// no token uses nothing up for those who have it.
    pub(super) async fn text(&self, what: ServedText) -> Option<Bytes> {
        let mut rendered = self.request(what)?;
        let body = rendered.wait_for(Option::is_some).await.ok()?;
        body.as_ref().map(|rendered| rendered.body.clone())
    }

    fn request(&self, what: ServedText) -> Option<watch::Receiver<Option<RenderedBody>>> {
        let mut entries = lock(&self.entries);
        entries.retain(|entry| entry.is_new() || entry.in_transit() > 0);
        if let Some(entry) = entries.iter().find(|entry| entry.what == what && entry.is_new()) {
            return Some(entry.rendered.clone());
        }
        let of_kind = entries.iter().filter(|entry| entry.what.has_names() == what.has_names());
        if of_kind.map(RenderedText::in_transit).sum::<usize>() > MAX_IN_TRANSIT {
            return None;
        }
        let (sender, rendered) = watch::channel(None);
        self.jobs.try_send(RenderJob { what, sender }).ok()?;
        entries.push(RenderedText { what, rendered: rendered.clone() });
        Some(rendered)
    }
}

/// Renders what is asked for, one text after the other.
fn run(jobs: &Receiver<RenderJob>, content: &ServedContent) {
    lower_priority();
    while let Ok(RenderJob { what, sender }) = jobs.recv() {
        let began = Instant::now();
        // A text that cannot be rendered is not given; the next one may be.
        let body = catch_unwind(AssertUnwindSafe(|| render(content, what)));
        let until = Instant::now() + MIN_AGE.max(began.elapsed() * AGE_PER_COST);
        if let Ok(body) = body {
            sender.send_replace(Some(RenderedBody { body: body.into(), until }));
        }
    }
}

fn render(content: &ServedContent, what: ServedText) -> Vec<u8> {
    let ServedContent { fleet, clock, title, selection, filter, metrics, .. } = content;
    let (fleet, now) = (fleet.borrow().clone(), clock.now());
    let fleet = FleetView::part_of(&fleet, now, selection, filter);
    let text = match what.content {
        TextContent::Metrics(options) => exposition(&fleet, now, options, metrics),
        TextContent::Snapshot => {
            let mut text = Vec::new();
            // Writing to memory cannot fail.
            write_json(&mut text, &fleet, now, title).ok();
            text
        }
    };
    if what.is_gzip { compressed(&text) } else { text }
}

/// Returns a text in the format of gzip. Better compression takes several times as long for a tenth less.
fn compressed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    encoder.write_all(text).ok();
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::export::CompatNames;
    use crate::serve::examples::{self, fleet_of};
    use gtop_fleet::Fleet;

    fn renderer() -> (Renderer, watch::Sender<Fleet>) {
        let (content, publisher) = examples::content();
        (Renderer::start(content), publisher)
    }

    const METRICS: ServedText = ServedText {
        content: TextContent::Metrics(ExpositionOptions {
            is_open_metrics: false,
            has_names: false,
            has_processes: false,
            compat: CompatNames { dcgm: false, dcgm_canonical: false, nvitop: false },
        }),
        is_gzip: false,
    };

    async fn text(renderer: &Renderer, what: ServedText) -> String {
        String::from_utf8(renderer.text(what).await.unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn those_who_ask_together_share_a_text_and_it_ends() {
        let (renderer, publisher) = renderer();
        let (one, other) = tokio::join!(renderer.text(METRICS), renderer.text(METRICS));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert!(one.as_ptr() == other.as_ptr(), "it is the same memory");
        // Texts that are too old go, even before a client has read them.
        publisher.send_replace(fleet_of("second"));
        let age = |renderer: &Renderer| {
            let entries = renderer.entries.lock().unwrap();
            entries.iter().map(|entry| entry.rendered.borrow().clone().unwrap().until).max()
        };
        let until = age(&renderer).unwrap();
        assert!(text(&renderer, METRICS).await.contains("first") || Instant::now() >= until);
        tokio::time::sleep_until(until).await;
        assert!(text(&renderer, METRICS).await.contains("second"));
        assert_eq!(renderer.entries.lock().unwrap().len(), 2, "one is new, one in transit");
        drop((one, other));
        text(&renderer, METRICS).await;
        assert_eq!(renderer.entries.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_runtime_goes_on_while_a_text_is_rendered() {
        let (renderer, publisher) = renderer();
        let (holding, held) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        // Whoever renders waits for the snapshot that is being published.
        let publishing = thread::spawn(move || {
            publisher.send_modify(|_fleet| {
                holding.send(()).unwrap();
                ended.recv().unwrap();
            });
        });
        held.recv().unwrap();
        let mut text = Box::pin(renderer.text(METRICS));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut text).await.is_err());
        end.send(()).unwrap();
        assert!(text.await.is_some());
        publishing.join().unwrap();
    }

    #[tokio::test]
    async fn gzip_is_the_same_text_and_kinds_are_apart() {
        let (renderer, _publisher) = renderer();
        let zipped = renderer.text(ServedText { is_gzip: true, ..METRICS }).await.unwrap();
        let mut unzipped = String::new();
        GzDecoder::new(&*zipped).read_to_string(&mut unzipped).unwrap();
        assert_eq!(unzipped, text(&renderer, METRICS).await);
        let snapshot = ServedText { content: TextContent::Snapshot, is_gzip: false };
        assert!(text(&renderer, snapshot).await.starts_with('{'));
    }

    #[tokio::test]
    async fn who_has_no_token_takes_no_room_from_those_who_have_it() {
        let (renderer, _publisher) = renderer();
        let body = Bytes::from(vec![0; MAX_IN_TRANSIT + 1]);
        let _in_transit = body.clone();
        let old = RenderedBody { body, until: Instant::now() };
        let what = ServedText { is_gzip: true, ..METRICS };
        let entry = RenderedText { what, rendered: watch::channel(Some(old)).1 };
        renderer.entries.lock().unwrap().push(entry);
        assert!(renderer.text(METRICS).await.is_none());
        let snapshot = ServedText { content: TextContent::Snapshot, is_gzip: false };
        assert!(renderer.text(snapshot).await.is_some());
    }
}
