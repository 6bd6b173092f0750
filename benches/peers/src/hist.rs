//! A histogram of durations: 64 buckets to each doubling, so that a percentile is off by 1.6 % at most.

use serde::{Deserialize, Serialize};

const BITS: u32 = 6;

#[derive(Default, Serialize, Deserialize)]
pub struct Hist {
    counts: Vec<u64>,
    max: u64,
}

fn bucket(ns: u64) -> usize {
    let ns = ns.max(1 << BITS);
    let shift = ns.ilog2() - BITS;
    ((shift as usize) << BITS) + (ns >> shift) as usize
}

/// The least duration of a bucket.
fn least(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    ((bucket - (shift << BITS)) as u64) << shift
}

impl Hist {
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.max = self.max.max(ns);
    }

    pub fn merge(&mut self, other: &Hist) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// The duration that a share of all stay within, in ns.
    pub fn quantile(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let mut left = ((total as f64 * share).ceil() as u64).max(1);
        for (bucket, count) in self.counts.iter().enumerate() {
            if *count >= left {
                return least(bucket).min(self.max);
            }
            left -= count;
        }
        self.max
    }

    pub fn max(&self) -> u64 {
        self.max
    }
}

/// The value that a share of a list's values stay within.
pub fn quantile(list: &[f64], share: f64) -> Option<f64> {
    let mut sorted = list.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

/// The middle one, or the mean of the two in the middle.
pub fn median(list: &[f64]) -> Option<f64> {
    Some((quantile(list, 0.5)? - quantile(&list.iter().map(|x| -x).collect::<Vec<_>>(), 0.5)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_begins_at_its_least_duration() {
        for ns in (64..5000).chain([1 << 20, (1 << 40) + 12345]) {
            let (low, high) = (least(bucket(ns)), least(bucket(ns) + 1));
            assert!(low <= ns && ns < high, "{ns} lies in {low}..{high}");
            assert!((high - low) * 64 <= ns, "{low}..{high} is too wide");
        }
    }

    #[test]
    fn quantiles_of_a_known_list() {
        let mut hist = Hist::default();
        (1..=100).for_each(|n| hist.add(n * 1000));
        for (share, wanted) in [(0.5, 50_000), (0.99, 99_000), (1.0, 100_000)] {
            let found = hist.quantile(share);
            assert!(found <= wanted && wanted - found <= wanted / 64, "{share}: {found}");
        }
        assert_eq!(hist.max(), 100_000);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
