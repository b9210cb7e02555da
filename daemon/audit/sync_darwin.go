package audit

import "os"

// datasync brings the content of f to stable storage. fsync is not enough here: Sync asks
// the drive to empty its cache.
func datasync(f *os.File) error { return f.Sync() }
