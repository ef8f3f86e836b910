//! The output of a run: both streams in the order they were written, followed, searched, and read by windows.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::dialog::dialog_step::{DialogStep, ReplyStep};
use crate::dialog::output::document::{Document, Missing};
use crate::input::{Key, NamedKey};
use crate::request::UiRequest;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::Movement;
use crate::widgets::number_format::Units;
use crate::widgets::search::{SearchPrompt, SearchStep};
use gtop_model::{
    Bytes, OutputFile, OutputGrowth, OutputStream, RunId, RunReply, RunRequest, RunResponse,
};

mod document;
mod text;

/// Columns of a step sideways.
const SIDE_STEP: u16 = 16;

/// The viewer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutputDialog {
    run: RunId,
    title: Arc<str>,
    /// The opened files; `None` for the one of standard error if both are one file.
    files: [OutputState; 2],
    document: Document,
    /// The position of the first visible line.
    top: u64,
    /// Lines to scroll when they can be read.
    scroll: i64,
    is_following: bool,
    /// Columns scrolled to the right.
    side: u16,
    size: (u16, usize),
    asked: Vec<Missing>,
    prompt: SearchPrompt,
    search: Option<Search>,
    /// Where the last match is, until the user moves away from it.
    hit: Option<u64>,
    notice: Option<(String, Tone)>,
}

/// One of the outputs.
#[derive(Clone, Debug, PartialEq)]
enum OutputState {
    /// It is requested.
    Opening,
    Open(OutputFile),
    /// It is the same file as the other.
    Same,
    /// Why it cannot be read.
    Failed(Arc<str>),
}

impl OutputState {
    const fn file(&self) -> Option<&OutputFile> {
        if let Self::Open(file) = self { Some(file) } else { None }
    }
}

/// A search through the document.
#[derive(Clone, Debug, PartialEq)]
struct Search {
    is_backwards: bool,
    /// Where the search goes on; `None` if it is over.
    at: Option<u64>,
    /// Where it began: having gone around the end, it is over there.
    began_at: u64,
    has_wrapped: bool,
}

impl Search {
    /// Goes around the end of the text; returns false if the whole text has been searched.
    fn wrap(&mut self, length: u64) -> bool {
        if self.has_wrapped {
            self.at = None;
            return false;
        }
        self.has_wrapped = true;
        self.at = Some(if self.is_backwards { length } else { 0 });
        true
    }

    /// Returns true if the search has come around to where it began.
    fn is_around(&self, at: u64) -> bool {
        let is_behind = if self.is_backwards { at <= self.began_at } else { at >= self.began_at };
        self.has_wrapped && is_behind
    }
}

impl OutputDialog {
    pub(crate) fn new(run: RunId, title: Arc<str>) -> Self {
        Self {
            run,
            title,
            files: [OutputState::Opening, OutputState::Opening],
            document: Document::default(),
            top: 0,
            scroll: 0,
            is_following: true,
            side: 0,
            size: (80, 20),
            asked: Vec::new(),
            prompt: SearchPrompt::default(),
            search: None,
            hit: None,
            notice: None,
        }
    }

    pub(crate) const fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) const fn is_typing(&self) -> bool {
        self.prompt.is_typing()
    }

    /// Notes the size, the title included.
    pub(crate) fn resize(&mut self, width: u16, height: usize) {
        let failed = self.files.iter().filter(|file| matches!(file, OutputState::Failed(_)));
        let others = 1 + failed.count() + usize::from(self.is_typing());
        self.size = (width, height.saturating_sub(others).max(1));
    }

    fn open_files(&self) -> impl Iterator<Item = (usize, &OutputFile)> {
        let files = self.files.iter().enumerate();
        files.filter_map(|(index, stream)| Some((index, stream.file()?)))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are typed or mean nothing")]
    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        // The result of a search is shown until the next key.
        if !self.is_typing() {
            self.notice.take_if(|(_, tone)| *tone == Tone::Faint);
        }
        match self.prompt.on_key(key) {
            Some(SearchStep::Handled) => return ControlFlow::Continue(None),
            Some(SearchStep::Find { is_backwards }) => {
                return ControlFlow::Continue(self.start_search(is_backwards));
            }
            None => {}
        }
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') | Key::Letter('q' | 'o') => {
                return ControlFlow::Break(None);
            }
            Key::Letter('a' | 'f') => self.is_following = !self.is_following,
            Key::Letter('1') => self.toggle(0),
            Key::Letter('2') => self.toggle(1),
            Key::Named(NamedKey::Left) => self.side = self.side.saturating_sub(SIDE_STEP),
            Key::Named(NamedKey::Right) => {
                self.side = self.side.saturating_add(SIDE_STEP).min(60_000);
            }
            key => {
                if let Some(movement) = Movement::from_dialog_key(key) {
                    self.move_by(movement);
                }
            }
        }
        ControlFlow::Continue(None)
    }

    fn move_by(&mut self, movement: Movement) {
        let page = i64::try_from(self.size.1).unwrap_or(i64::MAX);
        self.hit = None;
        self.is_following = movement == Movement::End;
        match movement {
            Movement::Up => self.scroll -= 1,
            Movement::Down => self.scroll += 1,
            Movement::PageUp => self.scroll -= page,
            Movement::PageDown => self.scroll += page,
            Movement::Home => (self.top, self.scroll) = (0, 0),
            Movement::End => self.scroll = 0,
        }
    }

    /// Hides a stream or shows it again; one is always shown.
    fn toggle(&mut self, index: usize) {
        let is_hidden = self.document.is_hidden(index);
        let is_only = !is_hidden && self.document.is_hidden(1 - index.min(1));
        if is_only || self.open_files().count() < 2 {
            return;
        }
        let place = self.document.place(self.top);
        self.hit = None;
        self.document.set_hidden(index, !is_hidden);
        // The line on top stays if it is still shown.
        let top = place.and_then(|(file, offset, _)| self.document.position_of(file, offset));
        self.top = top.unwrap_or_else(|| self.top.min(self.document.length()));
    }

    fn start_search(&mut self, is_backwards: bool) -> Option<UiRequest> {
        self.is_following = false;
        let at = match (self.hit, is_backwards) {
            // Not in the line of the match that was found last.
            (Some(hit), false) => {
                let line = self.document.line_at(hit).ok().flatten();
                line.map_or(hit.saturating_add(1), |(_, _, next)| next)
            }
            (Some(hit), true) => {
                let start = self.document.line_before(hit.saturating_add(1)).ok().flatten();
                start.map_or(hit, |start| start.min(hit))
            }
            (None, _) => self.top,
        };
        self.search = Some(Search { is_backwards, at: Some(at), began_at: at, has_wrapped: false });
        self.continue_search()
    }

    /// Asks for the next part of the search, which goes around the end once.
    fn continue_search(&mut self) -> Option<UiRequest> {
        let search = self.search.as_mut()?;
        let length = self.document.length();
        let (at, offset, file) = loop {
            let at = search.at?;
            let position = if search.is_backwards { at.checked_sub(1) } else { Some(at) };
            let place = position.filter(|_| !search.is_around(at));
            let place = place.and_then(|position| self.document.place(position));
            if let Some((file, offset, _)) = place
                && let Some(file) = self.files.get(file).and_then(OutputState::file)
            {
                break (at, offset, file);
            }
            if !search.wrap(length) {
                self.notice = Some((self.prompt.not_found(), Tone::Warn));
                return None;
            }
        };
        let length = length.max(1);
        let done = if search.is_backwards { length.saturating_sub(at) } else { at };
        let percent = u128::from(done) * 100 / u128::from(length);
        self.notice = Some((format!("searching… {percent} %"), Tone::Faint));
        Some(UiRequest::Runs(vec![RunRequest::FindInOutput {
            output: file.output,
            offset: offset + u64::from(search.is_backwards),
            pattern: self.prompt.pattern.clone(),
            is_backwards: search.is_backwards,
        }]))
    }

    /// Handles the result of a part of the search; it may lie behind the requested range.
    fn on_found(&mut self, asked: u64, found: Option<u64>, searched: u64) -> Option<UiRequest> {
        let search = self.search.as_mut()?;
        let at = search.at?;
        let position = if search.is_backwards { at.checked_sub(1)? } else { at };
        let (file, _, range) = self.document.place(position)?;
        let hit = found.filter(|offset| range.contains(offset));
        if let Some(position) = hit.and_then(|offset| self.document.position_of(file, offset)) {
            search.at = None;
            let around = || (SearchPrompt::wrapped(search.is_backwards), Tone::Faint);
            self.notice = search.has_wrapped.then(around);
            (self.top, self.hit) = (position, Some(position));
            // The line of the match begins before it.
            self.scroll = 0;
            self.align_top();
            return None;
        }
        // A reply that does not advance would be requested forever.
        let is_stuck = searched == asked && found.is_none();
        let start = self.document.position_of(file, range.start)?;
        let (is_at_end, end) = if search.is_backwards {
            (searched <= range.start, start)
        } else {
            (searched >= range.end, start + (range.end - range.start))
        };
        let is_done = is_at_end || is_stuck || found.is_some();
        search.at = Some(if is_done { end } else { self.document.position_of(file, searched)? });
        self.continue_search()
    }

    /// Moves the top to the beginning of its line, as far as that can be read.
    fn align_top(&mut self) {
        if let Ok(Some(start)) = self.document.line_before(self.top.saturating_add(1))
            && start <= self.top
        {
            self.top = start;
        }
    }

    /// Handles a reply; returns `None` if it is none of this dialog's.
    pub(crate) fn on_reply(&mut self, reply: &RunReply) -> Option<ReplyStep> {
        let request = match (&reply.request, &reply.result) {
            (RunRequest::OpenOutputs(run), result) if *run == self.run => match result {
                Ok(RunResponse::Outputs(files)) => self.on_open(files),
                Ok(_) => None,
                Err(error) => {
                    return Some(ControlFlow::Break(format!("output of {}: {error}", self.title)));
                }
            },
            (RunRequest::ReadOutput { output, offset, .. }, result) => {
                let (file, _) = self.open_files().find(|(_, file)| file.output == *output)?;
                self.asked.retain(|asked| asked.file != file || asked.offset != *offset);
                match result {
                    Ok(RunResponse::Read { offset, data, .. }) => {
                        self.document.add(file, *offset, data);
                        self.align_after_search();
                    }
                    Ok(_) => {}
                    Err(error) => self.notice = Some((error.to_string(), Tone::Bad)),
                }
                None
            }
            (RunRequest::FindInOutput { offset, pattern, .. }, result) => {
                if self.prompt.pattern != *pattern {
                    return Some(ControlFlow::Continue(None));
                }
                match result {
                    Ok(RunResponse::Found { at, searched, .. }) => {
                        self.on_found(*offset, *at, *searched)
                    }
                    Ok(_) => None,
                    Err(error) => {
                        self.notice = Some((error.to_string(), Tone::Bad));
                        None
                    }
                }
            }
            (RunRequest::FollowOutputs(_) | RunRequest::CloseOutputs(_), _) => None,
            _ => return None,
        };
        Some(ControlFlow::Continue(request))
    }

    fn align_after_search(&mut self) {
        if self.search.as_ref().is_some_and(|search| search.at.is_none()) && self.scroll == 0 {
            self.align_top();
        }
    }

    /// Notes the opened files; the one that was written last comes last.
    fn on_open(&mut self, files: &[Result<OutputFile, Arc<str>>; 2]) -> Option<UiRequest> {
        let [stdout, stderr] = files;
        let is_same =
            matches!((stdout, stderr), (Ok(one), Ok(other)) if one.identity == other.identity);
        let [stdout, stderr] = [stdout, stderr].map(|file| match file {
            Ok(file) => OutputState::Open(file.clone()),
            Err(reason) => OutputState::Failed(Arc::clone(reason)),
        });
        self.files = [stdout, if is_same { OutputState::Same } else { stderr }];
        let mut order: Vec<(usize, OutputFile)> =
            self.open_files().map(|(index, file)| (index, file.clone())).collect();
        order.sort_by(|(_, one), (_, other)| one.written_at.total_cmp(&other.written_at));
        for (index, file) in &order {
            self.document.append(*index, 0..file.size);
        }
        self.top = self.document.length();
        let open: Vec<_> = files.iter().flatten().map(|file| file.output).collect();
        let shown: Vec<_> = order.iter().map(|(_, file)| file.output).collect();
        let unused = open.into_iter().filter(|output| !shown.contains(output)).collect::<Vec<_>>();
        let mut requests = Vec::new();
        if !unused.is_empty() {
            requests.push(RunRequest::CloseOutputs(unused));
        }
        if !shown.is_empty() {
            requests.push(RunRequest::FollowOutputs(shown));
        }
        (!requests.is_empty()).then_some(UiRequest::Runs(requests))
    }

    /// Closes outputs whose dialog is gone.
    pub(crate) fn unclaimed(reply: &RunReply) -> Option<UiRequest> {
        let (RunRequest::OpenOutputs(_), Ok(RunResponse::Outputs(files))) =
            (&reply.request, &reply.result)
        else {
            return None;
        };
        let open: Vec<_> = files.iter().flatten().map(|file| file.output).collect();
        (!open.is_empty()).then(|| UiRequest::Runs(vec![RunRequest::CloseOutputs(open)]))
    }

    /// Takes news of a followed output.
    pub(crate) fn on_growth(&mut self, growth: &OutputGrowth) -> Option<UiRequest> {
        let (index, _) = self.open_files().find(|(_, file)| file.output == growth.output)?;
        let Some(OutputState::Open(file)) = self.files.get_mut(index) else { return None };
        let before = file.size;
        file.size = growth.size;
        if growth.is_truncated || growth.size < before {
            self.hit = None;
            self.document.forget(index);
            self.document.append(index, 0..growth.size);
            self.top = self.top.min(self.document.length());
            self.notice =
                Some((format!("{} was emptied; showing its new content", file.path), Tone::Warn));
        } else {
            self.document.append(index, before..growth.size);
        }
        self.document.add(index, growth.from, &growth.data);
        if growth.is_rotated {
            let text = format!(
                "{} was replaced by another file; open the output again to read it",
                file.path
            );
            self.notice = Some((text, Tone::Warn));
        }
        None
    }

    pub(crate) fn closing_requests(&self) -> Option<UiRequest> {
        let open: Vec<_> = self.open_files().map(|(_, file)| file.output).collect();
        (!open.is_empty()).then(|| UiRequest::Runs(vec![RunRequest::CloseOutputs(open)]))
    }

    /// Scrolls as far as the text can be read; returns the requests for what is missing.
    pub(crate) fn due(&mut self) -> Vec<RunRequest> {
        let missing = self.apply_scroll().err().or_else(|| self.visible().err());
        let Some(missing) = missing.filter(|missing| !self.asked.contains(missing)) else {
            return Vec::new();
        };
        let Some(OutputState::Open(file)) = self.files.get(missing.file) else { return Vec::new() };
        let output = file.output;
        self.asked.push(missing);
        let length = u32::try_from(missing.length).unwrap_or(u32::MAX);
        vec![RunRequest::ReadOutput { output, offset: missing.offset, length }]
    }

    fn apply_scroll(&mut self) -> Result<(), Missing> {
        let last = self.last_top()?;
        if self.is_following {
            (self.top, self.scroll) = (last, 0);
            return Ok(());
        }
        while self.scroll < 0 {
            match self.document.line_before(self.top)? {
                Some(before) => self.top = before,
                None => self.scroll = -1,
            }
            self.scroll += 1;
        }
        while self.scroll > 0 {
            match self.document.line_at(self.top)? {
                Some((_, _, next)) if self.top < last => self.top = next,
                _ => self.scroll = 1,
            }
            self.scroll -= 1;
        }
        self.top = self.top.min(last);
        Ok(())
    }

    /// Returns the top with which the last line is at the bottom.
    fn last_top(&self) -> Result<u64, Missing> {
        let mut position = self.document.length();
        for _ in 0..self.size.1 {
            match self.document.line_before(position)? {
                Some(before) => position = before,
                None => break,
            }
        }
        Ok(position)
    }

    /// Returns the visible lines: the stream and the bytes of each.
    fn visible(&self) -> Result<Vec<(usize, &[u8])>, Missing> {
        let (mut position, mut lines) = (self.top, Vec::new());
        while lines.len() < self.size.1 {
            let Some((file, bytes, next)) = self.document.line_at(position)? else { break };
            lines.push((file, bytes));
            position = next;
        }
        Ok(lines)
    }

    pub(crate) fn lines(&self, width: u16, max_lines: usize) -> Vec<Line> {
        let mut lines = vec![self.title_line().truncated(width)];
        for stream in OutputStream::ALL {
            let index = usize::from(stream == OutputStream::Stderr);
            if let Some(OutputState::Failed(reason)) = self.files.get(index) {
                let text = format!("{}: {reason}", stream.as_str());
                lines.push(Line::styled(text, Tone::Warn).truncated(width));
            }
        }
        let has_both = self.open_files().count() > 1;
        let room = max_lines.saturating_sub(lines.len() + usize::from(self.is_typing()));
        // What cannot be read yet is drawn when it has arrived.
        for (file, bytes) in self.visible().unwrap_or_default().into_iter().take(room) {
            let base = if has_both && file == 1 { Tone::Bad } else { Tone::Plain };
            let line = self.prompt.marked(text::render(bytes, base));
            lines.push(text::scrolled(line, self.side).truncated(width));
        }
        if let Some(prompt) = self.prompt.line(width) {
            lines.resize(max_lines.saturating_sub(1), Line::new());
            lines.push(prompt);
        }
        lines.resize(max_lines, Line::new());
        lines
    }

    fn title_line(&self) -> Line {
        let mut line = Line::styled(format!("output of {}", self.title), Tone::Strong);
        let length = self.document.length();
        let percent = u128::from(self.top) * 100 / u128::from(length.max(1));
        line = if self.is_following {
            line.text("  following", Tone::Low)
        } else {
            line.text(format!("  {percent} %"), Tone::Accent)
        };
        if let Some((text, tone)) = &self.notice {
            line = line.text(format!("  {text}"), *tone);
        }
        for (index, file) in self.open_files() {
            let name = if matches!(self.files, [_, OutputState::Same]) {
                "stdout and stderr"
            } else if index == 0 {
                "stdout"
            } else {
                "stderr"
            };
            let is_hidden = self.document.is_hidden(index);
            let tone = if is_hidden { Tone::Faint } else { Tone::Plain };
            let size = Units::default().amount(Bytes(file.size));
            let state = match (is_hidden, file.is_deleted) {
                (true, _) => ", hidden",
                (false, true) => ", deleted",
                (false, false) => "",
            };
            let short = file.path.rsplit_once('/').map_or(&*file.path, |(_, name)| name);
            let path = if self.size.0 < 120 { short } else { &*file.path };
            line = line.text(format!("  {name} {path} ({size}{state})"), tone);
        }
        if matches!(self.files, [OutputState::Opening, _]) {
            line = line.text("  opening…", Tone::Faint);
        }
        line
    }

    pub(crate) const fn hints(&self) -> &'static [(&'static str, &'static str)] {
        if self.is_typing() {
            return SearchPrompt::TYPING_HINTS;
        }
        &[
            ("↑ ↓ PgUp PgDn", "scroll"),
            ("← →", "sideways"),
            ("a", "follow"),
            ("/ n N", "search"),
            ("1 2", "streams"),
            ("Esc", "close"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::OutputId;

    const TEXT: &str = "a needle 1\nb\nc needle needle 2\nd\ne\n";

    fn opened() -> OutputDialog {
        let run = RunId { folder: "runs".into(), name: "train".into() };
        let mut dialog = OutputDialog::new(run, "train".into());
        let file = OutputFile {
            output: OutputId { session: 0, handle: 1 },
            path: "/log".into(),
            size: u64::try_from(TEXT.len()).unwrap(),
            identity: "1:2".into(),
            written_at: 1.0,
            is_deleted: false,
        };
        dialog.on_open(&[Ok(file), Err("a pipe".into())]);
        dialog.document.add(0, 0, TEXT.as_bytes());
        dialog.resize(80, 4);
        dialog
    }

    /// Answers the requests of a search as the script does, from the text.
    fn serve(dialog: &mut OutputDialog, request: Option<UiRequest>) {
        let mut next = request;
        while let Some(UiRequest::Runs(requests)) = next {
            let [RunRequest::FindInOutput { offset, pattern, is_backwards, .. }] = &*requests
            else {
                panic!("{requests:?}")
            };
            let at = usize::try_from(*offset).unwrap();
            let (found, searched) = if *is_backwards {
                let starts = TEXT.match_indices(pattern.as_str()).map(|(start, _)| start);
                (starts.filter(|start| *start < at).last(), 0)
            } else {
                (TEXT.get(at..).unwrap().find(pattern).map(|found| at + found), TEXT.len())
            };
            let [found, searched] = [found, Some(searched)].map(|one| one.map(|one| one as u64));
            next = dialog.on_found(*offset, found, found.or(searched).unwrap());
        }
    }

    fn search(
        dialog: &mut OutputDialog,
        pattern: &str,
        is_backwards: bool,
    ) -> (Option<u64>, String) {
        pattern.clone_into(&mut dialog.prompt.pattern);
        let request = dialog.start_search(is_backwards);
        serve(dialog, request);
        // What follows the frame that shows it.
        dialog.due();
        let notice = dialog.notice.as_ref().map_or_else(String::new, |(text, _)| text.clone());
        (dialog.hit, notice)
    }

    #[test]
    fn a_search_goes_on_behind_each_match_and_around_the_end() {
        let mut dialog = opened();
        dialog.move_by(Movement::Home);
        let (plain, from_top, from_end) =
            (String::new(), "search continued from the beginning", "search continued from the end");
        assert_eq!(search(&mut dialog, "needle", false), (Some(2), plain.clone()));
        // Not the second one of the same line, although the text ends on the screen.
        assert_eq!(search(&mut dialog, "needle", false), (Some(15), plain.clone()));
        assert_eq!(search(&mut dialog, "needle", false), (Some(2), from_top.to_owned()));
        assert_eq!(search(&mut dialog, "needle", true), (Some(22), from_end.to_owned()));
        assert_eq!(search(&mut dialog, "needle", true), (Some(2), plain.clone()));
        assert_eq!(search(&mut dialog, "a ", true), (Some(0), from_end.to_owned()));
        let missing = (Some(0), "\"nothing\" not found".to_owned());
        for is_backwards in [false, true] {
            assert_eq!(search(&mut dialog, "nothing", is_backwards), missing);
        }
        // From where one has moved to.
        dialog.move_by(Movement::End);
        dialog.due();
        assert_eq!(search(&mut dialog, "needle", false), (Some(2), from_top.to_owned()));
        dialog.move_by(Movement::End);
        dialog.due();
        assert_eq!(search(&mut dialog, "e", false), (Some(33), plain));
    }

    #[test]
    fn an_empty_output_holds_nothing() {
        let run = RunId { folder: "runs".into(), name: "train".into() };
        let mut dialog = OutputDialog::new(run, "train".into());
        for is_backwards in [false, true] {
            assert_eq!(search(&mut dialog, "x", is_backwards), (None, "\"x\" not found".into()));
        }
    }
}
