//! Disk and CD images as bytes: ISO 9660, FAT, cpio.
