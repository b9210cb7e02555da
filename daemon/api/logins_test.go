package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/login"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fakeLogins notes who logs in.
type fakeLogins struct {
	did  []string
	how  login.How
	fail error
	wait chan struct{} // if not nil, a login ends with its context, and closes it
}

func (f *fakeLogins) List() ([]LoginState, TokenPlace) {
	return []LoginState{{"github", login.Status{Resource: "https://a.example", Phase: login.Wanted, Reason: "why"}}}, TokenPlace{Stored: 2, Why: "no bus"}
}

func (f *fakeLogins) Wanted(attachment string) string { return "" }

func (f *fakeLogins) Login(ctx context.Context, to LoginServer, how login.How) (*login.Result, error) {
	f.did, f.how = append(f.did, fmt.Sprintf("login %+v", to)), how
	if err := how.Show(ctx, login.Prompt{Address: "https://i.example/a", Host: "i.example", Issuer: "https://i.example", Code: "C"}); err != nil {
		return nil, err
	}
	if f.wait != nil {
		<-ctx.Done()
		close(f.wait)
		return nil, ctx.Err()
	}
	return &login.Result{Issuer: "https://i.example", Scopes: []string{"read"}, Expiry: time.Unix(9, 0), Renews: true}, f.fail
}

func (f *fakeLogins) Logout(_ context.Context, to LoginServer, by login.By) error {
	f.did, f.how.By = append(f.did, fmt.Sprintf("logout %+v", to)), by
	return f.fail
}

func loggingIn(t *testing.T) (*Server, *fakeLogins, *recorded, pb.LoginsClient) {
	t.Helper()
	f, rec := &fakeLogins{}, &recorded{}
	s := New(Config{Sessions: &session.Registry{}, Logins: f, Recorder: rec, Logger: slog.New(slog.DiscardHandler)})
	return s, f, rec, pb.NewLoginsClient(serveControl(t, s, tempdir.New(t, "", "tg")))
}

func TestLogin(t *testing.T) {
	_, f, _, c := loggingIn(t)
	stream, err := c.Login(t.Context(), &pb.LoginRequest{
		Server: &pb.LoginServer{Id: "github", Address: "https://a.example", Project: true}, NoBrowser: true, Surface: "script",
		Client: &pb.LoginClient{Id: "me", Issuer: "https://i.example", Secret: []byte("s3cr3t"), Redirect: "http://127.0.0.1/x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := stream.Recv()
	if err != nil || prompt.GetPrompt().GetAddress() != "https://i.example/a" || prompt.GetPrompt().GetHost() != "i.example" || prompt.GetPrompt().GetCode() != "C" {
		t.Errorf("first %v, %v", prompt, err)
	}
	done, err := stream.Recv()
	if err != nil || done.GetDone().GetIssuer() != "https://i.example" || !done.GetDone().GetRenews() || done.GetDone().GetExpires().AsTime().Unix() != 9 {
		t.Errorf("then %v, %v", done, err)
	}
	if got := strings.Join(f.did, ", "); got != "login {ID:github Address:https://a.example Project:true}" {
		t.Error(got)
	}
	if c := f.how.Client; !f.how.NoBrowser || c == nil || c.ID != "me" || c.Secret.Reveal() != "s3cr3t" || c.Redirect != "http://127.0.0.1/x" || !strings.HasPrefix(f.how.By.Who, fmt.Sprint("pid ", os.Getpid())) || f.how.By.Surface != "script" {
		t.Errorf("how: %+v", f.how)
	}
	all, err := c.List(t.Context(), &pb.ListLoginsRequest{})
	if err != nil || len(all.GetLogins()) != 1 || all.GetLogins()[0].GetPhase() != pb.LoginPhase_LOGIN_PHASE_WANTED || all.GetPlace().GetStored() != 2 {
		t.Errorf("listed %v, %v", all, err)
	}
}

// A login ends with the client that shows it, and a server must be named.
func TestLoginEndsWithItsCaller(t *testing.T) {
	_, f, _, c := loggingIn(t)
	f.wait = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.Login(ctx, &pb.LoginRequest{Server: &pb.LoginServer{Id: "github"}})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-f.wait
	_, err = c.Logout(t.Context(), &pb.LogoutRequest{})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a logout of no server: %v", err)
	}
}

// What an agent or the daemon itself started can neither log in nor out, and that is recorded.
func TestLoginBelowTheDaemon(t *testing.T) {
	s, f, rec, c := loggingIn(t)
	var err error
	if s.self, err = proc.Look(int32(os.Getppid())); err != nil {
		t.Fatal(err)
	}
	stream, err := c.Login(t.Context(), &pb.LoginRequest{Server: &pb.LoginServer{Id: "github"}})
	if err == nil {
		_, err = stream.Recv()
	}
	_, err2 := c.Logout(t.Context(), &pb.LogoutRequest{Server: &pb.LoginServer{Id: "github"}})
	for what, err := range map[string]error{`logging in to the server "github"`: err, `logging out of the server "github"`: err2} {
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	pid := fmt.Sprint("pid ", os.Getpid())
	if got, want := strings.Join(rec.said, "\n"), strings.TrimSpace(strings.Repeat("denied deny  by "+pid+", seen, on \n", 2)); strings.TrimSpace(got) != want || len(f.did) > 0 {
		t.Errorf("on record is\n%s\nand done is %q", got, f.did)
	}
}

// A logout that the issuer does not know of is one, with a warning; any other failure is none.
func TestLogout(t *testing.T) {
	_, f, _, c := loggingIn(t)
	for _, test := range []struct {
		err     error
		warning string
		code    codes.Code
	}{
		{nil, "", codes.OK},
		{fmt.Errorf("removed, but %w", login.ErrNotRevoked), "removed, but " + login.ErrNotRevoked.Error(), codes.OK},
		{fmt.Errorf("no login: %w", gate.ErrNotFound), "", codes.NotFound},
		{errors.New("the disk is full"), "", codes.Internal},
	} {
		f.fail = test.err
		got, err := c.Logout(t.Context(), &pb.LogoutRequest{Server: &pb.LoginServer{Id: "github"}})
		if got.GetWarning() != test.warning || status.Code(err) != test.code {
			t.Errorf("%v: %v, %v", test.err, got, err)
		}
	}
}
