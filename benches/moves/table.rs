//! The table and its columns.

use std::fmt::Write;
use std::time::Duration;

use crate::measure::{Row, Scale, What};

/// Returns Nova 34's time for the request over HTTP on a machine with two cores, singly.
fn nova(what: What) -> Duration {
    Duration::from_micros(match what {
        What::Resize => 1_130_000,
        What::Revert => 590_000,
        What::Confirm => 360_000,
        What::Create => 660_000,
        // Nova has no drain, and the others were not measured there.
        What::PlainPorts | What::GuaranteedPorts | What::LiveMigrate | What::Shelve | What::Unshelve | What::Evacuate | What::Drain => 0,
        What::Show => 34_000,
        What::List => 3_600_000,
    })
}

/// The number of moves to VERIFY_RESIZE that Nova 34 ends per minute when 20 start concurrently.
const NOVA_RESIZES_PER_MINUTE: f64 = 74.0;

pub fn text(rows: &[Row], scale: &Scale) -> String {
    let mut text = String::from(
        "| what | at once | median | p99 | floor | times the floor | Nova 34 | of Nova |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let order = [
        What::Resize,
        What::PlainPorts,
        What::GuaranteedPorts,
        What::Confirm,
        What::Revert,
        What::LiveMigrate,
        What::Shelve,
        What::Unshelve,
        What::Evacuate,
        What::Drain,
        What::Create,
        What::Show,
        What::List,
    ];
    for what in order {
        for row in rows.iter().filter(|row| row.what == what) {
            line(&mut text, row, scale);
        }
    }
    text.push('\n');
    for what in order {
        rows.iter().filter(|row| row.what == what && (row.at_once == 1 || row.is_of_all())).for_each(|row| footnote(&mut text, row));
    }
    text
}

fn line(text: &mut String, row: &Row, scale: &Scale) {
    let name = match row.what {
        What::Resize => "cross-cell resize to VERIFY_RESIZE".to_owned(),
        What::PlainPorts => "cross-cell resize with two plain ports".to_owned(),
        What::GuaranteedPorts => "cross-cell resize with two ports of guaranteed bandwidth".to_owned(),
        What::Confirm => "confirm".to_owned(),
        What::Revert => "revert".to_owned(),
        What::LiveMigrate => "live migration of an idle guest".to_owned(),
        What::Shelve => "shelve to SHELVED_OFFLOADED".to_owned(),
        What::Unshelve => "unshelve to ACTIVE".to_owned(),
        What::Evacuate => "evacuation of a host".to_owned(),
        What::Drain => "drain of a cell, each server resized and confirmed".to_owned(),
        What::Create => "create to ACTIVE".to_owned(),
        What::Show => "GET one server".to_owned(),
        What::List => format!("list {} servers with details", scale.listed),
    };
    let (median, floor) = (row.times.median(), row.floor.median());
    let times = if floor.is_zero() { "-".to_owned() } else { format!("{:.1}", median.as_secs_f64() / floor.as_secs_f64()) };
    let (reference, share) = reference(row, median);
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {times} | {reference} | {share} |",
        row.at_once,
        ms(median),
        ms(row.times.p99()),
        ms(floor)
    );
}

/// Returns Nova's figure and the ratio to it. For concurrent requests there is one figure: moves per minute.
fn reference(row: &Row, median: Duration) -> (String, String) {
    match (row.at_once, row.what, row.whole) {
        (1, what, _) if !nova(what).is_zero() => {
            let nova = nova(what);
            (ms(nova), format!("1/{:.0}", nova.as_secs_f64() / median.as_secs_f64()))
        }
        (at_once, What::Resize, Some(whole)) => {
            let per_minute = at_once as f64 * 60.0 / whole.as_secs_f64();
            (
                format!("{NOVA_RESIZES_PER_MINUTE} per minute (20 at once)"),
                format!("{per_minute:.0} per minute: {:.0} times", per_minute / NOVA_RESIZES_PER_MINUTE),
            )
        }
        _ => ("-".into(), "-".into()),
    }
}

fn footnote(text: &mut String, row: &Row) {
    let measured = row.times.len();
    let _ = match row.bytes {
        0 => {
            let all: u64 = row.cost.commits.iter().sum();
            writeln!(
                text,
                "{:?}: {measured} measured; {all} transactions (api, services, cells: {:?}), {} reads",
                row.what, row.cost.commits, row.cost.reads
            )
        }
        bytes => writeln!(text, "{:?}: {measured} measured; {bytes} bytes", row.what),
    };
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}
