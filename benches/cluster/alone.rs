//! An agent with one host and no guests: from the start of its process to its accepted hello, and its memory.

use std::time::Instant;

use crate::Scale;
use crate::agent_process::AgentProcess;
use crate::field::Field;
use crate::sample::Times;
use crate::stage::{Memory, ms};

const HEAD: &str = "| an agent without guests | starts | start to accepted hello: median | p99 | resident | anonymous | of files |\n|---|---:|---:|---:|---:|---:|---:|";

/// Measures starts in one directory, the first of which makes it, and the memory after the last. Returns the table.
pub async fn measure(scale: &Scale) -> String {
    let field = Field::set(1, 1).await;
    let (mut first, mut times, mut memory) = (None, Times::default(), Memory::default());
    for _ in 0..=scale.starts {
        field.observer.forget();
        let began = Instant::now();
        let agent = AgentProcess::start(&field.configs[0]);
        let moments = field.observer.until(1).await;
        let time = moments[0] - began;
        match first {
            None => first = Some(time),
            Some(_) => times.push(time),
        }
        if times.len() == scale.starts {
            tokio::time::sleep(scale.rest).await;
            memory = Memory::of(&[agent.id()]);
        }
    }
    let first = first.expect("a start");
    format!(
        "{HEAD}\n| first start | 1 | {:.0} ms | | | | |\n| further starts | {} | {:.0} ms | {:.0} ms | {memory} |\n",
        ms(first),
        times.len(),
        ms(times.median()),
        ms(times.p99())
    )
}
