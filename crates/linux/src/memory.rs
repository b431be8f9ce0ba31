//! The allocator's habits.
#![expect(unsafe_code, reason = "mallopt is a C function")]

/// Keeps memory that was freed from lying about in many places: with an arena per thread, a daemon that serves a
/// thousand hosts keeps a tenth more than it needs.
pub fn few_arenas() {
    const ARENAS: libc::c_int = 2;
    // SAFETY: it takes two numbers, and is called before there are threads.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}
