//! A worker process: one role, one store.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::Result;
use crate::data::Steps;
use crate::disk;
use crate::job::{ACKED, Answer, Job, Role};
use crate::peer::Peer;
use crate::peers;
use crate::sys::{Words, now, pin, wait_until};

/// No worker outlives this, whatever it waits for.
const LIFE_MAX: Duration = Duration::from_secs(300);
/// How long the cost of a poll is measured.
const IDLE_NS: u64 = 20_000_000;
/// How many returns the heir remembers.
const RETURNS: usize = 1 << 16;

pub fn run(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job)?;
    let role = job.role;
    std::thread::spawn(move || {
        std::thread::sleep(LIFE_MAX);
        eprintln!("peers: a worker ({role:?}) is at it for {} s and gives up", LIFE_MAX.as_secs());
        std::process::exit(3);
    });
    let mut peer =
        peers::open(&job.peer, job.level, &job.dir, (role == Role::Create).then_some(job.commits))?;
    let answer = match role {
        Role::Create => Answer::default(),
        Role::Commit => commit(&job, &mut *peer)?,
        Role::Count => Answer { found: peer.count()?, ..Answer::default() },
        Role::Tell => tell(&job, &mut *peer)?,
        Role::Watch => watch(&job, &mut *peer)?,
        Role::Doomed => doomed(&job, &mut *peer)?,
        Role::Heir => heir(&job, &mut *peer)?,
    };
    peer.close()?;
    drop(peer);
    say(&format!("ANSWER {}", serde_json::to_string(&answer)?))
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn hear() -> Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Says that all is prepared, and waits for the time that is given.
fn start() -> Result<u64> {
    say("READY")?;
    let line = hear()?;
    let at = line.strip_prefix("GO ").ok_or("GO was expected")?.parse()?;
    wait_until(at);
    Ok(at)
}

fn wall() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn commit(job: &Job, peer: &mut dyn Peer) -> Result<Answer> {
    let (mut steps, mut answer) = (Steps::new(job.worker, None), Answer::default());
    let written = disk::written();
    let start = start()?;
    answer.wall.0 = wall();
    let deadline = start + (job.seconds * 1e9) as u64;
    // The return of one commit is the beginning of the next: nothing lies between them.
    let mut last = now();
    while last < deadline && answer.acked < job.commits {
        let steps = steps.take(job.batch);
        match steps {
            [step] => peer.commit(step)?,
            steps => peer.batch(steps)?,
        }
        let at = now();
        answer.latencies.add(at - last);
        answer.acked += job.batch as u64;
        if at <= deadline {
            answer.in_time += job.batch as u64;
        }
        last = at;
    }
    answer.end = last;
    answer.wall.1 = wall();
    answer.written = disk::written() - written;
    Ok(answer)
}

fn tell(job: &Job, peer: &mut dyn Peer) -> Result<Answer> {
    let (mut steps, mut answer) = (Steps::new(job.worker, Some(0)), Answer::default());
    let mut commit = |steps: &mut Steps| steps.take(1).iter().try_for_each(|step| peer.commit(step));
    // The first commit of a process may do more than the others.
    commit(&mut steps)?;
    pin(0)?;
    start()?;
    for n in 0..job.commits {
        std::thread::sleep(Duration::from_micros(300 + n * 37 % 400));
        let begin = now();
        commit(&mut steps)?;
        answer.times.push((begin, now()));
    }
    answer.acked = job.commits + 1;
    Ok(answer)
}

fn watch(job: &Job, peer: &mut dyn Peer) -> Result<Answer> {
    let mut answer = Answer::default();
    // Else it would be put to sleep by the very commit it is to see.
    pin(1)?;
    let mut seen = peer.poll()?;
    let (begin, mut polls) = (now(), 0);
    while now() - begin < IDLE_NS {
        // Many at once, so that the clock does not count.
        for _ in 0..100 {
            seen = peer.poll()?;
        }
        polls += 100;
    }
    answer.idle_ns = (now() - begin) as f64 / f64::from(polls);
    start()?;
    while (answer.times.len() as u64) < job.commits {
        let found = peer.poll()?;
        if found > seen {
            let at = now();
            answer.times.extend((seen..found).map(|_| (at, at)));
            seen = found;
        }
    }
    Ok(answer)
}

fn doomed(job: &Job, peer: &mut dyn Peer) -> Result<Answer> {
    let mut steps = Steps::new(job.worker, None);
    let words = Words::open(&job.dir.join(ACKED))?;
    start()?;
    loop {
        for step in steps.take(1) {
            peer.commit(step)?;
        }
        words.word(0).fetch_add(1, Ordering::AcqRel);
    }
}

fn heir(job: &Job, peer: &mut dyn Peer) -> Result<Answer> {
    let (mut steps, mut answer) = (Steps::new(job.worker, None), Answer::default());
    start()?;
    let (death, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    std::thread::spawn({
        let (death, stop) = (Arc::clone(&death), Arc::clone(&stop));
        move || {
            // The end of the pipe is the end of the work too.
            while let Some(at) = hear().ok().and_then(|line| line.strip_prefix("DEAD ")?.parse().ok()) {
                death.store(at, Ordering::Release);
            }
            stop.store(true, Ordering::Release);
        }
    });
    // News of a death comes late, when more commits may have returned; so the latest returns are remembered.
    let mut returns = vec![0; RETURNS];
    while !stop.load(Ordering::Acquire) {
        for step in steps.take(1) {
            peer.commit(step)?;
        }
        returns[answer.acked as usize % RETURNS] = now();
        answer.acked += 1;
        let death_at = death.load(Ordering::Acquire);
        if death_at != 0
            && let Some(first) = returns.iter().copied().filter(|at| *at >= death_at).min()
        {
            death.store(0, Ordering::Release);
            say(&format!("AFTER {first}"))?;
        }
    }
    Ok(answer)
}
