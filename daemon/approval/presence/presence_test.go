package presence

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

var (
	ctx = context.Background()
	key = []byte("a key of twenty byte")
)

const (
	right = "correct horse"
	wrong = "wrong horse"
)

// fixture is a guard on a machine that can be rebooted.
type fixture struct {
	t       *testing.T
	path    string
	db      *store.DB
	g       *Guard
	booted  time.Time
	boot    string
	records []record.Record
	full    error // of the recorder
	voided  []string
}

func newFixture(t *testing.T) *fixture {
	h := &fixture{t: t, path: filepath.Join(t.TempDir(), "state.db"), boot: "boot-1", booted: time.Now()}
	h.start()
	return h
}

func (h *fixture) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	if h.full != nil {
		return h.full
	}
	h.records = append(h.records, *r)
	return nil
}

func (h *fixture) start() {
	h.t.Helper()
	var err error
	if h.db, err = store.Open(h.path); err != nil {
		h.t.Fatal(err)
	}
	h.g, err = New(h.db, Options{
		Recorder: h, Boot: func() (string, time.Duration) { return h.boot, time.Since(h.booted) },
		Void: func(_ context.Context, by, why string, grants bool) error {
			h.voided = append(h.voided, why)
			if grants {
				h.voided = append(h.voided, "grants")
			}
			return nil
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) close() {
	h.g.Close()
	if err := h.db.Close(); err != nil {
		h.t.Error(err)
	}
}

// restart starts another daemon; if clean is false, as after kill -9.
func (h *fixture) restart() {
	h.close()
	h.start()
}

func (h *fixture) enrol(codes bool) {
	h.t.Helper()
	e := &Enrolment{Passphrase: []byte(right)}
	if codes {
		e.Key, e.Code = bytes.Clone(key), h.code(0)
	}
	if err := h.g.Enrol(ctx, e, "pid 1"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) code(steps int64) []byte { return codeAt(key, stepAt(time.Now())+steps) }

func (h *fixture) pass(passphrase string) error {
	return h.g.Prove(ctx, &gate.Proof{Passphrase: []byte(passphrase)}, "an answer to A-1", "pid 2")
}

func (h *fixture) give(code []byte) error {
	return h.g.Prove(ctx, &gate.Proof{Code: bytes.Clone(code)}, "an answer to A-1", "pid 2")
}

func (h *fixture) verdicts() string {
	var all []string
	for _, r := range h.records {
		if r.Kind != record.KindPresence || r.Decider == "" {
			h.t.Errorf("recorded %+v", r)
		}
		all = append(all, r.Verdict)
	}
	return strings.Join(all, " ")
}

func want(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		defer func() { h.close() }()
		want(t, "before there is a secret", h.pass(right), gate.ErrNotEnrolled)
		if h.g.Enrolled() {
			t.Error("it is enrolled from the start")
		}
		h.enrol(true)
		used := h.code(0)
		want(t, "the code that enrolled", h.give(used), gate.ErrProofWrong)
		want(t, "the next code", h.give(h.code(1)), nil)
		want(t, "the next code again", h.give(h.code(1)), gate.ErrProofWrong)
		time.Sleep(2 * period)
		want(t, "a code", h.give(h.code(0)), nil)
		want(t, "another key's", h.give([]byte("000000")), gate.ErrProofWrong)
		want(t, "the passphrase", h.pass(right), nil)
		want(t, "another one", h.pass(wrong), gate.ErrProofWrong)
		want(t, "half of it", h.pass(right[:8]), gate.ErrProofWrong)
		want(t, "nothing", h.pass(""), gate.ErrProofNeeded)
		want(t, "both", h.g.Prove(ctx, &gate.Proof{Passphrase: []byte(right), Code: h.code(1)}, "", ""), gate.ErrProofNeeded)
		if err := h.g.Enrol(ctx, &Enrolment{Passphrase: []byte(wrong)}, "pid 3"); !errors.Is(err, gate.ErrEnrolled) {
			t.Errorf("enrolled over it: %v", err)
		}

		// After a start, codes are not accepted until the passphrase was given, and used
		// codes stay used.
		before := h.code(0)
		h.restart()
		want(t, "a code after a start", h.give(h.code(1)), gate.ErrProofNeeded)
		if !h.g.State().Asleep || h.g.State().Failures != 2 {
			t.Errorf("state %+v", h.g.State())
		}
		want(t, "the passphrase after a start", h.pass(right), nil)
		want(t, "the code from before", h.give(before), gate.ErrProofWrong)
		want(t, "a code then", h.give(h.code(1)), nil)
		if got := h.verdicts(); got != "enrolled wrong wrong wrong wrong wrong wrong" {
			t.Errorf("recorded %s", got)
		}
	})
}

// Proofs are wiped after they were checked.
func TestProofsAreWiped(t *testing.T) {
	h := newFixture(t)
	defer h.close()
	e := &Enrolment{Passphrase: []byte(right), Key: bytes.Clone(key), Code: h.code(0)}
	if err := h.g.Enrol(ctx, e, "pid 1"); err != nil {
		t.Fatal(err)
	}
	proof := &gate.Proof{Passphrase: []byte(right)}
	want(t, "the passphrase", h.g.Prove(ctx, proof, "", ""), nil)
	for _, left := range [][]byte{e.Passphrase, e.Key, e.Code, proof.Passphrase} {
		if slices.ContainsFunc(left, func(b byte) bool { return b != 0 }) {
			t.Errorf("left: %q", left)
		}
	}
}

func TestWhatCannotBeEnrolled(t *testing.T) {
	h := newFixture(t)
	defer h.close()
	for name, test := range map[string]struct {
		e   Enrolment
		err error
	}{
		"too short":          {Enrolment{Passphrase: []byte("seven 7")}, gate.ErrInvalid},
		"a code":             {Enrolment{Passphrase: []byte("123456")}, gate.ErrInvalid},
		"bytes, not letters": {Enrolment{Passphrase: []byte("äöüäöüä")}, gate.ErrInvalid},
		"none":               {Enrolment{}, gate.ErrInvalid},
		"too long":           {Enrolment{Passphrase: bytes.Repeat([]byte("x"), longest+1)}, gate.ErrInvalid},
		"a short key":        {Enrolment{Passphrase: []byte(right), Key: key[:15], Code: h.code(0)}, gate.ErrInvalid},
		"a wrong code":       {Enrolment{Passphrase: []byte(right), Key: key, Code: []byte("123456")}, gate.ErrProofWrong},
		"no code":            {Enrolment{Passphrase: []byte(right), Key: key}, gate.ErrProofWrong},
	} {
		e := Enrolment{Passphrase: bytes.Clone(test.e.Passphrase), Key: bytes.Clone(test.e.Key), Code: test.e.Code}
		want(t, name, h.g.Enrol(ctx, &e, "pid 1"), test.err)
	}
	h.full = errors.New("no space left on device")
	want(t, "what can't be recorded", h.g.Enrol(ctx, &Enrolment{Passphrase: []byte(right)}, "pid 1"), h.full)
	if h.g.Enrolled() || len(h.records) > 0 {
		t.Errorf("enrolled, or recorded %v", h.records)
	}
}

// Five wrong proofs cause a lock, and each further one doubles it. Neither a restart of
// the daemon, nor its death during an attempt, nor a reboot makes it shorter.
func TestLockout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		defer func() { h.close() }()
		h.enrol(false)
		for i := range maxWrongProofs - 1 {
			want(t, "a wrong one", h.pass(wrong), gate.ErrProofWrong)
			if i == 1 {
				h.restart()
			}
		}
		want(t, "the fifth", h.pass(wrong), gate.ErrLockedOut)
		for _, again := range []func(){func() {}, h.restart, func() { time.Sleep(30 * time.Second) }, h.restart} {
			again()
			var locked *LockedOutError
			if err := h.pass(right); !errors.As(err, &locked) || time.Until(locked.Until) > firstLock {
				t.Fatalf("while it is locked: %v", err)
			}
		}
		if left := h.g.State().Locked; left != 30*time.Second {
			t.Errorf("%v left, want 30s", left)
		}
		time.Sleep(30 * time.Second)
		want(t, "after the lock", h.pass(wrong), gate.ErrLockedOut)
		if left := h.g.State().Locked; left != 2*firstLock {
			t.Errorf("the second lock lasts %v", left)
		}

		// Another boot: nobody knows how much time has passed, so the lock starts over.
		time.Sleep(2*firstLock - time.Second)
		h.boot, h.booted = "boot-2", time.Now()
		h.restart()
		if left := h.g.State().Locked; left != 2*firstLock {
			t.Errorf("%v left after the machine was started anew", left)
		}
		// So it does if the platform has no such clock.
		h.boot = ""
		h.restart()
		if left := h.g.State().Locked; left != 2*firstLock {
			t.Errorf("%v left without a clock", left)
		}
		time.Sleep(2 * firstLock)
		want(t, "the right one", h.pass(right), nil)
		if st := h.g.State(); st.Failures != 0 || st.Locked != 0 {
			t.Errorf("after the right one: %+v", st)
		}
		if got := h.verdicts(); got != "enrolled wrong wrong wrong wrong wrong locked wrong locked" {
			t.Errorf("recorded %s", got)
		}
		for range 20 {
			_ = h.pass(wrong)
			time.Sleep(h.g.State().Locked)
		}
		_ = h.pass(wrong)
		if left := h.g.State().Locked; left != longestLock {
			t.Errorf("a lock of %v", left)
		}
	})
}

// An attempt is on disk before it is checked: killing the daemon in between gives no free
// attempt.
func TestATryCountsBefore(t *testing.T) {
	h := newFixture(t)
	defer func() { h.close() }()
	h.enrol(false)
	kept, err := h.db.Presence(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kept.Salt = nil // the check fails here, since the stored salt is missing
	if err := h.db.PutPresence(ctx, &kept); err != nil {
		t.Fatal(err)
	}
	h.restart()
	for range maxWrongProofs {
		if err := h.pass(right); err == nil {
			t.Fatal("a damaged verifier lets somebody through")
		}
	}
	h.restart()
	want(t, "after five tries that were cut off", h.pass(right), gate.ErrLockedOut)
}

func TestRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		defer func() { h.close() }()
		rotate := func(old string, e Enrolment) error { return h.g.Rotate(ctx, []byte(old), &e, "pid 3") }
		want(t, "nothing", rotate(right, Enrolment{Passphrase: []byte("battery staple")}), gate.ErrNotEnrolled)
		h.enrol(true)
		want(t, "with a wrong one", rotate(wrong, Enrolment{Passphrase: []byte("battery staple")}), gate.ErrProofWrong)
		want(t, "to what is none", rotate(right, Enrolment{Passphrase: []byte("short")}), gate.ErrInvalid)
		want(t, "a key, and the old one", rotate(right, Enrolment{Passphrase: []byte("battery staple"), Key: bytes.Clone(key), Code: h.code(1), Keep: true}), gate.ErrInvalid)
		if st := h.g.State(); st.Failures != 1 {
			t.Errorf("%d failures: what can't be is no try", st.Failures)
		}
		h.restart() // codes are not accepted, but their key is kept
		want(t, "keeping codes", rotate(right, Enrolment{Passphrase: []byte("battery staple"), Keep: true}), nil)
		want(t, "the old one", h.pass(right), gate.ErrProofWrong)
		want(t, "the new one", h.pass("battery staple"), nil)
		want(t, "a code", h.give(h.code(1)), nil)
		h.restart()
		want(t, "the new one after a start", h.pass("battery staple"), nil)
		time.Sleep(2 * period)
		want(t, "a code after a start", h.give(h.code(0)), nil)
		want(t, "without codes", rotate("battery staple", Enrolment{Passphrase: []byte(right)}), nil)
		time.Sleep(2 * period)
		want(t, "a code of before", h.give(h.code(0)), gate.ErrProofNeeded)
		if h.g.State().Codes || len(h.voided) > 0 {
			t.Errorf("state %+v, voided %q", h.g.State(), h.voided)
		}
	})
}

func TestRemoveAndRecover(t *testing.T) {
	h := newFixture(t)
	defer func() { h.close() }()
	want(t, "remove nothing", h.g.Remove(ctx, []byte(right), "pid 4"), gate.ErrNotEnrolled)
	want(t, "recover nothing", h.g.Recover(ctx, "pid 4"), gate.ErrNotEnrolled)
	h.enrol(true)
	want(t, "remove with a wrong one", h.g.Remove(ctx, []byte(wrong), "pid 4"), gate.ErrProofWrong)
	want(t, "remove", h.g.Remove(ctx, []byte(right), "pid 4"), nil)
	if h.g.Enrolled() || slices.Contains(h.voided, "grants") || len(h.voided) != 1 || len(h.g.Warnings()) > 0 {
		t.Errorf("removed: voided %q, warns %q", h.voided, h.g.Warnings())
	}
	h.enrol(false)
	for range maxWrongProofs {
		_ = h.pass(wrong)
	}
	want(t, "remove while it is locked", h.g.Remove(ctx, []byte(right), "pid 4"), gate.ErrLockedOut)
	h.full = errors.New("no space left on device")
	want(t, "recover unrecorded", h.g.Recover(ctx, "pid 5"), h.full)
	h.full = nil
	if !h.g.Enrolled() {
		t.Error("recovered, and not recorded")
	}
	want(t, "recover", h.g.Recover(ctx, "pid 5"), nil)
	h.restart()
	st := h.g.State()
	if st.Enrolled || st.Locked > 0 || st.Recoverer != "pid 5" || !slices.Contains(h.voided, "grants") {
		t.Errorf("recovered: %+v, voided %q", st, h.voided)
	}
	h.enrol(false) // a new enrolment does not hide it
	if warns := h.g.Warnings(); len(warns) != 1 || !strings.Contains(warns[0], "pid 5") {
		t.Errorf("warns %q", warns)
	}
}

// Neither the enrolled secret nor any attempt is stored or recorded in the clear.
func TestNothingIsKeptInTheClear(t *testing.T) {
	h := newFixture(t)
	defer func() { h.close() }()
	h.enrol(true)
	_ = h.pass(wrong)
	_ = h.g.Rotate(ctx, []byte(right), &Enrolment{Passphrase: []byte("battery staple"), Keep: true}, "pid 1")
	look := func() {
		files, err := filepath.Glob(filepath.Dir(h.path) + "/*")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{right, wrong, "battery staple", string(key)} {
				if bytes.Contains(text, []byte(secret)) {
					t.Errorf("%s holds %q", file, secret)
				}
			}
		}
	}
	look()
	before, err := h.db.Presence(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.g.Remove(ctx, []byte("battery staple"), "pid 1"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{h.path, h.path + "-wal"} {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, before.Verifier) {
			t.Errorf("%s holds the verifier that was removed", file)
		}
	}
	h.restart()
	look()
}
