use super::*;
use proptest::prelude::*;

const ID: &str = "t";
const NOW: u64 = 1_786_000_000_000;

fn record(kind: Kind, text: &str) -> Record {
    let name = format!("{kind:?}");
    Record {
        item: Item::parse(text).unwrap(),
        raw: text.into(),
        origins: vec![Origin { kind, name }],
        lossy: false,
    }
}

/// `'` stands for `"`.
fn file(text: &str) -> Record {
    record(Kind::File, &text.replace('\'', "\""))
}

fn index(text: &str) -> Record {
    record(Kind::Index, &text.replace('\'', "\""))
}

fn choose(records: Vec<Record>, messages: &Messages) -> Decision {
    let mut ask = || messages.clone();
    decide(&TaskId::new(ID).unwrap(), records, &mut ask).unwrap()
}

/// The result of records without any messages, with `'` for `"`.
fn result(records: Vec<Record>) -> String {
    choose(records, &Messages::default()).item.to_json().replace('"', "'")
}

fn said(title: Option<&str>, tokens: Option<f64>) -> Messages {
    let sums = tokens.map(|n| Sums { tokens: [n, 0.0, 0.0, 0.0], cost: n / 1000.0 });
    Messages { title: title.map(Into::into), sums, count: 1, ..Messages::default() }
}

#[test]
fn true_title_with_its_sums_and_time_beats_a_newer_placeholder() {
    let good = format!(
        "{{'id':'t','number':1,'ts':{NOW},'task':'real','tokensIn':5,'totalCost':0.1,'size':7,'status':'active'}}"
    );
    let bad = format!(
        "{{'id':'t','number':1,'ts':{},'task':'Aufgabe #1 (Unvollständig)','tokensIn':0,'totalCost':0,'size':5,'status':'active'}}",
        NOW + 9
    );
    let decision = choose(vec![file(&bad), index(&good)], &said(None, None));
    assert_eq!(decision.item.to_json().replace('"', "'"), good);
    assert_eq!((decision.why, decision.fields.len(), &*decision.kept), (Why::Title, 0, &[1][..]));
    assert_eq!((decision.confidence, decision.asked), (Confidence::High, false));
    assert_eq!(decision.origin(&Field::Ts), (Whence::Record(0), Why::Title));
}

#[test]
fn title_and_sums_may_come_from_different_records() {
    let a = format!("{{'id':'t','ts':{},'task':'real','tokensIn':0,'mode':'m'}}", NOW + 9);
    let b = format!("{{'id':'t','ts':{NOW},'task':'Task #1','tokensIn':5,'cacheReads':2,'mode':'n'}}");
    let decision = choose(vec![file(&a), index(&b)], &said(None, None));
    let expected = format!("{{'id':'t','ts':{NOW},'task':'real','tokensIn':5,'mode':'m','cacheReads':2}}");
    assert_eq!(decision.item.to_json().replace('"', "'"), expected);
    assert_eq!(decision.origin(&Field::TokensIn), (Whence::Record(1), Why::Sums));
    assert_eq!(decision.origin(&Field::Ts), (Whence::Record(1), Why::Sums));
    assert_eq!(decision.kept, [0, 1]);
}

#[test]
fn messages_arbitrate_between_true_titles_and_between_sums() {
    let a = format!("{{'id':'t','ts':{},'task':'one','tokensIn':900,'totalCost':0.9}}", NOW + 9);
    let b = format!("{{'id':'t','ts':{NOW},'task':'two','tokensIn':300,'totalCost':0.3}}");
    let of = |messages: &Messages| {
        let decision = choose(vec![file(&a), index(&b)], messages);
        assert!(decision.asked);
        let field = |field| decision.item.get(&field).unwrap().to_json();
        (field(Field::Task), field(Field::TokensIn), field(Field::Ts))
    };
    let (one, two) = ("\"one\"".to_owned(), "\"two\"".to_owned());
    let (new, old) = ((NOW + 9).to_string(), NOW.to_string());
    assert_eq!(of(&said(None, None)), (one.clone(), "900".into(), new.clone()));
    assert_eq!(of(&said(Some("two"), None)), (two.clone(), "900".into(), new.clone()));
    assert_eq!(of(&said(Some("one"), Some(500.0))), (one.clone(), "300".into(), old.clone()));
    assert_eq!(of(&said(Some("two"), Some(5000.0))), (two, "900".into(), new.clone()));
    // What messages do not reach at all, they do not refute; nor does a half of them.
    assert_eq!(of(&said(None, Some(5.0))), (one.clone(), "900".into(), new.clone()));
    assert_eq!(of(&Messages { damaged: true, ..said(None, Some(500.0)) }), (one, "900".into(), new));
}

#[test]
fn messages_are_read_only_where_they_can_tell_something() {
    let with = |task: &str, tokens: u64, ts: u64| {
        file(&format!("{{'id':'t','ts':{ts},'task':'{task}','tokensIn':{tokens}}}"))
    };
    let asked = |records: Vec<Record>| choose(records, &said(Some("said"), None)).asked;
    assert!(!asked(vec![with("a", 1, NOW)]));
    assert!(!asked(vec![with("a", 1, NOW), with("a", 1, NOW + 1), with("Task #1", 0, NOW)]));
    assert!(asked(vec![with("a", 1, NOW), with("b", 1, NOW)]));
    assert!(asked(vec![with("a", 1, NOW), with("a", 2, NOW)]));
    assert!(!asked(vec![with("Task #1", 1, NOW), with("", 1, 1)]));
}

#[test]
fn single_record_stays_as_it_is_whatever_the_messages_say() {
    let bad = format!("{{'id':'t','ts':{NOW},'task':'タスク #1 (未完了)','tokensIn':0,'totalCost':0}}");
    let decision = choose(vec![file(&bad)], &said(Some("said"), Some(20.0)));
    assert_eq!(decision.item.to_json().replace('"', "'"), bad);
    assert_eq!((&*decision.faults, decision.confidence), (&[What::NoTitle][..], Confidence::Medium));
}

#[test]
fn zero_cost_and_few_fields_are_no_defect() {
    let free = format!("{{'id':'t','ts':{NOW},'task':'real','tokensIn':0,'tokensOut':0,'totalCost':0}}");
    let decision = choose(vec![file(&free)], &said(None, None));
    assert_eq!(
        (decision.confidence, &*decision.faults, decision.why),
        (Confidence::High, &[][..], Why::Only)
    );
    assert_eq!(decision.item.to_json().replace('"', "'"), free);
}

#[test]
fn implausible_time_is_replaced_and_a_far_one_kept() {
    let with =
        |ts: &str, tokens: u64| file(&format!("{{'id':'t','ts':{ts},'task':'a','tokensIn':{tokens}}}"));
    let ts = |records: Vec<Record>, messages: &Messages| {
        let decision = choose(records, messages);
        (decision.item.get(&Field::Ts).unwrap().to_json(), decision.faults)
    };
    let told = said(None, None);
    assert_eq!(ts(vec![with("1", 9), with(&NOW.to_string(), 9)], &told), (NOW.to_string(), vec![]));
    assert_eq!(ts(vec![with("1", 9), with(&NOW.to_string(), 3)], &told), (NOW.to_string(), vec![]));
    assert_eq!(ts(vec![with("1", 9)], &told), ("1".into(), vec![What::TsImplausible]));
    for far in ["4070908800000", "327403382400000", "1e300"] {
        assert_eq!(ts(vec![with(far, 9)], &told), (far.into(), vec![]));
    }
    let text = "'+012345-01-01T00:00:00Z'";
    assert_eq!(ts(vec![with(text, 9)], &told).0, text.replace('\'', "\""));
}

#[test]
fn illegal_status_is_taken_from_another_record_with_its_links_or_left_out() {
    let with = |rest: &str| format!("{{'id':'t','ts':{NOW},'task':'a'{rest}}}");
    for status in ["null", "'paused'", "7", "'Active'"] {
        let bad = with(&format!(",'status':{status},'parentTaskId':'p'"));
        let good = with(",'status':'interrupted','childIds':['c']");
        let decision = choose(vec![file(&bad), index(&good)], &said(None, None));
        assert_eq!(decision.item.to_json().replace('"', "'"), good, "{status}");
        let left = choose(vec![file(&bad)], &said(None, None));
        assert_eq!(left.item.to_json().replace('"', "'"), with(",'parentTaskId':'p'"));
        assert_eq!((left.faults, left.confidence), (vec![What::StatusIllegal], Confidence::Medium));
        assert_eq!(left.fields, [(Field::Status, Whence::Nowhere, Why::LeftOut)]);
    }
}

#[test]
fn standing_further_along_wins_whole() {
    let with = |rest: &str| format!("{{'id':'t','ts':{NOW},'task':'a'{rest}}}");
    // Each of these is what a task may become from the one before.
    let life = [
        "",
        ",'status':'delegated','childIds':['c'],'delegatedToId':'c','awaitingChildId':'c'",
        ",'status':'active','childIds':['c'],'completedByChildId':'c','completionResultSummary':'s'",
        ",'status':'delegated','childIds':['c','d'],'delegatedToId':'d','awaitingChildId':'d','completedByChildId':'c'",
        ",'status':'interrupted','childIds':['c','d'],'completedByChildId':'c'",
        ",'status':'completed','childIds':['c','d'],'completedByChildId':'c','completionResultSummary':'done'",
    ];
    for (i, earlier) in life.iter().enumerate() {
        for later in &life[i + 1..] {
            // Time and source speak for the wrong one.
            let earlier = with(earlier).replace(&NOW.to_string(), &(NOW + 1).to_string());
            let decision = choose(vec![file(&earlier), index(&with(later))], &said(None, None));
            assert_eq!(decision.item.to_json().replace('"', "'"), with(later), "{earlier}");
        }
    }
}

#[test]
fn standing_moves_whole_into_a_record_that_is_better_otherwise() {
    let base = format!(
        "{{'id':'t','ts':{NOW},'task':'real','status':'delegated','parentTaskId':'p','childIds':['c'],'awaitingChildId':'c'}}"
    );
    let later = format!(
        "{{'id':'t','ts':{NOW},'task':'Task #1','status':'active','childIds':['c'],'completedByChildId':'c'}}"
    );
    let decision = choose(vec![file(&base), index(&later)], &said(None, None));
    assert_eq!(decision.item.to_json().replace('"', "'"), later.replace("Task #1", "real"));
    assert_eq!(decision.origin(&Field::Status), (Whence::Record(1), Why::Progress));
    assert_eq!(decision.origin(&Field::AwaitingChildId), (Whence::Nowhere, Why::Progress));
}

#[test]
fn cleared_links_stay_cleared_and_children_stay_children() {
    let newer = format!("{{'id':'t','ts':{},'task':'a','status':'active','childIds':['b']}}", NOW + 1);
    let older = format!(
        "{{'id':'t','ts':{NOW},'task':'a','parentTaskId':'p','pendingAction':{{}},'childIds':['a']}}"
    );
    let expected = newer.replace("['b']", "['b','a']");
    assert_eq!(result(vec![file(&newer), index(&older)]), expected);
}

#[test]
fn what_no_host_removes_is_filled_in_and_unknown_fields_only_from_newer_records() {
    let base = format!("{{'id':'t','ts':{NOW},'task':'a','size':0,'workspace':null}}");
    let older =
        format!("{{'id':'t','ts':{},'task':'a','mode':'m','size':3,'workspace':'/w','x':1}}", NOW - 1);
    let newer = format!("{{'id':'t','ts':{},'task':'','apiConfigName':'p','number':1,'y':2}}", NOW + 1);
    let expected = format!(
        "{{'id':'t','ts':{NOW},'task':'a','size':3,'workspace':'/w','number':1,'mode':'m','apiConfigName':'p','y':2}}"
    );
    let older_by_placeholder = older.replace("'task':'a'", "'task':'Task #3'");
    assert_eq!(result(vec![file(&base), index(&older_by_placeholder), index(&newer)]), expected);
}

#[test]
fn equal_records_are_one_wherever_they_stand() {
    let text = format!("{{'id':'t','ts':{NOW},'task':'a'}}");
    let spaced = record(Kind::Backup, &format!("{{ \"id\":\"t\", \"ts\" : {NOW}, \"task\":\"a\" }}"));
    let decision = choose(vec![index(&text), spaced, file(&text)], &said(None, None));
    assert_eq!((decision.records.len(), &*decision.kept), (1, &[][..]));
    let kinds: Vec<Kind> = decision.records[0].origins.iter().map(|o| o.kind).collect();
    assert_eq!((kinds, decision.why), (vec![Kind::File, Kind::Index, Kind::Backup], Why::Only));
}

#[test]
fn id_of_the_folder_counts() {
    let text = format!("{{'id':'other','ts':{NOW},'task':'a'}}");
    let decision = choose(vec![file(&text)], &said(None, None));
    assert_eq!(decision.item.text(&Field::Id).as_deref(), Some(ID));
    assert_eq!((decision.origin(&Field::Id).1, &*decision.kept), (Why::Folder, &[0][..]));
}

#[test]
fn without_records_it_is_made_of_messages_or_not_at_all() {
    let made = choose(Vec::new(), &Messages { ts: Some(Value::from(NOW)), ..said(Some("said"), Some(1.0)) });
    let expected = format!(
        "{{'id':'t','number':1,'ts':{NOW},'task':'said','tokensIn':1,'tokensOut':0,'cacheWrites':0,'cacheReads':0,'totalCost':0.001}}"
    );
    assert_eq!(made.item.to_json().replace('"', "'"), expected);
    assert_eq!((made.confidence, made.faults), (Confidence::Low, vec![What::MadeOfMessages]));
    assert_eq!(decide(&TaskId::new(ID).unwrap(), Vec::new(), &mut Messages::default), None);
}

fn some_record() -> impl Strategy<Value = Record> {
    let kind = prop::sample::select(vec![
        Kind::File,
        Kind::Index,
        Kind::New,
        Kind::GlobalState,
        Kind::Bak,
        Kind::Backup,
    ]);
    let title = prop::sample::select(vec![
        "",
        "'task':'a',",
        "'task':'b',",
        "'task':'Task #1 (Incomplete)',",
        "'task':7,",
    ]);
    let standing = prop::sample::select(vec![
        "",
        "'status':null,",
        "'status':'completed',",
        "'status':'active','parentTaskId':'p',",
        "'status':'delegated','childIds':['c'],'awaitingChildId':'c',",
        "'childIds':['d','e'],'completedByChildId':'e',",
    ]);
    let rest = prop::sample::select(vec![
        "",
        "'size':5,",
        "'size':0,'mode':'m',",
        "'x':[1],",
        "'workspace':'/w','y':{},",
    ]);
    let space = prop::sample::select(vec!["", " ", "\n"]);
    let all = (kind, title, 0..3_u64, 0..3_u64, standing, rest, space);
    all.prop_map(|(kind, title, sum, ts, standing, rest, space)| {
        let ts = if ts == 0 { 1 } else { NOW + ts };
        let text =
            format!("{{{space}'id':'t',{title}'ts':{ts},'tokensIn':{sum},{standing}{rest}'number':1}}");
        record(kind, &text.replace('\'', "\""))
    })
}

fn some_messages() -> impl Strategy<Value = Messages> {
    let title = prop::sample::select(vec![None, Some("a"), Some("c")]);
    let sum = prop::sample::select(vec![None, Some(0.0), Some(2.0), Some(9.0)]);
    (title, sum, any::<bool>()).prop_map(|(title, sum, damaged)| Messages { damaged, ..said(title, sum) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_of_sources_changes_nothing(
        (records, shuffled) in prop::collection::vec(some_record(), 1..6)
            .prop_flat_map(|records| (Just(records.clone()), Just(records).prop_shuffle())),
        messages in some_messages(),
    ) {
        prop_assert_eq!(choose(records, &messages), choose(shuffled, &messages));
    }

    #[test]
    fn time_and_kind_of_source_decide_only_between_equals(
        records in prop::collection::vec(some_record(), 2..5),
        messages in some_messages(),
        times in prop::collection::vec(1..1000_u64, 5),
        turn in 0..4_usize,
    ) {
        let chosen = |records: Vec<Record>| {
            let item = choose(records, &messages).item;
            let title = item.get(&Field::Task).cloned().filter(|_| title_of(&item).is_some());
            (title, Sums::of(&item), item.get(&Field::Status).map_or("\"active\"".into(), Value::to_json), item.get(&Field::ChildIds).map(|c| c.as_strings().len()))
        };
        // Only one title, so that no tie of titles is left for time to break.
        let one: Vec<Record> = records.into_iter().map(|mut record| {
            if title_of(&record.item).is_some() {
                record.item.set(Field::Task, "a");
            }
            record
        }).collect();
        let n = one.len();
        let kinds: Vec<Vec<Origin>> = one.iter().map(|record| record.origins.clone()).collect();
        let moved: Vec<Record> = one.iter().enumerate().map(|(i, record)| {
            let mut record = record.clone();
            if record.item.get(&Field::Ts).is_some_and(is_time) {
                record.item.set(Field::Ts, NOW + times[i]);
            }
            record.origins.clone_from(&kinds[(i + turn) % n]);
            record.raw = record.item.to_json().into();
            record
        }).collect();
        prop_assert_eq!(chosen(one), chosen(moved));
    }

    #[test]
    fn result_is_an_item_that_loses_nothing_true(
        records in prop::collection::vec(some_record(), 1..6),
        messages in some_messages(),
    ) {
        let decision = choose(records.clone(), &messages);
        prop_assert_eq!(&Item::parse(&decision.item.to_json()).unwrap(), &decision.item);
        let id = decision.item.text(&Field::Id);
        prop_assert_eq!(id.as_deref(), Some(ID));
        let any_title = records.iter().any(|r| title_of(&r.item).is_some());
        prop_assert_eq!(title_of(&decision.item).is_some(), any_title);
        let any_sum = records.iter().any(|r| !Sums::of(&r.item).is_zero());
        prop_assert!(!any_sum || !Sums::of(&decision.item).is_zero());
        let status = decision.item.get(&Field::Status).map(|s| Status::of(&s.as_str().unwrap_or_default()));
        prop_assert_ne!(status, Some(None));
        let children = decision.item.get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default();
        for record in &records {
            for id in record.item.get(&Field::ChildIds).map(Value::as_strings).unwrap_or_default() {
                prop_assert!(children.contains(&id));
            }
        }
        // The result again, beside all of its sources, changes nothing.
        let again = record(Kind::File, &decision.item.to_json());
        let repeated = choose(records.into_iter().chain([again]).collect(), &messages);
        prop_assert_eq!(Sums::of(&repeated.item), Sums::of(&decision.item));
        prop_assert_eq!(repeated.item.get(&Field::Status), decision.item.get(&Field::Status));
    }
}
