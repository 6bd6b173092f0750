//! `foldlog dump` on the test vectors of the format: the good ones to the byte, the bad ones at the stated offset.

use std::path::Path;

use crate::support::foldlog;

#[test]
fn segments_read_or_are_refused_as_their_vectors_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/vectors");
    let (mut good, mut bad) = (0, 0);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "seg") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap();
        let run = foldlog(["dump", "--json", path.to_str().unwrap()]);
        if let Ok(lines) = std::fs::read_to_string(path.with_extension("jsonl")) {
            let run = run.ends(0);
            assert_eq!((run.out, run.err), (lines, String::new()), "{name}");
            good += 1;
            continue;
        }
        let want = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let want: serde_json::Value = serde_json::from_str(&want).unwrap();
        let code = want["code"].as_str().unwrap();
        let said: serde_json::Value = serde_json::from_str(run.err.lines().next().expect(name)).unwrap();
        let said_of_header = match code {
            "header-short" | "header-magic" => Some("foreign"),
            "header-incompat" => Some("too-new"),
            "header-format" if name.contains("format-0") => Some("damaged"),
            "header-format" => Some("too-new"),
            _ if code.starts_with("header-") => Some("damaged"),
            _ => None,
        };
        match said_of_header {
            Some(error) => {
                assert_eq!((&said["error"], want["refused_at"].as_u64()), (&error.into(), Some(0)), "{name}");
            }
            None => {
                assert_eq!(said["offset"], want["refused_at"], "{name}: {said}");
                assert!(matches!(run.code, Some(1 | 4)), "{name}: {:?}", run.code);
                assert!(run.out.lines().count() as u64 >= want["events_before"].as_u64().unwrap(), "{name}");
            }
        }
        bad += 1;
    }
    assert!(good >= 20 && bad >= 40, "{good} good, {bad} bad");
}
