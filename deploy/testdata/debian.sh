# The life of the Debian package on a machine with systemd: old.deb, then new.deb.
set -u
step() { echo "== $*"; "$@" || { echo "FAILED: $*"; systemctl status conclave conclave-run@demo --no-pager --full; systemctl exit 1; exit 1; }; }
await() {
	for turn in $(seq 300); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	return 1
}
is() { [ "$1" = "$2" ] || { echo "got '$1', want '$2'"; return 1; }; }
not() { ! "$@" >/dev/null 2>&1; }

step await systemctl list-units
export CONCLAVE_STORE=zookeeper://127.0.0.1:2181

# Installed: nothing runs, nobody may start it by accident, the user is there.
step dpkg -i /srv/test/old.deb
step id conclave
step not systemctl is-enabled conclave
step not systemctl is-active conclave
step is "$(stat -c %U:%G:%a /var/lib/conclave)" conclave:conclave:750
step systemd-analyze verify conclave.service conclave-run@.service
echo "security: $(systemd-analyze security --no-pager conclave.service | tail -n 1)"

# Started by its unit: ready means that clients are served.
step systemctl enable --now conclave
step conclave create /kept one
step is "$(systemctl show -P StatusText conclave)" "Clients are served"
step is "$(systemctl show -P User conclave)" conclave
pid=$(systemctl show -P MainPID conclave)
step is "$(stat -c %U /proc/$pid)" conclave
step grep -q 'NoNewPrivs:.1' /proc/$pid/status
step is "$(systemctl show -P OOMScoreAdjust conclave)" -500

# Its user reads the configuration, and others do not; it may exchange that, and nothing that
# root runs.
as_server() { setpriv --reuid conclave --regid conclave --clear-groups "$@"; }
step is "$(stat -c %U:%G:%a /etc/conclave/zoo.cfg)" root:conclave:640
step as_server mv /etc/conclave/zoo.cfg /etc/conclave/moved
step as_server mv /etc/conclave/moved /etc/conclave/zoo.cfg
step not as_server mv /etc/conclave-run /etc/moved
step not as_server touch /etc/conclave-run/demo.env
step not setpriv --reuid nobody --regid nogroup --clear-groups cat /etc/conclave/zoo.cfg

# Killed, and started again.
step systemctl kill --kill-whom=main --signal=KILL conclave
step await sh -c '[ "$(systemctl show -P NRestarts conclave)" = 1 ] && systemctl is-active conclave'
step is "$(conclave get /kept)" one

# However often that is.
for turn in 2 3 4 5 6 7; do
	step systemctl kill --kill-whom=main --signal=KILL conclave
	step await sh -c '[ "$(systemctl show -P NRestarts conclave)" = '$turn' ] && systemctl is-active conclave'
done

# A server whose loop does not answer is no test here: package sdnotify has one.

# A program of the operator's, on the host that leads.
step is "$(stat -c %U:%G:%a /etc/conclave-run)" root:root:755
printf 'CONCLAVE_STORE=zookeeper://127.0.0.1:2181\nCOMMAND=/bin/sleep 600\nRUN_FLAGS=--lease 5s\n' >/etc/conclave-run/demo.env
step systemctl start conclave-run@demo
step await conclave leader demo
step systemctl stop conclave-run@demo
step is "$(systemctl show -P Result conclave-run@demo)" success
step not conclave leader demo

# Upgraded: what was changed in the configuration is kept, and the new program runs.
echo '# mine' >>/etc/conclave/zoo.cfg
before=$(systemctl show -P MainPID conclave)
step dpkg -i /srv/test/new.deb
step is "$(dpkg-query -W -f '${Version}' conclave)" 9.9.9-1
step is "$(stat -c %U:%G:%a /etc/conclave/zoo.cfg)" root:conclave:640
step systemctl is-active conclave
step not is "$(systemctl show -P MainPID conclave)" "$before"
step grep -q '^# mine' /etc/conclave/zoo.cfg
step is "$(conclave get /kept)" one
step is "$(systemctl show -P ActiveState conclave)" active

# A wrong configuration is told at once, and not tried again.
cp /etc/conclave/zoo.cfg /srv/test/good
echo 'tickTime=never' >>/etc/conclave/zoo.cfg
step not systemctl restart conclave
step is "$(sleep 3; systemctl show -P NRestarts conclave)" 0 # RestartSec is one second
cp /srv/test/good /etc/conclave/zoo.cfg
step systemctl reset-failed conclave
step systemctl start conclave

# Upgraded while it is stopped: it is not started.
step systemctl stop conclave
step is "$(systemctl show -P Result conclave)" success
step dpkg -i /srv/test/new.deb
step not systemctl is-active conclave
step systemctl start conclave

# Removed: configuration and data are kept, and nothing runs any more.
step systemctl start conclave-run@demo
step await conclave leader demo
step dpkg -r conclave
step not systemctl is-active conclave-run@demo
step not pgrep -x sleep
step not systemctl is-active conclave
step not pgrep -x conclave
step test ! -e /usr/bin/conclave
step test -e /etc/conclave/zoo.cfg
step test -d /var/lib/conclave/version-2

# And back again, on the same data.
step dpkg -i /srv/test/new.deb
step systemctl start conclave
step is "$(conclave get /kept)" one

# Purged: configuration is removed, data is not.
step dpkg -P conclave
step test ! -e /etc/conclave/zoo.cfg
step test -d /var/lib/conclave/version-2
step id conclave
step test -e /etc/conclave-run/demo.env
echo "all is as it should be"
systemctl exit 0
