-- Version 2. What the computer was doing, one row a minute; and an index for periods by their beginning.

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

CREATE INDEX periods_by_beginning ON periods (from_at);
