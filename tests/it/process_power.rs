pub(crate) fn scenario(_: &mut crate::worker::Stage) {}
