-- A database as version 2 of the store wrote it. Never edit: it is what people have on their disks.
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
INSERT INTO "curve" VALUES('abababababababababababababababababababababababababababababababab',7,1700000100.0,2.25,NULL,3072,1);
CREATE TABLE days (
    date TEXT PRIMARY KEY, -- YYYY-MM-DD, local
    tokens_trained INTEGER NOT NULL DEFAULT 0,
    tokens_accepted INTEGER NOT NULL DEFAULT 0,
    rounds INTEGER NOT NULL DEFAULT 0,
    bytes_sent INTEGER NOT NULL DEFAULT 0,
    bytes_received INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO "days" VALUES('2023-11-14',5000,1024,1,10000,20000);
CREATE TABLE dismissed_problems (
    problem_id TEXT PRIMARY KEY,
    at REAL NOT NULL
) WITHOUT ROWID;
INSERT INTO "dismissed_problems" VALUES('no_keyring',1700000300.0);
CREATE TABLE names_sent (
    hub_url TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
INSERT INTO "names_sent" VALUES('http://127.0.0.1:8080','Ada',1700000001.0);
CREATE TABLE periods (
    period_id INTEGER PRIMARY KEY AUTOINCREMENT,
    level TEXT NOT NULL,
    reasons TEXT NOT NULL, -- JSON list of {code, params}
    from_at REAL NOT NULL,
    to_at REAL NOT NULL, -- last known while it is open
    open INTEGER NOT NULL
);
INSERT INTO "periods" VALUES(1,'full','[]',1700000000.0,1700000200.0,0);
INSERT INTO "periods" VALUES(2,'stopped','[{"code":"on_battery","params":{"percent":40}}]',1700000200.0,1700000200.0,1);
CREATE TABLE projects (
    project_id TEXT PRIMARY KEY, -- hex
    hub_url TEXT NOT NULL,
    payload BLOB NOT NULL, -- of the signed manifest
    public_key BLOB NOT NULL,
    signature BLOB NOT NULL,
    joined_at REAL NOT NULL,
    left_at REAL -- NULL: taking part now
);
INSERT INTO "projects" VALUES('cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd','http://127.0.0.1:8080',X'7B7D',X'6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B',X'73737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373',1699990000.0,1700000000.0);
INSERT INTO "projects" VALUES('abababababababababababababababababababababababababababababababab','http://127.0.0.1:8080',X'7B226E616D65223A22706F636B65742D707974686F6E227D',X'6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B6B',X'73737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373737373',1700000000.0,NULL);
CREATE TABLE readings (
    at INTEGER PRIMARY KEY, -- seconds since the epoch, UTC
    level TEXT NOT NULL,
    duty REAL NOT NULL,
    in_use INTEGER,
    idle_seconds REAL,
    session_locked INTEGER,
    on_battery INTEGER,
    temperature_celsius REAL,
    gpu_temperature_celsius REAL,
    cpu_load_percent REAL,
    foreign_cpu_percent REAL,
    gpu_load_percent REAL,
    foreign_gpu_percent REAL,
    memory_free_bytes INTEGER,
    full_screen INTEGER,
    energy_saver INTEGER,
    metered INTEGER,
    power_watts REAL
);
INSERT INTO "readings" VALUES(1700000120,'reduced',0.25,1,12.5,NULL,0,61.0,NULL,NULL,10.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "receipts" VALUES(1,'http://127.0.0.1:8080',X'72656365697074206F6E65',X'31313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131313131',1700000101.0,1,NULL,'');
INSERT INTO "receipts" VALUES(2,'http://127.0.0.1:8080',X'726563656970742074776F',X'32323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232',1700000101.0,1,1700000102.0,'unknown round');
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
INSERT INTO "rounds" VALUES(1,'abababababababababababababababababababababababababababababababab','00000000000000000000000000000000',6,1,3,3072,1024,2.25,2.5,4.5,1700000100.0,'');
INSERT INTO "rounds" VALUES(2,'abababababababababababababababababababababababababababababababab','01010101010101010101010101010101',7,0,3,0,0,NULL,NULL,9.0,1700000110.0,'a member voted against it');
CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL -- JSON
) WITHOUT ROWID;
INSERT INTO "settings" VALUES('cpu_share_percent','35');
INSERT INTO "settings" VALUES('display_name','"Ada"');
INSERT INTO "settings" VALUES('hub_url','"http://127.0.0.1:8080"');
INSERT INTO "settings" VALUES('pause_on_battery','true');
INSERT INTO "settings" VALUES('pause_while_in_use','true');
INSERT INTO "settings" VALUES('upload_limit_bytes_per_second','null');
CREATE UNIQUE INDEX one_active_project ON projects (left_at IS NULL) WHERE left_at IS NULL;
CREATE INDEX rounds_by_project ON rounds (project_id, number);
CREATE INDEX receipts_waiting ON receipts (hub_url, receipt_id) WHERE rejected_at IS NULL;
CREATE INDEX periods_by_end ON periods (to_at);
CREATE INDEX periods_by_beginning ON periods (from_at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('receipts',2);
INSERT INTO "sqlite_sequence" VALUES('periods',2);
PRAGMA application_id = 1347701835;
PRAGMA user_version = 2;
