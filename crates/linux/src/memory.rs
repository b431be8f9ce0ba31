//! The allocator's habits.
#![expect(unsafe_code, reason = "mallopt is a C function")]

/// Keeps memory that was freed from lying about in many places: with an arena per thread, a daemon that serves a
/// thousand hosts keeps a tenth more than it needs. To be called before there are threads.
pub fn few_arenas() {
    set(libc::M_ARENA_MAX, 2);
}

/// For those who serve a thousand hosts in one process: one arena, and what is free at its top goes back at once.
pub fn lean() {
    set(libc::M_ARENA_MAX, 1);
    set(libc::M_TRIM_THRESHOLD, 128 << 10);
}

fn set(what: libc::c_int, value: libc::c_int) {
    // SAFETY: it takes two numbers.
    unsafe {
        libc::mallopt(what, value);
    }
}
