//! The sizes of a cloud at one moment.

use std::path::Path;

/// The sizes of the files below a data directory, and of this process's memory.
#[derive(Default)]
pub struct Sizes {
    database_bytes: u64,
    file_bytes: u64,
    files: usize,
    resident_kib: u64,
}

impl Sizes {
    pub const HEAD: &str = "operations   databases MiB   other files MiB   other files   resident MiB";

    /// Measures the directory and this process.
    pub fn of(folder: &Path) -> Sizes {
        let mut sizes = Sizes { resident_kib: resident_kib(), ..Sizes::default() };
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                // A file of the running cloud may be gone by now.
                let Ok(about) = path.symlink_metadata() else { continue };
                if about.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end.to_string_lossy().starts_with("db")) {
                    sizes.database_bytes += about.len();
                } else {
                    sizes.file_bytes += about.len();
                    sizes.files += 1;
                }
            }
        }
        sizes
    }

    /// Returns a line of the table after this number of operations.
    pub fn line(&self, operations: usize) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (databases, files, memory) = (mib(self.database_bytes), mib(self.file_bytes), mib(self.resident_kib * 1024));
        format!("{operations:>10}   {databases:>13.1}   {files:>15.1}   {:>11}   {memory:>12.0}", self.files)
    }
}

/// Returns the resident memory of this process, as the kernel says.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its resident memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
