//! The second series.
