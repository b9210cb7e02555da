package beneath

import "errors"

func mountTemporary(string) error { return errors.ErrUnsupported }
