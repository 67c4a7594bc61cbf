-- Version 1. All times are seconds since the epoch, UTC.

PRAGMA application_id = 1347701835; -- "PTLK"

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL -- JSON
) WITHOUT ROWID;

CREATE TABLE projects (
    project_id TEXT PRIMARY KEY, -- hex
    hub_url TEXT NOT NULL,
    payload BLOB NOT NULL, -- of the signed manifest
    public_key BLOB NOT NULL,
    signature BLOB NOT NULL,
    joined_at REAL NOT NULL,
    left_at REAL -- NULL: taking part now
);
CREATE UNIQUE INDEX one_active_project ON projects (left_at IS NULL) WHERE left_at IS NULL;

CREATE TABLE rounds (
    number INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    round_id TEXT NOT NULL, -- hex
    global_step INTEGER NOT NULL,
    committed INTEGER NOT NULL,
    members INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    my_tokens INTEGER NOT NULL,
    train_loss REAL,
    held_out_loss REAL,
    seconds REAL NOT NULL,
    at REAL NOT NULL,
    detail TEXT NOT NULL,
    UNIQUE (project_id, round_id)
);
CREATE INDEX rounds_by_project ON rounds (project_id, number);

CREATE TABLE curve (
    project_id TEXT NOT NULL,
    global_step INTEGER NOT NULL,
    at REAL NOT NULL,
    train_loss REAL,
    held_out_loss REAL,
    tokens_total INTEGER NOT NULL,
    mine INTEGER NOT NULL,
    PRIMARY KEY (project_id, global_step)
) WITHOUT ROWID;

CREATE TABLE days (
    date TEXT PRIMARY KEY, -- YYYY-MM-DD, local
    tokens_trained INTEGER NOT NULL DEFAULT 0,
    tokens_accepted INTEGER NOT NULL DEFAULT 0,
    rounds INTEGER NOT NULL DEFAULT 0,
    bytes_sent INTEGER NOT NULL DEFAULT 0,
    bytes_received INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE receipts (
    receipt_id INTEGER PRIMARY KEY AUTOINCREMENT,
    hub_url TEXT NOT NULL,
    payload BLOB NOT NULL,
    signature BLOB NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    rejected_at REAL, -- NULL: waits to be delivered
    reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX receipts_waiting ON receipts (hub_url, receipt_id) WHERE rejected_at IS NULL;

CREATE TABLE periods (
    period_id INTEGER PRIMARY KEY AUTOINCREMENT,
    level TEXT NOT NULL,
    reasons TEXT NOT NULL, -- JSON list of {code, params}
    from_at REAL NOT NULL,
    to_at REAL NOT NULL, -- last known while it is open
    open INTEGER NOT NULL
);
CREATE INDEX periods_by_end ON periods (to_at);

CREATE TABLE dismissed_problems (
    problem_id TEXT PRIMARY KEY,
    at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE names_sent (
    hub_url TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
