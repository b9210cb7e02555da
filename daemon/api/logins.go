package api

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/login"
	"github.com/thoughtgate/thoughtgated/daemon/login/vault"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Logins are the logins to servers behind an address.
type Logins interface {
	// List returns the state of each login, and where tokens lie.
	List() ([]LoginState, TokenPlace)
	// Wanted returns why a person has to log in to the server of an attachment; empty if nobody has to.
	Wanted(attachment string) string
	// Login logs a person in. It takes as long as the person.
	Login(ctx context.Context, to LoginServer, how login.How) (*login.Result, error)
	// Logout removes a login. [login.ErrNotRevoked] says that the issuer could not be told.
	Logout(ctx context.Context, to LoginServer, by login.By) error
}

// LoginServer is the server that a person means. ID or Address may be empty.
type LoginServer struct {
	ID, Address string
	Project     bool // the address is from a project's file, so it must be public
}

// LoginState is the state of the login to a server.
type LoginState struct {
	ID string // empty if only a stored login is known
	login.Status
}

// TokenPlace is where tokens lie.
type TokenPlace struct {
	Stored    int    // number of logins
	InKeyring bool   // their key is there
	Why       string // why it is not
	Problem   string // why the logins can't be read
}

// loginsService implements the Logins service.
type loginsService struct {
	pb.UnimplementedLoginsServer
	s *Server
}

func (v loginsService) List(context.Context, *pb.ListLoginsRequest) (*pb.ListLoginsResponse, error) {
	all, place := v.s.Logins.List()
	return &pb.ListLoginsResponse{
		Logins: each(all, func(l LoginState) *pb.LoginState {
			return &pb.LoginState{
				Server: l.ID, Address: l.Resource, Phase: pb.LoginPhase(l.Phase + 1), Reason: l.Reason, Issuer: l.Issuer, Scopes: l.Scopes,
				Expires: momentTo(l.Expiry), Renews: l.Renews,
			}
		}),
		Place: &pb.TokenPlace{Stored: uint32(place.Stored), Keyring: place.InKeyring, Why: place.Why, Problem: place.Problem},
	}, nil
}

// maxLoginText is the maximum length of a text in a login's request, in bytes.
const maxLoginText = 8 << 10

func loginServerOf(m *pb.LoginServer) (LoginServer, error) {
	if m.GetId() == "" && m.GetAddress() == "" || len(m.GetId()) > maxLoginText || len(m.GetAddress()) > maxLoginText {
		return LoginServer{}, fmt.Errorf("log in: the request needs the id or the address of a server: %w", gate.ErrInvalid)
	}
	return LoginServer{m.GetId(), m.GetAddress(), m.GetProject()}, nil
}

func (v loginsService) Login(req *pb.LoginRequest, stream grpc.ServerStreamingServer[pb.LoginEvent]) error {
	defer wipe(req.GetClient().GetSecret())
	ctx, who, err := v.s.decider(stream.Context(), fmt.Sprintf("logging in to the server %q", serverNameOf(req.GetServer())))
	if err != nil {
		return err
	}
	to, err := loginServerOf(req.GetServer())
	if err != nil {
		return err
	}
	how := login.How{
		By: login.By{Who: who, Surface: surfaceOf(ctx, who, req.GetSurface())}, NoBrowser: req.GetNoBrowser(),
		Show: func(_ context.Context, p login.Prompt) error {
			return stream.Send(&pb.LoginEvent{Prompt: &pb.LoginPrompt{Address: p.Address, Host: p.Host, Issuer: p.Issuer, Code: p.Code}})
		},
	}
	if c := req.GetClient(); c != nil {
		how.Client = &login.Client{ID: c.GetId(), Issuer: c.GetIssuer(), Secret: vault.NewSecret(string(c.GetSecret())), Redirect: c.GetRedirect()}
	}
	return v.s.standing(ctx, func(ctx context.Context) error {
		got, err := v.s.Logins.Login(ctx, to, how)
		if err != nil {
			return err
		}
		return stream.Send(&pb.LoginEvent{Done: &pb.LoginDone{Issuer: got.Issuer, Scopes: got.Scopes, Expires: momentTo(got.Expiry), Renews: got.Renews}})
	})
}

func serverNameOf(m *pb.LoginServer) string {
	if m.GetId() == "" {
		return m.GetAddress()
	}
	return m.GetId()
}

func (v loginsService) Logout(ctx context.Context, req *pb.LogoutRequest) (*pb.LogoutResponse, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("logging out of the server %q", serverNameOf(req.GetServer())))
	if err != nil {
		return nil, err
	}
	to, err := loginServerOf(req.GetServer())
	if err != nil {
		return nil, err
	}
	err = v.s.Logins.Logout(ctx, to, login.By{Who: who, Surface: surfaceOf(ctx, who, req.GetSurface())})
	if errors.Is(err, login.ErrNotRevoked) {
		return &pb.LogoutResponse{Warning: err.Error()}, nil
	}
	return &pb.LogoutResponse{}, err
}

// stateWantsLogin is the state of a server to which a person has to log in.
const stateWantsLogin = "wants a login"

// noteLogin sets the state of a server to which a person has to log in.
func (s *Server) noteLogin(m *pb.Process) {
	if s.Logins == nil {
		return
	}
	if why := s.Logins.Wanted(m.GetAttachment()); why != "" {
		m.State, m.Error = stateWantsLogin, why
	}
}
