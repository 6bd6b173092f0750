//! The command line.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::run::Plan;
use crate::views;

pub const USAGE: &str = "\
peers [--quick] [--check] [--only ROW,…] [--peers PEER,…] [--rounds N] [--seconds S] [--dir DIR] [--tasks N,…]
      [--json FILE]

foldlog side by side with other stores and the bare system calls; tables on the standard output.

  --quick      one short round
  --check      a few hundred commits in each row: does everything run and lose nothing? No time counts
  --only       rows whose name begins so: buffered-1, buffered, durable-8, pipelined, take-over, visibility,
               views-open, views, …
  --peers      peers whose name begins so: raw, foldlog-log, sqlite, …
  --rounds     how often each row goes round all peers (5)
  --seconds    how long a run commits (1)
  --dir        where the stores lie (target/ of this crate); the device below it is what durable rows measure
  --tasks      sizes of the catalogues in the rows views-open and views-look (100000), as in 100000,1000000
  --json       writes every round of everything there";

pub struct Args {
    pub plan: Plan,
    pub views: views::Plan,
    pub check: bool,
    only: Vec<String>,
    peers: Vec<String>,
    pub dir: PathBuf,
    pub json: Option<PathBuf>,
}

impl Args {
    /// `None` where help was asked for.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut plan = Plan { rounds: 5, seconds: 1.0, commits: None, kills: 6, sights: 1000 };
        let (mut check, mut quick, mut only, mut peers, mut json) =
            (false, false, Vec::new(), Vec::new(), None);
        let mut dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
        let (mut rounds, mut seconds, mut tasks) = (None, None, None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            let list = |text: String| text.split(',').map(str::to_owned).collect::<Vec<_>>();
            match arg.as_str() {
                "--quick" => {
                    plan = Plan { rounds: 1, seconds: 0.3, commits: None, kills: 8, sights: 200 };
                    quick = true;
                }
                "--check" => check = true,
                "--only" => only.extend(list(value()?)),
                "--peers" => peers.extend(list(value()?)),
                "--rounds" => rounds = Some(value()?.parse()?),
                "--seconds" => seconds = Some(value()?.parse()?),
                "--tasks" => {
                    let sizes =
                        list(value()?).iter().map(|size| size.parse()).collect::<std::result::Result<_, _>>();
                    tasks = Some(sizes?);
                }
                "--dir" => dir = value()?.into(),
                "--json" => json = Some(value()?.into()),
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("{arg} is unknown\n\n{USAGE}").into()),
            }
        }
        let mut views = match (check, quick) {
            (true, _) => views::Plan::check(),
            (false, true) => views::Plan::quick(),
            (false, false) => views::Plan::whole(),
        };
        views.tasks = tasks.unwrap_or(views.tasks);
        views.rounds = rounds.unwrap_or(views.rounds);
        if check {
            plan = Plan { rounds: 1, seconds: 0.0, commits: Some(160), kills: 2, sights: 50 };
        }
        plan.rounds = rounds.unwrap_or(plan.rounds);
        plan.seconds = seconds.unwrap_or(plan.seconds);
        Ok(Some(Args { plan, views, check, only, peers, dir, json }))
    }

    pub fn wants_row(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only))
    }

    pub fn wants_peer(&self, name: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|peer| name.starts_with(peer))
    }
}
