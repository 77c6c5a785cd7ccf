use kernels::internals::cpu::team::{PATIENCE, Team};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// How often each piece ran.
fn counts(team: &Team, pieces: usize) -> Vec<usize> {
    let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
    team.run(pieces, &|piece| {
        counts[piece].fetch_add(1, Ordering::Relaxed);
    });
    counts.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_piece_runs_once() {
    for threads in 1..5 {
        let team = Team::new(threads).unwrap();
        for pieces in (0..40).chain(std::iter::repeat_n(3, 2000)) {
            assert_eq!(counts(&team, pieces), vec![1; pieces], "{threads} threads");
        }
    }
}

#[test]
fn threads_that_sleep_are_called() {
    let team = Team::new(3).unwrap();
    for _ in 0..10 {
        thread::sleep(2 * PATIENCE);
        assert_eq!(counts(&team, 7), [1; 7]);
    }
}

/// A caller that waits longer than it is patient is woken by the last member.
#[test]
fn pieces_may_take_long() {
    let team = Team::new(3).unwrap();
    let meeting = std::sync::Barrier::new(3);
    let began = Instant::now();
    team.run(3, &|piece| {
        // Three pieces that wait for each other are three threads.
        meeting.wait();
        thread::sleep(PATIENCE * 3 * piece as u32);
    });
    assert!(began.elapsed() >= 6 * PATIENCE);
}

#[test]
fn pieces_may_have_pieces_and_teams_several_callers() {
    let team = Team::new(3).unwrap();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    team.run(4, &|_| {
                        team.run(5, &|_| {
                            done.fetch_add(1, Ordering::Relaxed);
                        })
                    });
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 4 * 200 * 4 * 5);
}

#[test]
fn panics_reach_the_caller_and_the_team_goes_on() {
    let team = Team::new(3).unwrap();
    for bad in 0..6 {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            team.run(6, &|piece| {
                if piece == bad {
                    panic!("piece {piece}");
                }
            })
        }));
        assert_eq!(*panicked.unwrap_err().downcast::<String>().unwrap(), format!("piece {bad}"));
        assert_eq!(counts(&team, 6), [1; 6]);
    }
}
