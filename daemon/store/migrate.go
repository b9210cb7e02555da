package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// migrations bring the file from version i to version i+1. A released one must never be
// changed.
var migrations = []string{
	`CREATE TABLE questions (
		n          INTEGER PRIMARY KEY AUTOINCREMENT, -- A-n; never used again
		state      TEXT    NOT NULL,
		created    INTEGER NOT NULL,
		expires    INTEGER NOT NULL,
		boot       TEXT    NOT NULL,
		deadline   INTEGER NOT NULL,
		attachment TEXT    NOT NULL,
		seq        INTEGER NOT NULL,
		call       TEXT    NOT NULL,
		session    TEXT    NOT NULL,
		agent      TEXT    NOT NULL,
		project    TEXT    NOT NULL,
		server     TEXT    NOT NULL,
		launch     TEXT    NOT NULL,
		direction  TEXT    NOT NULL,
		method     TEXT    NOT NULL,
		tool       TEXT    NOT NULL,
		profile    TEXT    NOT NULL,
		params     BLOB,                              -- NULL when the question has ended
		subject    BLOB    NOT NULL,
		reason     TEXT    NOT NULL,
		rule       TEXT    NOT NULL,
		workflow   TEXT    NOT NULL,
		facts      TEXT    NOT NULL,                  -- JSON
		surfaces   TEXT    NOT NULL,                  -- JSON
		decided    INTEGER NOT NULL,
		decider    TEXT    NOT NULL,
		surface    TEXT    NOT NULL,
		note       TEXT    NOT NULL,
		UNIQUE (attachment, seq)
	) STRICT;
	CREATE INDEX questions_open ON questions (n) WHERE state = 'open';
	CREATE TABLE sessions (
		id      TEXT    PRIMARY KEY,
		agent   TEXT    NOT NULL,
		command TEXT    NOT NULL, -- JSON
		project TEXT    NOT NULL,
		profile TEXT    NOT NULL,
		keep    INTEGER NOT NULL,
		pid     INTEGER NOT NULL,
		started INTEGER NOT NULL,
		opened  INTEGER NOT NULL,
		servers TEXT    NOT NULL, -- JSON
		state   TEXT    NOT NULL
	) STRICT;
	CREATE TABLE session_files (
		session TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
		place   INTEGER NOT NULL,
		path    TEXT    NOT NULL,
		journal BLOB    NOT NULL,
		PRIMARY KEY (session, place)
	) STRICT;`,
	`CREATE TABLE launches (
		server   TEXT    NOT NULL,
		launch   TEXT    NOT NULL,
		command  TEXT    NOT NULL, -- JSON
		first    INTEGER NOT NULL,
		seen     INTEGER NOT NULL,
		accepted INTEGER NOT NULL,
		decider  TEXT    NOT NULL,
		PRIMARY KEY (server, launch)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE definitions (
		digest BLOB PRIMARY KEY,
		raw    BLOB,              -- NULL when it was too large
		about  TEXT NOT NULL      -- JSON
	) STRICT;
	CREATE TABLE pins (
		server   TEXT    NOT NULL,
		launch   TEXT    NOT NULL,
		kind     TEXT    NOT NULL,
		name     TEXT    NOT NULL,
		accepted BLOB,            -- digest of the definition; NULL when none ever was
		since    INTEGER NOT NULL,
		decider  TEXT    NOT NULL,
		offered  BLOB,            -- likewise, of what waits
		noticed  INTEGER NOT NULL,
		why      TEXT    NOT NULL,
		PRIMARY KEY (server, launch, kind, name),
		FOREIGN KEY (server, launch) REFERENCES launches ON DELETE CASCADE
	) STRICT;
	CREATE INDEX pins_accepted ON pins (accepted);
	CREATE INDEX pins_offered ON pins (offered);
	CREATE TABLE views (
		attachment TEXT PRIMARY KEY,
		server     TEXT NOT NULL,
		launch     TEXT NOT NULL,
		offers     TEXT NOT NULL -- JSON
	) STRICT;`,
	`CREATE TABLE listings (
		server TEXT    NOT NULL,
		launch TEXT    NOT NULL,
		listed INTEGER NOT NULL,
		PRIMARY KEY (server, launch)
	) STRICT;
	CREATE TABLE shapes (
		server TEXT NOT NULL,
		launch TEXT NOT NULL,
		tool   TEXT NOT NULL,
		takes  BLOB,          -- JSON; NULL when fault says why not
		fault  TEXT NOT NULL,
		PRIMARY KEY (server, launch, tool),
		FOREIGN KEY (server, launch) REFERENCES listings ON DELETE CASCADE
	) STRICT;
	CREATE TABLE standing (
		one    INTEGER PRIMARY KEY CHECK (one = 1),
		digest TEXT NOT NULL
	) STRICT;`,
	`CREATE TABLE protections (
		id     TEXT    PRIMARY KEY,
		agent  TEXT    NOT NULL,
		since  INTEGER NOT NULL,
		ending INTEGER NOT NULL,
		text   BLOB    NOT NULL
	) STRICT;`,
	`CREATE TABLE starts (
		project  TEXT    NOT NULL,
		server   TEXT    NOT NULL,
		digest   BLOB    NOT NULL,
		shown    TEXT    NOT NULL, -- JSON
		noticed  INTEGER NOT NULL,
		accepted INTEGER NOT NULL, -- 0: nobody has agreed
		decider  TEXT    NOT NULL,
		PRIMARY KEY (project, server, digest)
	) STRICT, WITHOUT ROWID;`,
	`ALTER TABLE questions ADD COLUMN validity INTEGER NOT NULL DEFAULT 0; -- ns that an answer waits for a repetition
	ALTER TABLE questions ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;    -- a call was told to repeat itself
	ALTER TABLE questions ADD COLUMN good INTEGER NOT NULL DEFAULT 0;      -- until when the answer waits, 0: it does not
	ALTER TABLE questions ADD COLUMN spent INTEGER NOT NULL DEFAULT 0;     -- a call has the answer
	ALTER TABLE questions ADD COLUMN definition BLOB;                      -- digest of what is called; NULL where none is known
	ALTER TABLE questions ADD COLUMN members TEXT NOT NULL DEFAULT '';     -- JSON: digests of the arguments; empty when it has ended
	ALTER TABLE questions ADD COLUMN edited INTEGER NOT NULL DEFAULT 0;    -- it was approved with other arguments
	ALTER TABLE questions ADD COLUMN edit BLOB;                            -- them, while the answer waits
	CREATE TABLE askers (
		attachment TEXT    NOT NULL,
		seq        INTEGER NOT NULL,
		question   INTEGER NOT NULL REFERENCES questions (n) ON DELETE CASCADE,
		since      INTEGER NOT NULL,
		state      TEXT    NOT NULL,
		PRIMARY KEY (attachment, seq)
	) STRICT, WITHOUT ROWID;
	CREATE INDEX askers_question ON askers (question);
	INSERT INTO askers SELECT attachment, seq, n, created, CASE state WHEN 'open' THEN 'waits' ELSE 'told' END FROM questions;
	UPDATE questions SET spent = 1 WHERE state <> 'open';
	CREATE TABLE grants (
		n          INTEGER PRIMARY KEY AUTOINCREMENT, -- G-n; never used again
		created    INTEGER NOT NULL,
		expires    INTEGER NOT NULL,
		boot       TEXT    NOT NULL,
		deadline   INTEGER NOT NULL,
		times      INTEGER NOT NULL, -- 0: as often as one likes
		used       INTEGER NOT NULL,
		ended      INTEGER NOT NULL, -- 0: it is in force
		end        TEXT    NOT NULL,
		bounds     TEXT    NOT NULL  -- JSON: what a call must be that it covers, and who gave it
	) STRICT;`,
	`ALTER TABLE questions ADD COLUMN basis BLOB; -- digests of what asks and whom; NULL where none are known`,
	`ALTER TABLE questions ADD COLUMN approver TEXT NOT NULL DEFAULT '';`,
	`ALTER TABLE grants ADD COLUMN uses TEXT NOT NULL DEFAULT ''; -- JSON: the calls that it let through last`,
	`ALTER TABLE questions ADD COLUMN level TEXT NOT NULL DEFAULT ''; -- what a yes has to show: watch or presence
	CREATE TABLE presence (
		one       INTEGER PRIMARY KEY CHECK (one = 1),
		enrolled  INTEGER NOT NULL, -- 0: there is no secret
		enroller  TEXT    NOT NULL,
		salt      BLOB,             -- of the passphrase, with the three after it what Argon2id was given
		passes    INTEGER NOT NULL,
		memory    INTEGER NOT NULL, -- KiB
		threads   INTEGER NOT NULL,
		verifier  BLOB,
		sealed    BLOB,             -- the key of codes, under a key that the passphrase makes; NULL: there are none
		step      INTEGER NOT NULL, -- of the last code that counted
		failures  INTEGER NOT NULL, -- in a row
		lock      INTEGER NOT NULL, -- ns of the lock that was set last; 0: none is
		boot      TEXT    NOT NULL,
		deadline  INTEGER NOT NULL,
		recovered INTEGER NOT NULL, -- when a secret was removed by who did not give it; 0: never
		recoverer TEXT    NOT NULL
	) STRICT;`,
	`CREATE TABLE extensions (
		name      TEXT    PRIMARY KEY,
		listing   BLOB    NOT NULL, -- what its folder held when a person agreed
		manifest  BLOB    NOT NULL, -- likewise
		installed INTEGER NOT NULL,
		decider   TEXT    NOT NULL
	) STRICT, WITHOUT ROWID;
	CREATE TABLE extension_values (
		extension TEXT NOT NULL, -- its name; what it has kept outlives it until it is purged
		key       TEXT NOT NULL,
		value     TEXT NOT NULL,
		PRIMARY KEY (extension, key)
	) STRICT, WITHOUT ROWID;
	CREATE TABLE extension_memory (
		n         INTEGER PRIMARY KEY AUTOINCREMENT,
		extension TEXT    NOT NULL,
		written   INTEGER NOT NULL, -- ms of the Unix epoch
		content   TEXT    NOT NULL,
		tags      TEXT    NOT NULL, -- JSON
		meta      TEXT    NOT NULL, -- JSON; empty for none
		size      INTEGER NOT NULL
	) STRICT;
	CREATE INDEX extension_memory_of ON extension_memory (extension, n, size);`,
	`CREATE TABLE gone (
		session TEXT    PRIMARY KEY,
		agent   TEXT    NOT NULL,
		pid     INTEGER NOT NULL,
		started INTEGER NOT NULL,
		cgroup  TEXT    NOT NULL,
		ended   INTEGER NOT NULL, -- 0: in order
		left    TEXT    NOT NULL, -- JSON
		boot    TEXT    NOT NULL
	) STRICT;`,
	`CREATE TABLE held (
		name  TEXT PRIMARY KEY,
		about TEXT NOT NULL -- JSON
	) STRICT, WITHOUT ROWID;`,
	`ALTER TABLE sessions DROP COLUMN servers;`,
	`ALTER TABLE questions ADD COLUMN extent TEXT NOT NULL DEFAULT ''; -- JSON: how much it destroys`,
	`ALTER TABLE questions ADD COLUMN grain TEXT NOT NULL DEFAULT ''; -- JSON: what a grant may cover`,
	`ALTER TABLE sessions ADD COLUMN remotes TEXT NOT NULL DEFAULT ''; -- JSON, with secrets`,
	`ALTER TABLE questions ADD COLUMN statement BLOB;                 -- JSON: what a colleague signs; NULL where none may answer
	ALTER TABLE questions ADD COLUMN shown BLOB;                      -- JSON: what a colleague is shown; NULL when it has ended
	ALTER TABLE questions ADD COLUMN proved TEXT NOT NULL DEFAULT ''; -- by the colleague's key: account or touch
	ALTER TABLE questions ADD COLUMN device TEXT NOT NULL DEFAULT ''; -- of the fleet, that asks; empty: this one`,
}

// migrate brings the file to the version after the last step, or does not change it. Step
// i converts version i to the next one.
func (db *DB) migrate(ctx context.Context, steps []string) error {
	return db.inTransaction(ctx, func(tx *sql.Tx) error {
		var version int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
			return err
		}
		if version > len(steps) {
			return fmt.Errorf("%w: it has version %d, and this program supports up to %d", gate.ErrVersion, version, len(steps))
		}
		for i, step := range steps[version:] {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return fmt.Errorf("migrate it to version %d: %w", version+i+1, err)
			}
		}
		if version == len(steps) {
			return nil
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
		return err
	})
}
