//! A simulated guest's memory: a few real bytes, which prove whether a guest runs on or has booted anew. The rest of its pages is only
//! counted, by the host that copies them.

/// The number of bytes that are kept; the oldest go first.
const KEPT: usize = 64 * 1024;

/// The memory of a guest. It is lost when the guest goes off, and with the process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Memory(Vec<u8>);

impl Memory {
    /// Makes the memory of a guest that boots; `number` is the number of the record that its boot writes to its disks.
    pub fn of_boot(number: u64) -> Memory {
        Memory(format!("booted at record {number}\n").into_bytes())
    }

    /// Takes over the memory of a guest that comes from another host.
    pub fn arrived(bytes: Vec<u8>) -> Memory {
        Memory(bytes)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Lets the guest write.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let surplus = self.0.len().saturating_sub(KEPT);
        self.0.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keeps_the_newest_bytes_and_a_boot_forgets_all() {
        let mut memory = Memory::of_boot(3);
        memory.write(b"dear data");
        assert!(memory.bytes().ends_with(b"dear data"));
        memory.write(&vec![7; KEPT]);
        assert_eq!(memory.bytes(), vec![7; KEPT]);
        assert_eq!(Memory::of_boot(4).bytes(), b"booted at record 4\n");
    }
}
