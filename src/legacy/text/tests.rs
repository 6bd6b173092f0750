use super::*;

fn found(text: &str) -> (Vec<String>, Option<What>) {
    let Content { elements, fault } = records(text, false);
    (elements.iter().map(|raw| member(raw, "id").unwrap_or("?").trim_matches('"').into()).collect(), fault)
}

fn list(n: usize) -> String {
    let all: Vec<String> = (0..n).map(|i| format!(r#"{{"id":"{i}","ts":1,"o":{{"id":"x"}}}}"#)).collect();
    all.join(",")
}

fn ids(n: usize) -> Vec<String> {
    (0..n).map(|i| i.to_string()).collect()
}

#[test]
fn records_are_found_in_every_form() {
    let all = list(3);
    let string = |text: &str| serde_json::to_string(text).unwrap();
    let array = format!("[{all}]");
    for text in [
        array.clone(),
        format!("\u{feff} {array}\n"),
        format!(r#"{{"version":1,"updatedAt":2,"entries":{array}}}"#),
        format!(r#"{{"a":1,"taskHistory":{array}}}"#),
        format!(r#"{{"taskHistory":{}}}"#, string(&array)),
        string(&array),
        string(&format!(r#"{{"taskHistory":{}}}"#, string(&array))),
    ] {
        assert_eq!(found(&text), (ids(3), None), "{text}");
    }
    assert_eq!(found(r#"{"id":"0"}"#), (ids(1), None));
}

#[test]
fn damaged_arrays_give_every_whole_element() {
    let all = list(3);
    for text in [
        format!("[{all}"),
        format!("[{all},"),
        format!("[{all},]"),
        format!("[{all}]]"),
        format!("[{all}]]]}}"),
        format!("[[{all}]"),
        format!("[{all}][]"),
        format!("[][{all}]"),
        format!("[{all},{{\"id\":\"3\",\"task\":\"cut he"),
        format!("[{all},{{\"id\":\"3\",\"o\":{{\"id\":\"4\"}},\"task\":\"cut he"),
        format!(r#"{{"version":1,"entries":[{all}"#),
        format!(r#"{{"version":1,"entries":[{all},{{"id""#),
        format!(r#"{{"version":1,"entries":[{all}}}"#),
    ] {
        let (got, fault) = found(&text);
        assert_eq!((got, fault.is_some()), (ids(3), true), "{text}");
    }
    let (first, second) = (list(2), r#"{"id":"2","ts":1}"#);
    for between in ["][", "]\n[", "],[", " ", ",,", r#",{"id":"q","ts":#},"#, r#",{"id":,"p":{"id":"q"}},"#] {
        let (got, fault) = found(&format!("[{first}{between}{second}]"));
        assert_eq!((got, fault), (ids(3), Some(What::Cut)), "{between}");
    }
}

#[test]
fn what_is_no_record_is_told_by_its_kind() {
    for (text, fault) in [
        ("", What::Blank),
        ("  \n", What::Blank),
        ("<!DOCTYPE html><p>", What::Html),
        ("12", What::WrongType),
        ("null", What::WrongType),
        ("\"text\"", What::NotJson),
        ("{}", What::WrongType),
        (r#"{"entries":7}"#, What::WrongType),
        ("{\"a", What::NotJson),
        ("\0\0\0", What::NotJson),
    ] {
        assert_eq!(found(text), (Vec::new(), Some(fault)), "{text}");
    }
    let whole = |text| records(text, true).fault;
    assert_eq!(whole("[]"), Some(What::WrongType));
    assert_eq!(whole("{}"), Some(What::WrongType));
    assert_eq!(whole(r#"{"error":"no such page"}"#), Some(What::WrongType));
    assert_eq!(whole(r#"{"ts":1}"#), None);
    assert_eq!(records(r#"{"id":"new"}tail of old"}"#, true).elements, [r#"{"id":"new"}"#]);
    assert_eq!(whole(r#"{"id":"new"}tail of old"}"#), Some(What::Surplus));
}

#[test]
fn bytes_that_are_no_text_are_told() {
    let utf16: Vec<u8> = "{\"id\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(decode(utf16.clone()), Err(What::Utf16));
    assert_eq!(decode([&[0xff, 0xfe], &utf16[..]].concat()), Err(What::Utf16));
    assert_eq!(
        decode(b"{\"a\":\"\xff\"}".to_vec()),
        Ok(("{\"a\":\"\u{fffd}\"}".into(), Some(What::NotUtf8)))
    );
}

#[test]
fn fields_that_cannot_be_kept_are_left_out_alone() {
    let (whole, dropped) =
        item(r#"{"id":"a","id":"b","x":{"k":1,"k":2},"\ud83d":1,"task":"\ud83d"}"#).unwrap();
    assert_eq!(whole.to_json(), r#"{"id":"b","task":"\ud83d"}"#);
    assert_eq!(dropped, ["x", r#""\ud83d""#]);
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!(r#"{{"id":"0","d":{}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert_eq!(found(&format!("[{deep}]")).0, ids(1));
    assert_eq!(found(&format!("[{deep}")).0, ids(1));
    assert!(item(&deep).unwrap().1.is_empty());
    assert_eq!(found(&"[".repeat(1_000_000)), (Vec::new(), Some(What::Cut)));
    assert_eq!(found(&"{\"a\":".repeat(100_000)).0, ids(0));
}
