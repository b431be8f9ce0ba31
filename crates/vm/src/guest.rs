//! The smallest guest: a boot sector that says hello on the serial port and obeys single letters.
//!
//! It proves that an accelerator truly runs guests ([`crate::accel::probe`]) and serves in tests.
//! It also answers the power button as an operating system would: by switching the machine off.

/// What it prints when it has started.
pub const HELLO: &str = "plinth guest\r\n";
/// What it prints when `d` was sent and the disk's second sector could be read, or not.
pub const DISK_GOOD: &str = "disk good\r\n";
pub const DISK_BAD: &str = "disk bad\r\n";

/// Letters to send to its console.
pub const RESET: u8 = b'r';
pub const POWER_OFF: u8 = b'o';
pub const READ_DISK: u8 = b'd';

/// A raw disk image of 1 MiB with the guest in its first sector.
pub fn image() -> Vec<u8> {
    let mut image = vec![0; 1 << 20];
    image[..CODE.len()].copy_from_slice(CODE);
    let mut at = CODE.len();
    for text in [HELLO, DISK_GOOD, DISK_BAD] {
        image[at..at + text.len()].copy_from_slice(text.as_bytes());
        at += text.len() + 1; // a zero ends each
    }
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image
}

/// 16-bit code, loaded at 7c00 with the boot drive in `dl`. The texts follow at 7c7e, 7c8d and 7c99.
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x9b,                   // 00 start: fwait            ; some KVMs only run what they can
    0xdb, 0xe3,             // 01        fninit           ; emulate, and firmware needs these
    0x31, 0xc0,             // 03        xor ax, ax
    0x8e, 0xd8,             // 05        mov ds, ax
    0x8e, 0xc0,             // 07        mov es, ax
    0x8e, 0xd0,             // 09        mov ss, ax
    0xbc, 0x00, 0x7c,       // 0b        mov sp, 7c00
    0x88, 0x16, 0x7d, 0x7c, // 0e        mov [drive], dl
    0xbe, 0x7e, 0x7c,       // 12        mov si, hello
    0xe8, 0x59, 0x00,       // 15        call print
    0xba, 0x02, 0x06,       // 18        mov dx, 602      ; ACPI PM1 enable
    0xb8, 0x00, 0x01,       // 1b        mov ax, 100      ; tell us of the power button
    0xef,                   // 1e        out dx, ax
    0xfb,                   // 1f wait:  sti
    0xf4,                   // 20        hlt              ; until the next timer tick
    0xba, 0x00, 0x06,       // 21        mov dx, 600      ; ACPI PM1 status
    0xed,                   // 24        in ax, dx
    0xf6, 0xc4, 0x01,       // 25        test ah, 1       ; power button pressed?
    0x75, 0x3e,             // 28        jnz off
    0xba, 0xfd, 0x03,       // 2a        mov dx, 3fd      ; serial line status
    0xec,                   // 2d        in al, dx
    0xa8, 0x01,             // 2e        test al, 1       ; a byte there?
    0x74, 0xed,             // 30        jz wait
    0xb2, 0xf8,             // 32        mov dl, f8
    0xec,                   // 34        in al, dx
    0x3c, RESET,            // 35        cmp al, 'r'
    0x74, 0x26,             // 37        je reset
    0x3c, POWER_OFF,        // 39        cmp al, 'o'
    0x74, 0x2b,             // 3b        je off
    0x3c, READ_DISK,        // 3d        cmp al, 'd'
    0x75, 0xde,             // 3f        jne wait
    0xb8, 0x01, 0x02,       // 41        mov ax, 201      ; read one sector
    0xbb, 0x00, 0x7e,       // 44        mov bx, 7e00
    0xb9, 0x02, 0x00,       // 47        mov cx, 2        ; the second
    0xb6, 0x00,             // 4a        mov dh, 0
    0x8a, 0x16, 0x7d, 0x7c, // 4c        mov dl, [drive]
    0xcd, 0x13,             // 50        int 13
    0xbe, 0x8d, 0x7c,       // 52        mov si, good
    0x73, 0x03,             // 55        jnc say
    0xbe, 0x99, 0x7c,       // 57        mov si, bad
    0xe8, 0x14, 0x00,       // 5a say:   call print
    0xeb, 0xc0,             // 5d        jmp wait
    0xba, 0xf9, 0x0c,       // 5f reset: mov dx, cf9      ; the chip set's reset register
    0xb0, 0x06,             // 62        mov al, 6
    0xee,                   // 64        out dx, al
    0xf4,                   // 65 stop:  hlt
    0xeb, 0xfd,             // 66        jmp stop
    0xba, 0x04, 0x06,       // 68 off:   mov dx, 604      ; ACPI PM1 control
    0xb8, 0x00, 0x20,       // 6b        mov ax, 2000     ; sleep, type 0: off
    0xef,                   // 6e        out dx, ax
    0xeb, 0xf4,             // 6f        jmp stop
    0xba, 0xf8, 0x03,       // 71 print: mov dx, 3f8
    0xac,                   // 74 next:  lodsb
    0x84, 0xc0,             // 75        test al, al
    0x74, 0x03,             // 77        jz done
    0xee,                   // 79        out dx, al
    0xeb, 0xf8,             // 7a        jmp next
    0xc3,                   // 7c done:  ret
    0x00,                   // 7d drive: db 0
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_where_the_code_looks_for_them() {
        let image = image();
        for (at, text) in [(0x7e, HELLO), (0x8d, DISK_GOOD), (0x99, DISK_BAD)] {
            assert_eq!(&image[at..at + text.len()], text.as_bytes());
            assert_eq!(image[at + text.len()], 0);
        }
    }

    #[test]
    fn the_first_sector_is_bootable() {
        let image = image();
        assert_eq!(
            (image.len(), &image[510..512]),
            (1 << 20, &[0x55, 0xaa][..])
        );
    }
}
