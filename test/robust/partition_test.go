//go:build linux && robust

package robust

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// participantEnv makes this program one of the two servers in the test below.
const participantEnv = "CONCLAVE_TEST_PARTICIPANT"

// partitioned is a shell script: two network namespaces with a participant each, and 30 s
// in which all packets between them are lost silently. It needs util-linux and iproute2.
const partitioned = `set -e
ip link set lo up
ip link add v1 type veth peer name v2
unshare -n sleep 100 & other=$!
trap 'kill $one $two $other 2>/dev/null' EXIT
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
ip link set v2 netns $other
ip addr add 10.9.0.1/24 dev v1; ip link set v1 up
nsenter -t $other -n sh -c 'ip link set lo up; ip addr add 10.9.0.2/24 dev v2; ip link set v2 up'
%[2]s=1 %[1]s -test.run TestVotesComeThroughSoonAfterASilentPartition & one=$!
%[2]s=2 nsenter -t $other -n %[1]s -test.run TestVotesComeThroughSoonAfterASilentPartition & two=$!
sleep 4
echo CUT
ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:77 nud permanent dev v1
nsenter -t $other -n ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:78 nud permanent dev v2
sleep 30
ip neigh del 10.9.0.2 dev v1
nsenter -t $other -n ip neigh del 10.9.0.1 dev v2
echo HEALED
sleep 15
`

// TestVotesComeThroughSoonAfterASilentPartition: during the partition both servers look for
// a leader, and send votes that are not acknowledged. Without a remedy, the kernel would
// retransmit them only after another time as long as the partition.
func TestVotesComeThroughSoonAfterASilentPartition(t *testing.T) {
	if id := os.Getenv(participantEnv); id != "" {
		beParticipant(t, id)
		return
	}
	cmd := exec.Command("unshare", "-rn", "sh", "-c", fmt.Sprintf(partitioned, os.Args[0], participantEnv))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var healed time.Time
	before := 0
	through := map[string]time.Duration{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "HEALED":
			healed = time.Now()
		case strings.HasPrefix(line, "RECEIVED") && healed.IsZero():
			before++
		case strings.HasPrefix(line, "RECEIVED") && through[line] == 0:
			through[line] = time.Since(healed)
		}
	}
	_ = cmd.Wait()
	if before == 0 || healed.IsZero() {
		t.Fatal("there was no partition: install util-linux and iproute2, and allow user namespaces")
	}
	for _, line := range []string{"RECEIVED 1", "RECEIVED 2"} {
		after, ok := through[line]
		t.Logf("%s: %v after the network was well", line, after.Round(100*time.Millisecond))
		if !ok || after > 10*time.Second {
			t.Errorf("%s: no vote for more than 10 s after the network was well", line)
		}
	}
}

// beParticipant sends a vote each second, and prints what it receives, until it is killed.
func beParticipant(t *testing.T, name string) {
	id, other := quorum.ID(1), quorum.ID(2)
	if name == "2" {
		id, other = other, id
	}
	address := func(id quorum.ID) peerwire.Address {
		return peerwire.Address{Host: fmt.Sprintf("10.9.0.%d", id), Port: 3888}
	}
	listener, err := net.Listen("tcp", address(id).String())
	must(t, err)
	v, err := peernet.NewVotes(peernet.VotesOptions{
		ID: id, Listener: listener, Advertise: []peerwire.Address{address(id)},
		Addresses: func(id quorum.ID) []peerwire.Address { return []peerwire.Address{address(id)} },
		Receive:   func(quorum.ID, fle.Notification) { fmt.Println("RECEIVED " + name) },
	})
	must(t, err)
	for round := int64(1); ; round++ {
		v.Send(other, fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: id, Zxid: 1}, Round: round, Version: 2})
		awaittest.RealTime(time.Second, "the pace of the votes")
	}
}
