//! Parents before children. Links are data and may be wrong: each row comes exactly once, whatever they say.

/// The order of rows in a tree, each with its depth: below their parents where these are rows too, siblings in the order
/// they come in. Rows that are above themselves have no top; the first of them stands there.
pub(crate) fn forest(parents: &[Option<usize>]) -> Vec<(usize, usize)> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (at, parent) in parents.iter().enumerate() {
        if let Some(siblings) = parent.and_then(|parent| children.get_mut(parent)) {
            siblings.push(at);
        }
    }
    let mut placed = Vec::with_capacity(parents.len());
    let mut seen = vec![false; parents.len()];
    let tops = parents.iter().enumerate().filter(|(_, parent)| parent.is_none()).map(|(at, _)| at);
    for top in tops.chain(0..parents.len()) {
        let mut open = vec![(0, top)];
        while let Some((depth, at)) = open.pop() {
            match seen.get_mut(at) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            placed.push((depth, at));
            let below = children.get(at).into_iter().flatten().rev();
            open.extend(below.map(|child| (depth + 1, *child)));
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_stand_below_their_parents() {
        let parents = [Some(3), None, Some(0), None, Some(3), Some(1)];
        assert_eq!(forest(&parents), [(0, 1), (1, 5), (0, 3), (1, 0), (2, 2), (1, 4)]);
    }

    #[test]
    fn every_row_comes_once_whatever_the_links_are() {
        assert_eq!(forest(&[Some(1), Some(0), Some(1), None]), [(0, 3), (0, 0), (1, 1), (2, 2)]);
        assert_eq!(forest(&[Some(0)]), [(0, 0)]);
        let mut seed = 7_usize;
        for len in 0..60 {
            let parents: Vec<Option<usize>> = (0..len)
                .map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    Some((seed >> 33) % (len + 1)).filter(|parent| *parent < len)
                })
                .collect();
            let mut rows: Vec<_> = forest(&parents).into_iter().map(|(_, at)| at).collect();
            rows.sort_unstable();
            assert_eq!(rows, (0..len).collect::<Vec<_>>(), "{parents:?}");
        }
    }

    #[test]
    fn chain_of_any_length_is_no_matter_of_the_stack() {
        let parents: Vec<Option<usize>> = (0..200_000_usize).map(|at| at.checked_sub(1)).collect();
        assert_eq!(forest(&parents).last(), Some(&(199_999, 199_999)));
    }
}
