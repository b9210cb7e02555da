package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
	"golang.org/x/sync/singleflight"
)

const (
	keyringService = "thoughtgate"
	// unlockTime is how long a person has to unlock the keyring.
	unlockTime = time.Minute
)

// System is the Secret Service of the session bus, or the macOS Keychain.
type System struct {
	// The library takes no context, and waits as long as a question to the person is open. So a
	// caller may leave, and the next one joins the same call: there is at most one of each.
	calls singleflight.Group
}

// Get implements [Keyring].
func (s *System) Get(ctx context.Context, name string) (string, error) {
	return s.do(ctx, "get "+name, func() (string, error) {
		text, err := keyring.Get(keyringService, name)
		if errors.Is(err, keyring.ErrNotFound) {
			err = ErrNotFound
		}
		return text, err
	})
}

// Set implements [Keyring].
func (s *System) Set(ctx context.Context, name, value string) error {
	_, err := s.do(ctx, "set "+name, func() (string, error) {
		return "", keyring.Set(keyringService, name, value)
	})
	return err
}

func (s *System) do(ctx context.Context, name string, call func() (string, error)) (string, error) {
	if err := reachable(); err != nil {
		return "", err
	}
	done := s.calls.DoChan(name, func() (text any, err error) {
		defer func() {
			if p := recover(); p != nil { // the library trusts what the bus answers to have the right types
				text, err = "", fmt.Errorf("the keyring's answer is invalid: %v", p)
			}
		}()
		return call()
	})
	ctx, cancel := context.WithTimeout(ctx, unlockTime)
	defer cancel()
	select {
	case r := <-done:
		text, _ := r.Val.(string)
		return text, r.Err
	case <-ctx.Done():
		return "", fmt.Errorf("the keyring did not answer; it may wait to be unlocked: %w", ctx.Err())
	}
}
