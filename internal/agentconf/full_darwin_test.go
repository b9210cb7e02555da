package agentconf

import "errors"

func mountSmall(string) error { return errors.ErrUnsupported }
