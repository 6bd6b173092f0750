pub(crate) fn appender(_: &mut crate::worker::Stage) {}
