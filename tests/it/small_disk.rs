//! A small file system of its own for tests of a full disk.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A small file system in memory. Unmounted when it is dropped.
pub struct SmallDisk {
    at: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system of this number of MiB. None if the user may not mount.
    pub fn mount(size: u64) -> Option<SmallDisk> {
        let at = tempfile::tempdir().expect("a directory");
        let size = format!("size={size}m");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at.path()).stderr(Stdio::null()).status();
        mount.is_ok_and(|status| status.success()).then_some(SmallDisk { at })
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Takes all free space, until [`SmallDisk::free`].
    pub fn fill(&self) {
        let mut ballast = File::create(self.path().join("ballast")).expect("a file");
        for chunk in [1 << 20, 1 << 12, 1] {
            let bytes = vec![7; chunk];
            while ballast.write_all(&bytes).is_ok() {}
        }
    }

    /// Gives the space back.
    pub fn free(&self) {
        std::fs::remove_file(self.path().join("ballast")).expect("the ballast goes");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also while a file in it is open: a panic must not leave the mount.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
