//! `-- --cores`: the same moves on one core and on two, in one run. Each measurement is a process of its own that may use only these cores:
//! its service starts as many threads for actors and requests as it has cores. The client runs in the same process, so both take part in
//! what one core must do.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, from_slice, json};

use crate::measure::{Requests, Scale, What, act, create, delete};
use crate::stage::Stage;

/// The argument of the process that measures: the number of cores, then the directory of the data.
pub const MEASURE: &str = "--on-cores";

/// A file system in memory, where the processor is the bound.
const MEMORY: &str = "/dev/shm";

/// The number of measurements of each row; the median counts.
const PROCESSES: usize = 3;

/// The numbers of cores that are compared.
const CORES: [usize; 2] = [1, 2];

/// The result of one process.
struct Moves {
    per_second: f64,
    /// The share of the cores' time that the process used.
    busy: f64,
}

/// Runs the comparison and returns its table.
pub fn compare(scale: &Scale) -> String {
    let places = [("in memory", PathBuf::from(MEMORY)), ("on disk", PathBuf::from(env!("CARGO_TARGET_TMPDIR")))];
    let mut text = format!(
        "{} moves at once, median of {PROCESSES} processes each\n\n| files | one core: moves/s | busy | two cores: moves/s | busy | times |\n\
         |---|---:|---:|---:|---:|---:|\n",
        scale.burst
    );
    for (name, place) in places.iter().filter(|(_, place)| place.is_dir()) {
        let mut measured = CORES.map(|_| Vec::new());
        // In turns, so that a slow minute of the machine meets both.
        for _ in 0..PROCESSES {
            CORES.iter().zip(&mut measured).for_each(|(cores, all)| all.push(process(*cores, place)));
        }
        let [one, two] = measured.map(median);
        let times = two.per_second / one.per_second;
        let percent = |busy: f64| format!("{:.0} %", busy * 100.0);
        let _ = writeln!(
            text,
            "| {name} | {:.0} | {} | {:.0} | {} | {times:.2} |",
            one.per_second,
            percent(one.busy),
            two.per_second,
            percent(two.busy)
        );
    }
    text.push_str("\nBusy: the share of the cores' time that the process used. Where it is far below 100 %, the disk is the bound.\n");
    text
}

fn median(mut all: Vec<Moves>) -> Moves {
    all.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    let middle = all.len() / 2;
    all.swap_remove(middle)
}

fn process(cores: usize, place: &Path) -> Moves {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).args([MEASURE, &cores.to_string()]).arg(place).output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = from_slice(&output.stdout).expect("figures");
    Moves { per_second: figures["per_second"].as_f64().expect("a rate"), busy: figures["busy"].as_f64().expect("a share") }
}

/// Restricts this process to its first `cores` cores. Must come before any thread is started.
pub fn restrict(cores: usize) {
    let allowed = sched_getaffinity(None).expect("this process's cores");
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(cores).for_each(|cpu| set.set(cpu));
    assert_eq!(set.count() as usize, cores, "the machine has as many cores");
    sched_setaffinity(None, &set).expect("a process may restrict itself");
}

/// Measures this process's moves and returns the figures as JSON.
pub async fn measure(cores: usize, place: &Path, scale: &Scale) -> String {
    let stage = Stage::set_in(place).await;
    let requests = Requests::look_up(&stage).await;
    let (mut wall, mut used) = (Duration::ZERO, Duration::ZERO);
    for round in 0..=scale.bursts {
        let created = join_all((0..scale.burst).map(|_| create(&stage, &requests.create[0]))).await;
        join_all(created.iter().map(|(server, _)| stage.rest(*server))).await;
        let (began, before) = (Instant::now(), processor_time());
        join_all(created.iter().map(|(server, _)| act(&stage, &requests, What::Resize, *server))).await;
        // The first round warms up caches and files.
        if round > 0 {
            wall += began.elapsed();
            used += processor_time() - before;
        }
        join_all(created.iter().map(|(server, _)| delete(&stage, *server))).await;
    }
    drop(stage.strike().await);
    let moves = (scale.burst * scale.bursts) as f64;
    json!({"per_second": moves / wall.as_secs_f64(), "busy": used.as_secs_f64() / (wall.as_secs_f64() * cores as f64)}).to_string()
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().expect("a time since the start")
}
