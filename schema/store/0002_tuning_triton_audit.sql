-- SPDX-License-Identifier: Apache-2.0
-- Store format 2: what tuning, Triton and the audit add.

-- Who changed what: one row a change of the store that a person or a token asked for. Never deleted.
CREATE TABLE change (
  id      INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  actor   TEXT NOT NULL,    -- token id and name, or "local"
  origin  TEXT NOT NULL,    -- peer address, or "cli"
  action  TEXT NOT NULL,    -- "release create"
  subject TEXT NOT NULL,    -- what it was done to
  detail  TEXT NOT NULL     -- canonical JSON
) STRICT;

-- --- Triton (schema/triton.md) ---

-- A complete kernel entry, host module or autotune result; the last one captured under a key counts.
CREATE TABLE triton_entry (
  id         INTEGER PRIMARY KEY,
  kind       INTEGER NOT NULL CHECK (kind IN (0, 1, 2)),  -- kernel, host, autotune
  key        TEXT NOT NULL,  -- folder in Triton's cache; of a host module the C source's SHA-256, or its folder
  scope      TEXT NOT NULL,  -- autotune: device class; host: ABI, machine and file; else empty
  target     TEXT NOT NULL,  -- kernel only
  name       TEXT NOT NULL,
  triton     TEXT NOT NULL,
  python_abi TEXT NOT NULL,  -- empty: not known
  machine    TEXT NOT NULL,
  detail     TEXT NOT NULL,  -- canonical JSON: what else the catalogue says of it
  created    INTEGER NOT NULL,
  UNIQUE (kind, key, scope)
) STRICT;

CREATE TABLE triton_file (
  entry_id    INTEGER NOT NULL REFERENCES triton_entry (id) ON DELETE CASCADE,
  name        TEXT NOT NULL,
  artifact_id INTEGER NOT NULL REFERENCES artifact (id),
  PRIMARY KEY (entry_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX triton_file_by_artifact ON triton_file (artifact_id);

-- Specialisations programs asked for: one JSON object each, as recorded.
CREATE TABLE triton_record (
  id      INTEGER PRIMARY KEY,
  digest  BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  record  TEXT NOT NULL,
  created INTEGER NOT NULL
) STRICT;

-- ---- Tuning ----

-- `recipe` digests what a measurement depends on besides the cubin: arguments, fills, launch, reference, tolerance,
-- cache. A measurement of another recipe is stale. Empty: not told.
ALTER TABLE measurement ADD COLUMN recipe BLOB NOT NULL DEFAULT x'';
ALTER TABLE measurement ADD COLUMN stage INTEGER NOT NULL DEFAULT 0 CHECK (stage IN (0, 1));    -- search, run-off
ALTER TABLE measurement ADD COLUMN message TEXT NOT NULL DEFAULT '';                            -- why it is not ok
ALTER TABLE measurement ADD COLUMN floor_us REAL;                                               -- no honest run is faster
ALTER TABLE measurement ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)); -- far below the floor, twice
ALTER TABLE measurement ADD COLUMN clock_mhz REAL;                                              -- while sampling

-- What tuning one job (kernel, target, types, shape, device class) came to. The newest one counts.
CREATE TABLE tuning (
  id              INTEGER PRIMARY KEY,
  kernel_id       INTEGER NOT NULL REFERENCES kernel (id),
  target          TEXT NOT NULL,
  types_id        INTEGER NOT NULL REFERENCES json_value (id),
  shape_id        INTEGER NOT NULL REFERENCES json_value (id),
  device_class_id INTEGER NOT NULL REFERENCES device_class (id),
  session_id      INTEGER NOT NULL REFERENCES device_session (id),
  recipe          BLOB NOT NULL,
  strategy        TEXT NOT NULL,
  configs         INTEGER NOT NULL,                               -- valid ones
  measured        INTEGER NOT NULL,                               -- of those, whatever came of it
  failed          INTEGER NOT NULL,                               -- of those measured, not ok
  complete        INTEGER NOT NULL CHECK (complete IN (0, 1)),    -- 0: the budget ended it
  seconds         REAL NOT NULL,
  baseline_id     INTEGER REFERENCES measurement (id) ON DELETE SET NULL,  -- what an untuned release would run
  created         INTEGER NOT NULL
) STRICT;
CREATE INDEX tuning_by_job ON tuning (kernel_id, target, types_id, shape_id, device_class_id);
CREATE INDEX tuning_by_baseline ON tuning (baseline_id);

-- Who met in the run-off, best first; place 0 is the winner. `tied`: not separable from the fastest.
CREATE TABLE tuning_finalist (
  tuning_id      INTEGER NOT NULL REFERENCES tuning (id) ON DELETE CASCADE,
  place          INTEGER NOT NULL,
  measurement_id INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
  tied           INTEGER NOT NULL CHECK (tied IN (0, 1)),
  PRIMARY KEY (tuning_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX tuning_finalist_by_measurement ON tuning_finalist (measurement_id);

-- Written before a candidate's first launch, removed with its measurement: what is left was running when the tuner
-- or its machine went down.
CREATE TABLE tuning_journal (
  candidate_id    INTEGER NOT NULL REFERENCES candidate (id) ON DELETE CASCADE,
  shape_id        INTEGER NOT NULL REFERENCES json_value (id),
  config_id       INTEGER NOT NULL REFERENCES json_value (id),
  device_class_id INTEGER NOT NULL REFERENCES device_class (id),
  attempts        INTEGER NOT NULL,
  started         INTEGER NOT NULL,
  PRIMARY KEY (candidate_id, shape_id, config_id, device_class_id)
) STRICT, WITHOUT ROWID;

-- Who tunes a job now; past `expires` anybody may take it.
CREATE TABLE tuning_lease (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  kernel_id       INTEGER NOT NULL REFERENCES kernel (id),
  target          TEXT NOT NULL,
  types_id        INTEGER NOT NULL REFERENCES json_value (id),
  shape_id        INTEGER NOT NULL REFERENCES json_value (id),
  device_class_id INTEGER NOT NULL REFERENCES device_class (id),
  owner           TEXT NOT NULL,
  expires         INTEGER NOT NULL,
  UNIQUE (kernel_id, target, types_id, shape_id, device_class_id)
) STRICT;

-- ---- Server ----

-- A release's kernel table for one target without its entries, as catalogue JSON: what never changes
-- under an id, so that who resolves parses it once.
CREATE TABLE released_kernel (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  release_id INTEGER NOT NULL REFERENCES release (id),
  kernel     TEXT NOT NULL,
  target     TEXT NOT NULL,
  json       TEXT NOT NULL,
  UNIQUE (release_id, kernel, target)
) STRICT;

-- Its entries, a row each, found by what a query can be exact in. Empty class: any device.
CREATE TABLE released_entry (
  id           INTEGER PRIMARY KEY,
  released_id  INTEGER NOT NULL REFERENCES released_kernel (id),
  types_id     INTEGER NOT NULL REFERENCES json_value (id),
  device_class TEXT NOT NULL,
  json         TEXT NOT NULL
) STRICT;
CREATE INDEX released_entry_by_class ON released_entry (released_id, types_id, device_class);

INSERT INTO released_kernel (release_id, kernel, target, json)
  SELECT release_id, kernel, target, json_set(json, '$.entries', json('[]'))
  FROM released_table GROUP BY release_id, kernel, target;
INSERT INTO released_entry (released_id, types_id, device_class, json)
  SELECT k.id, t.types_id, coalesce(json_extract(e.value, '$.device_class'), ''), e.value
  FROM released_kernel k
  JOIN released_table t ON t.release_id = k.release_id AND t.kernel = k.kernel AND t.target = k.target,
       json_each(t.json, '$.entries') e
  ORDER BY k.id, t.types_id, e.key;
DROP TABLE released_table;
