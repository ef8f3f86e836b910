//! Splits the output of `scontrol` into records while it is read.

/// Maximum size of a record; one that is longer is dropped.
const MAX_RECORD_SIZE: usize = 8 << 20;
/// What is kept of the beginning of the output, to quote it.
const MAX_START_SIZE: usize = 512;

/// Collects lines into records, each of which begins with a line such as `JobId=…`.
#[derive(Debug)]
pub(super) struct RecordSplitter {
    /// What begins a record, at the start of a line or after scontrol's prompt.
    marker: &'static [u8],
    /// The line that has not ended yet.
    line: Vec<u8>,
    record: Vec<u8>,
    /// Lines belong to no record: none has begun, or it is too long.
    is_outside: bool,
    /// Number of records that have begun.
    pub(super) count: usize,
    start: Vec<u8>,
}

/// Without echo, the prompt and the answer share a line.
const PROMPT: &[u8] = b"scontrol: ";

impl RecordSplitter {
    pub(super) fn new(marker: &'static str) -> Self {
        Self {
            marker: marker.as_bytes(),
            line: Vec::new(),
            record: Vec::new(),
            is_outside: true,
            count: 0,
            start: Vec::new(),
        }
    }

    /// Returns true if the last line that has arrived has no end.
    pub(super) fn is_inside_line(&self) -> bool {
        !self.line.is_empty()
    }

    /// Returns the beginning of the output.
    pub(super) fn start(&self) -> String {
        String::from_utf8_lossy(&self.start).into_owned()
    }

    /// Takes the next bytes, and passes on each record that they complete, without its marker.
    pub(super) fn push(&mut self, bytes: &[u8], on_record: &mut impl FnMut(&str)) {
        let room = MAX_START_SIZE.saturating_sub(self.start.len());
        self.start.extend(bytes.iter().take(room));
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // A line without an end is bounded as a record is.
            if self.line.len() <= MAX_RECORD_SIZE {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                self.end_line(on_record);
            }
        }
    }

    /// Passes on the last record, which may have been cut.
    pub(super) fn finish(&mut self, on_record: &mut impl FnMut(&str)) {
        self.end_line(on_record);
        self.end_record(on_record);
    }

    fn end_line(&mut self, on_record: &mut impl FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        while let Some(rest) = text.strip_prefix(PROMPT) {
            text = rest;
        }
        if let Some(text) = text.strip_prefix(self.marker) {
            self.begin_record(on_record);
            self.extend_record(text);
        } else {
            self.extend_record(&line);
        }
        // Its memory is used for the next line.
        self.line = line;
        self.line.clear();
    }

    fn begin_record(&mut self, on_record: &mut impl FnMut(&str)) {
        self.end_record(on_record);
        self.is_outside = false;
        self.count = self.count.saturating_add(1);
    }

    fn extend_record(&mut self, bytes: &[u8]) {
        if self.is_outside {
            return;
        }
        self.record.extend_from_slice(bytes);
        if self.record.len() > MAX_RECORD_SIZE {
            self.is_outside = true;
            self.record.clear();
        }
    }

    fn end_record(&mut self, on_record: &mut impl FnMut(&str)) {
        if !self.is_outside {
            on_record(&String::from_utf8_lossy(&self.record));
        }
        self.record.clear();
        self.is_outside = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(output: &str, chunk: usize) -> Vec<String> {
        let mut splitter = RecordSplitter::new("JobId=");
        let mut found = Vec::new();
        let mut on_record = |record: &str| found.push(record.to_owned());
        for bytes in output.as_bytes().chunks(chunk) {
            splitter.push(bytes, &mut on_record);
        }
        splitter.finish(&mut on_record);
        found
    }

    #[test]
    fn records_are_the_same_however_the_output_is_cut_into_chunks() {
        let output = "news\nJobId=1 JobName=é\n   A=1\n\nscontrol: JobId=2\n   B\nscontrol: scontrol: JobId=3";
        for chunk in 1..output.len() {
            let found = records(output, chunk);
            assert_eq!(found, ["1 JobName=é\n   A=1\n\n", "2\n   B\n", "3"], "{chunk}");
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_dropped_and_the_next_is_not() {
        let long = "x".repeat(MAX_RECORD_SIZE);
        for line in [format!("{long}\n"), "y\n".repeat(MAX_RECORD_SIZE / 2 + 1)] {
            let found = records(&format!("JobId=1\n{line}JobId=2\n"), 1 << 16);
            assert_eq!(found, ["2\n"]);
        }
    }
}
