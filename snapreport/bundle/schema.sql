-- elements.db of a snapreport bundle, format 1. Ids are row numbers; unknown values are NULL.
-- An event is the index of a trace event. Sizes are in bytes, times in microseconds since 1970.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE strings (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE pools (id INTEGER PRIMARY KEY, first INTEGER NOT NULL, second INTEGER NOT NULL);
CREATE TABLE devices (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,              -- cuda, npu and others, host, cpu
    ordinal INTEGER NOT NULL,
    events INTEGER NOT NULL,         -- number of trace events
    first_time_us INTEGER,
    last_time_us INTEGER
);
CREATE TABLE frames (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    filename TEXT NOT NULL,
    line INTEGER,
    extra TEXT                       -- FX fields, the line's text (source), as JSON
);
CREATE TABLE call_nodes (            -- the prefix tree of all stacks, outermost frame first
    id INTEGER PRIMARY KEY,
    parent INTEGER REFERENCES call_nodes,
    frame INTEGER NOT NULL REFERENCES frames,
    depth INTEGER NOT NULL
);
CREATE TABLE stacks (
    id INTEGER PRIMARY KEY,
    node INTEGER REFERENCES call_nodes,  -- the innermost frame; NULL for a stack without frames
    depth INTEGER NOT NULL,
    callstack TEXT NOT NULL          -- file:line:function, innermost first
);
CREATE TABLE roles (                 -- what allocations are for, and how that is known
    id INTEGER PRIMARY KEY,
    role TEXT NOT NULL,              -- parameter, gradient, activation, ..., unknown
    evidence TEXT NOT NULL,
    confidence REAL NOT NULL         -- 0 to 1
);
CREATE TABLE allocation_kinds (      -- what many allocations have in common
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    size INTEGER NOT NULL,
    slack INTEGER NOT NULL,          -- block_size minus size
    block_range INTEGER NOT NULL,    -- block_size_max minus block_size
    stream INTEGER NOT NULL,
    pool INTEGER REFERENCES pools,
    stack INTEGER REFERENCES stacks,
    free_stack INTEGER REFERENCES stacks,
    category INTEGER REFERENCES strings,
    compile_context INTEGER REFERENCES strings,
    metadata INTEGER REFERENCES strings,
    role INTEGER NOT NULL REFERENCES roles
);
CREATE TABLE allocation_spans (      -- what 32 allocations with consecutive ids count from
    id INTEGER PRIMARY KEY,
    event INTEGER NOT NULL,
    time_us INTEGER NOT NULL
);
CREATE TABLE allocation_rows (       -- the view allocations below, in few bytes, and in the order
    id INTEGER PRIMARY KEY,          -- in which they deflate best
    free_after INTEGER,              -- events from free_requested_event to free_event
    free_after_us INTEGER,
    requested_after_us INTEGER,      -- the same for times; a NULL start counts as 0
    version INTEGER NOT NULL,
    alloc_after_us INTEGER,
    alloc_after INTEGER,             -- events from the span's event to alloc_event
    kind INTEGER NOT NULL REFERENCES allocation_kinds,
    requested_after INTEGER,         -- events from alloc_event to free_requested_event
    addr INTEGER NOT NULL
);
CREATE TABLE events (                -- all trace events that belong to no allocation
    device INTEGER NOT NULL REFERENCES devices,
    event INTEGER NOT NULL,
    action TEXT NOT NULL,
    addr INTEGER NOT NULL,           -- for oom: free bytes on the device
    size INTEGER NOT NULL,
    time_us INTEGER,
    stream INTEGER NOT NULL,
    pool INTEGER REFERENCES pools,
    stack INTEGER REFERENCES stacks
);
CREATE TABLE segments (              -- at the end of the recording
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    address INTEGER NOT NULL,
    size INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    pool INTEGER REFERENCES pools,
    kind TEXT NOT NULL,              -- small or large
    expandable INTEGER NOT NULL,
    stack INTEGER REFERENCES stacks,
    allocated_size INTEGER,          -- as the file states them
    active_size INTEGER,
    requested_size INTEGER
);
CREATE TABLE blocks (                -- they tile their segment
    segment INTEGER NOT NULL REFERENCES segments,
    address INTEGER NOT NULL,
    size INTEGER NOT NULL,
    requested INTEGER NOT NULL,
    state TEXT NOT NULL,             -- active_allocated, active_pending_free, inactive
    stack INTEGER REFERENCES stacks,
    allocation INTEGER REFERENCES allocation_rows
);
CREATE TABLE annotations (           -- stages
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    name TEXT NOT NULL,
    parent INTEGER REFERENCES annotations,
    depth INTEGER NOT NULL,
    start_event INTEGER,              -- NULL: before recording, or its START was lost
    end_event INTEGER,                -- the first event after it; NULL: before recording
    start_time_us INTEGER,
    end_time_us INTEGER
);
CREATE VIEW allocations AS
SELECT
    r.id AS id,
    k.device AS device,
    r.addr AS addr,
    r.version AS version,            -- how many allocations had this address before
    k.size AS size,                  -- requested bytes
    k.size + k.slack AS block_size,  -- a lower bound if it differs from the next
    k.size + k.slack + k.block_range AS block_size_max,
    b.event + r.alloc_after AS alloc_event,                           -- NULL: before recording
    coalesce(b.event + r.alloc_after, 0) + r.requested_after
        AS free_requested_event,                                     -- NULL: never, or before
    coalesce(coalesce(b.event + r.alloc_after, 0) + r.requested_after, 0) + r.free_after
        AS free_event,                                               -- NULL: never
    b.time_us + r.alloc_after_us AS alloc_time_us,
    coalesce(b.time_us + r.alloc_after_us, 0) + r.requested_after_us AS free_requested_time_us,
    coalesce(coalesce(b.time_us + r.alloc_after_us, 0) + r.requested_after_us, 0)
        + r.free_after_us AS free_time_us,
    k.stream AS stream,
    k.pool AS pool,
    k.stack AS stack,
    k.free_stack AS free_stack,
    k.category AS category,
    k.compile_context AS compile_context,
    k.metadata AS metadata,
    w.role AS role,                  -- these three as values, not ids
    w.evidence AS role_evidence,
    w.confidence AS role_confidence
FROM allocation_rows AS r
LEFT JOIN allocation_kinds AS k ON k.id = r.kind       -- LEFT: SQLite reads only what is asked for
LEFT JOIN roles AS w ON w.id = k.role
LEFT JOIN allocation_spans AS b ON b.id = r.id >> 5;
-- The default device's allocations as SnapViewer's users query them; idx i is row i of
-- allocations.json.
CREATE VIEW allocs AS
SELECT
    a.id AS idx,
    a.size AS size,
    coalesce(a.alloc_event, 0) AS start_time,
    coalesce(a.free_event, max(d.events, 1)) AS end_time,
    coalesce(s.callstack, '') AS callstack
FROM allocations AS a
JOIN devices AS d ON d.id = a.device
LEFT JOIN stacks AS s ON s.id = a.stack
WHERE a.device = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'default_device');
