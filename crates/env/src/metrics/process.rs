//! The memory of the process, read when a scrape asks.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::book::{Book, MetricDescription};

/// The metrics of the process: the name without the unit, the whole name, the line of `/proc/self/status`, and the help.
const MEMORY: [(&str, &str, &str, &str); 2] = [
    ("process_resident_memory", "process_resident_memory_bytes", "VmRSS:", "Memory of the process in the machine's memory"),
    ("process_virtual_memory", "process_virtual_memory_bytes", "VmSize:", "Address space of the process"),
];

/// Reads the memory of the process.
#[derive(Debug)]
struct Memory;

/// Registers the metrics of the process.
pub(super) fn register(book: &mut Book) {
    for (_, name, _, help) in MEMORY {
        book.collects(MetricDescription { name, kind: "gauge", labels: Vec::new(), help });
    }
    book.registry().register_collector(Box::new(Memory));
}

impl Collector for Memory {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        // Only Linux has this file; elsewhere the metrics are absent.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (base, _, line, help) in MEMORY {
            let Some(bytes) = bytes_of(&status, line) else { continue };
            let gauge = ConstGauge::new(bytes);
            gauge.encode(encoder.encode_descriptor(base, help, Some(&Unit::Bytes), gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// Returns the bytes that a line such as `VmRSS:  1234 kB` tells.
fn bytes_of(status: &str, line: &str) -> Option<i64> {
    let amount = status.lines().find_map(|row| row.strip_prefix(line))?;
    amount.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_status_is_read_in_bytes() {
        let status = "Name:\tcellshift\nVmSize:\t  2048 kB\nVmRSS:\t     12 kB\n";
        assert_eq!((bytes_of(status, "VmRSS:"), bytes_of(status, "VmSize:")), (Some(12 * 1024), Some(2048 * 1024)));
        assert_eq!((bytes_of(status, "VmSwap:"), bytes_of("VmRSS: much\n", "VmRSS:")), (None, None));
    }
}
