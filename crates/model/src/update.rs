//! Updates of a node, from any source: the only input of the fleet.

use std::time::Duration;

use crate::device::Device;
use crate::event::Event;
use crate::fault::{Link, TransportKind};
use crate::id::Source;
use crate::sample::{Hello, Sample};

/// What changes in a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeUpdate {
    /// The session has changed.
    Session(SessionUpdate),
    /// A probe introduces itself and its host.
    Hello(Hello),
    /// A sample, or a source's fault.
    Sample(Box<Sample>),
    /// A device event.
    Event(Event),
}

/// A change of the session with a node, from gtop itself.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionUpdate {
    /// The connection changed.
    Link(Link),
    /// A session is open, by this transport.
    Reached(TransportKind),
    /// The requested sampling interval has changed.
    Interval(Duration),
    /// Of what arrives, a recording keeps one sample in this time.
    RecordedEvery(Duration),
    /// The devices that are gone, and the source that listed each; a recording repeats them, because no frame does.
    Gone(Vec<(Source, Device)>),
}
