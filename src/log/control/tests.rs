use super::*;

const LOG: LogId = LogId([0x5A; 16]);

#[test]
fn a_fresh_block_is_this_logs_and_no_others() {
    let block = encode(LOG);
    assert_eq!(block.len(), 4096);
    assert!(is_block_of(&block, LOG));
    assert!(!is_block_of(&block, LogId([0x5B; 16])));
    assert!(block[64..].iter().all(|b| *b == 0), "all words are 0");
}

#[test]
fn every_flipped_bit_of_the_identity_is_seen_and_words_are_not_part_of_it() {
    let good = encode(LOG);
    for bit in 0..40 * 8 {
        let mut block = good.clone();
        block[bit / 8] ^= 1 << (bit % 8);
        assert!(!is_block_of(&block, LOG), "bit {bit}");
    }
    for word in 8..512 {
        let mut block = good.clone();
        block[word * 8] = 0xFF;
        assert!(is_block_of(&block, LOG), "word {word}");
    }
}

#[test]
fn another_length_is_no_block() {
    let block = encode(LOG);
    for len in [0, 1, 39, 40, 4095] {
        assert!(!is_block_of(&block[..len], LOG), "{len}");
    }
    assert!(!is_block_of(&[block, vec![0]].concat(), LOG));
}

/// Reserved bytes that are set, with a CRC that checks: another layout's, so not a block that is understood.
#[test]
fn reserved_bytes_are_zero() {
    for (at, value) in [(8, 2), (12, 1), (32, 1)] {
        let mut block = encode(LOG);
        block[at] = value;
        let crc = crc32fast::hash(&block[..CONTROL_CRC_AT]);
        put(&mut block, CONTROL_CRC_AT, &crc.to_le_bytes());
        assert!(!is_block_of(&block, LOG), "byte {at}");
    }
}

#[test]
fn words_read_back() {
    for value in (1..1000).chain([1 << 20, (1 << 32) - 1, 1 << 32, (1 << 48) - 1]) {
        assert_eq!(position(LOG, position_word(LOG, value)), Some(value));
    }
}

#[test]
fn zero_and_another_logs_words_are_no_positions() {
    assert_eq!(position(LOG, 0), None);
    assert_eq!(position(LOG, position_word(LOG, 0)), None);
    let passed = (1..=4096).filter(|v| position(LogId([1; 16]), position_word(LOG, *v)).is_some()).count();
    assert!(passed <= 4, "{passed} of another log's words pass");
}

#[test]
fn words_are_ordered_as_their_positions() {
    let mut last = position_word(LOG, 0);
    for value in (1..5000).chain((13..48).map(|bit| 1 << bit)) {
        let word = position_word(LOG, value);
        assert!(word > last, "{value}");
        last = word;
    }
}

#[test]
fn every_flipped_bit_of_a_word_is_seen() {
    for value in [1, 296, 0x1234_5678, (1 << 48) - 1] {
        let word = position_word(LOG, value);
        for bit in 0..64 {
            assert_eq!(position(LOG, word ^ 1 << bit), None, "value {value}, bit {bit}");
        }
    }
}

/// For each value exactly one of 65,536 checks passes, so random words pass at 2^-16; random ones show it.
#[test]
fn random_words_pass_no_oftener_than_the_check_allows() {
    for value in [1u64, 77, 1 << 30] {
        let passed = (0..=0xFFFFu64).filter(|check| position(LOG, value << 16 | check).is_some()).count();
        assert_eq!(passed, 1, "checks that pass for {value}");
    }
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut passed = 0;
    for _ in 0..1 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        passed += u32::from(position(LOG, state).is_some());
    }
    assert!(passed <= 48, "{passed} of 2^20 random words pass; 16 are expected");
}
