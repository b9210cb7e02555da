package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/login"
	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// logins has the logins to servers behind an address. It knows which servers there are, and asks in the
// approval queue. It is safe for concurrent use.
type logins struct {
	*login.Logins
	daemon *Daemon
	vault  *vault.Vault

	mu     sync.Mutex
	open   map[*attachedLogin]remote.Server
	leaves bool // the daemon ends, and questions stay for the next one
}

// openLogins makes the logins. Neither the vault nor the bus of its keyring is touched before the first
// server wants a login.
func (d *Daemon) openLogins() {
	l := &logins{daemon: d, vault: vault.New(d.options.Paths.State, new(vault.System)), open: map[*attachedLogin]remote.Server{}}
	l.Logins = login.New(login.Options{Store: l.vault, Log: d.log, Ask: l.ask, Ended: l.ended})
	d.logins = l
}

// leave says that sessions end because the daemon does.
func (l *logins) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaves = true
}

const (
	// unknownWait is how long a request waits for a login if nobody knows how long its agent waits.
	unknownWait = 48 * time.Second
	// answerTime is what is left of an agent's patience for the answer.
	answerTime = 5 * time.Second
)

// loginTime returns how long a request of an agent waits for a login.
func loginTime(shim gate.Shim) time.Duration {
	if shim.Patience > 0 {
		return max(shim.Patience-answerTime, shim.Patience/5*4)
	}
	return unknownWait
}

// attach returns what authorizes the requests of a session with a server. It is nil if the configuration has
// credentials for the server. It must be closed.
func (l *logins) attach(s remote.Server, shim gate.Shim) (remote.Authorizer, error) {
	if s.Headers.Get("Authorization") != "" {
		return nil, nil
	}
	if _, err := login.ResourceOf(s.Address); err != nil { // on a socket, by plain http, or with a password
		return nil, nil
	}
	to, err := l.serverOf(s)
	if err != nil {
		return nil, err
	}
	session, err := l.Session(to, login.Asking{Session: shim.Session, Agent: shim.Agent, Patience: loginTime(shim)})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &attachedLogin{session, l, shim.Attachment}
	l.open[a] = s
	return a, nil
}

// attachedLogin is the login of one attachment.
type attachedLogin struct {
	*login.Session
	logins     *logins
	attachment string
}

// Close implements [remote.Authorizer].
func (a *attachedLogin) Close() {
	a.Session.Close()
	a.logins.mu.Lock()
	defer a.logins.mu.Unlock()
	delete(a.logins.open, a)
}

func (l *logins) serverOf(s remote.Server) (login.Server, error) {
	client, err := l.daemon.network.LoginClient(s)
	return login.Server{ID: s.ID, Address: s.Address, HTTP: client}, err
}

// Wanted returns why a person has to log in to the server of an attachment; empty if nobody has to.
func (l *logins) Wanted(attachment string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, s := range l.open {
		if st, err := l.Logins.Status(s.Address); a.attachment == attachment && err == nil && st.Phase == login.Wanted {
			return st.Reason
		}
	}
	return ""
}

// warnings returns which servers want a login.
func (l *logins) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, s := range l.open {
		if st, err := l.Logins.Status(s.Address); err == nil && st.Phase == login.Wanted {
			all = append(all, wants(s.ID, st.Reason))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wants says that a server wants a login, and what to do.
func wants(server, why string) string {
	return fmt.Sprintf("%s wants a login: %s; log in with: tgctl login %s", display.Name(server), why, gate.ShellWord(server))
}

// ask asks a person to log in.
func (l *logins) ask(ctx context.Context, a login.Asking) (login.Question, error) {
	held, err := l.daemon.judge.AskLogin(ctx, gate.Case{Session: a.Session, Agent: a.Agent, Server: a.Server.ID}, a.Resource, wants(a.Server.ID, a.Reason))
	if err != nil {
		return nil, err
	}
	return &loginQuestion{l, held}, nil
}

// loginQuestion is a question in the approval queue whether a person logs in.
type loginQuestion struct {
	logins *logins
	held   gate.Held
}

// Wait implements [login.Question].
func (q *loginQuestion) Wait(ctx context.Context) error {
	answer, err := q.held.Wait(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the question %s: %w", q.held.ID(), err)
	case answer.Approved:
		return nil
	case answer.State == string(gate.StateParked):
		return fmt.Errorf("the question %s waits longer than any agent", answer.ID)
	case answer.Note != "":
		return fmt.Errorf("the question %s was %s: %s", answer.ID, answer.State, answer.Note)
	}
	return fmt.Errorf("the question %s was %s", answer.ID, answer.State)
}

// LoggedIn implements [login.Question].
func (q *loginQuestion) LoggedIn(by login.By) {
	if err := q.logins.daemon.queue.LoggedIn(context.Background(), q.held.ID(), by.Who, by.Surface); err != nil {
		q.logins.daemon.log.Error("answer the question of a login", "approval", q.held.ID(), "err", err)
	}
}

// Withdraw implements [login.Question].
func (q *loginQuestion) Withdraw() {
	q.logins.mu.Lock()
	leaves := q.logins.leaves
	q.logins.mu.Unlock()
	if !leaves {
		q.logins.daemon.queue.WithdrawQuestion(q.held.ID(), "the sessions with the server have ended")
	}
}

// named returns the servers that sessions and protected agents name, as far as their addresses are known:
// one that refers to the agent's environment is known while a session with it is open.
func (l *logins) named() []remote.Server {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.open))
	l.mu.Unlock()
	entries := l.daemon.sessions.Remotes()
	for _, s := range l.daemon.guard.List() {
		entries = append(entries, s.Protection.Remotes...)
	}
	for _, r := range entries {
		if s, ok := l.serverOfEntry(r); ok {
			all = append(all, s)
		}
	}
	return all
}

// serverOfEntry returns the server of an agent's entry.
func (l *logins) serverOfEntry(r agentconf.Remote) (remote.Server, bool) {
	to, err := r.Expand(func(string) (string, bool) { return "", false })
	if err != nil {
		return remote.Server{}, false
	}
	return l.reached(r.Server, to.Address, r.From != ""), true
}

// reached returns how the server at an address is reached.
func (l *logins) reached(id, address string, ofProject bool) remote.Server {
	s := remote.Server{ID: id, Address: address, Policy: remote.Named}
	if ofProject {
		s.Policy = remote.PublicOnly
	}
	l.daemon.setCertificates(&s)
	return s
}

// find returns the server that a person means: by its id, or by its address, which may be one that no
// session has named yet.
func (l *logins) find(to api.LoginServer) (login.Server, error) {
	byResource := map[string]remote.Server{}
	known := []string{}
	for _, s := range l.named() {
		st, err := l.Logins.Status(s.Address)
		if err != nil {
			continue
		}
		known = append(known, s.ID)
		if to.ID != "" && s.ID != to.ID || to.Address != "" && !sameResource(s.Address, to.Address) {
			continue
		}
		if before, ok := byResource[st.Resource]; ok && before.Policy >= s.Policy {
			continue // the person's own file counts
		}
		byResource[st.Resource] = s
	}
	found := slices.Sorted(maps.Keys(byResource))
	switch {
	case len(found) == 1:
		return l.serverOf(byResource[found[0]])
	case len(found) > 1:
		return login.Server{}, fmt.Errorf("log in to %s: there are several servers of that name: %s; name one by its address: %w", display.Name(to.ID), strings.Join(found, ", "), gate.ErrInvalid)
	case to.Address != "":
		return l.serverOf(l.reached(cmp.Or(to.ID, to.Address), to.Address, to.Project))
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if len(known) == 0 {
		known = []string{"none"}
	}
	return login.Server{}, fmt.Errorf("server %s: no session and no protected agent names its address (known servers behind an address: %s); start its agent first, or name the address: %w",
		display.Name(to.ID), display.Text(strings.Join(known, ", ")), gate.ErrNotFound)
}

func sameResource(a, b string) bool {
	x, err := login.ResourceOf(a)
	y, err2 := login.ResourceOf(b)
	return err == nil && err2 == nil && x == y
}

// Login implements [api.Logins].
func (l *logins) Login(ctx context.Context, to api.LoginServer, how login.How) (*login.Result, error) {
	s, err := l.find(to)
	if err != nil {
		return nil, err
	}
	got, err := l.Logins.Login(ctx, s, how)
	if err != nil {
		return nil, err
	}
	return got, l.recordLogin(ctx, "logged_in", s, how.By, "issuer "+got.Issuer)
}

// Logout implements [api.Logins].
func (l *logins) Logout(ctx context.Context, to api.LoginServer, by login.By) error {
	s, err := l.find(to)
	if errors.Is(err, gate.ErrNotFound) {
		s, err = l.stored(to, err)
	}
	if err != nil {
		return err
	}
	failed := l.Logins.Logout(ctx, s)
	if errors.Is(failed, vault.ErrNotFound) {
		return fmt.Errorf("%w: %w", failed, gate.ErrNotFound)
	}
	if failed != nil && !errors.Is(failed, login.ErrNotRevoked) {
		return failed
	}
	return errors.Join(failed, l.recordLogin(ctx, "logged_out", s, by, ""))
}

func (l *logins) recordLogin(ctx context.Context, verdict string, s login.Server, by login.By, reason string) error {
	err := l.daemon.recorder.Record(context.WithoutCancel(ctx), &record.Record{
		Kind: record.KindLogin, Verdict: verdict, Server: s.ID, Decider: by.Who, Surface: by.Surface, Reason: reason,
	}, nil, nil)
	if err != nil {
		return fmt.Errorf("record that the login to server %s has the state %s: %w", display.Name(s.ID), verdict, err)
	}
	return nil
}

// ended records that an issuer has ended a login.
func (l *logins) ended(ctx context.Context, s login.Server, issuer string) {
	if err := l.recordLogin(ctx, "ended", s, login.By{}, "issuer "+issuer); err != nil {
		l.daemon.log.Error("a login has ended, and that is not on record", "err", err)
	}
}

// stored returns the server of a stored login that no session names any more, by its address.
func (l *logins) stored(to api.LoginServer, unknown error) (login.Server, error) {
	resources, _, _, err := l.vault.Servers()
	if err != nil || !slices.Contains(resources, to.ID) {
		return login.Server{}, errors.Join(unknown, err)
	}
	return l.serverOf(l.reached(to.ID, to.ID, false))
}

// List implements [api.Logins].
func (l *logins) List() ([]api.LoginState, api.TokenPlace) {
	stored, inKeyring, why, err := l.vault.Servers()
	place := api.TokenPlace{InKeyring: inKeyring, Why: why, Stored: len(stored)}
	if err != nil {
		place.Problem = err.Error()
	}
	var all []api.LoginState
	add := func(id, address string) {
		st, err := l.Logins.Status(address)
		if err != nil || slices.ContainsFunc(all, func(s api.LoginState) bool { return s.Resource == st.Resource && (s.ID == id || id == "") }) {
			return
		}
		if st.Phase == login.NotUsed && slices.Contains(stored, st.Resource) {
			st.Phase = login.Stored
		}
		all = append(all, api.LoginState{ID: id, Status: st})
	}
	for _, s := range l.named() {
		add(s.ID, s.Address)
	}
	for _, resource := range stored {
		add("", resource)
	}
	slices.SortFunc(all, func(a, b api.LoginState) int { return strings.Compare(a.ID+"\x00"+a.Resource, b.ID+"\x00"+b.Resource) })
	return all, place
}
