package main

import "fmt"

// figure is one measured value: a row of the page.
type figure struct {
	name    string // as "call.32.rate", in JSON and in the code that measures it
	theme   string // the table that it belongs to
	what    string
	unit    string
	reach   string // its target in words; empty for none
	reached target // set if reach is
}

// The tables of the page.
const (
	callTime  = "A governed call: from when it is sent until its answer is read"
	callRate  = "Governed calls a second, and the processor time they take"
	passTime  = "A message that passes unjudged: from when it is sent until its answer is read"
	passRate  = "Such messages a second, and the processor time they take"
	webTime   = "A governed call to a server behind an address: from when it is sent until its answer is read"
	largeRate = "Large messages, one at a time"
	starting  = "Start"
	holding   = "Memory"
	crowding  = "Memory of many servers"
	deciding  = "A decision of the policies alone"
	logging   = "The audit log, with a million records"
	hooking   = "A tool of the agent's own: from when its hook is started until the hook has ended"
	extending = "An extension (quota, in Go, on the protobuf wire)"
)

// themes are the tables in the order of the page, each with the text below its heading.
var themes = []struct{ name, about string }{
	{callTime, "The ratio is what the gate adds over what the floor adds; with several in flight a call waits for those before it. What is to be reached is said of what is added."},
	{callRate, "The ratio is the gate's rate over the floor's. CPU is that of shim, daemon and server together."},
	{passTime, "The ratio is what the gate adds over what the floor adds."},
	{passRate, "The ratio is the gate's rate over the floor's."},
	{webTime, "The server speaks HTTP on this machine. Direct is an agent that does, too, and floor the same agent through a plain reverse proxy, `httputil.ReverseProxy` of Go in a process of its own. The ratio is what the gate adds over what the proxy adds. CPU is that of all processes but the agent."},
	{largeRate, "The ratio is the gate's rate over the floor's."},
	{starting, "Each server is a process of its own behind a shim of its own, or a peer. Its own start is in all columns but what the gate adds."},
	{holding, "Resident is what /proc tells, PSS counts shared pages by their share, and peak is the most that was resident meanwhile. Of the daemon only root is told these two. In the place of the shim of others stands the peer."},
	{crowding, "PSS of all processes, with what the daemon has grown by. What is in the place of a server is its shim, or the peer, and its part of that; it is resident."},
	{deciding, "`go test -bench BenchmarkRule ./daemon/policy`: no message, no pipe, no record. The ratio is to that over 10 policies; flat is up to 2."},
	{logging, "The records are those of calls that were really made: a verdict and an outcome each."},
	{hooking, "The agent runs `tg-shim hook` before it uses a tool. Direct is a hook that does nothing, a static program in C."},
	{extending, "A hook before each call, beside the same call in a daemon without the extension."},
}

// figures are all measured figures, in the order of the page.
var figures = append(append(messageFigures(), []figure{
	{"remote.json.p50", webTime, "answers in JSON, p50", "µs", "adds ≤ 1.5 × floor", ratioAtMost(1.5)},
	{"remote.json.p99", webTime, "answers in JSON, p99", "µs", "", nil},
	{"remote.json.cpu", webTime, "answers in JSON, CPU for 10,000", "s", "", nil},
	{"remote.events.p50", webTime, "answers in streams of events, p50", "µs", "adds ≤ 1.5 × floor", ratioAtMost(1.5)},
	{"remote.events.p99", webTime, "answers in streams of events, p99", "µs", "", nil},
	{"remote.events.cpu", webTime, "answers in streams of events, CPU for 10,000", "s", "", nil},

	{"large.result", largeRate, "result of 8 MB", "MB/s", "≥ 0.5 × floor, ≥ base", every(ratioAtLeast(0.5), timesBase(1))},
	{"large.arguments", largeRate, "arguments of 8 MB", "MB/s", "", nil},
	{"large.arguments.1", largeRate, "arguments of 1 MB", "MB/s", "", nil},

	{"start.first", starting, "a server, until its first answer", "ms", "adds ≤ 0.6 × base", addsOfBase(0.6)},
	{"shims.1.cpu", starting, "1 server: CPU until it has answered", "s", "", nil},
	{"shims.1.took", starting, "1 server: until it has answered", "ms", "", nil},
	{"shims.50.cpu", starting, "50 servers at once: CPU until all have answered", "s", "", nil},
	{"shims.50.took", starting, "50 servers at once: until all have answered", "ms", "", nil},
	{"shims.200.cpu", starting, "200 servers at once: CPU until all have answered", "s", "adds ≤ 1.0", addsAtMost(1)},
	{"shims.200.took", starting, "200 servers at once: until all have answered", "ms", "", nil},
	{"daemon.start", starting, "the daemon, with a short log: until its first answer", "ms", "", nil},
	{"wrap.running", starting, "wrap, daemon running: until the agent is launched", "ms", "< 150", atMost(150)},
	{"wrap.cold", starting, "wrap, daemon started by it: until the agent is launched", "ms", "< 400", atMost(400)},

	{"memory.shim.1", holding, "shim, one call", "MB", "", nil},
	{"memory.shim.10000", holding, "shim, 10,000 calls", "MB", "", nil},
	{"memory.shim.5MB", holding, "shim, a result of 5 MB", "MB", "", nil},
	{"memory.shim.8MB", holding, "shim, a result of 8 MB", "MB", "", nil},
	{"memory.shim.8MBs", holding, "shim, 20 results of 8 MB", "MB", "", nil},
	{"memory.shim.arguments", holding, "shim, 20 arguments of 8 MB", "MB", "", nil},
	{"memory.shim.of200", holding, "each of 200 shims, one call", "MB", "", nil},
	{"memory.daemon.idle", holding, "daemon, idle", "MB", "≤ 30", atMost(30)},
	{"memory.daemon.10000", holding, "daemon, 10,000 calls", "MB", "", nil},
	{"memory.daemon.8MBs", holding, "daemon, 20 results of 8 MB", "MB", "peak ≤ 80", peakAtMost(80)},
	{"memory.daemon.arguments", holding, "daemon, 20 arguments of 8 MB", "MB", "", nil},
	{"memory.daemon.200", holding, "daemon, 200 shims and 1,000 policies", "MB", "", nil},
	{"memory.remote", holding, "each of 200 sessions with one server behind an address", "MB", "", nil},
	{"memory.stays", holding, "both: what stays of 10 MB of arguments for 10 s", "MB", "≤ 10", atMost(10)},

	{"memory.servers.1", crowding, "1 server", "MB", "", nil},
	{"memory.servers.50", crowding, "50 servers", "MB", "", nil},
	{"memory.servers.200", crowding, "200 servers", "MB", "adds ≤ 200", addsAtMost(200)},
	{"memory.server", crowding, "in the place of each of 50", "MB", "≤ 2.5", atMost(2.5)},
}...), append(decisionFigures(), []figure{
	{"log.write", logging, "written by calls, 256 in flight", "records/s", "", nil},
	{"log.lookup", logging, "the newest 100 records of one tool in one hour", "ms", "< 100", atMost(100)},
	{"log.verify", logging, "tgctl audit verify", "records/s", "≥ 300,000", atLeast(300_000)},
	{"log.start", logging, "the daemon's start until its first answer", "ms", "< 150", atMost(150)},

	{"hook.p50", hooking, "p50", "ms", "adds ≤ 8", addsAtMost(8)},
	{"hook.p99", hooking, "p99", "ms", "adds ≤ 25", addsAtMost(25)},

	{"extension.spawn", extending, "its files compared and its process started", "ms", "≤ 50", atMost(50)},
	{"extension.handshake", extending, "from then until it has said what it offers", "ms", "≤ 100", atMost(100)},
	{"extension.message", extending, "what its hook adds to a call, p50", "ms", "adds ≤ 1", addsAtMost(1)},
}...)...)

// messageFigures returns the figures of each kind of message with each number in flight.
func messageFigures() []figure {
	var all []figure
	flights := []int{1, 32, 256}
	for _, k := range []struct{ kind, time, rate string }{{"call", callTime, callRate}, {"pass", passTime, passRate}} {
		var rates []figure
		for _, n := range flights {
			name, in := fmt.Sprintf("%s.%d.", k.kind, n), fmt.Sprintf("%d in flight, ", n)
			all = append(all, figure{name: name + "p50", theme: k.time, what: in + "p50", unit: "µs"},
				figure{name: name + "p99", theme: k.time, what: in + "p99", unit: "µs"})
			rates = append(rates, figure{name: name + "rate", theme: k.rate, what: in + "a second", unit: "1/s"},
				figure{name: name + "cpu", theme: k.rate, what: in + "CPU for 10,000", unit: "s"})
		}
		if k.kind == "call" {
			all = append(all, figure{"always.p50", callTime, "1 in flight, on stable storage first, p50", "µs", "adds one sync and ≤ 100",
				func(r row) string { return when(r.Beyond <= 100) }})
		}
		all = append(all, rates...)
	}
	targets := map[string]figure{
		"call.1.p50": {reach: "≤ 2.2 × floor, ⅓ base, < peers",
			reached: every(ratioAtMost(2.2), addsOfBase(1./3), addsLessThanPeers)},
		"call.1.p99":   {reach: "adds ≤ 250 when quiet", reached: addsAtMost(250)},
		"call.1.cpu":   {reach: "≤ 0.9", reached: atMost(0.9)},
		"call.32.rate": {reach: "≥ 40,000 or ≥ 2 × base", reached: either(atLeast(40_000), timesBase(2))},
		"call.32.cpu":  {reach: "≤ 0.6", reached: atMost(0.6)},
		"pass.1.p50":   {reach: "adds ≤ 1.15 × floor", reached: ratioAtMost(1.15)},
	}
	for i, f := range all {
		if t, ok := targets[f.name]; ok {
			all[i].reach, all[i].reached = t.reach, t.reached
		}
	}
	return all
}

// policyCounts are the numbers of policies for which a decision is measured.
var policyCounts = []int{0, 10, 100, 1000, 10_000}

// mostUneven is the maximum ratio of the time with more policies to that with ten for which the
// decision counts as flat: looking at each policy would take a thousand times as long.
const mostUneven = 2

func decisionFigures() []figure {
	var all []figure
	for _, listed := range []bool{false, true} {
		for _, n := range policyCounts {
			what := fmt.Sprintf("%d policies", n)
			if listed {
				what += ", the tool's schema known"
			}
			all = append(all, figure{decisionName(n, listed), deciding, what, "µs", "≤ 5, flat", func(r row) string {
				return when(r.Ours.value() <= 5 && r.Ratio.value() <= mostUneven)
			}})
		}
	}
	return all
}

func decisionName(policies int, listed bool) string {
	return fmt.Sprintf("decision.%d.%v", policies, listed)
}
