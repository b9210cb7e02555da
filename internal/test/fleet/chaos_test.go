package fleet

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/fleet/server"
)

// What `make fleet-chaos` does; without flags it is a small piece.
var (
	daemons = flag.Int("daemons", 12, "how many daemons send their records")
	records = flag.Int("records", 24_000, "how many records they write in all")
	kills   = flag.Int("kills", 2, "how often the server is killed; after one of these its store is put back")
	cuts    = flag.Int("cuts", 4, "how often connections are cut or stalled")
	crashes = flag.Int("crashes", 4, "how many daemons are killed")
	seed    = flag.Uint64("seed", 0, "what is done when; 0 for a new one")
	over    = flag.Duration("over", 20*time.Second, "for how long that goes on")
)

// A process of this test can be the server, or some of the daemons.
const (
	roleVariable = "FLEET_TEST_ROLE"
	perProcess   = 4 // daemons in a process that is killed
)

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleVariable), " ")
	switch role {
	case "":
		os.Exit(m.Run())
	case "server":
		config, host, _ := strings.Cut(arg, " ")
		s, err := server.StartNode(config, host)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		s.WaitForShutdown()
	case "daemons":
		if err := runDaemons(strings.Fields(arg)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// runDaemons runs those whose folders are named, after how many records each writes and
// for how long.
func runDaemons(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	over, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, dir := range args[2:] {
		running.Go(func() {
			d := daemon{dir: dir, records: count, over: over}
			if err := d.run(ctx, func(err error) { fmt.Fprintln(os.Stderr, dir, err) }); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, dir, err)
			}
		})
	}
	running.Wait()
	return nil
}

// process is a child that can be killed and started again.
type process struct {
	role string
	cmd  *exec.Cmd
	said bytes.Buffer
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), roleVariable+"="+p.role)
	p.cmd.Stderr = &p.said
	must(t, p.cmd.Start())
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// chaos is an engine in a process of its own, behind proxies, and daemons.
type chaos struct {
	*organization
	r       *rand.Rand
	server  *process
	proxies []*proxy
	all     []*daemon
	killed  []*process // have the first daemons, and are killed
	kills   int        // so far
	copied  string     // an older copy of the server's store
}

// TestChaos kills, cuts, stalls and crashes while daemons send their records, and puts the
// store of the server back to an older copy. Then the stream has each record once.
func TestChaos(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d: %d records from %d daemons, %d kills, %d cuts and stalls, %d crashes", *seed, *records, *daemons, *kills, *cuts, *crashes)
	x := newChaos(t)
	x.startDaemons(t)
	x.storm(t)
	for _, p := range x.proxies {
		p.stall(0)
	}
	began := time.Now()
	x.waitForAll(t)
	t.Logf("all had arrived %v after the last of it", time.Since(began).Round(time.Second))
	x.verify(t)
	x.plantFork(t)
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	x := &chaos{organization: &organization{dir: filepath.Join(t.TempDir(), "acme")}, r: rand.New(rand.NewPCG(*seed, 0))}
	port, err := server.FreePort()
	must(t, err)
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	x.address = "tls://" + listen
	must(t, engine.Init(x.dir, engine.Options{Fleet: "acme", Engine: []string{x.address}}))
	x.server = &process{role: "server " + filepath.Join(x.dir, "server", "engine-1.conf")}
	x.server.start(t)
	t.Cleanup(x.server.kill)
	for range 4 {
		p, err := newProxy(listen)
		must(t, err)
		t.Cleanup(p.close)
		x.proxies = append(x.proxies, p)
	}
	for tries := 0; ; tries++ { // until the server accepts connections
		nc, err := engine.Connect(x.dir, engine.Admin)
		if err == nil {
			nc.Close()
			break
		}
		if tries == 600 {
			t.Fatal(err, x.server.said.String())
		}
		time.Sleep(100 * time.Millisecond)
	}
	x.prepare(t)
	x.issue(t)
	for i := range *daemons {
		d := &daemon{dir: filepath.Join(t.TempDir(), fmt.Sprintf("d%d", i)), records: *records / *daemons, over: *over}
		must(t, os.Mkdir(d.dir, 0o700))
		id := x.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
		id.Engine = []string{"tls://" + x.proxies[i%len(x.proxies)].Addr().String()}
		must(t, id.Write(d.identity()))
		x.all = append(x.all, d)
	}
	return x
}

// startDaemons starts those that are killed in processes of their own, and the others here.
func (x *chaos) startDaemons(t *testing.T) {
	t.Helper()
	apart := min((*crashes+perProcess-1)/perProcess*perProcess, *daemons)
	for first := 0; first < apart; first += perProcess {
		role := fmt.Sprintf("daemons %d %v", x.all[0].records, x.all[0].over)
		for _, d := range x.all[first:min(first+perProcess, apart)] {
			role += " " + d.dir
		}
		p := &process{role: role}
		p.start(t)
		t.Cleanup(p.kill)
		x.killed = append(x.killed, p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, d := range x.all[apart:] {
		running.Go(func() {
			if err := d.run(ctx, func(err error) { t.Errorf("%s: %v", d.dir, err) }); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", d.dir, err)
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
}

// storm does everything that is to be done, in any order, over the time given.
func (x *chaos) storm(t *testing.T) {
	t.Helper()
	var todo []func()
	for range *kills {
		todo = append(todo, func() { x.killServer(t) })
	}
	for i := range *cuts {
		todo = append(todo, func() {
			p := x.proxies[x.r.IntN(len(x.proxies))]
			if i%2 == 0 {
				p.cut(x.r, 0.5)
			} else {
				p.stall(time.Duration(x.r.Int64N(int64(8 * time.Second))))
			}
		})
	}
	for i := range *crashes / perProcess {
		todo = append(todo, func() {
			p := x.killed[i%len(x.killed)]
			p.kill()
			p.start(t)
		})
	}
	x.r.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	began := time.Now()
	for i, do := range todo {
		at := *over * time.Duration(i+1) / time.Duration(len(todo)+1)
		time.Sleep(time.Until(began.Add(at)))
		do()
	}
}

// killServer kills the server and starts it again. On the way it keeps a copy of the
// store, and puts it back some kills later.
func (x *chaos) killServer(t *testing.T) {
	t.Helper()
	x.server.kill()
	store := filepath.Join(x.dir, "server", "store")
	x.kills++
	switch x.kills {
	case *kills / 2:
		x.copied = filepath.Join(t.TempDir(), "older")
		must(t, os.CopyFS(x.copied, os.DirFS(store)))
	case *kills/2 + max(1, *kills/5):
		must(t, os.RemoveAll(store))
		must(t, os.CopyFS(store, os.DirFS(x.copied)))
		t.Logf("kill %d: the store is put back to an older copy", x.kills)
	}
	time.Sleep(time.Duration(x.r.Int64N(int64(time.Second))))
	x.server.start(t)
}

// waitForAll waits until the stream has the last record of every daemon.
func (x *chaos) waitForAll(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for _, d := range x.all {
		id, err := courier.ReadIdentity(d.identity())
		must(t, err)
		for {
			stored, err := streams.Last(t.Context(), x.admin, streams.AuditStream, streams.Audit(x.device(t, id), logID))
			if err == nil {
				last, err := stream.Last(stored.Data)
				must(t, err)
				if last.Seq == uint64(d.records) {
					break
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: its last record has not arrived", d.dir)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (x *chaos) device(t *testing.T, id *courier.Identity) string {
	t.Helper()
	device, err := id.Device()
	must(t, err)
	return device
}

// verify reads the whole stream, as somebody who has nothing else.
func (x *chaos) verify(t *testing.T) {
	t.Helper()
	checks, faults := x.read(t)
	for _, fault := range faults {
		t.Error(fault)
	}
	total := uint64(0)
	for _, d := range x.all {
		id, err := courier.ReadIdentity(d.identity())
		must(t, err)
		f, err := os.Open(d.segment())
		must(t, err)
		chain, _, err := endOf(f)
		f.Close()
		must(t, err)
		check := checks[streams.Audit(x.device(t, id), logID)]
		if check == nil || check.First() != 1 || check.Records() != uint64(d.records) || check.Last() != chain {
			t.Errorf("%s: the stream is not the log", d.dir)
			continue
		}
		total += check.Records()
	}
	t.Logf("%d records, each there once", total)
}

// read checks every log in the stream. It begins again while a machine of the engine that was away
// catches up, in which time nobody may answer.
func (x *chaos) read(t *testing.T) (checks map[string]*stream.Check, faults []error) {
	t.Helper()
	js, err := jetstream.New(x.as(t, engine.Reader))
	must(t, err)
	until(t, "read the record", func() bool {
		if checks, faults, err = readRecord(t.Context(), js); err != nil {
			t.Log("read the record: ", err)
		}
		return err == nil
	})
	return checks, faults
}

func readRecord(ctx context.Context, js jetstream.JetStream) (map[string]*stream.Check, []error, error) {
	consumer, err := js.OrderedConsumer(ctx, streams.AuditStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, nil, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, nil, err
	}
	checks := map[string]*stream.Check{}
	var faults []error
	for left := info.NumPending; left > 0; {
		batch, err := consumer.Fetch(int(min(left, 500)), jetstream.FetchMaxWait(30*time.Second))
		if err != nil {
			return nil, nil, err
		}
		for msg := range batch.Messages() {
			left--
			check := checks[msg.Subject()]
			if check == nil {
				check = stream.NewCheck(msg.Subject()[strings.LastIndexByte(msg.Subject(), '.')+1:])
				checks[msg.Subject()] = check
			}
			err := stream.Unpack(msg.Data(), func(e record.Entry) error {
				if fault := check.Add(e); fault != nil {
					faults = append(faults, fmt.Errorf("%s: %s: %w", msg.Subject(), fault.Kind, fault))
				}
				return nil
			})
			if err != nil {
				return nil, nil, err
			}
		}
		if err := batch.Error(); err != nil {
			return nil, nil, err
		}
	}
	return checks, faults, nil
}

// plantFork has somebody with the keys of a device rewrite its last records and send them.
// Who reads the stream finds that.
func (x *chaos) plantFork(t *testing.T) {
	t.Helper()
	d := x.all[len(x.all)-1]
	id, err := courier.ReadIdentity(d.identity())
	must(t, err)
	subject := streams.Audit(x.device(t, id), logID)
	f, err := os.Open(d.segment())
	must(t, err)
	defer f.Close()
	entries := record.NewReader(f, 0)
	var chain record.Chain
	for int(chain.Seq) < d.records-3 {
		e, err := entries.Next()
		must(t, err)
		chain, _ = record.After(e)
	}
	var forged stream.Batch
	for range 10 {
		var line []byte
		line, chain = chain.Append(nil, &record.Record{Kind: record.KindCall, Time: time.Now(), Reason: "nothing to see"}, nil)
		forged.Add(chain.Seq, bytes.TrimSuffix(line, []byte("\n")), nil)
	}
	data, err := forged.Pack()
	must(t, err)
	id.Engine = []string{x.address}
	_, err = streams.Put(t.Context(), x.link(t, id).Conn, &nats.Msg{Subject: subject, Data: data}, nil)
	must(t, err)
	_, faults := x.read(t)
	if len(faults) == 0 || !strings.HasPrefix(faults[0].Error(), subject+": "+string(stream.Fork)) {
		t.Errorf("a planted fork: %v", faults)
	}
	t.Logf("the planted fork: %v", faults[0])
}
