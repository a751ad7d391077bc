//! Figures of three servers that always sync, on this machine:
//! `cargo nextest run --test cluster --run-ignored only --no-capture figures`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nearprint_engine::log::Log as _;

use super::answer;
use crate::servers::Servers;

#[test]
#[ignore = "prints figures"]
fn figures() {
    let Some(servers) = Servers::start(3) else { return };
    let log = servers.create();
    let elsewhere = servers.open().unwrap();
    let mut reader = elsewhere.read(1);
    for bytes in [128, 64 << 10] {
        let entry: Arc<[u8]> = vec![7; bytes].into();
        let mut times: Vec<_> = (0..2_000)
            .map(|_| {
                let began = Instant::now();
                drop(log.append(Arc::clone(&entry)));
                while reader.next(Duration::from_secs(1)).unwrap().is_none() {}
                began.elapsed()
            })
            .collect();
        times.sort();
        let [p50, p99] = [50, 99].map(|percent| times[times.len() * percent / 100]);
        println!("{bytes} bytes, append to read back: p50 {p50:?}, p99 {p99:?}");
    }
    for (bytes, under_way_max, count) in [
        (512, 1, 1_000),
        (512, 4, 2_000),
        (512, 16, 8_000),
        (512, 512, 100_000),
        (64 << 10, 512, 3_000),
    ] {
        let entry: Arc<[u8]> = vec![7; bytes].into();
        let began = Instant::now();
        let mut under_way = std::collections::VecDeque::new();
        for _ in 0..count {
            if under_way.len() == under_way_max {
                answer(under_way.pop_front().unwrap()).unwrap();
            }
            under_way.push_back(log.append(Arc::clone(&entry)));
        }
        for receiver in under_way {
            answer(receiver).unwrap();
        }
        let written = f64::from(count) / began.elapsed().as_secs_f64();
        let began = Instant::now();
        for _ in 0..count {
            while reader.next(Duration::from_secs(1)).unwrap().is_none() {}
        }
        let read = f64::from(count) / began.elapsed().as_secs_f64();
        println!(
            "{bytes} bytes, {under_way_max} under way: {written:.0} a second appended, {read:.0} a \
             second read later"
        );
    }
}
