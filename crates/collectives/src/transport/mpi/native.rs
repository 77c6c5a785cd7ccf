//! Calls of the MPI library. Each checks the return code, and states what makes the call sound.
//!
//! All values stay on the thread that started MPI: no type of this file can be sent to another thread.

use mpi::environment::Universe;
use mpi::{Threading, ffi};
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

pub(super) type Result<T = ()> = std::result::Result<T, Fault>;

/// A call of MPI that failed.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) call: &'static str,
    pub(super) message: Box<str>,
}

fn check(call: &'static str, code: c_int) -> Result {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0u8; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len = 0;
    // SAFETY: `text` has room for the longest message MPI may write.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut len) };
    let message = String::from_utf8_lossy(&text[..len as usize]).into();
    Err(Fault { call, message })
}

/// MPI between `MPI_Init` and `MPI_Finalize`. Dropping the value without [`Environment::finish`] does not finalize MPI: after
/// a failure some processes may be gone, and finalizing would wait for them.
pub(super) struct Environment {
    universe: ManuallyDrop<Universe>,
}

impl Environment {
    /// Starts MPI for this thread. May be called once per process.
    pub(super) fn start() -> Result<Self> {
        let started = mpi::initialize_with_threading(Threading::Funneled);
        let fault = |message: &str| Fault { call: "MPI_Init_thread", message: message.into() };
        let (universe, threading) = started.ok_or_else(|| fault("MPI was started before in this process"))?;
        let universe = ManuallyDrop::new(universe);
        if threading < Threading::Funneled {
            return Err(fault("this MPI library does not support threads"));
        }
        Comm::all().return_errors()?;
        Ok(Self { universe })
    }

    /// Finalizes MPI, which all processes must do.
    pub(super) fn finish(self) {
        drop(ManuallyDrop::into_inner(self.universe));
    }
}

/// An MPI communicator: ranks that exchange messages which no other communicator receives.
#[derive(Clone, Copy)]
pub(super) struct Comm {
    raw: ffi::MPI_Comm,
    on_this_thread: PhantomData<*const ()>,
}

/// An outstanding send or receive, or none.
#[repr(transparent)]
pub(super) struct Request(ffi::MPI_Request);

impl Comm {
    fn new(raw: ffi::MPI_Comm) -> Self {
        Self { raw, on_this_thread: PhantomData }
    }

    /// Communicator of all processes.
    pub(super) fn all() -> Self {
        // SAFETY: a constant of the library.
        Self::new(unsafe { ffi::RSMPI_COMM_WORLD })
    }

    /// Makes MPI return errors instead of ending the process.
    fn return_errors(&self) -> Result {
        // SAFETY: a communicator that MPI gave, and a constant.
        let code = unsafe { ffi::MPI_Comm_set_errhandler(self.raw, ffi::RSMPI_ERRORS_RETURN) };
        check("MPI_Comm_set_errhandler", code)
    }

    /// Rank of this process in the communicator.
    pub(super) fn rank(&self) -> Result<usize> {
        let mut rank = 0;
        // SAFETY: writes one integer.
        check("MPI_Comm_rank", unsafe { ffi::MPI_Comm_rank(self.raw, &mut rank) })?;
        Ok(rank as usize)
    }

    /// Number of processes in the communicator.
    pub(super) fn size(&self) -> Result<usize> {
        let mut size = 0;
        // SAFETY: writes one integer.
        check("MPI_Comm_size", unsafe { ffi::MPI_Comm_size(self.raw, &mut size) })?;
        Ok(size as usize)
    }

    /// New communicator of the same ranks. All of them must call this.
    pub(super) fn duplicate(&self) -> Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: writes one communicator, when it succeeds.
        check("MPI_Comm_dup", unsafe { ffi::MPI_Comm_dup(self.raw, raw.as_mut_ptr()) })?;
        // SAFETY: it has succeeded.
        let comm = Self::new(unsafe { raw.assume_init() });
        comm.return_errors()?;
        Ok(comm)
    }

    /// New communicator of the ranks `members`, in this order. Only these ranks must call this.
    pub(super) fn subgroup(&self, members: &[usize], tag: c_int) -> Result<Self> {
        let members: Vec<c_int> = members.iter().map(|&rank| rank as c_int).collect();
        let (mut all, mut some) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let mut raw = MaybeUninit::uninit();
        // SAFETY: each call writes one handle when it succeeds, and is reached only if those before it did; `members`
        // outlives the call that reads it.
        unsafe {
            check("MPI_Comm_group", ffi::MPI_Comm_group(self.raw, all.as_mut_ptr()))?;
            let (count, first) = (members.len() as c_int, members.as_ptr());
            check("MPI_Group_incl", ffi::MPI_Group_incl(*all.as_ptr(), count, first, some.as_mut_ptr()))?;
            let made = ffi::MPI_Comm_create_group(self.raw, *some.as_ptr(), tag, raw.as_mut_ptr());
            check("MPI_Comm_create_group", made)?;
            check("MPI_Group_free", ffi::MPI_Group_free(some.as_mut_ptr()))?;
            check("MPI_Group_free", ffi::MPI_Group_free(all.as_mut_ptr()))?;
        }
        // SAFETY: it has succeeded.
        let comm = Self::new(unsafe { raw.assume_init() });
        comm.return_errors()?;
        Ok(comm)
    }

    /// Frees a communicator that was made here, on which no operation is outstanding. All of its ranks must call this; copies
    /// of the value must not be used afterwards.
    pub(super) fn free(self) -> Result {
        let mut raw = self.raw;
        // SAFETY: MPI made the communicator. A copy that is used by mistake is a handle that MPI refuses with an error.
        check("MPI_Comm_free", unsafe { ffi::MPI_Comm_free(&mut raw) })
    }

    /// Lowest rank that shares memory with each rank, in rank order. All ranks must call this.
    pub(super) fn hosts(&self) -> Result<Vec<usize>> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: writes one communicator, when it succeeds; the rest are constants.
        let split = unsafe {
            let (kind, info) = (ffi::RSMPI_COMM_TYPE_SHARED, ffi::RSMPI_INFO_NULL);
            ffi::MPI_Comm_split_type(self.raw, kind, 0, info, raw.as_mut_ptr())
        };
        check("MPI_Comm_split_type", split)?;
        // SAFETY: it has succeeded.
        let host = Self::new(unsafe { raw.assume_init() });
        let here = host.gather(self.rank()? as u64)?;
        host.free()?;
        let lowest = here.into_iter().min().expect("a rank is on its own host");
        Ok(self.gather(lowest)?.into_iter().map(|rank| rank as usize).collect())
    }

    /// Gathers one number of each rank. All ranks must call this.
    pub(super) fn gather(&self, mine: u64) -> Result<Vec<u64>> {
        let mut all = vec![0u64; self.size()?];
        // SAFETY: one number is read, and `all` has room for one of each rank.
        let gathered = unsafe {
            let (from, to) = ((&raw const mine).cast::<c_void>(), all.as_mut_ptr().cast::<c_void>());
            let number = ffi::RSMPI_UINT64_T;
            ffi::MPI_Allgather(from, 1, number, to, 1, number, self.raw)
        };
        check("MPI_Allgather", gathered).map(|()| all)
    }

    /// Broadcasts the text of rank 0. All ranks must call this.
    pub(super) fn first_text(&self, mine: &str) -> Result<String> {
        let mut len = mine.len() as u64;
        // SAFETY: one number, read on rank 0 and written on the others.
        let told = unsafe { ffi::MPI_Bcast((&raw mut len).cast(), 1, ffi::RSMPI_UINT64_T, 0, self.raw) };
        check("MPI_Bcast", told)?;
        let mut text = mine.as_bytes().to_vec();
        text.resize(len as usize, 0);
        // SAFETY: `len` bytes, the same number on all ranks.
        let told = unsafe {
            ffi::MPI_Bcast(text.as_mut_ptr().cast(), len as c_int, ffi::RSMPI_UINT8_T, 0, self.raw)
        };
        check("MPI_Bcast", told)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Largest tag that MPI allows.
    pub(super) fn largest_tag(&self) -> Result<u64> {
        let (mut value, mut found) = (std::ptr::null_mut::<c_int>(), 0);
        // SAFETY: MPI writes the address of an integer of its own, which lives as long as MPI does.
        let largest = unsafe {
            let key = ffi::MPI_TAG_UB as c_int;
            let code = ffi::MPI_Comm_get_attr(Self::all().raw, key, (&raw mut value).cast(), &mut found);
            check("MPI_Comm_get_attr", code)?;
            if found != 0 { *value } else { 32767 }
        };
        Ok(largest as u64)
    }

    /// Sends `len` bytes from `data`.
    ///
    /// # Safety
    /// The caller must keep the bytes in place and unchanged until the request is complete or the process ends.
    pub(super) unsafe fn send(&self, data: *const u8, len: usize, to: usize, tag: c_int) -> Result<Request> {
        let mut request = Request::none();
        // SAFETY: the caller's promise.
        let code = unsafe {
            let byte = ffi::RSMPI_UINT8_T;
            ffi::MPI_Isend(data.cast(), len as c_int, byte, to as c_int, tag, self.raw, &mut request.0)
        };
        check("MPI_Isend", code).map(|()| request)
    }

    /// Receives at most `len` bytes into `data`, from one rank or (`None`) from any.
    ///
    /// # Safety
    /// The caller must guarantee that nobody reads, writes or frees the bytes until the request is complete or the process
    /// ends.
    pub(super) unsafe fn receive(
        &self,
        data: *mut u8,
        len: usize,
        from: Option<usize>,
        tag: c_int,
    ) -> Result<Request> {
        let mut request = Request::none();
        // SAFETY: the caller's promise.
        let code = unsafe {
            let from = from.map_or(ffi::RSMPI_ANY_SOURCE, |rank| rank as c_int);
            let byte = ffi::RSMPI_UINT8_T;
            ffi::MPI_Irecv(data.cast(), len as c_int, byte, from, tag, self.raw, &mut request.0)
        };
        check("MPI_Irecv", code).map(|()| request)
    }

    /// Starts a barrier, which completes once all ranks have called this.
    pub(super) fn start_barrier(&self) -> Result<Request> {
        let mut request = Request::none();
        // SAFETY: no memory of ours takes part.
        let code = unsafe { ffi::MPI_Ibarrier(self.raw, &mut request.0) };
        check("MPI_Ibarrier", code).map(|()| request)
    }

    /// Ends all processes of the job.
    pub(super) fn abort(&self) {
        // SAFETY: no memory of ours takes part.
        unsafe { ffi::MPI_Abort(self.raw, 1) };
    }
}

impl Request {
    fn none() -> Self {
        // SAFETY: a constant of the library.
        Self(unsafe { ffi::RSMPI_REQUEST_NULL })
    }

    pub(super) fn is_none(&self) -> bool {
        // SAFETY: a constant of the library.
        self.0 == unsafe { ffi::RSMPI_REQUEST_NULL }
    }

    /// Cancels a receive for which no message will arrive.
    pub(super) fn cancel(mut self) -> Result {
        // SAFETY: a request that is under way; after the wait MPI has let go of its memory.
        unsafe {
            check("MPI_Cancel", ffi::MPI_Cancel(&mut self.0))?;
            check("MPI_Wait", ffi::MPI_Wait(&mut self.0, ffi::RSMPI_STATUS_IGNORE))
        }
    }
}

/// Finds which of many requests have completed, and keeps the memory that this needs.
#[derive(Default)]
pub(super) struct Tester {
    indices: Vec<c_int>,
    statuses: Vec<MaybeUninit<ffi::MPI_Status>>,
}

impl Tester {
    /// Advances all communication. Calls `done` with the index and the outcome of each request that has completed, and sets
    /// that request to none. Returns the number of completed requests.
    pub(super) fn test(
        &mut self,
        requests: &mut [Request],
        mut done: impl FnMut(usize, Result),
    ) -> Result<usize> {
        let count = requests.len();
        if self.indices.len() < count {
            self.indices.resize(count, 0);
            self.statuses.resize_with(count, MaybeUninit::uninit);
        }
        let mut completed = 0;
        // SAFETY: there is room for as many indices and statuses as there are requests. `Request` has the layout of
        // MPI's own. Memory that MPI touches here was promised to it when the request was made.
        let code = unsafe {
            let (indices, statuses) = (self.indices.as_mut_ptr(), self.statuses.as_mut_ptr().cast());
            let all = requests.as_mut_ptr().cast();
            ffi::MPI_Testsome(count as c_int, all, &mut completed, indices, statuses)
        };
        let each = code == ffi::MPI_ERR_IN_STATUS as c_int;
        if !each {
            check("MPI_Testsome", code)?;
        }
        if completed == ffi::MPI_UNDEFINED {
            return Ok(0);
        }
        for (index, status) in self.indices.iter().zip(&self.statuses).take(completed as usize) {
            // SAFETY: MPI has written as many statuses as it says have completed; errors only if it said so.
            let code = if each { unsafe { (*status.as_ptr()).MPI_ERROR } } else { 0 };
            done(*index as usize, check("MPI_Testsome", code));
        }
        Ok(completed as usize)
    }
}
