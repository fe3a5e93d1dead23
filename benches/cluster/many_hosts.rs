//! A cell with many hosts in few agents: the hellos after the agents' start and after the NATS server was killed and started again, the processors
//! in an idle minute, and the memory.

use std::time::{Duration, Instant};

use crate::Scale;
use crate::field::Field;
use crate::process::usage_of;
use crate::stage::Memory;

const HEAD: &str = "| hosts | agents | all hellos after the agents' start | half of the hellos after the NATS server's restart | all of them |\n\
    |---:|---:|---:|---:|---:|";
const PARTS: &str = "\n| with so many hosts | processor, of a core | resident | anonymous | of files | anonymous for each host |\n|---|---:|---:|---:|---:|---:|";

/// Measures the cell. Returns its tables.
pub async fn measure(scale: &Scale) -> String {
    let mut field = Field::set(scale.hosts, scale.hosts_of_agent).await;
    let began = Instant::now();
    field.start_agents();
    let first = field.observer.until(scale.hosts).await;
    let started = last(&first) - began;
    tokio::time::sleep(scale.rest).await;

    field.broker.kill();
    field.observer.forget();
    let began = Instant::now();
    field.broker.start_again().await;
    let again = field.observer.until(scale.hosts).await;
    let half = again[again.len() / 2] - began;
    let mut text = format!(
        "{HEAD}\n| {} | {} | {:.1} s | {:.1} s | {:.1} s |\n{PARTS}\n",
        scale.hosts,
        field.agents.len(),
        started.as_secs_f64(),
        half.as_secs_f64(),
        (last(&again) - began).as_secs_f64()
    );
    tokio::time::sleep(scale.rest).await;
    for line in parts(&field, scale).await {
        text.push_str(&line);
    }
    text
}

fn last(moments: &[Instant]) -> Instant {
    *moments.last().expect("a host")
}

/// Measures each kind of process while nothing is asked for. Returns the lines.
async fn parts(field: &Field, scale: &Scale) -> Vec<String> {
    let agents: Vec<u32> = field.agents.iter().map(|agent| agent.id()).collect();
    let kinds = [
        ("controller", vec![field.controller.id()], scale.hosts),
        ("NATS server", vec![field.broker_id()], scale.hosts),
        ("an agent, of all", agents, scale.hosts_of_agent),
    ];
    let processors = || kinds.each_ref().map(|(_, ids, _)| ids.iter().map(|id| usage_of(*id).processor).sum::<Duration>());
    let (before, began) = (processors(), Instant::now());
    tokio::time::sleep(scale.idle).await;
    let (after, time) = (processors(), began.elapsed());
    let lines = kinds.iter().zip(before.into_iter().zip(after)).map(|((name, ids, hosts), (before, after))| {
        let number = ids.len() as f64;
        let memory = Memory::of(ids);
        let busy = (after - before).as_secs_f64() / time.as_secs_f64() / number;
        let of_host = memory.anonymous_kib as f64 / *hosts as f64;
        format!("| {name} | {:.2} % | {memory} | {of_host:.1} KiB |\n", busy * 100.0)
    });
    lines.collect()
}
