package hook

import (
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Of the calls whose results are not reported, the latest are remembered, as far as they are few and
// short.
func TestOpenCallsAreBounded(t *testing.T) {
	for _, tt := range []struct{ calls, bytes, want int }{
		{10, 100, 10}, {2 * maxOpen, 100, maxOpen}, {20, maxOpenBytes / 8, 8}, {3, 2 * maxOpenBytes, 1},
	} {
		a := &agent{open: map[string]*submit.Permitted{}}
		call := func() *submit.Permitted {
			return &submit.Permitted{Arguments: rawjson.Object{Raw: make([]byte, tt.bytes)}}
		}
		for i := range tt.calls {
			for range 2 { // the second report of an id replaces the first
				a.remember(fmt.Sprint(i), call())
			}
		}
		if len(a.open) != tt.want || len(a.order) != tt.want || a.open[fmt.Sprint(tt.calls-1)] == nil {
			t.Errorf("%d calls of %d bytes: %d are open, want %d", tt.calls, tt.bytes, len(a.open), tt.want)
		}
		for i := range tt.calls {
			a.forget(fmt.Sprint(i))
		}
		if len(a.open)+len(a.order)+a.size > 0 {
			t.Errorf("%d calls, %d ids and %d bytes are left", len(a.open), len(a.order), a.size)
		}
	}
}
