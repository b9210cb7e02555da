package extension

import (
	"context"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Subscribe returns a subscription to what the program of an extension tells from now
// on, with these methods or with any when none is given, until it ends. It holds most
// of that (256 when 0); what comes when it is full is dropped and counted, and nobody
// else is disturbed. It must be closed.
func (r *Registry) Subscribe(ctx context.Context, extension string, most int, methods ...string) (*wire.Subscription, error) {
	e, err := r.find(extension)
	if err != nil {
		return nil, err
	}
	var sub *wire.Subscription
	err = e.do(ctx, "subscribe", func(_ context.Context, t *talk) error {
		sub = t.Subscribe(most, methods...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sub, nil
}
