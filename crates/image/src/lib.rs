//! Builds the lab's OS image and the ramdisk, cached by content.
