package extension

import (
	"context"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
)

// Subscribe returns a subscription to the notifications of an extension's program from now on,
// with these methods or with any if there are none, until the program ends. It buffers most of
// them (256 if 0); further ones are dropped and counted, without effect on others. The caller
// must close it.
func (r *Registry) Subscribe(ctx context.Context, extension string, most int, methods ...string) (*rpc.Subscription, error) {
	e, err := r.find(extension)
	if err != nil {
		return nil, err
	}
	var sub *rpc.Subscription
	err = e.do(ctx, "subscribe", func(_ context.Context, t *connection) error {
		sub = t.Subscribe(most, methods...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sub, nil
}
