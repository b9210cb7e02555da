package daemon

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/store"
)

// openAudit opens the audit log as the configuration wants it kept, and its index.
// The log does without an index that can't be opened.
func (d *Daemon) openAudit(cfg *config.Config) error {
	dir := d.options.Paths.AuditDir()
	o := auditOptions(cfg, d.log)
	var err error
	if d.index, err = store.OpenIndex(filepath.Join(dir, "index.db")); err != nil {
		d.log.Warn("queries of the audit log are slower", "err", err)
	} else {
		o.Index = d.index
	}
	if d.audit, err = audit.Open(dir, o); err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	return nil
}

// auditOptions are what the configuration says of the audit log.
func auditOptions(cfg *config.Config, log *slog.Logger) audit.Options {
	return audit.Options{
		Sync: audit.Sync(cfg.Audit.Sync), Interval: cfg.Audit.Interval, Values: audit.Values(cfg.Audit.Values),
		Retention: cfg.Audit.Retention, MaxSize: int64(cfg.Audit.MaxSize), Strict: cfg.Profile == config.Production, Heads: heads(cfg),
		Redact: facts.Redact, Profile: string(cfg.Profile), Logger: log,
	}
}

// heads is the path of the file to which the heads of the log are added, empty for
// none. It is relative to the configuration.
func heads(cfg *config.Config) string {
	if path := cfg.Audit.Heads; path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(cfg.Path), cfg.Audit.Heads)
}
