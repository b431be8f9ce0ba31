//! The inventory: one FRU device with board and product areas (34, and the FRU storage definition 1.0).
//!
//! ```text
//!   header(8): version, offsets in units of 8 bytes, checksum
//!   area:      version | length / 8 | language | fields, each type-and-length then text | C1 | zeros | checksum
//! ```

use super::Asset;
use super::table::{Answer, Call, Completion};
use crate::ipmi::wire::message::checksum;

pub(super) fn render(asset: &Asset) -> Vec<u8> {
    // Minutes since 1996, three bytes; zero is "not said".
    let no_date = [0; 3];
    let file_id = "";
    let board = area(
        &no_date,
        &[
            &asset.manufacturer,
            &asset.product,
            &asset.serial,
            &asset.part_number,
            file_id,
        ],
    );
    let product = area(
        &[],
        &[
            &asset.manufacturer,
            &asset.product,
            &asset.part_number,
            &asset.version,
            &asset.serial,
            &asset.asset_tag,
            file_id,
        ],
    );
    let (version, none, board_at) = (1, 0, 1);
    let product_at = board_at + (board.len() / 8) as u8;
    let mut image = vec![version, none, none, board_at, product_at, none, 0];
    image.push(checksum(&image));
    image.extend(board);
    image.extend(product);
    image
}

fn area(head: &[u8], fields: &[&str]) -> Vec<u8> {
    let (version, english, end) = (1, 25, 0xc1);
    let mut area = vec![version, 0, english];
    area.extend(head);
    for text in fields {
        let mut bytes: Vec<u8> = text.bytes().take(63).collect();
        if bytes.len() == 1 {
            // A text of one character would look like the end mark.
            bytes.push(b' ');
        }
        area.push(0xc0 | bytes.len() as u8);
        area.extend(bytes);
    }
    area.push(end);
    area.resize((area.len() + 1).next_multiple_of(8) - 1, 0);
    area[1] = area.len().div_ceil(8) as u8;
    area.push(checksum(&area));
    area
}

/// Everything is FRU 0.
fn image<'a>(call: &'a Call, id: u8) -> Result<&'a [u8], Completion> {
    if id == 0 {
        Ok(&call.bmc.fru)
    } else {
        Err(Completion::NOT_PRESENT)
    }
}

pub(super) fn get_info(call: &mut Call) -> Answer {
    let [id] = call.exactly()?;
    let by_bytes = 0;
    let [low, high] = (image(call, id)?.len() as u16).to_le_bytes();
    Ok(vec![low, high, by_bytes])
}

pub(super) fn read(call: &mut Call) -> Answer {
    let [id, o0, o1, count] = call.exactly()?;
    let offset = usize::from(u16::from_le_bytes([o0, o1]));
    let rest = image(call, id)?
        .get(offset..)
        .ok_or(Completion::OUT_OF_RANGE)?;
    let taken = &rest[..rest.len().min(count.into())];
    let mut answer = vec![taken.len() as u8];
    answer.extend(taken);
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn areas_fill_whole_units_and_sum_to_zero(text in ".{0,80}", serial in "[a-z]{0,2}") {
            let area = area(&[], &[&text, &serial]);
            prop_assert_eq!(area.len() % 8, 0);
            prop_assert_eq!(usize::from(area[1]) * 8, area.len());
            prop_assert_eq!(checksum(&area), 0);
        }
    }
}
