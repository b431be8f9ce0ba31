//! Being on time: real-time scheduling and memory that is never paged out.

#![expect(
    unsafe_code,
    reason = "sched_setscheduler, setpriority and mlockall are not wrapped by the features we use"
)]

use std::io;

/// Runs the calling thread before all ordinary ones (SCHED_FIFO; 1 is lowest, 99 highest).
///
/// Children do not inherit it.
pub fn real_time(priority: u8) -> io::Result<()> {
    // SAFETY: all zeros is a valid sched_param.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel only reads the parameters.
    done(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) })
}

/// Gives the calling thread more of a busy processor than others have, as nice(1) does: 0 is usual, -20 the most.
pub fn nice(niceness: i8) -> io::Result<()> {
    // SAFETY: setpriority takes numbers; 0 is the calling thread.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness.into()) })
}

/// Keeps all memory that the process uses, now and later, out of swap; what it never touches stays unclaimed.
pub fn lock_memory() -> io::Result<()> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: mlockall takes a number.
    done(unsafe { libc::mlockall(flags) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_out_of_range_is_refused() {
        assert_eq!(
            real_time(100).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn one_thread_is_nicer_than_the_others() {
        // SAFETY: getpriority takes numbers; 0 is the calling thread.
        let niceness = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = niceness();
        std::thread::spawn(move || {
            nice(7).unwrap();
            assert_eq!(niceness(), 7);
        })
        .join()
        .unwrap();
        assert_eq!(niceness(), before);
    }

    #[test]
    fn a_thread_can_be_made_real_time() {
        std::thread::spawn(|| {
            real_time(1).expect("SCHED_FIFO (this needs root)");
            // SAFETY: sched_getscheduler takes a number.
            let policy = unsafe { libc::sched_getscheduler(0) };
            assert_eq!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO);
        })
        .join()
        .unwrap();
    }
}
