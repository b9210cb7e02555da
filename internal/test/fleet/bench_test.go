package fleet

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

// connections is how many real connections `make fleet-bench` makes. Each has a thread's
// worth of goroutines in this process, and a descriptor here and in the server.
var connections = flag.Int("connections", 0, "measure with that many devices on one machine")

const (
	pushes    = 20
	approvals = 500
)

// TestBench measures what a fleet of that many devices takes, on one machine: an engine in
// a process of its own, and all devices in this one.
func TestBench(t *testing.T) {
	if *connections == 0 {
		t.Skip("it measures, and only with -args -connections=10000")
	}
	*kills, *cuts, *crashes, *daemons = 0, 0, 0, 0
	x := newChaos(t) // a server that can be killed
	b := &bench{chaos: x}
	row := func(what, measured, prototype, goal string) {
		fmt.Printf("| %s | %s | %s | %s |\n", what, measured, prototype, goal)
	}
	b.connectAll(t)
	fmt.Println("\n| | measured | prototype | to reach |\n|---|---|---|---|")
	row("enrolments", fmt.Sprintf("%.0f in a second, each with two connections", enrolments/b.enrolled.Seconds()), "–", "–")
	b.subscribe(t)
	p50, p99 := b.push(t, 1<<10)
	row(fmt.Sprintf("push of 1 KB to %d, 99 of 100 (half of them)", *connections), ms(p99)+" ("+ms(p50)+")", "150 to 200 ms", "< 1 s")
	p50, p99 = b.push(t, 12<<10)
	row("push of 12 KB, 99 of 100 (half of them)", ms(p99)+" ("+ms(p50)+")", "–", "< 1 s")
	row(fmt.Sprintf("memory of the server with %d", *connections), memory(t, x.server.cmd.Process.Pid), "750 to 960 MB", "< 1.2 GB")
	p50, p99 = b.approve(t, true)
	row("approval signed by an SSH agent, there and back, 99 of 100 (half of them)", ms(p99)+" ("+ms(p50)+")", "(0.34 ms)", "< 50 ms")
	p50, p99 = b.approve(t, false)
	row("approval signed by ssh-keygen with a key in a file", ms(p99)+" ("+ms(p50)+")", "–", "< 50 ms")
	all, clump := b.restart(t)
	row(fmt.Sprintf("server killed with %d on TLS: all back", *connections), all.Round(100*time.Millisecond).String(), "30 s", "< 60 s")
	row("memory of the server after that", memory(t, x.server.cmd.Process.Pid), "–", "< 1.2 GB")
	row("the most that came back within a second", fmt.Sprintf("%.1f %%", clump), "–", "< 10 %")
}

func ms(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}

// bench has the devices.
type bench struct {
	*chaos
	enrolled time.Duration
	links    []*courier.Link
	received chan time.Time // when a device has got a policy
}

// connectAll enrols as many devices as tell how long that takes, and makes identities for
// the others in the way of an issuer. Then all connect.
func (b *bench) connectAll(t *testing.T) {
	t.Helper()
	ids := make([]*courier.Identity, *connections)
	began := time.Now()
	b.each(t, enrolments, func(i int) (err error) {
		ids[i], _, err = courier.Enrol(t.Context(), b.token(t, engine.Grant{Role: engine.Device, Group: "dev"}))
		return err
	})
	b.enrolled = time.Since(began)
	account, signer := b.key(t, "account-EDGE"), b.key(t, "role-device")
	of, err := account.PublicKey()
	must(t, err)
	b.links = make([]*courier.Link, *connections)
	b.each(t, *connections, func(i int) (err error) {
		if ids[i] == nil {
			if ids[i], err = b.identity(ids[0], of, signer); err != nil {
				return err
			}
		}
		b.links[i], err = ids[i].Connect()
		return err
	})
	t.Cleanup(func() {
		for _, l := range b.links {
			l.Close()
		}
	})
}

// enrolments is how many devices are enrolled with a token.
const enrolments = 200

// each calls do for the numbers up to count, some at once.
func (b *bench) each(t *testing.T, count int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var working sync.WaitGroup
	for range 32 {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < count && !t.Failed(); i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// identity makes an identity of the fleet of another one.
func (b *bench) identity(of *courier.Identity, account string, signer nkeys.KeyPair) (*courier.Identity, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	device, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(device)
	claims.SetScoped(true)
	claims.Name, claims.IssuerAccount, claims.Expires = device, account, time.Now().Add(engine.Lifetime).Unix()
	claims.Tags.Add(engine.GroupTag + ":dev")
	id := *of
	id.Seed = string(seed)
	id.JWT, err = claims.Encode(signer)
	return &id, err
}

// subscribe has all devices wait for policies.
func (b *bench) subscribe(t *testing.T) {
	t.Helper()
	b.received = make(chan time.Time, len(b.links))
	for _, l := range b.links {
		_, err := l.Subscribe(streams.LivePolicy("dev"), func(msg *nats.Msg) {
			if _, ok := streams.Live(msg, streams.PolicyStream); ok {
				b.received <- time.Now()
			}
		})
		must(t, err)
	}
	var flushed sync.WaitGroup
	for _, l := range b.links {
		flushed.Go(func() { _ = l.FlushTimeout(time.Minute) }) // a push that does not come is noticed
	}
	flushed.Wait()
}

// push publishes policies and returns how long the median device and the 99th of 100
// waited for one.
func (b *bench) push(t *testing.T, size int) (p50, p99 time.Duration) {
	t.Helper()
	var waits []time.Duration
	data := bytes.Repeat([]byte("x"), size)
	for range pushes {
		collected := collectLater()
		began := time.Now()
		b.publish(t, nil, data)
		for range b.links {
			select {
			case at := <-b.received:
				waits = append(waits, at.Sub(began))
			case <-time.After(time.Minute):
				t.Fatal("a push has not come")
			}
		}
		collected()
	}
	return quantiles(waits)
}

// collectLater collects garbage now, and not again until the function is called that it returns.
// All devices are in this process, so that collecting stops each of them, as it does not where each
// has a machine of its own.
func collectLater() (done func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	return func() { debug.SetGCPercent(percent) }
}

func quantiles(waits []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(waits)
	return waits[len(waits)/2], waits[len(waits)*99/100]
}

// memory returns what a process has in memory.
func memory(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if kilobytes, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(kilobytes)[0])
			must(t, err)
			return fmt.Sprintf("%d MB", n>>10)
		}
	}
	t.Fatal("no VmRSS")
	return ""
}

// approve asks an approver, whose couriers seal, open and sign as always, and who approves
// at once, with a key in an SSH agent or in a file.
func (b *bench) approve(t *testing.T, inAgent bool) (p50, p99 time.Duration) {
	t.Helper()
	key, recipient := newApprover(t)
	if inAgent {
		holdInAgent(t, key)
	} else {
		t.Setenv("SSH_AUTH_SOCK", "")
	}
	asks := b.newMember(t, engine.Grant{Role: engine.Device, Group: "dev"}, nil)
	answers := b.newMember(t, engine.Grant{Role: engine.Approver, Group: "dev", Approver: streams.Approver(recipient), Asks: []string{"dev"}}, key)
	answers.foreign = approves
	asks.start(t)
	answers.start(t)
	defer collectLater()()
	var waits []time.Duration
	for n := range approvals {
		q := newQuestion(asks, fmt.Sprintf("A-%d-00000000", n), recipient)
		began := time.Now()
		asks.questions <- q
		d := next(t, asks.decisions)
		if n >= approvals/10 { // the first ones are asked while the couriers connect
			waits = append(waits, time.Since(began))
		}
		checkDecision(t, answers, q, d)
	}
	asks.stop()
	answers.stop()
	return quantiles(waits)
}

// restart kills the server and starts it again. It returns after how long all devices are
// back, and the greatest share of them that came within a second.
func (b *bench) restart(t *testing.T) (all time.Duration, clump float64) {
	t.Helper()
	before := map[*courier.Link]uint64{}
	for _, l := range b.links {
		before[l], _ = l.Made(t.Context(), 0)
	}
	began := time.Now()
	b.server.kill()
	var mu sync.Mutex
	var back []time.Duration
	var waiting sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, l := range b.links {
		waiting.Go(func() {
			if _, ok := l.Made(ctx, before[l]); ok {
				mu.Lock()
				defer mu.Unlock()
				back = append(back, time.Since(began))
			}
		})
	}
	b.server.start(t)
	waiting.Wait()
	if len(back) < len(b.links) {
		t.Fatalf("%d of %d devices are back", len(back), len(b.links))
	}
	slices.Sort(back)
	most := 0
	for i, first := 0, 0; i < len(back); i++ {
		for back[i]-back[first] > time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return back[len(back)-1], 100 * float64(most) / float64(len(back))
}
