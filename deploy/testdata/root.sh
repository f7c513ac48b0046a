# root.sh DIR DRIVER: runs DRIVER beside a systemd of its own, as the first process, on a copy of
# this machine's root whose changes go with it. DRIVER ends it with `systemctl exit CODE`. The files
# in DIR are in /srv/test there.
set -eu
dir=$1
mount --make-rprivate /
mkdir "$dir/disk" && mount -t tmpfs tmpfs "$dir/disk"
cd "$dir/disk"
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
cd root
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
chmod 1777 tmp
mkdir -p srv/test
cp "$dir"/*.deb "$dir/$2" srv/test/
mount --rbind /dev dev
mount --rbind /sys sys
rm -f etc/systemd/system/*/*.service var/lib/man-db/auto-update # an index of pages takes a minute each time
variables="PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin container=docker SYSTEMD_IGNORE_CHROOT=1"
(env -i $variables chroot . sh "/srv/test/$2" > "$dir/driver.log" 2>&1) &
exec env -i $variables chroot . /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
