//! A QEMU machine one can define, power, attach media to and watch.
