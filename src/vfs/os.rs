//! The real system.
