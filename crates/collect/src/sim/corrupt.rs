//! Corrupts frames and answers for injected faults.

use crate::sim::injected_fault::InjectedFault;
use crate::wire::body::{Answer, Body};
use crate::wire::encode;
use gtop_model::ProcessRequest;

/// Output of login scripts before the nonce.
pub(crate) const BANNER: &str = "\x1b[1;31m*** gpu cluster: maintenance on Friday ***\x1b[0m\n\
     Last login: Thu Nov 20 09:12:44 2025\nmodules loaded: cuda/12.8 \x1b]0;login\x07% ";

/// Returns the frames that are sent for an answer.
pub(crate) fn corrupt_answers(
    fault: Option<InjectedFault>,
    request: ProcessRequest,
    answer: Answer,
) -> Vec<Vec<u8>> {
    match fault {
        Some(InjectedFault::NoAnswers) => vec![],
        Some(InjectedFault::CorruptAnswers) => {
            let id = answer.id;
            let other_id = Answer { id: id + 1_000, ..answer.clone() };
            let huge = Answer { why: Some("x".repeat(900_000)), ..other_id.clone() };
            let environ = matches!(request, ProcessRequest::Environment(_))
                .then(|| vec!["EVIL=\u{1b}]52;c;aGk=\u{7}\u{9b}2J\u{202e}".to_owned()]);
            let hostile = Answer {
                why: Some("\u{1b}[2J\u{7}no".to_owned()),
                environ: environ.or_else(|| answer.environ.clone()),
                ..answer.clone()
            };
            let broken =
                format!("\u{1e}gtop1 {{\"t\":\"answer\",\"id\":{id},\"environ\":\"SECRET=1\"}}\n");
            vec![frame(other_id), frame(huge), broken.into_bytes(), frame(hostile), frame(answer)]
        }
        _ => vec![frame(answer)],
    }
}

fn frame(answer: Answer) -> Vec<u8> {
    encode(&Body::Answer(Box::new(answer)))
}

/// Returns the bytes that are sent for the frame of sample `number`.
pub(crate) fn corrupt_frame(
    fault: Option<InjectedFault>,
    number: u64,
    mut frame: Vec<u8>,
) -> Vec<u8> {
    match fault {
        Some(InjectedFault::CutFrame { number: cut }) if cut == number => {
            frame.truncate(frame.len() / 2);
            frame
        }
        Some(InjectedFault::LostFrame { number: lost }) if lost == number => Vec::new(),
        Some(InjectedFault::HugeLine { number: huge }) if huge == number => {
            [vec![b'x'; 2 << 20], b"\n".to_vec(), frame].concat()
        }
        Some(InjectedFault::Garbage) if number % 6 == 3 => {
            b"\x1egtop1 {\"t\":\"sample\",\"n\":[}\n".to_vec()
        }
        Some(InjectedFault::Garbage) if number.is_multiple_of(6) => {
            b"\xff\xfe\x00\x1b[2J\x1b]52;c;aGk=\x07\n\x1egtop1 \xc3\x28\n".to_vec()
        }
        Some(InjectedFault::BannerNoise) => {
            [b"Broadcast message from root: \x07hi ".to_vec(), frame].concat()
        }
        _ => frame,
    }
}
