package sampling

import (
	"fmt"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rawjson/old"
	oldsampling "github.com/thoughtgate/thoughtgated/internal/rawjson/old/sampling"
)

func TestSamplingOldNew(t *testing.T) {
	old.Compare(t, "ask", func(raw []byte) (any, error) {
		r, err := oldsampling.Read(raw)
		if err != nil {
			return nil, err
		}
		return fmt.Sprint(r.Plain()), nil
	}, func(raw []byte) (any, error) {
		r, err := read(raw)
		if err != nil {
			return nil, err
		}
		return fmt.Sprint([]any{string(r.Params.Append(nil)), r.hints, r.stops, r.theirs, r.required}), nil
	})
}
