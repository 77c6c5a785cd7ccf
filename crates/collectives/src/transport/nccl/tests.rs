//! The mover over a stand-in for NCCL that is as strict: an operation of a group begins when all members have queued it, members
//! meet by the order of their calls alone, and a rank whose operation has not ended cannot queue another. So ranks that queued
//! operations in different orders would stand still here, too.

use super::link::{Card, Id};
use super::{Fabric, Link, NcclMover, Seat};
use crate::launch::{conform, launch_over};
use crate::sync::lock;
use crate::transport::in_process::InProcess;
use crate::transport::{Span, Transport};
use crate::{CollectiveError, Communicator, Failure, Label, Lossy, Options, suite};
use kernels::{Buffer, Bytes, Device, KernelError, NCCL_ID_BYTES};
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Units};
use spec::topology::{LinkClass, Topology};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Groups that were made, by the number in their id.
#[derive(Default)]
struct Groups {
    next: AtomicU64,
    made: Mutex<HashMap<u64, Arc<Table>>>,
    /// Operations that members queued, in all groups.
    operations: AtomicU64,
}

/// Where the members of a group meet.
struct Table {
    size: usize,
    round: Mutex<Round>,
    changed: Condvar,
}

/// One operation: what each member sends to each, and how many have taken theirs.
#[derive(Default)]
struct Round {
    offers: Vec<Option<Vec<Vec<u8>>>>,
    taken: usize,
}

/// A library of one rank.
struct Strict {
    groups: Arc<Groups>,
    card: Card,
    broken: bool,
}

/// One member's end of a group.
struct StrictLink {
    groups: Arc<Groups>,
    table: Arc<Table>,
    me: usize,
    aborted: AtomicBool,
    /// Whether the library reports an error from now on.
    broken: bool,
}

impl Fabric for Strict {
    fn card(&self, _: &Device) -> Result<Card, KernelError> {
        Ok(self.card)
    }

    fn new_id(&self) -> Result<Id, KernelError> {
        let mut id = [0; NCCL_ID_BYTES];
        id[..8].copy_from_slice(&self.groups.next.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Ok(id)
    }

    fn join(&self, _: &Device, id: &Id, size: usize, me: usize) -> Result<Arc<dyn Link>, KernelError> {
        let number = u64::from_le_bytes(id[..8].try_into().unwrap());
        let table = || {
            let round = Round { offers: vec![None; size], taken: 0 };
            Arc::new(Table { size, round: Mutex::new(round), changed: Condvar::new() })
        };
        let table = lock(&self.groups.made).entry(number).or_insert_with(table).clone();
        assert_eq!(table.size, size, "members of a group agree on its size");
        let groups = self.groups.clone();
        Ok(Arc::new(StrictLink { groups, table, me, aborted: AtomicBool::new(false), broken: self.broken }))
    }
}

impl StrictLink {
    /// Leaves what this member sends to each, and returns what each has sent to this one once all have come.
    fn meet(&self, offer: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, KernelError> {
        self.groups.operations.fetch_add(1, Ordering::Relaxed);
        let table = &*self.table;
        let mut round = lock(&table.round);
        let aborted = || self.aborted.load(Ordering::Acquire);
        let wait = |round| table.changed.wait(round).unwrap_or_else(PoisonError::into_inner);
        // The operation before ends when all members have taken theirs.
        while round.offers[self.me].is_some() && !aborted() {
            round = wait(round);
        }
        round.offers[self.me] = Some(offer);
        table.changed.notify_all();
        while round.offers.iter().any(Option::is_none) && !aborted() {
            round = wait(round);
        }
        if aborted() {
            return Err(KernelError::Device("aborted".into()));
        }
        let mine = |offer: &mut Option<Vec<Vec<u8>>>| std::mem::take(&mut offer.as_mut().unwrap()[self.me]);
        let got = round.offers.iter_mut().map(mine).collect();
        round.taken += 1;
        if round.taken == table.size {
            *round = Round { offers: vec![None; table.size], taken: 0 };
            table.changed.notify_all();
        }
        while round.taken > 0 && !aborted() {
            round = wait(round);
        }
        Ok(got)
    }
}

fn read(bytes: &Bytes, span: Span) -> Vec<u8> {
    let mut copy = Bytes::zeroed(&Device::Reference, span.len).unwrap();
    copy.copy_from(0, bytes, span.at, span.len).unwrap();
    copy.into_buffer().to_vec().unwrap()
}

fn write(bytes: &mut Bytes, at: usize, values: &[u8]) -> Result<(), KernelError> {
    let values = Buffer::from_slice(&Device::Reference, values)?.into_bytes();
    bytes.copy_from(at, &values, 0, values.len())
}

impl Link for StrictLink {
    fn exchange(
        &self,
        _: &Device,
        send: &Bytes,
        to: &[Span],
        recv: &mut Bytes,
        from: &[Span],
    ) -> Result<(), KernelError> {
        let got = self.meet(to.iter().map(|&span| read(send, span)).collect())?;
        for (span, values) in from.iter().zip(got) {
            assert_eq!(span.len, values.len(), "members agree on lengths");
            write(recv, span.at, &values)?;
        }
        Ok(())
    }

    /// Adds from the last member to the first.
    fn sum(&self, _: &Device, vector: &mut Bytes, floats: usize) -> Result<(), KernelError> {
        let mine = read(vector, Span { at: 0, len: 4 * floats });
        let got = self.meet(vec![mine; self.table.size])?;
        let floats = |bytes: &Vec<u8>| -> Vec<f32> {
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
        };
        let all: Vec<Vec<f32>> = got.iter().rev().map(floats).collect();
        let sum = |i: usize| suite::ordered_sum(all.iter().map(|values| values[i]));
        let sums: Vec<u8> = (0..all[0].len()).flat_map(|i| sum(i).to_le_bytes()).collect();
        write(vector, 0, &sums)
    }

    fn check(&self) -> Result<(), KernelError> {
        match self.broken {
            true => Err(KernelError::Device("NCCL, while ranks communicated: the cable is cut".into())),
            false => Ok(()),
        }
    }

    fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        drop(lock(&self.table.round));
        self.table.changed.notify_all();
    }

    fn close(&self) {}
}

/// How the stand-in is.
#[derive(Clone, Copy)]
struct Manner {
    /// Number of cards; rank `i` is on card `i % cards`.
    cards: usize,
    /// Rank whose library reports an error, if any does.
    broken: Option<usize>,
    wait_limit: Duration,
}

impl Default for Manner {
    fn default() -> Self {
        Self { cards: usize::MAX, broken: None, wait_limit: Duration::from_secs(20) }
    }
}

/// Transport of a rank over the stand-in.
fn over(groups: &Arc<Groups>, manner: Manner) -> impl Fn(&Arc<InProcess>) -> Transport + Sync {
    let groups = groups.clone();
    move |transport| {
        let (rank, ranks) = (transport.rank(), transport.ranks());
        let index = rank % manner.cards;
        let card = Card { identity: [index as u8 + 1; 16], index };
        let fabric = Strict { groups: groups.clone(), card, broken: manner.broken == Some(rank) };
        let seat = Seat { rank, ranks, wait_limit: manner.wait_limit };
        let mover = NcclMover::new(transport.clone(), transport.clone(), Arc::new(fabric), seat);
        Transport { control: transport.clone(), mover: Arc::new(mover.of_everything()) }
    }
}

fn run(
    ranks: usize,
    manner: Manner,
    body: impl Fn(Communicator) -> Result<(), CollectiveError> + Sync,
) -> Result<Arc<Groups>, Failure> {
    let groups = Arc::new(Groups::default());
    let (topology, options) = (Topology::new(1, ranks).unwrap(), Options::default());
    launch_over(topology, &options, |_| Ok(Device::Reference), body, over(&groups, manner))?;
    Ok(groups)
}

#[test]
fn strictly_in_order() {
    let groups = Arc::new(Groups::default());
    conform(over(&groups, Manner::default()));
    assert!(groups.operations.load(Ordering::Relaxed) > 1000, "the exchanges went by the stand-in");
}

/// Device memory goes by NCCL; host memory, of which there is no other here, goes to the wrapped mover.
#[test]
fn host_memory_goes_to_the_wrapped_mover() {
    let groups = Arc::new(Groups::default());
    let (topology, options) = (Topology::new(2, 2).unwrap(), Options::default());
    let connect = |transport: &Arc<InProcess>| {
        let card = Card { identity: [1; 16], index: 0 };
        let fabric = Strict { groups: groups.clone(), card, broken: false };
        let seat = Seat { rank: transport.rank(), ranks: 4, wait_limit: options.wait_limit };
        let mover = NcclMover::new(transport.clone(), transport.clone(), Arc::new(fabric), seat);
        Transport { control: transport.clone(), mover: Arc::new(mover) }
    };
    launch_over(topology, &options, |_| Ok(Device::Reference), suite::outstanding, connect).unwrap();
    assert_eq!(groups.operations.load(Ordering::Relaxed), 0);
}

/// `--all-reduce nccl` has the library add; all other algorithms add in their own order. Bytes are counted as those of `direct`.
#[test]
fn sums_are_the_librarys_only_if_asked() {
    let len = 1000;
    run(4, Manner::default(), |world| {
        let (me, label) = (world.rank(), Label::from("gradients"));
        let value = |rank: usize, i: usize| suite::float(rank, i, len);
        let mine: Vec<f32> = (0..len).map(|i| value(me, i)).collect();
        let mut sent = Vec::new();
        for (algorithm, codec) in
            [(Algorithm::Direct, Codec::F32), (Algorithm::Nccl, Codec::F32), (Algorithm::Nccl, Codec::F16)]
        {
            world.reset_meter();
            let units = Units::of_tensors(codec, len, &[]);
            let prepared = Arc::new(world.prepare_all_reduce(units, algorithm, Compensation::None));
            let vector = Buffer::from_slice(world.device(), &mine)?;
            let lossy = Lossy::none(world.device());
            let (_, sums) = world.start_all_reduce_by(&label, &prepared, vector, lossy)?.wait()?;
            let forwards = |i| suite::ordered_sum((0..4).map(|rank| value(rank, i)));
            let backwards = |i| suite::ordered_sum((0..4).rev().map(|rank| value(rank, i)));
            let encoded = |i| {
                let rounded = |rank| suite::rounded(codec, value(rank, i));
                suite::rounded(codec, suite::ordered_sum((0..4).map(rounded)))
            };
            let expected: Vec<f32> = match (algorithm, codec) {
                (Algorithm::Direct, _) => (0..len).map(forwards).collect(),
                (_, Codec::F32) => (0..len).map(backwards).collect(),
                _ => (0..len).map(encoded).collect(),
            };
            assert_eq!(suite::bits(&sums.to_vec()?), suite::bits(&expected), "{algorithm} as {codec}");
            let meter = world.meter();
            sent.push((meter.len(), meter[0].calls, meter[0].sent(LinkClass::Host)));
        }
        assert_eq!(sent[0], sent[1], "NCCL's sums are metered as direct ones");
        assert!(sent[0].2 > 0 && sent[2].2 < sent[1].2);
        Ok(())
    })
    .unwrap();
}

/// A group that was connected has made nothing twice, and is counted nowhere.
#[test]
fn connecting_is_no_collective() {
    let groups = run(4, Manner::default(), |world| {
        let label = Label::from("gradients");
        world.connect(&label)?;
        world.connect(&label)?;
        assert!(world.meter().is_empty());
        let odd = world.split(&label, world.rank() % 2, 0)?;
        odd.connect(&label)?;
        let sum = odd.all_reduce(&label, Buffer::from_slice(world.device(), &[1.0])?)?;
        assert_eq!(sum.to_vec()?, [2.0]);
        Ok(())
    });
    assert_eq!(
        groups.unwrap().next.load(Ordering::Relaxed),
        3,
        "one id for the world, and one for each half"
    );
}

#[test]
fn ranks_on_one_card_are_refused() {
    let alone = run(3, Manner { cards: 2, ..Manner::default() }, |world| {
        let mine = Buffer::from_slice(world.device(), &[1.0])?;
        world.all_reduce(&Label::from("gradients"), mine).map(drop)
    });
    let text = alone.err().expect("ranks 0 and 2 are on card 0").to_string();
    let first = text.lines().next().unwrap_or_default();
    assert_eq!(
        first,
        "ranks 0 and 2 both use GPU 0 of their host, but NCCL needs a GPU for each rank; start at most as many ranks on a host as \
         it has GPUs, or use --transport in-process or mpi, with which ranks may share a GPU"
    );
}

/// A rank that fails while the others wait inside the library for it: they are freed, and learn why.
#[test]
fn a_rank_that_fails_frees_the_others() {
    let began = Instant::now();
    let failed = run(4, Manner::default(), |world| {
        let label = Label::from("gradients");
        let vector = || Buffer::from_slice(world.device(), &[1.0; 10]);
        world.all_reduce(&label, vector()?)?;
        if world.rank() == 2 {
            return Err(KernelError::OutOfMemory { bytes: 12_345 }.into());
        }
        world.all_reduce(&label, vector()?).map(drop)
    });
    let text = failed.err().expect("rank 2 fails").to_string();
    assert!(text.contains("rank 2") && text.contains("12345"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(15), "freed, and not timed out");
}

/// A rank that never comes to make a group's communicator is missed at the meeting before.
#[test]
fn a_rank_that_fails_before_the_meeting_frees_the_others() {
    let failed = run(3, Manner::default(), |world| {
        if world.rank() == 1 {
            return Err(KernelError::OutOfMemory { bytes: 54_321 }.into());
        }
        let vector = Buffer::from_slice(world.device(), &[1.0; 10])?;
        world.all_reduce(&Label::from("gradients"), vector).map(drop)
    });
    let text = failed.err().expect("rank 1 fails").to_string();
    assert!(text.contains("rank 1") && text.contains("54321"), "{text}");
}

/// An error that the library meets while others wait inside it ends all ranks.
#[test]
fn an_error_on_the_way_ends_all_ranks() {
    let failed = run(3, Manner { broken: Some(1), ..Manner::default() }, |world| {
        let vector = || Buffer::from_slice(world.device(), &[1.0; 10]);
        loop {
            world.all_reduce(&Label::from("gradients"), vector()?)?;
        }
    });
    let text = failed.err().expect("the library of rank 1 fails").to_string();
    assert!(text.contains("the cable is cut"), "{text}");
    assert!(text.contains("rank 2 on host 0") && text.contains("all_reduce"), "what all ranks did: {text}");
}

/// A rank that does not take part is waited for no longer than the limit.
#[test]
fn waiting_inside_the_library_has_a_limit() {
    let failed = run(3, Manner { wait_limit: Duration::from_millis(300), ..Manner::default() }, |world| {
        let (label, vector) = (Label::from("gradients"), || Buffer::from_slice(world.device(), &[1.0; 10]));
        world.all_reduce(&label, vector()?)?;
        while world.rank() == 1 {
            // Computes, and looks now and then whether the run has ended.
            std::thread::sleep(Duration::from_millis(10));
            world.progress()?;
        }
        world.all_reduce(&label, vector()?).map(drop)
    });
    let text = failed.err().expect("rank 1 never comes").to_string();
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.contains("NCCL has waited for other ranks for 300.0ms, the limit, in all_reduce"),
        "{text}"
    );
}
