package fleet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/logs"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// history is a log of n records, as lines.
func history(n int) [][]byte {
	var all [][]byte
	var chain record.Chain
	for range n {
		var line []byte
		line, chain = chain.Append(nil, newRecord(chain.Seq+1), nil)
		all = append(all, line[:len(line)-1])
	}
	return all
}

// send sends lines as one batch of a device.
func send(t *testing.T, nc *nats.Conn, device string, first uint64, lines [][]byte) {
	t.Helper()
	var b stream.Batch
	for i, line := range lines {
		if !b.Add(first+uint64(i), line, nil) {
			t.Fatal("the batch is full")
		}
	}
	packed, err := b.Pack()
	must(t, err)
	_, err = streams.Put(t.Context(), nc, &nats.Msg{Subject: streams.Audit(device, logID), Data: packed}, nil)
	must(t, err)
}

// Records are copied once, also after a copy that did not end. What is altered, missing or there twice is
// named, in the copy and when it is verified again.
func TestPull(t *testing.T) {
	o := newOrganization(t)
	good, bad := o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"}), o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
	nc, other := o.link(t, good), o.link(t, bad)
	reader := o.as(t, engine.Reader)
	root := filepath.Join(t.TempDir(), "logs")
	pull := func() logs.Report {
		t.Helper()
		report, err := logs.Pull(t.Context(), reader, root)
		must(t, err)
		return report
	}
	all := history(30)
	send(t, nc.Conn, nc.Device, 1, all[:10])
	if r := pull(); r.Records != 10 || len(r.Found) > 0 {
		t.Errorf("the first copy: %+v", r)
	}
	send(t, nc.Conn, nc.Device, 11, all[10:20])
	file := filepath.Join(root, nc.Device, logID, "records.jsonl")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"v":1,"seq":11,"torn`) // of a copy that was killed
	must(t, err)
	must(t, f.Close())
	if r := pull(); r.Records != 10 || len(r.Found) > 0 {
		t.Errorf("the second copy: %+v", r)
	}
	if r := pull(); r.Records != 0 || len(r.Found) > 0 {
		t.Errorf("a copy of nothing new: %+v", r)
	}

	forked := history(30)
	send(t, other.Conn, other.Device, 1, all[:10])
	send(t, other.Conn, other.Device, 12, all[11:20])    // one is missing
	send(t, other.Conn, other.Device, 15, forked[14:16]) // another history
	r := pull()
	kinds := map[stream.FaultKind]int{}
	for _, found := range r.Found {
		if found.Log != other.Device+"/"+logID {
			t.Errorf("a fault of %s: %v", found.Log, found.Fault)
		}
		kinds[found.Fault.Kind]++
	}
	if kinds[stream.Gap] != 1 || kinds[stream.Fork] == 0 {
		t.Errorf("the faults are %v: %+v", kinds, r.Found)
	}
	again, err := logs.Verify(root)
	must(t, err)
	if again.Records != 41 || again.Logs != 2 || len(again.Found) != len(r.Found) {
		t.Errorf("verified again: %d records of %d logs, faults %v; the copy had %v", again.Records, again.Logs, again.Found, r.Found)
	}

	text, err := os.ReadFile(file)
	must(t, err)
	text[len(text)/2] ^= 1
	must(t, os.WriteFile(file, text, 0o600))
	if again, err := logs.Verify(root); err != nil || len(again.Found) <= len(r.Found) {
		t.Errorf("an altered copy: %+v, %v", again, err)
	}
}

// Devices are listed with what they may do.
func TestDevices(t *testing.T) {
	o := newOrganization(t)
	if all, err := engine.Devices(t.Context(), o.admin); err != nil || len(all) != 0 {
		t.Errorf("before anybody has joined: %v, %v", all, err)
	}
	one, two := o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"}), o.enrol(t, engine.Grant{Role: engine.Device, Group: "ops"})
	keyOne, err := one.Device()
	must(t, err)
	keyTwo, err := two.Device()
	must(t, err)
	must(t, engine.Revoke(t.Context(), o.dir, keyTwo))
	all, err := engine.Devices(t.Context(), o.admin)
	must(t, err)
	found := map[string]engine.Grant{}
	for _, g := range all {
		found[g.Device] = g
	}
	if len(all) != 2 || found[keyOne].Group != "dev" || found[keyOne].Revoked || !found[keyTwo].Revoked {
		t.Errorf("the devices are %+v", all)
	}
}
