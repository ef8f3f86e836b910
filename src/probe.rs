//! temporary
use std::time::Duration;
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub enum Interpreter {
    Python,
    Shell,
}
#[allow(missing_docs)]
pub struct Settings<'a> {
    pub node: &'a str,
    pub interval: Duration,
}
#[allow(missing_docs)]
#[derive(Debug)]
pub enum Command {
    Heartbeat,
    Interval(Duration),
    Focus(Option<Duration>),
    Full,
}
#[allow(missing_docs)]
pub struct Greeting;
#[allow(missing_docs)]
impl Greeting {
    pub fn new(_: &str) -> Self {
        Self
    }
    pub fn push(&mut self, _: &[u8]) -> Option<Interpreter> {
        None
    }
    pub fn noise(&self) -> String {
        String::new()
    }
}
#[allow(missing_docs)]
pub fn launch_line(_: &str, _: &Settings<'_>) -> String {
    String::new()
}
#[allow(missing_docs)]
pub fn source(_: Interpreter, _: &str, _: &Settings<'_>) -> Vec<u8> {
    vec![]
}
#[allow(missing_docs)]
pub fn encode(_: u64, _: &str, _: &Command) -> String {
    String::new()
}
