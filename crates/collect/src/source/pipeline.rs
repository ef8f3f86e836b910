//! From deliveries to the fleet: one ordered stream and one sink per node.
//!
//! Nothing is queued and nothing is dropped here. Knows nothing of sessions.

use std::sync::Arc;

use crate::record::RecorderSink;
use crate::wire::{Decoder, Delivery, DeliverySink};
use gtop_fleet::{FleetStore, NodeBuilder};
use gtop_model::{Device, NodeName, SessionUpdate, Source};

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

    /// Returns the sink for the deliveries of one node: each is decoded, changes the node, and is recorded as it came.
    pub fn sink(&self, node: NodeName) -> DeliverySink {
        let store = Arc::clone(&self.store);
        let mut recorder = self.recorder.as_ref().map(|recorder| recorder.node(&node));
        let mut builder = NodeBuilder::new(node, self.store.history_span());
        let mut decoder = Decoder::default();
        let mut gone: Vec<(Source, Device)> = Vec::new();
        Box::new(move |delivery| {
            let at = delivery.at;
            let mut updates = decoder.updates(&delivery).peekable();
            let has_changed = updates.peek().is_some();
            updates.for_each(|update| builder.apply(update));
            if has_changed {
                store.prepare(&mut builder);
                store.update(builder.node());
            }
            let Some(recorder) = &mut recorder else { return };
            recorder.on_delivery(delivery);
            let devices = builder.node().gone_devices();
            let mut pairs = devices.iter().zip(&gone);
            if devices.len() != gone.len() || pairs.any(|((_, new), (_, old))| new.uuid != old.uuid)
            {
                gone.clone_from(&devices);
                recorder.on_delivery(Delivery { at, raw: SessionUpdate::Gone(devices).into() });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::body::{Body, Hello, Host, Sample};
    use crate::wire::{FrameReader, RawUpdate, Received, encode};
    use gtop_fleet::PublishIntervals;
    use gtop_local::time::Timestamp;

    fn delivery(second: i64, body: &Body) -> Delivery {
        let mut reader = FrameReader::default();
        reader.push(encode(body));
        let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("no frame") };
        let at = Timestamp::from_micros(second * 1_000_000);
        Delivery { at, raw: RawUpdate::Frame(frame) }
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
