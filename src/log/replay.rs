//! Going through the whole of a log's history again, for questions that its state does not answer.

use super::Seq;
use super::engine::Log;
use super::envelope::Commit;
use super::reader::{self, Reach};
use super::scan::Content;
use super::settings::Recovery;
use crate::error::Result;
use crate::vfs::Vfs;

impl Log {
    /// The system calls it is made by.
    pub(crate) fn vfs(&self) -> &dyn Vfs {
        &*self.vfs
    }

    /// Folds every commit there is, in order, from what `start` makes. Takes no lock, and costs as much as opening.
    ///
    /// `take` gets the number of a commit's first event with it. Both may be called anew from the beginning, where the
    /// first look met bytes in motion.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn replay<T>(
        &self,
        mut start: impl FnMut() -> T,
        mut take: impl FnMut(&mut T, Seq, &Commit<'_>),
    ) -> Result<T> {
        self.check_fork()?;
        let reach = if self.settings.recovery == Recovery::Salvage { Reach::Salvage } else { Reach::Intact };
        let (folded, _) = reader::stable(&self.paths, || {
            let durable = reader::durable_word(&*self.vfs, &self.paths, self.meta.log_id);
            let (mut folded, mut last) = (start(), 0);
            let walk =
                reader::walk(&*self.vfs, &self.paths, self.meta.log_id, durable, reach, &mut |visit| {
                    let header = &visit.located.frame.header;
                    // A frame whose numbers have come before is a copy.
                    if let Content::Commit(commit) = &visit.located.content
                        && header.seq > last
                    {
                        last = header.seq;
                        take(&mut folded, Seq(header.seq), commit);
                    }
                })?;
            Ok((folded, walk))
        })?;
        Ok(folded)
    }
}
