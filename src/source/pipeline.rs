//! From deliveries to the fleet: one ordered stream and one sink per node.
//!
//! Nothing is queued and nothing is dropped here. Knows nothing of sessions.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::{FleetStore, Node, NodeBuilder};
use crate::model::{Device, Link, NodeName, Source};
use crate::record::RecorderSink;
use crate::time::Timestamp;
use crate::wire::{Decoded, Decoder, Delivery, EventSink, NodeEvent};

/// Passes deliveries of sessions to a store, and to a recorder if there is one.
#[derive(Debug)]
pub struct Pipeline {
    store: Arc<FleetStore>,
    recorder: Option<RecorderSink>,
}

impl Pipeline {
    /// Makes a pipeline that writes to `store`.
    pub fn new(store: Arc<FleetStore>) -> Self {
        Self { store, recorder: None }
    }

    /// Returns the same with a recorder.
    #[must_use]
    pub fn with_recorder(self, recorder: Option<RecorderSink>) -> Self {
        Self { recorder, ..self }
    }

    /// Returns the sink for the deliveries of one node.
    pub fn sink(&self, node: NodeName) -> EventSink {
        let store = Arc::clone(&self.store);
        let mut recorder = self.recorder.as_ref().map(|recorder| recorder.node(&node));
        let mut pipeline = NodePipeline::new(node, self.store.history_span());
        let mut gone: Vec<(Source, Device)> = Vec::new();
        Box::new(move |delivery| {
            let at = delivery.at;
            if pipeline.apply(&delivery) {
                store.prepare(&mut pipeline.builder);
                store.update(pipeline.node());
            }
            if let Some(recorder) = &mut recorder {
                recorder.on_delivery(delivery);
                let node = pipeline.builder.node();
                let devices = node.gone_devices();
                if devices.len() != gone.len()
                    || devices.iter().zip(&gone).any(|(new, old)| new.1.uuid != old.1.uuid)
                {
                    gone.clone_from(&devices);
                    recorder.on_delivery(Delivery { at, event: NodeEvent::Gone(devices) });
                }
            }
        })
    }
}

/// Builds one node from its deliveries.
#[derive(Debug)]
pub(super) struct NodePipeline {
    builder: NodeBuilder,
    decoder: Decoder,
}

impl NodePipeline {
    pub(super) fn new(node: NodeName, history_span: Duration) -> Self {
        Self { builder: NodeBuilder::new(node, history_span), decoder: Decoder::default() }
    }

    pub(super) fn node(&self) -> Arc<Node> {
        self.builder.node()
    }

    /// Goes on after deliveries that are missing: what is not sent again is unknown. Frames arrive, so the session is up.
    pub(super) fn resume(&mut self, at: Timestamp) {
        self.decoder.forget_clock();
        self.builder.forget_readings();
        self.apply(&Delivery { at, event: NodeEvent::Link(Link::Up) });
    }

    /// Begins with a checkpoint: what is known of an earlier session, or of deliveries before missing ones, does not
    /// continue. Events since a time are in it.
    pub(super) fn restore(&mut self, at: Timestamp, events_from: Option<Timestamp>) {
        if let Some(from) = events_from {
            self.builder.restore_readings(from);
        }
        self.apply(&Delivery { at, event: NodeEvent::Link(Link::Opening { attempt: 1 }) });
    }

    /// Applies one delivery; returns true if the node has changed.
    pub(super) fn apply(&mut self, delivery: &Delivery) -> bool {
        let Self { builder, decoder } = self;
        match &delivery.event {
            NodeEvent::Link(link) => {
                if matches!(link, Link::Opening { .. }) {
                    // The clock offset of the last session does not apply to the next one.
                    *decoder = Decoder::default();
                }
                builder.on_link(link.clone());
            }
            NodeEvent::Transport(via) => builder.on_transport(*via),
            NodeEvent::Interval(interval) => builder.set_interval(*interval),
            NodeEvent::RecordedEvery(interval) => builder.set_min_interval(*interval),
            NodeEvent::Gone(devices) => builder.restore_gone(devices),
            NodeEvent::Frame(frame) => match decoder.decode(&frame.body, delivery.at) {
                Some(Decoded::Hello(hello)) => builder.on_hello(hello),
                Some(Decoded::Sample(sample)) => builder.on_sample(*sample),
                Some(Decoded::Event(event)) => builder.on_event(event),
                Some(Decoded::Bye(_)) | None => return false,
            },
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::PublishIntervals;
    use crate::wire::body::{Body, Hello, Host, Sample};
    use crate::wire::{FrameReader, Received, encode};

    fn delivery(second: i64, body: &Body) -> Delivery {
        let mut reader = FrameReader::default();
        reader.push(&encode(body));
        let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("no frame") };
        let at = Timestamp::from_micros(second * 1_000_000);
        Delivery { at, event: NodeEvent::Frame(frame) }
    }

    #[tokio::test(start_paused = true)]
    async fn deliveries_are_published() {
        let node = NodeName::new("gpu01").unwrap();
        let store = FleetStore::new([node.clone()], Duration::from_secs(60));
        let mut reader = store.reader();
        let pipeline = Pipeline::new(Arc::clone(&store));
        let mut sink = pipeline.sink(node.clone());
        let publisher = async move { store.publish(PublishIntervals::default()).await };
        let hello = Body::Hello(Hello { v: 1, at: 10.0, host: "gpu01".into(), ..Hello::default() });
        let host = Host { at: 11.0, memory_total: 5.into(), ..Host::default() };
        let sample = Body::Sample(Sample { n: 1, at: 11.0, host: Some(host), ..Sample::default() });
        let writing = async {
            for delivery in [delivery(100, &hello), delivery(101, &sample)] {
                sink(delivery);
            }
            loop {
                reader.changed().await.unwrap();
                let fleet = reader.borrow_and_update().clone();
                let known = fleet.node(&node).unwrap().host.fast.memory_total;
                if known.get().is_some() {
                    break fleet;
                }
            }
        };
        let fleet = tokio::select! {
            () = publisher => unreachable!("publishes until dropped"),
            fleet = writing => fleet,
        };
        assert_eq!(fleet.nodes.len(), 1);
    }
}
