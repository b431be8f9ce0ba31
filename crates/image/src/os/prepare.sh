#!/bin/sh
# Runs when the essential packages are there, before all others: what their installation should find.
set -eu
root="$1"

mkdir -p "$root/etc/dracut.conf.d" "$root/etc/systemd/network" "$root/usr/local/sbin" \
    "$root/etc/selinux/none/contexts/files"

# Debian's Ignition wants to relabel files and fails where it cannot; this makes relabelling a no-op.
printf 'SELINUX=disabled\nSELINUXTYPE=none\n' >"$root/etc/selinux/config"
: >"$root/etc/selinux/none/contexts/files/file_contexts"
printf '#!/bin/sh\nexit 0\n' >"$root/usr/local/sbin/setfiles"
chmod 755 "$root/usr/local/sbin/setfiles"

# Every cable gets an address, in the initrd (for Ignition) as later. Ignition may bring files that sort before.
cat >"$root/etc/systemd/network/80-dhcp.network" <<'END'
[Match]
Kind=!*
Type=ether

[Network]
DHCP=yes
LLMNR=no
MulticastDNS=no

[DHCPv4]
ClientIdentifier=mac
UseDomains=yes
UseHostname=no
END

# How dracut builds the initrd; customize.sh calls it when everything is installed.
cat >"$root/etc/dracut.conf.d/10-image.conf" <<'END'
hostonly="no"
compress="zstd"
early_microcode="no"
dracutmodules+=" bash systemd systemd-initrd systemd-udevd systemd-journald systemd-tmpfiles systemd-sysusers dbus systemd-networkd systemd-resolved kernel-modules rootfs-block udev-rules base fs-lib shutdown network qemu ignition image "
drivers="isofs sr_mod cdrom sd_mod virtio_blk virtio_net virtio_scsi virtio_pci ahci ata_piix nvme vfat nls_iso8859-1 nls_ascii nls_cp437 ext4 qemu_fw_cfg efivarfs"
END

# What is the image's own in the initrd: the network is for Ignition's only run, and the root file system takes the
# whole disk before Ignition fills it.
mkdir -p "$root/usr/lib/dracut/modules.d/50image"
cat >"$root/usr/lib/dracut/modules.d/50image/module-setup.sh" <<'END'
#!/bin/bash
depends() {
    echo ignition systemd-networkd
}
install() {
    inst_multiple /etc/systemd/network/80-dhcp.network /usr/local/sbin/setfiles /etc/selinux/config \
        /etc/selinux/none/contexts/files/file_contexts /etc/ssl/certs/ca-certificates.crt \
        systemd-repart /usr/lib/systemd/systemd-growfs /usr/lib/image/repart.d/50-root.conf journalctl tail sleep mkdir \
        systemctl grep sed xargs
    inst_simple /usr/local/sbin/setfiles /usr/sbin/setfiles
    local unit
    for unit in systemd-networkd.service systemd-networkd.socket systemd-resolved.service \
        systemd-network-generator.service; do
        mkdir -p "$initdir/etc/systemd/system/$unit.d"
        printf '[Unit]\nConditionKernelCommandLine=ignition.firstboot\n' \
            >"$initdir/etc/systemd/system/$unit.d/firstboot.conf"
    done
    # Nobody asks over the bus before there is a root.
    ln -sf /dev/null "$initdir/etc/systemd/system/dbus.service"
    ln -sf /dev/null "$initdir/etc/systemd/system/dbus.socket"
    inst_simple "$moddir/image-grow-root.service" "$systemdsystemunitdir/image-grow-root.service"
    inst_simple "$moddir/emergency.service" "$systemdsystemunitdir/emergency.service"
    local generator
    mkdir -p "$initdir/etc/systemd/system-generators"
    for generator in /etc/systemd/system-generators/*; do
        ln -sf /dev/null "$initdir$generator"
    done
    mkdir -p "$initdir$systemdsystemunitdir/ignition-complete.target.wants"
    ln -s ../image-grow-root.service "$initdir$systemdsystemunitdir/ignition-complete.target.wants/"
    inst_simple "$moddir/image-ignition-done.service" "$systemdsystemunitdir/image-ignition-done.service"
    ln -s ../image-ignition-done.service "$initdir$systemdsystemunitdir/ignition-complete.target.wants/"
    inst_simple /etc/systemd/system.conf.d/10-image.conf
    inst_simple /usr/lib/image/coldplug-initrd.conf /etc/systemd/system/systemd-udev-trigger.service.d/10-image.conf
}
END
cat >"$root/usr/lib/dracut/modules.d/50image/image-grow-root.service" <<'END'
[Unit]
Description=Grow the root file system to the end of its disk
DefaultDependencies=no
ConditionKernelCommandLine=ignition.firstboot
After=initrd-root-fs.target ignition-remount-sysroot.service
Before=ignition-mount.service

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=60
ExecStart=-/usr/bin/systemd-repart --dry-run=no --root=/sysroot --definitions=/usr/lib/image/repart.d
ExecStart=-/usr/lib/systemd/systemd-growfs /sysroot
END

# A timer that may be twenty milliseconds late wakes an emulated processor far less often. Programs in Go set one every
# 20 microseconds while they work.
mkdir -p "$root/etc/systemd/system.conf.d"
# And a unit that starts without trouble is no news: every line is work for the journal and the serial console.
printf '[Manager]\nTimerSlackNSec=20ms\nLogLevel=notice\n' >"$root/etc/systemd/system.conf.d/10-image.conf"

# One cable with an address is enough to begin: a second one may lead to a network on which nobody gives any.
mkdir -p "$root/etc/systemd/system/systemd-networkd-wait-online.service.d"
cat >"$root/etc/systemd/system/systemd-networkd-wait-online.service.d/10-image.conf" <<'END'
[Service]
ExecStart=
ExecStart=/usr/lib/systemd/systemd-networkd-wait-online --any
END

# Coldplugging all of some 350 devices is a quarter of a boot, twice: in the initrd and after it. What needs a driver or a
# name is told anew: disks and network cards, and, once the root is there, the serial console and the power button.
mkdir -p "$root/usr/lib/image" "$root/etc/systemd/system/systemd-udev-trigger.service.d"
coldplug='udevadm trigger --action=add --prioritized-subsystem=block,net'
buses='--subsystem-match=pci --subsystem-match=virtio --subsystem-match=nvme --subsystem-match=block --subsystem-match=net'
cat >"$root/usr/lib/image/coldplug-initrd.conf" <<END
[Service]
ExecStart=
ExecStart=-$coldplug $buses --subsystem-match=scsi
END
cat >"$root/etc/systemd/system/systemd-udev-trigger.service.d/10-image.conf" <<END
[Service]
ExecStart=
ExecStart=-$coldplug $buses --subsystem-match=input
ExecStart=-$coldplug --subsystem-match=tty --sysname-match=ttyS*
ExecStart=-$coldplug --subsystem-match=acpi --sysname-match=LNXPWRBN* --sysname-match=PNP0C0C*
END
mkdir -p "$root/usr/lib/image/repart.d"
printf '[Partition]\nType=root-x86-64\n' >"$root/usr/lib/image/repart.d/50-root.conf"

# A boot that fails here is told on the console and tried again after a while: Ignition's servers may not have been
# there. This takes the place of the shell that nobody could use.
cat >"$root/usr/lib/dracut/modules.d/50image/emergency.service" <<'END'
[Unit]
Description=Tell why the boot failed and try again
DefaultDependencies=no

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c 'exec >/dev/console 2>&1; journalctl -b --no-pager -o cat -t systemd -p warning | tail -n 12; journalctl -b --no-pager -o cat -t ignition | tail -n 25; echo "BOOT FAILED, see above (Ignition or the root file system); restarting in 5 minutes."; sleep 300; systemctl --force reboot'
END

# Only this lets the running system forget the first boot. The units that Ignition wants enabled are enabled here, and
# the machine gets its id: systemd would take a first boot as a reason to look through every unit there is.
cat >"$root/usr/lib/dracut/modules.d/50image/image-ignition-done.service" <<'END'
[Unit]
Description=Ignition has succeeded
DefaultDependencies=no
Requires=ignition-files.service
After=ignition-files.service
Before=ignition-complete.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'sed -n "s/^\\(enable\\|disable\\) //p" /sysroot/etc/systemd/system-preset/*-ignition.preset 2>/dev/null | xargs -r systemctl --root=/sysroot preset'
ExecStart=/bin/sh -c 'if grep -qx uninitialized /sysroot/etc/machine-id; then sed s/-//g /proc/sys/kernel/random/uuid >/sysroot/etc/machine-id; fi'
ExecStart=/bin/mkdir -p /run/image/ignition-done
END

# Fewer generators mean a faster start, in the initrd too; none of their features is used here.
mkdir -p "$root/etc/systemd/system-generators"
for generator in cryptsetup integritysetup veritysetup gpt-auto hibernate-resume bless-boot rc-local system-update ssh \
    sysv tpm2 import run; do
    ln -sf /dev/null "$root/etc/systemd/system-generators/systemd-$generator-generator"
done
