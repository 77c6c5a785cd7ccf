//! The endpoint of a rank, which all its communicators share: the outstanding operations, and the code that advances them.
//!
//! A transport may have a thread of its own, but an operation of several exchanges needs its rank between them. So every
//! call that starts an operation or waits for one also advances all other operations of the rank. Hence ranks may wait for
//! their operations in different orders: while a rank waits for one, it still takes part in all that it has started.

use crate::meter::Meter;
use crate::operation::{Membership, Operation, Pool, Scratch, Setup, Spans, Stage};
use crate::pending::Completion;
use crate::sync::lock;
use crate::transport::{Control, ExchangeRequest, Exchanged, Header, Mover, ROOM, Ticket, Transport};
use crate::{CollectiveError, Label};
use kernels::{Bytes, Device, KernelError};
use spec::topology::Topology;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// Endpoint of one rank: its transport, device and meter, and its outstanding operations. All communicators of the rank
/// share one endpoint.
pub(crate) struct Endpoint {
    pub(crate) rank: usize,
    pub(crate) topology: Topology,
    pub(crate) device: Device,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) mover: Arc<dyn Mover>,
    wait_limit: Duration,
    state: Mutex<State>,
    pub(crate) meter: Mutex<Meter>,
}

/// Outstanding operations of a rank, and memory that is reused. Usually only the rank's own thread locks it.
#[derive(Default)]
pub(crate) struct State {
    operations: Vec<Option<Operation>>,
    free: Vec<usize>,
    tickets: Vec<Ticket>,
    pub(crate) scratch: Scratch,
    /// Pools of device memory, one for each queue: a queue may still be at work on a piece that the host has given back, so
    /// that only later work of the same queue may use it.
    pools: Vec<Pool>,
    /// Pool of host memory, for what the host itself sends and reads, whatever the device of the rank.
    pub(crate) host_pool: Pool,
    pub(crate) host: Vec<f64>,
}

/// Names of an operation, for headers and messages.
pub(crate) struct Names<'a> {
    pub(crate) operation: &'static str,
    pub(crate) element: &'static str,
    pub(crate) label: &'a Label,
}

impl Endpoint {
    pub(crate) fn new(
        rank: usize,
        topology: Topology,
        device: Device,
        Transport { control, mover }: Transport,
        wait_limit: Duration,
    ) -> Self {
        // Capacity for more operations than a step usually has at once, so that timing cannot make a vector grow later.
        let (operations, free) = (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
        let state = State { operations, free, tickets: Vec::with_capacity(ROOM), ..State::default() };
        let (state, meter) = (Mutex::new(state), Mutex::default());
        Self { rank, topology, device, control, mover, wait_limit, state, meter }
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Begins an operation of `exchanges` exchanges, whose work goes to the queue of `device`. `prepare` checks the arguments
    /// and sets up the first exchange. Returns the index of the operation.
    pub(crate) fn begin(
        &self,
        device: &Device,
        group: &Arc<Membership>,
        names: Names<'_>,
        exchanges: u64,
        prepare: impl FnOnce(&mut State) -> Result<Setup>,
    ) -> Result<usize> {
        self.control.check()?;
        let started = Instant::now();
        let mut state = self.state();
        let state = &mut *state;
        state.scratch.spans.clear();
        let Setup { stage, send, recv, scratch } =
            prepare(state).map_err(|cause| self.control.abort(cause))?;
        let metered = lock(&self.meter).call(names.label);
        let mut operation = Operation {
            device: device.clone(),
            group: group.clone(),
            label: names.label.clone(),
            metered,
            sequence: group.sequence.fetch_add(exchanges, Ordering::Relaxed),
            started,
            completed: started,
            sent: 0,
            stage,
            ticket: None,
            abandoned: false,
            scratch,
        };
        operation.stage = match operation.stage.take() {
            Stage::Program(running) => self.carry_out(&mut operation, running, &mut state.scratch)?,
            done @ Stage::Done { .. } => done,
            stage => {
                let header =
                    Header { operation: names.operation, element: names.element, label: names.label.clone() };
                self.exchange(&mut operation, 0, header, send, recv, &state.scratch.spans)?;
                stage
            }
        };
        let index = state.free.pop().unwrap_or_else(|| {
            state.operations.push(None);
            state.operations.len() - 1
        });
        state.operations[index] = Some(operation);
        self.sweep(state);
        Ok(index)
    }

    /// Blocks until an operation is complete, and advances all others meanwhile. Returns its `send` and `recv`.
    pub(crate) fn wait(&self, index: usize) -> Result<(Bytes, Bytes, Completion)> {
        let begun = Instant::now();
        let deadline = begun.checked_add(self.wait_limit);
        loop {
            let (wanted, others) = {
                let mut state = self.state();
                self.sweep(&mut state);
                let operation = state.operations[index].as_ref().expect("a pending operation is in the list");
                let Some(wanted) = operation.ticket else {
                    lock(&self.meter).blocked(operation.metered, begun.elapsed());
                    return state.end(index);
                };
                (wanted, state.unfinished(wanted))
            };
            // The state is unlocked here, so that a second thread of this rank could go on.
            let waited = self.mover.wait(wanted, &others, deadline);
            self.state().tickets = others;
            if let Err(error) = waited {
                self.abandon(index);
                return Err(error);
            }
        }
    }

    /// Advances all operations. Returns whether operation `index` is complete.
    pub(crate) fn progress(&self, index: usize) -> Result<bool> {
        self.progress_all()?;
        let state = self.state();
        Ok(state.operations[index].as_ref().is_some_and(|operation| operation.ticket.is_none()))
    }

    /// Advances all operations as far as possible without blocking.
    pub(crate) fn progress_all(&self) -> Result {
        self.control.check()?;
        self.sweep(&mut self.state());
        Ok(())
    }

    /// Abandons an operation that nobody will wait for.
    pub(crate) fn abandon(&self, index: usize) {
        let mut state = self.state();
        if let Some(operation) = &mut state.operations[index] {
            operation.abandoned = true;
        }
        self.sweep(&mut state);
    }

    /// Takes part in all that this rank has started and that other ranks may wait for, before the rank finishes.
    pub(crate) fn drain(&self) -> Result {
        let deadline = Instant::now().checked_add(self.wait_limit);
        loop {
            let mut state = self.state();
            self.sweep(&mut state);
            let Some(&wanted) = state.with_more_to_do().next() else { return self.mover.settle() };
            let others = state.unfinished(wanted);
            drop(state);
            self.mover.wait(wanted, &others, deadline)?;
            self.state().tickets = others;
        }
    }

    /// Advances every operation whose exchange is complete.
    fn sweep(&self, state: &mut State) {
        for index in 0..state.operations.len() {
            let Some(operation) = &mut state.operations[index] else { continue };
            while let Some(ticket) = operation.ticket {
                match self.mover.test(ticket) {
                    Ok(None) => break,
                    Ok(Some(Exchanged { send, recv, at })) => {
                        operation.ticket = None;
                        operation.completed = at;
                        if let Err(error) = self.advance(operation, send, recv, &mut state.scratch) {
                            operation.stage = Stage::Failed(error);
                        }
                    }
                    Err(error) => {
                        operation.ticket = None;
                        operation.stage = Stage::Failed(error);
                    }
                }
                if operation.ticket.is_none() {
                    let in_flight = operation.completed.saturating_duration_since(operation.started);
                    lock(&self.meter).complete(operation.metered, in_flight);
                }
            }
            if operation.abandoned && operation.ticket.is_none() {
                // Nobody waits for the result. If it is an error, the run has ended with it.
                let _ = state.end(index);
            }
        }
    }

    /// Continues an operation whose exchange is complete and has returned `send` and `recv`.
    fn advance(&self, operation: &mut Operation, send: Bytes, recv: Bytes, scratch: &mut Scratch) -> Result {
        operation.stage = match operation.stage.take() {
            Stage::Exchange => Stage::Done { send, recv },
            Stage::Root => Stage::Done { send: recv, recv: send },
            Stage::Program(running) => self.resume(operation, running, [send, recv], scratch)?,
            ended @ (Stage::Done { .. } | Stage::Failed(_)) => ended,
        };
        Ok(())
    }

    /// Ends the run if a kernel has failed.
    pub(crate) fn checked(&self, result: std::result::Result<(), KernelError>) -> Result {
        result.map_err(|error| self.control.abort(error.into()))
    }

    /// Starts exchange `number` of an operation on the transport, and counts the bytes that it is asked to send.
    pub(crate) fn exchange(
        &self,
        operation: &mut Operation,
        number: u64,
        header: Header,
        send: Bytes,
        recv: Bytes,
        spans: &Spans,
    ) -> Result {
        if !(send.has_contents() && recv.has_contents()) {
            return self.checked(Err(KernelError::NoContents { op: header.operation }));
        }
        let group = &operation.group;
        let mut meter = lock(&self.meter);
        for (span, &member) in spans.to.iter().zip(&group.members) {
            meter.sent(operation.metered, self.topology.link(self.rank, member), span.len);
            operation.sent += if member == self.rank { 0 } else { span.len as u64 };
        }
        drop(meter);
        let (to, from) = (&*spans.to, &*spans.from);
        let (device, sequence) = (&operation.device, operation.sequence + number);
        let (group, me) = (group.group, group.me);
        let request = ExchangeRequest { device, group, me, sequence, header, send, to, recv, from };
        operation.ticket = Some(self.mover.start(request)?);
        Ok(())
    }
}

impl State {
    /// Pool of memory for operations on the queue of `device`.
    pub(crate) fn pool(&mut self, device: &Device) -> &mut Pool {
        let queue = device.queue();
        if self.pools.len() <= queue {
            self.pools.resize_with(queue + 1, Pool::default);
        }
        &mut self.pools[queue]
    }

    /// Removes an operation that is complete or has failed, and returns its result.
    fn end(&mut self, index: usize) -> Result<(Bytes, Bytes, Completion)> {
        let operation = self.operations[index].take().expect("an operation ends once");
        self.free.push(index);
        let pool = self.pool(&operation.device);
        operation.scratch.into_iter().for_each(|piece| pool.give_back(piece));
        match operation.stage {
            Stage::Done { send, recv } => {
                Ok((send, recv, Completion { at: operation.completed, sent: operation.sent }))
            }
            Stage::Failed(error) => Err(error),
            _ => unreachable!("an operation without a ticket is complete"),
        }
    }

    /// Outstanding exchanges after which this rank must start another one, for which other ranks may be waiting.
    fn with_more_to_do(&self) -> impl Iterator<Item = &Ticket> {
        let operations = self.operations.iter().flatten();
        let more = |stage: &Stage| matches!(stage, Stage::Program(running) if running.has_more_exchanges());
        operations.filter(move |o| more(&o.stage)).filter_map(|o| o.ticket.as_ref())
    }

    /// Outstanding exchanges after which this rank must start another one, except `but`, in a vector that the caller returns
    /// to `tickets`.
    fn unfinished(&mut self, but: Ticket) -> Vec<Ticket> {
        let mut tickets = std::mem::take(&mut self.tickets);
        tickets.clear();
        tickets.extend(self.with_more_to_do().filter(|&&ticket| ticket != but));
        tickets
    }
}
