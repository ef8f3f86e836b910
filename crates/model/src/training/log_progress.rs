//! Progress that a log shows: lines of tqdm, Keras, Lightning, Hugging Face, Megatron, and plain `step N/M`.

use crate::{Estimate, MetricValue, Progress};

/// Bytes of a line that are looked at.
const MAX_LINE: usize = 2_000;
/// Lines that are looked at, from the end.
const MAX_LINES: usize = 200;
/// What a training is counted in.
#[rustfmt::skip]
const COUNTERS: [&str; 10] = [
    "epoch", "epochs", "step", "steps", "batch", "batches", "iter", "iters", "iteration",
    "iterations",
];
/// Words before those of a counter that tell how many there are.
const TOTALS: [&str; 3] = ["total", "max", "num"];
/// Words before those of a counter that make it no other one.
const COUNTER_PREFIXES: [&str; 9] =
    ["total", "max", "num", "global", "current", "train", "training", "val", "validation"];
/// Names of times, of counts, or of what is of the program rather than of its training.
#[rustfmt::skip]
const NO_METRICS: [&str; 12] = [
    "eta", "time", "it", "consumed samples",
    "elapsed time per iteration (ms)",
    // The number of a run in Lightning's folder of logs.
    "v_num",
    "rank", "local_rank", "world_size", "pid", "port", "seed",
];
/// What a bar is called: the percent behind it are of the bar.
#[rustfmt::skip]
const BARS: [&str; 8] = [
    "training", "train", "validation", "validating", "testing", "evaluating", "predicting",
    "progress",
];
/// Words that belong to the name of the metric behind them.
#[rustfmt::skip]
const QUALIFIERS: [&str; 18] = [
    "train", "training", "val", "valid", "validation", "test", "eval", "dev", "best", "avg",
    "average", "mean", "total", "max", "num", "lm", "learning", "grad",
];
/// A line without a counter tells of the training if the name of a metric holds one of these.
const SURE_METRICS: [&str; 4] = ["loss", "acc", "ppl", "perplexity"];
/// Maximum number of metrics, and length of their names.
const MAX_METRICS: usize = 32;
const MAX_NAME: usize = 40;

/// Returns what the last lines of a log show; a later line wins.
pub fn progress_of_log(tail: &str) -> Progress {
    let mut progress = Progress::default();
    let lines = tail.split(['\n', '\r']).filter(|line| !line.trim().is_empty());
    let mut lines: Vec<&str> = lines.rev().take(MAX_LINES).collect();
    lines.reverse();
    let mut metrics: Vec<(String, MetricValue)> = Vec::new();
    for line in lines {
        let line = plain(line);
        read_line(&line, &mut progress, &mut metrics);
    }
    progress.metrics = metrics.into_iter().map(|(name, value)| (name.into(), value)).collect();
    progress
}

/// Returns the beginning of a line without colours.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' {
            // The parameters end with a letter.
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else if !letter.is_control() || letter == '\t' {
            text.push(letter);
        }
        if text.len() >= MAX_LINE {
            break;
        }
    }
    text
}

fn read_line(line: &str, progress: &mut Progress, metrics: &mut Vec<(String, MetricValue)>) {
    let lower = line.to_ascii_lowercase();
    let mut has_counter = false;
    if let Some(ProgressCount { done: epoch, total }) = counter_after(&lower, "epoch") {
        has_counter = true;
        // Keras and others count from 1 if there is a total, Lightning from 0.
        let first = u64::from(total.is_some());
        progress.epoch = Some(epoch.saturating_sub(first));
        progress.total_epochs = total.or(progress.total_epochs);
    }
    let bar = bar_counter(line);
    if bar.is_some() {
        progress.training = bar_times(line);
    }
    if let Some(ProgressCount { done: batch, total }) =
        bar.or_else(|| batch_counter(&lower, has_counter))
    {
        has_counter = true;
        progress.batch = Some(batch);
        progress.total_batches = total.or(progress.total_batches);
    }
    if let Some(millis) =
        number_after(&lower, "elapsed time per iteration (ms)").filter(|millis| *millis > 0.0)
    {
        progress.training.rate = Some(1_000.0 / millis);
    }
    if let Some(samples) = number_after(&lower, "consumed samples") {
        progress.samples = whole(samples);
    }
    let named = named_numbers(&lower);
    if has_counter {
        read_totals(&named, progress);
    }
    read_metrics(named, has_counter, progress, metrics);
    let is_progress = progress.batch.is_some() || progress.epoch.is_some();
    if is_progress && progress.phase.is_none() {
        progress.phase = Some("training".into());
    }
    if lower.contains("validat") {
        progress.phase = Some("validation".into());
    } else if lower.contains("train") {
        progress.phase = Some("training".into());
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
}

/// Splits off a number of digits.
fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, rest))
}

/// How many epochs or batches are done, of how many.
struct ProgressCount {
    done: u64,
    total: Option<u64>,
}

/// Returns the number behind a word, and the one behind a slash or `of`: `step 3/10`, `Epoch [3/10]`, `iteration 3/ 10`.
fn counter_after(line: &str, word: &str) -> Option<ProgressCount> {
    let mut from = 0;
    while let Some(at) = line.get(from..).and_then(|rest| rest.find(word)) {
        let start = from + at;
        from = start + word.len();
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        let rest = line.get(from..).unwrap_or_default();
        if before.is_some_and(char::is_alphanumeric) || rest.starts_with(char::is_alphabetic) {
            continue;
        }
        let qualifier = line.get(..start).unwrap_or_default().trim_end_matches([' ', '_']);
        if TOTALS.iter().any(|word| qualifier.ends_with(word)) {
            continue;
        }
        let rest = rest.trim_start_matches([' ', ':', '[', '(', '=', '#', '\'', '"', '\t']);
        let Some((number, rest)) = digits(rest) else { continue };
        // 1.2 epochs are no counter.
        if rest.starts_with('.')
            && rest.get(1..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            continue;
        }
        return Some(ProgressCount { done: number, total: total(rest) });
    }
    None
}

/// Returns the counter of batches of a line in lowercase, with the total if it has one.
fn batch_counter(line: &str, has_epoch: bool) -> Option<ProgressCount> {
    let mut words = ["iteration", "step", "batch", "iter"].into_iter();
    let counter = words.find_map(|word| counter_after(line, word));
    let counter = counter.or_else(|| has_epoch.then(|| bracket_counter(line))?);
    // DeepSpeed has `steps: 10 loss: 0.5`; without a loss, it is how many there will be.
    let mut plurals = ["iterations", "steps", "batches", "iters"].into_iter();
    counter.or_else(|| {
        plurals.find_map(|word| counter_after(line, word)).filter(|_| line.contains("loss"))
    })
}

/// Returns the counter in brackets that is not the one of epochs: `Train Epoch: 1 [640/60000 (1%)]` of torch's examples,
/// whose batches are counted in samples, and `Epoch: [0][ 10/5005]`.
fn bracket_counter(line: &str) -> Option<ProgressCount> {
    line.match_indices('[').find_map(|(at, _)| {
        let (before, inside) = line.split_at_checked(at)?;
        let is_of_epoch = before.trim_end_matches([' ', ':']).ends_with("epoch");
        let (count, rest) = digits(inside.get(1..)?.trim_start())?;
        let total = total(rest).filter(|_| !is_of_epoch && rest.starts_with('/'))?;
        Some(ProgressCount { done: count, total: Some(total) })
    })
}

/// Returns the number behind a slash or `of`; zero is none.
fn total(rest: &str) -> Option<u64> {
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('/').or_else(|| rest.strip_prefix("of "))?;
    digits(rest.trim_start()).map(|(total, _)| total).filter(|total| *total > 0)
}

/// Returns the counter of a progress bar: `42/100 [` and `1.20k/10.0k [` of tqdm, or without a total `42it [`; `12/50 ━━━`
/// and `12/50 [=` of Keras. Bars of bytes are of downloads.
fn bar_counter(line: &str) -> Option<ProgressCount> {
    let start = match line.rfind('|') {
        Some(bar) if line.contains("it/s") || line.contains("s/it") || line.contains('[') => {
            line.get(bar + 1..)?.trim_start()
        }
        _ => line.trim_start(),
    };
    let (count, rest) = scaled(start)?;
    if line.contains("B/s") {
        return None;
    }
    if rest.starts_with("it [") {
        return Some(ProgressCount { done: whole(count)?, total: None });
    }
    let (total, rest) = scaled(rest.strip_prefix('/')?.trim_start())?;
    let rest = rest.trim_start();
    let is_bar = total > 0.0 && rest.starts_with(['[', '━', '─']);
    is_bar.then_some(ProgressCount { done: whole(count)?, total: Some(whole(total)?) })
}

/// Splits off a number as tqdm writes it with `unit_scale`, such as `1.20k`; rounded.
fn scaled(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    let factors = [('k', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
    let factor = factors.into_iter().find(|(letter, _)| rest.starts_with(*letter));
    let (factor, rest) =
        factor.map_or((1.0, rest), |(_, factor)| (factor, rest.get(1..).unwrap_or_default()));
    Some(((number * factor).round(), rest))
}

/// Returns the times of a bar: `[00:10<00:14,  4.15it/s]`, `3s 20ms/step`, `ETA: 3s`.
fn bar_times(line: &str) -> Estimate {
    let mut times = Estimate::default();
    if let Some((_, inside)) = line.rsplit_once('[')
        && let Some((elapsed, rest)) = inside.split_once('<')
    {
        times.elapsed = clock(elapsed);
        times.remaining = rest.split([',', ']']).next().and_then(clock);
        times.rate = rest.split_once(',').and_then(|(_, rate)| bar_rate(rate.trim_start()));
    }
    if let Some(number) = number_before(line, "it/s") {
        times.rate = Some(number);
    }
    if let Some(number) = number_before(line, "s/it") {
        times.rate = Some(1.0 / number);
    }
    for (unit, factor) in [("us/step", 1e-6), ("ms/step", 1e-3), ("s/step", 1.0)] {
        let rate = number_before(line, unit).map(|number| 1.0 / (number * factor));
        times.rate = times.rate.or(rate);
    }
    if let Some((_, eta)) = line.split_once("ETA: ") {
        times.remaining =
            eta.split([' ', '-']).next().and_then(|eta| clock(eta.trim_end_matches('s')));
    }
    times.total =
        times.elapsed.zip(times.remaining).map(|(elapsed, remaining)| elapsed + remaining);
    times
}

/// Returns the positive number before a unit.
fn number_before(line: &str, unit: &str) -> Option<f64> {
    let (before, _) = line.split_once(unit)?;
    let number = before.rsplit([' ', ',', '\t']).next()?.parse().ok();
    number.filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// Parses the rate of a bar of any unit per second: `4.15it/s`, `1.20kit/s`, `20.0batch/s`, and `2.00s/it`.
fn bar_rate(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok().filter(|number| *number > 0.0)?;
    let unit = rest.split([',', ']', ' ']).next()?;
    if unit.starts_with("s/") {
        return Some(1.0 / number);
    }
    let factor = match unit.strip_suffix("/s")?.chars().next()? {
        'k' => 1e3,
        'M' => 1e6,
        _ => 1.0,
    };
    Some(number * factor)
}

/// Parses `10`, `01:02` and `1:02:03` as seconds.
fn clock(text: &str) -> Option<f64> {
    let mut seconds = 0_u64;
    for part in text.trim().split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    u32::try_from(seconds).ok().map(f64::from)
}

fn number_after(line: &str, words: &str) -> Option<f64> {
    let (_, rest) = line.split_once(words)?;
    number(rest.trim_start_matches([' ', ':', '=', '\'', '"']))
}

/// Parses the number at the beginning.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !is_in_number(c));
    let word = text.get(..end.unwrap_or(text.len()))?.trim_end_matches('.');
    let is_number = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let is_nan = word.eq_ignore_ascii_case("nan");
    if is_nan { Some(f64::NAN) } else { word.parse().ok().filter(|_| is_number) }
}

/// Returns pairs such as `loss: 0.5`, `acc=0.9`, `'loss': 0.5` and `| lm loss: 9.7e+00 |` of a line in lowercase.
fn named_numbers(line: &str) -> Vec<(&str, f64)> {
    let is_in_cells = line.contains('|');
    let cells = line.split('|').flat_map(|cell| match pair_of_cell(cell) {
        Some(pair) if is_in_cells => vec![pair],
        _ => pairs(cell),
    });
    cells.collect()
}

/// Reads totals that have names: `"step": 11, "total_steps": 100`.
fn read_totals(named: &[(&str, f64)], progress: &mut Progress) {
    for (name, value) in named {
        let is_total = name.split(is_between_words).any(|word| TOTALS.contains(&word));
        let total = whole(*value).filter(|total| is_total && *total > 0 && is_counter(name));
        if name.contains("epoch") {
            progress.total_epochs = total.or(progress.total_epochs);
        } else {
            progress.total_batches = total.or(progress.total_batches);
        }
    }
}

/// Returns true for the name of what a training is counted in, or of how many there are: `global_step`, `max epochs`.
fn is_counter(name: &str) -> bool {
    let mut words: Vec<&str> = name.split(is_between_words).collect();
    let is_of_counter = words.pop().is_some_and(|word| COUNTERS.contains(&word));
    is_of_counter && words.iter().all(|word| COUNTER_PREFIXES.contains(word))
}

fn is_between_words(letter: char) -> bool {
    " _-/.".contains(letter)
}

/// Returns true for what a number consists of, with an exponent, NaN and infinity.
fn is_in_number(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "+-.".contains(letter)
}

fn is_in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-/.".contains(letter)
}

/// Reads the metrics of a line. One that shows no progress has none.
fn read_metrics(
    named: Vec<(&str, f64)>,
    has_counter: bool,
    progress: &mut Progress,
    metrics: &mut Vec<(String, MetricValue)>,
) {
    let found = named.into_iter();
    let found = found.filter(|(name, _)| !NO_METRICS.contains(name) && !is_counter(name));
    let found: Vec<(&str, f64)> = found.collect();
    let mut sure = SURE_METRICS.iter();
    if !has_counter && !sure.any(|sure| found.iter().any(|(name, _)| name.contains(sure))) {
        return;
    }
    for (name, value) in found {
        let value = MetricValue::Number(value);
        match name {
            "loss" | "train_loss" | "train loss" | "training loss" | "lm loss" | "train/loss" => {
                progress.loss = Some(value);
            }
            "lr" | "learning_rate" | "learning rate" => progress.learning_rate = Some(value),
            _ => {
                let known = metrics.iter_mut().find(|(known, _)| known == name);
                if let Some((_, known)) = known {
                    *known = value;
                } else if metrics.len() < MAX_METRICS {
                    metrics.push((name.to_owned(), value));
                }
            }
        }
    }
}

/// Returns the pair that a cell of a table is, as Megatron writes them: the name is all that stands before the colon.
fn pair_of_cell(cell: &str) -> Option<(&str, f64)> {
    let (name, value) = cell.split_once(':')?;
    let value = value.trim();
    let is_number = !value.is_empty() && value.chars().all(is_in_number);
    let name = name.trim();
    let name = name.strip_prefix("number of ").unwrap_or(name);
    Some((name, number(value).filter(|_| is_number && is_name(name))?))
}

/// Returns the pairs of a text: a name, `:` or `=`, and a number that stands by itself.
fn pairs(text: &str) -> Vec<(&str, f64)> {
    text.match_indices([':', '=']).filter_map(|(at, sign)| pair_at(text, at, sign)).collect()
}

fn pair_at<'a>(text: &'a str, at: usize, sign: &str) -> Option<(&'a str, f64)> {
    let (before, rest) = text.split_at_checked(at)?;
    let rest = rest.get(1..)?;
    let word = rest.trim_start_matches([' ', '\'', '"']);
    let value = number(word)?;
    let behind = word.trim_start_matches(is_in_number);
    let name = name_at_end(before.trim_end_matches([' ', '\'', '"']));
    // Positions such as `main.py:12`, hosts with their ports, times and counters.
    let is_glued = sign == ":" && rest.starts_with(|c: char| c.is_ascii_digit());
    let is_position = is_glued && value.fract() == 0.0 && !before.ends_with(['\'', '"']);
    let next = behind.chars().nth(1);
    let is_part = behind.starts_with([':', '/']) && next.is_some_and(|c| c.is_ascii_digit());
    let is_of_bar =
        behind.starts_with('%') && (next.is_some_and(|c| !c.is_ascii()) || BARS.contains(&name));
    let is_wanted = !is_position && !is_part && !is_of_bar && is_name(name);
    is_wanted.then_some((name, value))
}

/// Returns the name at the end of a text, with the words that belong to it.
fn name_at_end(text: &str) -> &str {
    let word = last_word(text);
    let before = text.strip_suffix(word).unwrap_or_default();
    let qualifier = before.strip_suffix(' ').map(last_word);
    let qualifier = qualifier.filter(|qualifier| QUALIFIERS.contains(qualifier));
    let length = word.len() + qualifier.map_or(0, |qualifier| qualifier.len() + 1);
    text.get(text.len() - length..).unwrap_or(word)
}

fn last_word(text: &str) -> &str {
    text.rsplit(|c: char| !is_in_name(c)).next().unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= MAX_NAME
        && name.chars().all(|c| is_in_name(c) || " ()".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epoch, its total, batch, its total, loss and rate.
    type Found = (Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<f64>, Option<f64>);

    fn found(line: &str) -> Found {
        let progress = progress_of_log(line);
        let loss = progress.loss.and_then(|loss| match loss {
            MetricValue::Number(loss) => Some(loss),
            MetricValue::Text(_) => None,
        });
        let rate = progress.training.rate.map(|rate| (rate * 1000.0).round() / 1000.0);
        (progress.epoch, progress.total_epochs, progress.batch, progress.total_batches, loss, rate)
    }

    #[test]
    fn lines_of_common_programs_are_recognised() {
        let none = (None, None, None, None, None, None);
        let of = |epoch: Option<u64>, epochs: Option<u64>, batch: u64, batches: Option<u64>| {
            (epoch, epochs, Some(batch), batches, None, None)
        };
        for (line, expected) in [
            (
                " 42%|████▏     | 42/100 [00:10<00:14,  4.15it/s]",
                (None, None, Some(42), Some(100), None, Some(4.15)),
            ),
            (
                "Epoch 1:  42%|████ | 42/100 [00:10<00:14,  4.15it/s, loss=0.3]",
                (Some(1), None, Some(42), Some(100), Some(0.3), Some(4.15)),
            ),
            (
                "100%|██████████| 50/50 [01:40<00:00,  2.00s/it]",
                (None, None, Some(50), Some(50), None, Some(0.5)),
            ),
            ("Epoch 3/10", (Some(2), Some(10), None, None, None, None)),
            (
                "12/50 ━━━━━━━━━━━━━━━━━━━━ 3s 20ms/step - accuracy: 0.9000 - loss: 0.3000",
                (None, None, Some(12), Some(50), Some(0.3), Some(50.0)),
            ),
            (
                "\u{1b}[1m12/50\u{1b}[0m \u{1b}[32m━━━━\u{1b}[0m \u{1b}[1m3s\u{1b}[0m 20ms/step - loss: 0.3",
                (None, None, Some(12), Some(50), Some(0.3), Some(50.0)),
            ),
            (
                "12/50 [=====>........................] - ETA: 3s - loss: 0.3000",
                (None, None, Some(12), Some(50), Some(0.3), None),
            ),
            (
                "Epoch 0:  10%|█ | 10/100 [00:01<00:10, 9.90it/s, v_num=0, train_loss=0.1]",
                (Some(0), None, Some(10), Some(100), Some(0.1), Some(9.9)),
            ),
            (
                "{'loss': 0.188, 'grad_norm': 1.5, 'learning_rate': 5e-05, 'epoch': 1.2}",
                (None, None, None, None, Some(0.188), None),
            ),
            (
                " iteration      100/  500000 | consumed samples:  25600 | elapsed time per iteration (ms): 125.0 | learning rate: 1.500E-04 | lm loss: 9.7E+00 |",
                (None, None, Some(100), Some(500_000), Some(9.7), Some(8.0)),
            ),
            ("step 12/100", of(None, None, 12, Some(100))),
            ("Step: 12 of 100", of(None, None, 12, Some(100))),
            ("step 12/0", of(None, None, 12, None)),
            (
                "Epoch [3/10], Step [100/600], Loss: 0.2500",
                (Some(2), Some(10), Some(100), Some(600), Some(0.25), None),
            ),
            ("epoch 3 loss=0.12", (Some(3), None, None, None, Some(0.12), None)),
            (
                "Train Epoch: 2 [640/60000 (1%)]\tLoss: 2.3",
                (Some(2), None, Some(640), Some(60_000), Some(2.3), None),
            ),
            ("iter 100: loss 2.1, time 5ms", of(None, None, 100, None)),
            ("batch=3 loss=1.5", (None, None, Some(3), None, Some(1.5), None)),
            ("INFO - 2026-11-24 10:00:00 - epoch: 4", (Some(4), None, None, None, None, None)),
            ("loading model from /data/step_100/epoch.bin", none),
            ("Downloading 12/50 files", none),
            ("nothing to see", none),
            ("epochs: 1.5", none),
            ("loss: abc", none),
            ("99999999999999999999999/5 [", none),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }

    #[test]
    fn counters_have_brackets_totals_with_names_and_units() {
        let none = (None, None, None, None, None, None);
        for (line, expected) in [
            (
                "Epoch: [0][  10/5005]\tTime  0.3 ( 0.4)\tLoss 6.9 (7.0)",
                (Some(0), None, Some(10), Some(5_005), None, None),
            ),
            (
                "Epoch: [3]  [ 20/1875]  eta: 0:01:02  lr: 0.1  loss: 0.5 (0.6)",
                (Some(3), None, Some(20), Some(1_875), Some(0.5), None),
            ),
            (
                " 12%|█▏   | 1.20k/10.0k [01:00<07:20, 20.0it/s]",
                (None, None, Some(1_200), Some(10_000), None, Some(20.0)),
            ),
            (
                " 12%|█▏   | 1.20M/10.0M [01:00<07:20, 1.25kit/s, loss=0.3]",
                (None, None, Some(1_200_000), Some(10_000_000), Some(0.3), Some(1_250.0)),
            ),
            (
                " 42%|████▏| 42/100 [00:10<00:14, 4.15batch/s]",
                (None, None, Some(42), Some(100), None, Some(4.15)),
            ),
            ("42it [00:10,  4.15it/s]", (None, None, Some(42), None, None, Some(4.15))),
            ("model.safetensors:  12%|█▏  | 1.20G/10.0G [00:10<01:00, 50.0MB/s]", none),
            (
                "steps: 10 loss: 0.5000 iter time (s): 1.158 samples/sec: 55.3",
                (None, None, Some(10), None, Some(0.5), None),
            ),
            (
                "{\"step\":11,\"total_steps\":100,\"loss\":0.5}",
                (None, None, Some(11), Some(100), Some(0.5), None),
            ),
            (
                "{\"epoch\": 1, \"max_epochs\": 3, \"global_step\": 12, \"loss\": 0.5}",
                (Some(1), Some(3), Some(12), None, Some(0.5), None),
            ),
            ("total steps: 1000, loss scale: 1.0", none),
            ("Training for total_step=1000", none),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }

    #[test]
    fn later_lines_win_and_metrics_are_kept() {
        let progress = progress_of_log(
            "Epoch 1/5\nstep 3/10 loss: 0.5 - acc: 0.1\nstep 4/10 loss: 0.4, acc: 0.2\n",
        );
        assert_eq!((progress.epoch, progress.batch), (Some(0), Some(4)));
        assert_eq!(progress.loss, Some(MetricValue::Number(0.4)));
        assert_eq!(*progress.metrics, [("acc".into(), MetricValue::Number(0.2))]);
        let bars = progress_of_log(" 1/9 [00:01<00:08, 1.00it/s]\r 2/9 [00:02<00:07, 1.00it/s]");
        assert_eq!((bars.batch, bars.training.remaining), (Some(2), Some(7.0)));
        let huggingface = progress_of_log("{'loss': 'nan', 'learning_rate': 5e-05}");
        assert!(matches!(huggingface.loss, Some(MetricValue::Number(loss)) if loss.is_nan()));
    }

    #[test]
    fn metrics_keep_their_names_and_none_is_invented() {
        let megatron = " [2026-11-24 10:00:00] iteration      100/  500000 | consumed samples:        25600 | \
            elapsed time per iteration (ms): 125.0 | throughput per GPU (TFLOP/s/GPU): 411.5 | \
            learning rate: 1.500000E-04 | global batch size:   256 | lm loss: 9.7E+00 | loss scale: 1.0 | \
            grad norm: 1.250 | number of skipped iterations:   2 | number of nan iterations:   3 |";
        for (line, expected) in [
            ("Training:  59%|█████▉    | 59/100 [00:10<00:07,  5.90it/s]", vec![]),
            ("Training:  59%|#####     | 59/100 [00:10<00:07,  5.90it/s]", vec![]),
            ("Training: 59%", vec![]),
            ("Epoch 1 Training: 59%", vec![]),
            ("Epoch 0/9 ━━━━━ 59% 0:00:01 v_num: 3.000", vec![]),
            (
                "Epoch 0:  10%|█ | 10/100 [00:01<00:10, 9.90it/s, v_num=7, val_acc=0.5]",
                vec![("val_acc", 0.5)],
            ),
            ("loss: 0.300, acc: 0.9:  42%|████ | 42/100 [00:10<00:14]", vec![("acc", 0.9)]),
            ("epoch 3 accuracy: 93.5%", vec![("accuracy", 93.5)]),
            (
                megatron,
                vec![
                    ("throughput per gpu (tflop/s/gpu)", 411.5),
                    ("global batch size", 256.0),
                    ("loss scale", 1.0),
                    ("grad norm", 1.25),
                    ("skipped iterations", 2.0),
                    ("nan iterations", 3.0),
                ],
            ),
            ("Epoch 2 Train loss: 0.5, Val loss: 0.6", vec![("val loss", 0.6)]),
            ("epoch 1 grad norm: 2.5 best acc: 0.7", vec![("grad norm", 2.5), ("best acc", 0.7)]),
            (
                "{\"epoch\":3,\"accuracy\":1,\"eval_loss\":2}",
                vec![("accuracy", 1.0), ("eval_loss", 2.0)],
            ),
            (
                "steps: 10 loss: 0.5000 iter time (s): 1.158 samples/sec: 55.3",
                vec![("samples/sec", 55.3)],
            ),
            ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.301", vec![]),
            (
                "{\"step\":11,\"total_steps\":100,\"global_step\":7,\"max epochs\":3,\"acc\":0.5}",
                vec![("acc", 0.5)],
            ),
            ("step 3/10 at train.py:123 on localhost:29500 after 10:30", vec![]),
            ("step 3/10 files: 12/50 eta: 0:01:02 shards: 1:30 seed=42", vec![]),
            ("[timer.py:199:stop] epoch=0/micro_step=10", vec![]),
            // None of a training.
            ("Namespace(epochs=10, lr=0.1, hidden=512)", vec![]),
            ("Setting num_workers: 4", vec![]),
            ("listening on port: 8080", vec![]),
        ] {
            let progress = progress_of_log(line);
            let metrics: Vec<_> =
                progress.metrics.iter().map(|(name, value)| (&**name, value.clone())).collect();
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(name, value)| (name, MetricValue::Number(value)))
                .collect();
            assert_eq!(metrics, expected, "{line}");
            assert_eq!(progress.learning_rate.is_some(), line == megatron, "{line}");
        }
        let megatron = progress_of_log(megatron);
        assert_eq!(
            (megatron.samples, megatron.loss),
            (Some(25_600), Some(MetricValue::Number(9.7)))
        );
    }

    #[test]
    fn no_bytes_make_it_fail() {
        let line = "Epoch 1:  42%|████ | 42/100 [00:10<00:14,  4.15it/s, loss=0.3]";
        for (at, _) in line.char_indices() {
            progress_of_log(line.get(..at).unwrap());
            progress_of_log(line.get(at..).unwrap());
        }
        progress_of_log(&"x".repeat(10 << 20));
        progress_of_log(&"step ".repeat(100_000));
        progress_of_log("\u{1b}[\u{1b}\u{1b}]epoch\u{0}1/");
    }
}
