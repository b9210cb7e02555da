package fleet

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/test/fleet/server"
)

var leaders = flag.Int("leaders", 1, "how often the leader of the record is killed in an engine of three machines")

// cluster is an engine of three machines. Each is a process with an address of its own on loopback, and
// a copy of the folder that goes to it.
type cluster struct {
	*organization
	nodes     map[string]*process // by name
	addresses map[string]string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system has one address of loopback")
	}
	// The ports are those of the documentation, so the addresses must be nobody else's.
	network := fmt.Sprintf("127.%d.%d.", 1+rand.N(250), rand.N(250))
	c := &cluster{organization: &organization{dir: filepath.Join(t.TempDir(), "acme")}, nodes: map[string]*process{}, addresses: map[string]string{}}
	var addresses []string
	for i := range 3 {
		addresses = append(addresses, fmt.Sprintf("tls://%s%d:4222", network, i+1))
	}
	c.address = addresses[0]
	at := filepath.Join(c.dir, "server")
	must(t, engine.Init(c.dir, engine.Options{Fleet: "acme", Engine: addresses}))
	for i := range 3 {
		name, machine := fmt.Sprintf("engine-%d", i+1), t.TempDir()
		must(t, os.CopyFS(machine, os.DirFS(at)))
		config := filepath.Join(machine, name+".conf")
		text, err := os.ReadFile(config)
		must(t, err)
		must(t, os.WriteFile(config, []byte(strings.ReplaceAll(string(text), at, machine)), 0o600))
		p := &process{role: fmt.Sprintf("server %s %s%d", config, network, i+1)}
		p.start(t)
		t.Cleanup(p.kill)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(name, p.said.String())
			}
		})
		c.nodes[name], c.addresses[name] = p, addresses[i]
	}
	return c
}

// leader returns the name of the machine that leads the record, and whether all three have all of it.
func (c *cluster) leader(t *testing.T) (name string, whole bool) {
	t.Helper()
	js, err := jetstream.New(c.admin)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // nobody answers while it is choosing
	defer cancel()
	record, err := js.Stream(ctx, streams.AuditStream)
	if err != nil {
		return "", false
	}
	info := record.CachedInfo().Cluster
	whole = len(info.Replicas) == 2
	for _, r := range info.Replicas {
		whole = whole && r.Current && !r.Offline
	}
	return info.Leader, whole
}

// TestThreeNodes kills the machine that leads the record while devices send theirs. Uploads, policies and
// enrolments go on with the two others, and the record has everything once. Then the machine comes back.
func TestThreeNodes(t *testing.T) {
	c := newCluster(t)
	began := time.Now()
	until(t, "connect", func() bool {
		nc, err := engine.Connect(c.dir, engine.Admin)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	c.prepare(t)
	c.issue(t)
	t.Logf("ready after %v", time.Since(began))
	x := &chaos{organization: c.organization}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for range 3 {
		id := c.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
		d := &daemon{dir: t.TempDir(), records: 12 * stream.MaxRecords * *leaders, over: time.Duration(*leaders) * 4 * time.Second}
		must(t, id.Write(d.identity()))
		x.all = append(x.all, d)
		running.Go(func() {
			if err := d.run(ctx, func(err error) { t.Error(err) }); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	for i := range *leaders {
		var leader string
		until(t, "all machines have the record", func() (whole bool) {
			leader, whole = c.leader(t)
			return whole
		})
		// One that is not connected to the leader: others come back spread over half a minute.
		m := c.newMember(t, engine.Grant{Role: engine.Device, Group: "dev"}, nil)
		m.id.Engine = slices.DeleteFunc(m.id.Engine, func(address string) bool { return address == c.addresses[leader] })
		must(t, m.id.Write(m.log.identity()))
		m.start(t)
		c.nodes[leader].kill()
		killed := time.Now()
		until(t, "another leader", func() bool {
			name, _ := c.leader(t)
			return name != "" && name != leader
		})
		t.Logf("another leader after %v", time.Since(killed))
		until(t, "publish", func() bool {
			_, err := streams.Put(t.Context(), c.admin, policyMessage(t, fmt.Sprint("policy ", i)), nil)
			return err == nil
		})
		c.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
		t.Logf("enrolled after %v", time.Since(killed))
		for string(next(t, m.installs).GetBundle()) != fmt.Sprint("policy ", i) { // the one before was stored
		}
		t.Logf("pushed after %v", time.Since(killed))
		m.stop()
		c.nodes[leader].start(t)
	}
	x.waitForAll(t)
	until(t, "the machine that was killed has the record, too", func() bool {
		_, whole := c.leader(t)
		return whole
	})
	x.verify(t)
}

// An engine that could not start is not made.
func TestInitRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acme")
	for want, o := range map[string]engine.Options{
		"all over wss":     {Engine: []string{"tls://a.example", "wss://b.example", "tls://c.example"}},
		"port 4222":        {Engine: []string{"wss://a.example:4222"}},
		"port 6222":        {Engine: []string{"tls://a.example:6222", "tls://b.example", "tls://c.example"}},
		"one or three":     {Engine: []string{"tls://a.example", "tls://b.example"}},
		"no absolute path": {Engine: []string{"tls://a.example"}, At: "server"},
	} {
		o.Fleet = "acme"
		if err := engine.Init(dir, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
	}
}

// TestWebSocket has a device join and send records over wss, with the engine's own authority.
func TestWebSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system has one address of loopback")
	}
	host := fmt.Sprintf("127.%d.%d.1", 1+rand.N(250), rand.N(250))
	o := &organization{dir: filepath.Join(t.TempDir(), "acme"), address: "wss://" + host + ":8443"}
	must(t, engine.Init(o.dir, engine.Options{Fleet: "acme", Engine: []string{o.address}}))
	s, err := server.StartNode(filepath.Join(o.dir, "server", "engine-1.conf"), host)
	must(t, err)
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	o.prepare(t)
	o.issue(t)
	grant := engine.Grant{Role: engine.Device, Group: "dev"}
	other := o.token(t, grant)
	other.CA = strings.Repeat("0", 64)
	if _, _, err := courier.Enrol(t.Context(), other); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an engine of another authority: %v", err)
	}
	d := newLog(t, 2*stream.MaxRecords)
	id := o.enrol(t, grant)
	must(t, id.Write(d.identity()))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.run(ctx, func(err error) { t.Error(err) }); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	x := &chaos{organization: o, all: []*daemon{d}}
	x.waitForAll(t)
	x.verify(t)
}
