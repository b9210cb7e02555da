package courier

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// lookEvery is how often a web server is asked whether the policy has changed, give or
	// take a fifth.
	lookEvery = 5 * time.Minute
	// webTimeout bounds a request with its answer; lookTimeout does for a look at a
	// policy, as a multiple of how often that is.
	webTimeout  = 30 * time.Second
	lookTimeout = 10
)

// web returns a client for the host of an address. It follows no redirects, and uses a proxy
// only if the environment names one.
func (id *Identity) web(address string, timeout time.Duration) (*http.Client, error) {
	config, err := id.tls(address)
	if err != nil {
		return nil, err
	}
	config.MinVersion = tls.VersionTLS12
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 1, IdleConnTimeout: webTimeout,
		},
	}, nil
}

// A folder is what a fleet has signed, on a web server.
type folder struct {
	client *http.Client
	url    string

	timestamp []byte            // that the daemon has taken
	tag       string            // its ETag
	files     map[string][]byte // to which it led; they never change
}

func (id *Identity) folder(timeout time.Duration) (*folder, error) {
	client, err := id.web(id.Policy, timeout)
	return &folder{client: client, url: id.Policy}, err
}

// firstRoot returns the first root metadata.
func (id *Identity) firstRoot(ctx context.Context) ([]byte, error) {
	f, err := id.folder(webTimeout)
	if err != nil {
		return nil, err
	}
	root, _, err := f.get(ctx, tuf.RootFile(1), tuf.MaxRootBytes, "")
	return root, err
}

// errUnchanged reports that a file is the one of the tag.
var errUnchanged = errors.New("it has not changed")

// get returns a file and its tag. Servers also answer Forbidden for what is not there.
func (f *folder) get(ctx context.Context, name string, limit int, tag string) (content []byte, newTag string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+name, nil)
	if err != nil {
		return nil, "", err
	}
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	answer, err := f.client.Do(request)
	if err != nil {
		return nil, "", err // it names the address
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotModified:
		return nil, "", errUnchanged
	case http.StatusNotFound, http.StatusForbidden:
		return nil, "", fmt.Errorf("get %s: the server answers %s: %w", request.URL, answer.Status, fs.ErrNotExist)
	default:
		return nil, "", fmt.Errorf("get %s: the server answers %s", request.URL, answer.Status)
	}
	content, err = io.ReadAll(io.LimitReader(answer.Body, int64(limit)+1))
	if err == nil && len(content) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", request.URL, err)
	}
	return content, answer.Header.Get("ETag"), nil
}

// look fetches what is new since the timestamp that was taken, or returns errUnchanged. Once the
// daemon has taken what it returns, take must be called.
func (f *folder) look(ctx context.Context, root uint64, group string) (u tuf.Update, take func(), err error) {
	timestamp, tag, err := f.get(ctx, tuf.TimestampFile, tuf.MaxTimestampBytes, f.tag)
	if err == nil && bytes.Equal(timestamp, f.timestamp) {
		err = errUnchanged
	}
	if err != nil {
		return u, nil, err
	}
	files := map[string][]byte{}
	u, err = tuf.Fetch(func(name string, limit int) ([]byte, error) {
		content, there := f.files[name]
		if !there {
			var err error
			if content, _, err = f.get(ctx, name, limit, ""); err != nil {
				return nil, err
			}
		}
		files[name] = content
		return content, nil
	}, timestamp, root, group, fleet.BundlePath(group))
	return u, func() { f.timestamp, f.tag, f.files = timestamp, tag, files }, err
}

// forget has the next look fetch everything.
func (f *folder) forget() { f.timestamp, f.tag, f.files = nil, "", nil }

// withoutEngine works until ctx ends, for a fleet that has no engine.
func (c *Courier) withoutEngine(ctx context.Context) (err error) {
	if c.id.OTLP != "" {
		if c.collector, err = NewCollector(c.id, c.CursorPath); err != nil {
			return err
		}
	}
	c.state.Engine = c.id.Policy
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.writeState(ctx) })
	parts.Go(func() { c.keep(ctx, "get policies", c.lookForPolicies) })
	if c.collector != nil {
		parts.Go(func() { c.keep(ctx, "send records", c.upload) })
	}
	return nil
}

// lookForPolicies hands the policy in the folder to the daemon: now, whenever it has changed, and
// sometimes if it has not. Nothing of it is believed here. It returns an error if the daemon
// is not there.
func (c *Courier) lookForPolicies(ctx context.Context) error {
	every := c.Every
	if every == 0 {
		every = lookEvery
	}
	f, err := c.id.folder(min(webTimeout, lookTimeout*every))
	if err != nil {
		return err
	}
	again, confirm := backoff{most: every}, time.Now()
	for {
		state, err := c.current(ctx)
		if err != nil {
			return err
		}
		if time.Now().After(confirm) {
			f.forget()
			confirm = time.Now().Add(confirmEvery/2 + rand.N(confirmEvery))
		}
		u, take, err := f.look(ctx, state.GetRootVersion(), c.id.Group)
		switch {
		case errors.Is(err, errUnchanged):
			c.failed("get policies", nil)
		case err == nil:
			taken, err := c.hand(ctx, &pb.InstallPolicyRequest{
				Roots: u.Roots, Timestamp: u.Timestamp, Snapshot: u.Snapshot, Targets: u.Targets, Delegated: u.Delegated, Bundle: u.Target,
			})
			if err != nil {
				return err
			}
			if f.forget(); taken {
				take()
			}
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			c.failed("get policies", err)
			c.connected(false)
			again.pause(ctx)
			continue
		}
		c.connected(true)
		again = backoff{most: every}
		pause(ctx, every*4/5+rand.N(every*2/5))
	}
}
