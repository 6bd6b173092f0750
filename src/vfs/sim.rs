//! A simulated disk.
/// Placeholder until the simulator lands.
pub(crate) fn memory() -> super::os::Os {
    super::os::Os
}
