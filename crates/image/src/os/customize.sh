#!/bin/sh
# Runs when all packages are installed: makes a system out of them that Ignition can finish.
set -eu
root="$1"
root_uuid="$2"
unit_dir="$root/usr/lib/systemd/system"

printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
rm -f "$root/etc/hostname"
printf 'UUID=%s / ext4 rw,relatime 0 0\n' "$root_uuid" >"$root/etc/fstab"
ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/var/log/journal"

# Ignition enables units by presets, and systemd applies those on a first boot only.
cat >"$root/usr/lib/systemd/system-preset/80-image.preset" <<'END'
enable systemd-networkd.service
enable systemd-networkd.socket
enable systemd-resolved.service
enable remote-fs.target
disable *
END
rm -rf "$root"/etc/systemd/system/*.wants
chroot "$root" systemctl preset-all --preset-mode=enable-only
# The first would ask questions on the console; the others only take time. The button's logind stays.
chroot "$root" systemctl mask systemd-firstboot.service systemd-hwdb-update.service systemd-repart.service \
    dracut-shutdown.service systemd-pstore.service systemd-networkd-persistent-storage.service \
    systemd-update-utmp.service systemd-udev-load-credentials.service modprobe@drm.service \
    systemd-initctl.socket dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
    sys-kernel-config.mount sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount \
    systemd-ask-password-console.path systemd-ask-password-wall.path systemd-tmpfiles-clean.timer

# The loader adds Ignition to the kernel line as long as this file exists; a boot that comes this far has done it.
: >"$root/boot/ignition.firstboot"
cat >"$unit_dir/ignition-firstboot-complete.service" <<'END'
[Unit]
Description=Ignition has run; do not run it again
ConditionKernelCommandLine=ignition.firstboot
ConditionPathExists=/boot/ignition.firstboot
ConditionPathExists=/run/image/ignition-done
RequiresMountsFor=/boot

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/rm /boot/ignition.firstboot
ExecStart=/bin/sync -f /boot

[Install]
WantedBy=multi-user.target
END
mkdir -p "$unit_dir/multi-user.target.wants"
ln -sf ../ignition-firstboot-complete.service "$unit_dir/multi-user.target.wants/"

chroot "$root" journalctl --update-catalog
chroot "$root" ldconfig

version="$(ls "$root/usr/lib/modules")"
# Ignition fetches by itself; curl and its libraries would be a sixth of the initrd.
sed -i '/^depends()/,/^}/s/ url-lib//' "$root/usr/lib/dracut/modules.d/30ignition/module-setup.sh"
chroot "$root" dracut --quiet --force --kver "$version" "/boot/initrd.img-$version"
ln -sf "vmlinuz-$version" "$root/boot/vmlinuz"
ln -sf "initrd.img-$version" "$root/boot/initrd.img"
printf '%s' "$version" >"$root/boot/kernel-version"

# Lean: no documentation, caches or databases of device names.
rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/* \
    "$root"/usr/share/lintian "$root"/usr/share/bug "$root"/usr/lib/udev/hwdb.d "$root"/usr/lib/udev/hwdb.bin \
    "$root"/etc/udev/hwdb.bin "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/cache/debconf/*-old \
    "$root"/usr/bin/etcdutl "$root"/usr/bin/ignition-validate \
    "$root"/var/log/*.log "$root"/var/log/apt "$root/boot/System.map-$version" "$root"/usr/lib/dracut/modules.d/30ignition/ignition
