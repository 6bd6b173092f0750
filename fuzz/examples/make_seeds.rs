//! Writes the checked-in seeds anew, from the codec: `cargo run --example make_seeds` in this folder.

use std::path::Path;
use std::{fs, io};

use foldlog::event::{
    Cause, Event, Fence, Field, Imported, Item, Patch, Retention, Status, StatusTable, TaskId, Value,
};
use foldlog::log::control_frame::{Control, RecoveryMark, Seal};
use foldlog::log::envelope::{Envelope, KeyKind, Operation, Preamble};
use foldlog::log::format::LAG_NONE;
use foldlog::log::frame::{FrameHeader, FrameKind, encode};
use foldlog::log::{Binding, BlobId, Key, SegmentId};
use foldlog::log::{OpId, Revision, Seq};
use foldlog_fuzz::{salt, with_header};

struct Log {
    frames: Vec<u8>,
    seq: u64,
    link: u32,
}

impl Log {
    fn put(&mut self, kind: FrameKind, count: u16, durable_lag: u32, body: &[u8]) {
        let header = FrameHeader { seq: self.seq, link: self.link, kind, count, durable_lag, writer: 7 };
        self.link = encode(&mut self.frames, &salt(), &header, body);
        self.seq += u64::from(count);
    }

    fn control(&mut self, control: &Control) {
        let mut body = Vec::new();
        control.encode(&mut body);
        self.put(control.kind(), 0, 1, &body);
        if let Control::Gap { to, .. } = control {
            self.seq = to + 1;
        }
    }
}

fn commit(events: u16) -> Vec<u8> {
    let operation = Operation { op_id: OpId([1; 16]), request_hash: [2; 16], seen: Seq(3) };
    let mut out = Vec::new();
    Preamble { time: 4, session: 5, operation: (events > 1).then_some(operation) }.encode(&mut out);
    for i in 0..events {
        let blobs: &[u8] = if i == 1 { &[6; 64] } else { &[] };
        let keyless = i == 2;
        Envelope {
            seq: Seq(0),
            takes: 1,
            kind: 8 + i,
            version: 1,
            ignorable: i == 1,
            key_kind: if keyless { KeyKind::NONE } else { KeyKind::TASK },
            key: if keyless { "" } else { "task" },
            revision: Revision(if keyless { 0 } else { 9 }),
            blobs,
            body: b"body",
        }
        .encode(&mut out);
    }
    out
}

fn elided(n: u16) -> Vec<u8> {
    let mut out = Vec::new();
    Preamble::default().encode(&mut out);
    Envelope {
        seq: Seq(0),
        takes: n,
        kind: 0,
        version: 1,
        ignorable: false,
        key_kind: KeyKind::NONE,
        key: "",
        revision: Revision(0),
        blobs: &[],
        body: &n.to_le_bytes(),
    }
    .encode(&mut out);
    out
}

fn controls(seq: u64) -> Vec<Control> {
    let segment_id = SegmentId(0x1111);
    let note = "0000000001-256.txt".into();
    vec![
        Control::Epoch { epoch: 0xEE },
        Control::Mark { time: 1 },
        Control::RecoveryMark(RecoveryMark {
            at_lpos: 0,
            bytes: 8,
            frames: 0,
            first_seq: seq,
            verdict: 3,
            note,
        }),
        Control::Gap { from: seq, to: seq + 9 },
        Control::Seal(Seal {
            next_segment_id: SegmentId(0x2222),
            next_first_seq: seq + 10,
            next_base_lpos: 0,
            segment_id,
            last_seq: seq + 9,
            last_crc: 0,
        }),
    ]
}

/// Legacy folders: which file, and its text with `'` for `"`.
fn legacy() -> Vec<(&'static str, Vec<(u8, String)>)> {
    let item =
        |id: &str, rest: &str| format!("{{'id':'{id}','number':1,'ts':1786000000000,{rest}'totalCost':0.5}}");
    let good =
        item("a", "'task':'title','tokensIn':7,'status':'delegated','childIds':['b'],'awaitingChildId':'b',");
    let worse = item("a", "'task':'Task #1 (Incomplete)','tokensIn':0,'size':0,'x':{'k':[1,1.50,null]},");
    let other = item("b", "'task':'\\ud83d','status':null,'parentTaskId':'a',");
    let ui = "[{'ts':1786000000001,'type':'say','say':'text','text':'title'},{'ts':1786000000002,'type':'say',\
              'say':'api_req_started','text':'{\\'tokensIn\\':7,\\'cost\\':0.5}'}]";
    let api = "[{'role':'user','content':[{'type':'text','text':'<task>t</task>'}],'ts':1786000000000}]";
    vec![
        ("one", vec![(0, good.clone())]),
        (
            "conflict",
            vec![
                (0, worse.clone()),
                (9, format!("{{'version':1,'entries':[{good},{other}]}}")),
                (5, ui.into()),
            ],
        ),
        (
            "copies",
            vec![
                (1, good.clone()),
                (2, worse.clone()),
                (3, other.clone()),
                (4, good.clone()),
                (7, other.clone()),
            ],
        ),
        ("messages", vec![(5, ui.into()), (6, api.into()), (8, api.into())]),
        (
            "cut",
            vec![
                (9, format!("[{good},{other}")),
                (10, format!("[{good}][{other},]]")),
                (0, good[..40].into()),
            ],
        ),
        (
            "states",
            vec![
                (12, format!("{{'taskHistory':'{}'}}", format!("[{good}]").replace('\'', "\\'"))),
                (13, format!("[{other},{}]", item("../x", ""))),
                (11, worse),
            ],
        ),
    ]
}

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(root.join(target))?;
        fs::write(root.join(target).join(name), bytes)
    };
    let mut log = Log { frames: Vec::new(), seq: 1, link: 0 };
    log.put(FrameKind::COMMIT, 1, LAG_NONE, &commit(1));
    let one = log.frames.clone();
    log.put(FrameKind::COMMIT, 3, 2, &commit(3));
    log.put(FrameKind::COMMIT, 200, 1, &elided(200));
    log.put(FrameKind(0x8044), 2, LAG_NONE, b"ignored");
    for control in controls(log.seq) {
        log.control(&control);
    }
    let mut torn = log.frames.clone();
    torn[one.len() + 40] ^= 1;
    let reserve = [&one[..], &[0; 64]].concat();
    let made: [(&str, &[u8]); 5] =
        [("empty", &[]), ("one", &one), ("every-kind", &log.frames), ("torn", &torn), ("reserve", &reserve)];
    for (name, frames) in made {
        write("segment_scan", name, &with_header(frames))?;
        write("frame_decode", name, &[&[22], frames].concat())?;
        // vouched, durable, word and the made summary come first; zeros do.
        write("classify", name, &[&[0; 96], &with_header(frames)[..]].concat())?;
        write("segment_mutate", name, frames)?;
    }
    for (name, files) in legacy() {
        let parts: Vec<Vec<u8>> = files
            .iter()
            .map(|(which, text)| [&[*which], text.replace('\'', "\"").as_bytes()].concat())
            .collect();
        write("import_legacy", name, &parts.join(&0xff))?;
    }
    let body =
        |seq: u64, count: u16, body: &[u8]| [&seq.to_le_bytes()[..], &count.to_le_bytes(), body].concat();
    write("envelope_decode", "commit-of-1", &body(1, 1, &commit(1)))?;
    write("envelope_decode", "commit-of-3", &body(2, 3, &commit(3)))?;
    write("envelope_decode", "elided", &body(5, 200, &elided(200)))?;
    for control in controls(7) {
        let mut bytes = Vec::new();
        control.encode(&mut bytes);
        write("envelope_decode", &format!("control-{:04x}", control.kind().0), &body(7, 0, &bytes))?;
    }
    let counting: Vec<u8> = (0..=255).collect();
    for (name, bytes) in [("zeros", &[0; 64][..]), ("ones", &[0xFF; 64]), ("counting", &counting)] {
        write("ctl_block", name, bytes)?;
    }
    for (name, steps) in PROGRAMS {
        write(
            "fold_equiv",
            name,
            &steps.iter().flat_map(|(step, fields)| chosen(*step, 15, fields)).collect::<Vec<_>>(),
        )?;
    }
    for (name, flags, edits) in SPOILED {
        let edits = edits.iter().flat_map(|(place, at)| {
            let value = if *place == 0 { &[9; 8][..] } else { &[0xFF; 8] };
            chosen(*place, 3, &[at, value].concat())
        });
        // No bytes in the place of the whole file; then the edits and their end; no other length, and nothing behind.
        let bytes: Vec<u8> = flags.iter().copied().chain([0]).chain(edits).chain([0, 0]).collect();
        write("snapshot_open", name, &bytes)?;
    }
    for (name, text) in ITEMS {
        write("item_patch", name, text.as_bytes())?;
    }
    for (name, event) in events() {
        let new = event.to_new(Key::task("t"));
        write("item_patch", &format!("{}-{name}", new.kind()), new.body())?;
    }
    Ok(())
}

/// As `arbitrary` reads one more element that is the `nth` of so many variants.
fn chosen(nth: u32, of: u32, fields: &[u8]) -> Vec<u8> {
    let chooses = u32::MAX / of * nth + u32::MAX / of / 2;
    [&[1], &chooses.to_le_bytes()[..], fields].concat()
}

/// A step and its fields, as `fold_equiv` has them.
type Program<'a> = &'a [(u32, &'a [u8])];

const CREATE: u32 = 0;
const PATCH: u32 = 1;
const BURST: u32 = 2;
const DELEGATE: u32 = 6;
const COMPLETE: u32 = 7;
const REMOVE: u32 = 8;
const ATTACH: u32 = 9;
const SNAPSHOT: (u32, &[u8]) = (11, &[]);
const COMPACT: (u32, &[u8]) = (12, &[]);
const KILLED: (u32, &[u8]) = (13, &[1]);
const CLOSED: (u32, &[u8]) = (13, &[0]);
const BACKUP: (u32, &[u8]) = (14, &[]);

const PROGRAMS: [(&str, Program<'_>); 3] = [
    (
        "life",
        &[
            (CREATE, &[0, 0, 0]),
            (CREATE, &[1, 1, 0, 0]),
            (BURST, &[0, 90, 0]),
            (BURST, &[0, 90, 1]),
            SNAPSHOT,
            (BURST, &[1, 90, 0]),
            SNAPSHOT,
            COMPACT,
            BACKUP,
            KILLED,
            (BURST, &[0, 90, 1]),
            SNAPSHOT,
            COMPACT,
            CLOSED,
        ],
    ),
    (
        "family",
        &[
            (CREATE, &[0, 0, 0]),
            (DELEGATE, &[0, 1]),
            SNAPSHOT,
            (ATTACH, &[1]),
            (BURST, &[0, 95, 0]),
            (COMPLETE, &[1]),
            (REMOVE, &[0, 1]),
            (CREATE, &[1, 0, 1]),
            (BURST, &[1, 95, 0]),
            SNAPSHOT,
            (BURST, &[1, 95, 0]),
            SNAPSHOT,
            COMPACT,
            BACKUP,
        ],
    ),
    (
        "fields",
        &[
            (CREATE, &[0, 0, 0]),
            (PATCH, &[0, 1, 3, 1, 0, 1, 2, 200, 2, 0, 1, 7]),
            (PATCH, &[0, 1, 4, 1, 0, 0, 0]),
            (BURST, &[0, 95, 0]),
            SNAPSHOT,
            (PATCH, &[0, 1, 3, 1, 0, 0, 1, 7]),
            (BURST, &[0, 95, 0]),
            SNAPSHOT,
            COMPACT,
            KILLED,
        ],
    ),
];

/// Which of the snapshots, whether alone, whether its checksums hold, whether by calls; and eight bytes in its header (place
/// 0), anywhere (1) or before its end (2).
type Spoiled<'a> = (&'a str, [u8; 4], &'a [(u32, &'a [u8])]);

const SPOILED: [Spoiled<'_>; 7] = [
    ("as-it-is", [0, 0, 0, 0], &[]),
    ("header", [0, 1, 0, 0], &[(0, &[32])]),
    ("row", [1, 1, 0, 1], &[(1, &[0, 6])]),
    ("table", [0, 0, 0, 0], &[(2, &[4, 0])]),
    ("header-mended", [0, 1, 1, 0], &[(0, &[12])]),
    ("row-mended", [0, 1, 1, 1], &[(1, &[0, 6]), (1, &[0, 9])]),
    ("directory-mended", [0, 1, 1, 0], &[(2, &[60, 0])]),
];

/// Items with a patch each, and values.
const ITEMS: [(&str, &str); 4] = [
    (
        "plain",
        "{\"id\":\"t\",\"ts\":1,\"x\":1.50}\n\n{\"set\":{\"ts\":2,\"mode\":\"code\"},\"unset\":[\"x\"]}",
    ),
    (
        "children",
        "{\"id\":\"t\",\"childIds\":[\"a\"]}\n\n{\"set\":{\"childIds\":[\"b\"]},\"dropChildIds\":[\"a\",\"c\"]}",
    ),
    (
        "odd",
        "{ \"id\" : \"t\", \"\\u0041\":\"\\ud83d\",\"n\":[-0,1e400,{\"k\": [ ] }]}\n\n{\"set\":{\"A\":null}}",
    ),
    ("value", " [\"a\",\"\\u001f\", 18446744073709551616] "),
];

fn events() -> Vec<(&'static str, Event)> {
    let id = |id: &str| TaskId::new(id).expect("it is an id");
    let item = Item::parse("{\"id\":\"t\",\"ts\":1,\"x\":{\"k\": 1},\"childIds\":[\"a\"],\"off\":false}")
        .expect("it is an item");
    let set = vec![(Field::Mode, Value::from("code")), (Field::of("own"), Value::from(-1_i64))];
    let blob = Value::Blob { id: BlobId([7; 32]), len: 70_000 };
    let imported =
        Imported { set, unset: vec![Field::Ts], kept: vec![(Field::of("q"), 7)], ..Imported::default() };
    vec![
        ("item", Event::Created { item: item.with(Field::of("big"), blob.clone()), again: true }),
        ("patch", Event::Patched(Patch::new().set(Field::Mode, "m").unset(Field::Ts).drop_children(["a"]))),
        ("usage", Event::Patched(Patch::new().set(Field::Ts, 5_u64))),
        ("title", Event::Renamed { title: "T".into() }),
        ("status", Event::StatusChanged { from: Status::Active, to: Status::Interrupted, cause: Cause::Set }),
        ("child", Event::Delegated { child: id("c") }),
        ("parent", Event::Linked { parent: id("p"), root: id("r") }),
        ("done", Event::Finished { summary: Some(blob) }),
        ("returned", Event::ChildReturned { child: id("c"), summary: Some("s".into()) }),
        ("deleted", Event::Deleted { with: Some(id("p")) }),
        ("attached", Event::Attached(Fence { number: 1, session: 2 })),
        ("detached", Event::Detached { fence: 1 }),
        ("abandoned", Event::Abandoned { session: 2, fence: 2, severed: true }),
        ("imported", Event::Imported(imported)),
        ("kept", Event::SourceKept { source: "s".into(), record: Value::from("{") }),
        ("rules", Event::RulesSet(StatusTable::default())),
        ("bound", Event::WorkspaceBound(Binding::Path("/p".into()))),
        ("retention", Event::RetentionSet(Some(Retention::KeepAll))),
        ("pinned", Event::Pinned(true)),
        ("purged", Event::Purged { fence: 3 }),
        ("backup", Event::BackedUp { target: "/b".into(), covers: Seq(9) }),
        ("session", Event::SessionStarted { label: "l".into(), version: "v".into(), pid: 1 }),
    ]
}
