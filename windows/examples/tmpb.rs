use rmalab_atomics::{Mapped, Rank, RemoteAtomics, World, bind_to_core};
use rmalab_windows::*;
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Instant;
fn each(n: u32, mut body: impl FnMut()) -> f64 {
    let s = Instant::now();
    for _ in 0..n {
        body();
    }
    s.elapsed().as_nanos() as f64 / n as f64
}
fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}
fn rep(mut b: impl FnMut() -> f64) -> f64 {
    b();
    median((0..15).map(|_| b()).collect())
}
fn in_turn(mut w: impl FnMut() -> f64, mut r: impl FnMut() -> f64) -> (f64, f64) {
    w();
    r();
    let (mut a, mut b) = (vec![], vec![]);
    for _ in 0..15 {
        a.push(w());
        b.push(r());
    }
    (median(a), median(b))
}
const START: WindowDisp = WindowDisp(0);
fn pair(ra: &Mapped) {
    bind_to_core(ra.rank()).unwrap();
    let team = Team::new(ra).unwrap();
    let mut window = Window::allocate(&team, 32 << 20).unwrap();
    team.barrier().unwrap();
    if ra.rank() == Rank(0) {
        let t = Rank(1);
        {
            let epoch = window.lock_all().unwrap();
            let q = epoch.window().shared_query(t).unwrap();
            let raw = &q.words().unwrap()[0];
            let target = epoch.at(t).unwrap();
            let value = black_box(7u64);
            let (w, r) = in_turn(
                || {
                    each(100_000, || {
                        black_box(target.fetch_and_op(START, Op::Sum, value).unwrap());
                        epoch.flush(t).unwrap();
                    })
                },
                || {
                    each(100_000, || {
                        black_box(raw.fetch_add(value, Ordering::SeqCst));
                    })
                },
            );
            println!("fao+flush {w:.2} raw {r:.2} = {:.3}", w / r);
            let (w, r) = in_turn(
                || {
                    each(100_000, || {
                        black_box(target.compare_and_swap(START, value, value).unwrap());
                        epoch.flush(t).unwrap();
                    })
                },
                || {
                    each(100_000, || {
                        black_box(raw.compare_exchange(value, value, Ordering::SeqCst, Ordering::SeqCst)).ok();
                    })
                },
            );
            println!("cas+flush {w:.2} raw {r:.2} = {:.3}", w / r);
            let (w, _) = in_turn(
                || {
                    each(100_000, || {
                        black_box(epoch.at(t).unwrap().put(START, &[value]).unwrap());
                    })
                },
                || 0.0,
            );
            println!("at + put {w:.2}");
        }
        for (count, n) in [
            (1usize, 100_000u32),
            (2, 10000),
            (4, 10000),
            (7, 10000),
            (8, 10000),
            (16, 10000),
            (128, 2000),
            (1024, 400),
            (65536, 10),
        ] {
            let source = vec![1i64; count];
            let f = vec![1f64; count];
            let mut row = String::new();
            for kind in [LockKind::Shared, LockKind::Exclusive] {
                let target = window.lock(kind, t).unwrap();
                let a = rep(|| {
                    each(n, || {
                        target.accumulate(START, Op::Sum, &source).unwrap();
                        target.flush().unwrap();
                    })
                });
                let b = rep(|| {
                    each(n, || {
                        target.accumulate(WindowDisp(16 << 20), Op::Sum, &f).unwrap();
                        target.flush().unwrap();
                    })
                });
                let m = rep(|| {
                    each(n, || {
                        target.accumulate(START, Op::Max, &source).unwrap();
                        target.flush().unwrap();
                    })
                });
                target.unlock().unwrap();
                row += &format!(" {kind:?}: i64 {a:.1} f64 {b:.1} max {m:.1};");
            }
            println!("{count}: {row}");
        }
        for n in [8usize] {
            // mixed
            let target = window.lock(LockKind::Shared, t).unwrap();
            let source = vec![1i64; n];
            let a = rep(|| {
                each(2000, || {
                    target.accumulate(START, Op::Sum, &source).unwrap();
                    for _ in 0..100 {
                        target.fetch_and_op(START, Op::Sum, 1i64).unwrap();
                    }
                })
            });
            println!("run of {n} and 100 singles {a:.1}");
            let source = vec![1i64; 1024];
            let a = rep(|| {
                each(2000, || {
                    target.accumulate(START, Op::Sum, &source).unwrap();
                    for _ in 0..100 {
                        target.fetch_and_op(START, Op::Sum, 1i64).unwrap();
                    }
                })
            });
            println!("run of 1024 and 100 singles {a:.1}");
            target.unlock().unwrap();
        }
        let q = rep(|| {
            each(1000, || {
                let _ = black_box(ra.size());
            })
        });
        let _ = q;
    }
    team.barrier().unwrap();
    // contended
    let t = Rank(0);
    {
        let epoch = window.lock_all().unwrap();
        let target = epoch.at(t).unwrap();
        let a = rep(|| {
            team.barrier().unwrap();
            each(100_000, || {
                target.fetch_and_op(START, Op::Sum, 1i64).unwrap();
            })
        });
        let c = rep(|| {
            team.barrier().unwrap();
            each(100_000, || {
                target.accumulate(START, Op::Sum, &[1i64]).unwrap();
            })
        });
        if ra.rank() == Rank(0) {
            println!("contended fao {a:.1} acc1 {c:.1}");
        }
        for n in [128usize, 1024] {
            let source = vec![1i64; n];
            let a = rep(|| {
                team.barrier().unwrap();
                each(2000, || {
                    target.accumulate(START, Op::Sum, &source).unwrap();
                })
            });
            if ra.rank() == Rank(0) {
                println!("contended acc {n} {a:.1}");
            }
        }
        let source = vec![1i64; 128];
        let a = rep(|| {
            team.barrier().unwrap();
            if ra.rank() == Rank(0) {
                each(2000, || {
                    target.accumulate(START, Op::Sum, &source).unwrap();
                })
            } else {
                each(20000, || {
                    target.fetch_and_op(START, Op::Sum, 1i64).unwrap();
                })
            }
        });
        println!("rank {} contended mixed {a:.1}", ra.rank());
        epoch.unlock_all().unwrap();
    }
    window.free().unwrap();
}
fn main() {
    let program = std::env::current_exe().unwrap();
    World::processes(2).segment_bytes(64 << 20).command(program, [""; 0]).run(pair).unwrap();
}
