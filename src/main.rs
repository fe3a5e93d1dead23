//! The command line: parses, dispatches, and reports failures.

use std::process::ExitCode;

use cellshift::cli;

fn main() -> ExitCode {
    give_memory_back_early();
    match cli::parse() {
        Ok(cli) => cli::run(cli),
        Err(code) => code,
    }
}

/// Has the allocator give free memory back to the system at once, and keeps it from using huge pages. With the allocator's defaults some
/// 340 threads hold on to 1.8 GB after a load. With these settings they hold on to 230 MB, and operations take a tenth longer.
///
/// The environment wins: `MIMALLOC_PURGE_DELAY` and `MIMALLOC_ALLOW_THP` each keep the value that they name.
fn give_memory_back_early() {
    set_default(PURGE_DELAY, 0);
    // The allocator has read its option for huge pages before `main`, so only the process's own flag still helps.
    #[cfg(target_os = "linux")]
    if std::env::var_os("MIMALLOC_ALLOW_THP").is_none() {
        // A kernel without the flag refuses. Only the size of the memory depends on it, so the program goes on.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
}

/// `mi_option_purge_delay`: the milliseconds after which free memory goes back to the system. The binding has no name for it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

// The number belongs to the list of options that the allocator has now. Compare it with `mimalloc.h` when the list has changed.
const _: () = assert!(libmimalloc_sys::_mi_option_last == 47);

/// Sets an option of the allocator unless the environment has set it.
#[expect(unsafe_code, reason = "the allocator's options are set by a function in C; the library itself forbids unsafe code")]
fn set_default(option: libmimalloc_sys::mi_option_t, value: std::ffi::c_long) {
    // SAFETY: The function writes one number of a static table and ignores options that it does not know. It does not synchronise, and
    // `main` has started no other thread yet.
    unsafe { libmimalloc_sys::mi_option_set_default(option, value) }
}
