package clock

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestTimersTakeOneFileDescriptor matters because an elector has two timers, and a
// member of a group may lead thousands of elections.
func TestTimersTakeOneFileDescriptor(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	first := System().Timer(now().Add(time.Hour))
	defer first.Stop()
	before := open()
	for i := range 1000 { // each is earlier than all before it, so each sets the alarm
		one := System().Timer(now().Add(time.Hour - time.Duration(i+1)*time.Second))
		defer one.Stop()
	}
	if after := open(); after > before {
		t.Errorf("%d files are open with 1000 timers more, %d before", after, before)
	}
}

// TestTimerFiresThoughNoFileDescriptorIsLeft also checks that a device is opened once
// there are file descriptors again.
func TestTimerFiresThoughNoFileDescriptorIsLeft(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fires := func(a *alarm) {
		at := now().Add(2 * time.Millisecond)
		one := a.timer(at)
		defer one.Stop()
		select {
		case <-one.C():
		case <-time.After(10 * time.Second):
			t.Error("the timer never fired")
		}
		if early := at.Sub(now()); early > 0 {
			t.Errorf("it fired %v early", early)
		}
	}
	var a alarm
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	fires(&a)
	fires(&a)
	without := a.device.file
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fires(&a)
	if without != nil || a.device.file == nil {
		t.Error("the limit was not in force, or no device was opened after it")
	}
}
