-- run.db of a run's bundle, format 1. Ids are row numbers; unknown values are NULL.
-- Sizes are in bytes, times in microseconds since 1970. An event is the index of a trace event.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE ranks (                 -- a row for each file, in the order of dump and rank
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,            -- its path below the run's folder
    label TEXT NOT NULL,             -- its name among the others
    host TEXT NOT NULL,
    sha256 TEXT NOT NULL,            -- of the snapshot
    error TEXT NOT NULL,             -- why there are no figures
    forecast TEXT NOT NULL,          -- says that it is one; empty for a recording
    rank INTEGER,
    dump INTEGER,                    -- the training step after which it was written
    size INTEGER NOT NULL
);
CREATE TABLE coordinates (           -- the places of ranks in the parallel layout
    id INTEGER PRIMARY KEY,
    rank INTEGER NOT NULL REFERENCES ranks,
    place INTEGER NOT NULL,
    name TEXT NOT NULL               -- tp, pp, dp
);
CREATE TABLE warnings (
    id INTEGER PRIMARY KEY,
    rank INTEGER NOT NULL REFERENCES ranks,
    text TEXT NOT NULL
);
CREATE TABLE devices (               -- the figures of each device of each rank
    id INTEGER PRIMARY KEY,
    rank INTEGER NOT NULL REFERENCES ranks,
    device TEXT NOT NULL,            -- cuda:0
    kind TEXT NOT NULL,              -- cuda, host (pinned), cpu (profiler)
    place INTEGER NOT NULL,          -- of the device in the rank's own report
    opens INTEGER NOT NULL,          -- 1 if that report opens with it
    recorded INTEGER NOT NULL,       -- 1 if there is a history
    events INTEGER NOT NULL,
    capacity INTEGER,
    allocated INTEGER NOT NULL,      -- at the allocated peak
    allocated_width INTEGER NOT NULL,
    peak_event INTEGER,              -- NULL is the start
    peak_time_us INTEGER,
    reserved INTEGER                 -- at the reserved peak
);
CREATE TABLE cells (                 -- the most of each curve in equal cells of an axis
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    axis TEXT NOT NULL,              -- event, time
    first INTEGER NOT NULL,          -- cell i covers first + i to first + i + 1, times 2^shift
    shift INTEGER NOT NULL,
    allocated BLOB NOT NULL,         -- 64-bit integers, the lowest byte first
    reserved BLOB
);
CREATE TABLE keys (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE holders (               -- what held the allocated peak; stages: the most while open
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    kind INTEGER NOT NULL,           -- 0 call site, 1 role, 2 stage
    key INTEGER NOT NULL REFERENCES keys,
    bytes INTEGER NOT NULL,
    count INTEGER NOT NULL,
    size INTEGER NOT NULL,           -- the size that makes up most of it
    of_size INTEGER NOT NULL         -- how many have that size
);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    number INTEGER NOT NULL,
    allocated INTEGER NOT NULL,      -- the most while it ran
    left INTEGER NOT NULL            -- allocated when it ended
);
CREATE TABLE failed (                -- requests for memory that failed
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    event INTEGER NOT NULL,
    time_us INTEGER,
    size INTEGER NOT NULL,
    site INTEGER NOT NULL REFERENCES keys
);
CREATE TABLE findings (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    code TEXT NOT NULL,
    severity TEXT NOT NULL,
    title TEXT NOT NULL,
    growth INTEGER NOT NULL          -- bytes that it adds per step
);
