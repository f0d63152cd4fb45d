-- SPDX-License-Identifier: Apache-2.0
-- Store format 1. Times are Unix seconds, sizes bytes, digests 32 raw bytes of SHA-256.
-- Applied in one transaction that also sets application_id and user_version.

-- A kernel as last built.
CREATE TABLE kernel (
  id              INTEGER PRIMARY KEY,
  name            TEXT NOT NULL UNIQUE,
  interface       BLOB NOT NULL CHECK (length(interface) = 32),
  manifest_digest BLOB NOT NULL CHECK (length(manifest_digest) = 32),
  manifest        TEXT NOT NULL,
  manifest_path   TEXT NOT NULL,
  inputs          TEXT NOT NULL  -- what the last finished build hashed (JSON)
) STRICT;

-- The manifest a target's current candidates were built under.
CREATE TABLE current_manifest (
  kernel_id       INTEGER NOT NULL REFERENCES kernel (id),
  target          TEXT NOT NULL,
  manifest_digest BLOB NOT NULL CHECK (length(manifest_digest) = 32),
  PRIMARY KEY (kernel_id, target)
) STRICT, WITHOUT ROWID;

-- Canonical JSON of types, shapes and configs, each text once: rows repeat few of them many times, and
-- equality of id is equality of value.
CREATE TABLE json_value (
  id   INTEGER PRIMARY KEY,
  json TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE toolchain (
  id       INTEGER PRIMARY KEY,
  backend  TEXT NOT NULL,
  major    INTEGER NOT NULL,
  minor    INTEGER NOT NULL,
  identity TEXT NOT NULL,
  UNIQUE (identity, backend, major, minor)
) STRICT;

-- Identity found earlier for a compiler's file (real path, size, modification time).
CREATE TABLE toolchain_probe (
  probe    TEXT PRIMARY KEY,
  identity TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Compression dictionaries; `stored` is the zstd frame of the dictionary's own bytes.
CREATE TABLE dictionary (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  kernel  TEXT NOT NULL,
  target  TEXT NOT NULL,
  trained INTEGER NOT NULL CHECK (trained IN (0, 1)),  -- 0: raw bytes used as a prefix
  covers  INTEGER NOT NULL DEFAULT 0,                  -- artifacts it was chosen for by a finished repack
  digest  BLOB NOT NULL CHECK (length(digest) = 32),   -- of the unpacked bytes
  size    INTEGER NOT NULL,                            -- unpacked
  stored  BLOB NOT NULL
) STRICT;

-- The dictionary that artifacts put from now on use.
CREATE TABLE current_dictionary (
  kernel        TEXT NOT NULL,
  target        TEXT NOT NULL,
  dictionary_id INTEGER NOT NULL REFERENCES dictionary (id),
  PRIMARY KEY (kernel, target)
) STRICT, WITHOUT ROWID;

-- Immutable bytes named by the digest of what a loader gets: a frame in artifact_data, or, when
-- dictionary_offset says where, a part of the dictionary's own bytes. Frames stand in their own table,
-- so that sizes and digests are read without walking over them.
CREATE TABLE artifact (
  id                INTEGER PRIMARY KEY,
  digest            BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  size              INTEGER NOT NULL,
  stored_size       INTEGER NOT NULL,                    -- of the frame; 0 when there is none
  dictionary_id     INTEGER REFERENCES dictionary (id),
  dictionary_offset INTEGER CHECK (dictionary_offset IS NULL OR dictionary_id IS NOT NULL)
) STRICT;

CREATE INDEX artifact_by_dictionary ON artifact (dictionary_id);

CREATE TABLE artifact_data (
  artifact_id INTEGER PRIMARY KEY REFERENCES artifact (id) ON DELETE CASCADE,
  bytes       BLOB NOT NULL  -- one zstd frame
) STRICT;

CREATE TABLE candidate (
  id            INTEGER PRIMARY KEY,
  build_key     BLOB NOT NULL UNIQUE CHECK (length(build_key) = 32),
  kernel_id     INTEGER NOT NULL REFERENCES kernel (id),
  role          INTEGER NOT NULL CHECK (role IN (0, 1, 2)),       -- kernel, reference, prepare
  target        TEXT NOT NULL,
  types_id      INTEGER NOT NULL REFERENCES json_value (id),
  axes_id       INTEGER NOT NULL REFERENCES json_value (id),
  config_id     INTEGER NOT NULL REFERENCES json_value (id),
  toolchain_id  INTEGER NOT NULL REFERENCES toolchain (id),
  status        INTEGER NOT NULL CHECK (status IN (0, 1, 2, 3)),  -- ok, failed, timeout, crashed
  message       TEXT NOT NULL,
  log           TEXT NOT NULL,
  compile_ms    REAL NOT NULL,
  cpu_ms        REAL NOT NULL,
  artifact_id   INTEGER REFERENCES artifact (id),
  extra_entries TEXT NOT NULL,                                    -- one a line
  current       INTEGER NOT NULL DEFAULT 0 CHECK (current IN (0, 1)),
  created       INTEGER NOT NULL,
  CHECK ((status = 0) = (artifact_id IS NOT NULL))
) STRICT;
CREATE INDEX candidate_by_kernel ON candidate (kernel_id, target);
CREATE INDEX candidate_by_artifact ON candidate (artifact_id);

-- One compiled function a step of the kernel.
CREATE TABLE candidate_symbol (
  candidate_id INTEGER NOT NULL REFERENCES candidate (id) ON DELETE CASCADE,
  step         INTEGER NOT NULL,
  symbol       TEXT NOT NULL,
  max_threads  INTEGER NOT NULL,
  registers    INTEGER NOT NULL,
  static_smem  INTEGER NOT NULL,
  spill_bytes  INTEGER NOT NULL,
  PRIMARY KEY (candidate_id, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE device_class (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE device_session (
  id              INTEGER PRIMARY KEY,
  device_class_id INTEGER NOT NULL REFERENCES device_class (id),
  product         TEXT NOT NULL,
  uuid_hash       TEXT NOT NULL,
  driver          TEXT NOT NULL,
  created         INTEGER NOT NULL
) STRICT;

CREATE TABLE device_session_fact (
  session_id INTEGER NOT NULL REFERENCES device_session (id) ON DELETE CASCADE,
  name       TEXT NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (session_id, name)
) STRICT, WITHOUT ROWID;

-- kernel, types and device class repeat what candidate and session say, for the index.
CREATE TABLE measurement (
  id              INTEGER PRIMARY KEY,
  candidate_id    INTEGER NOT NULL REFERENCES candidate (id) ON DELETE CASCADE,
  session_id      INTEGER NOT NULL REFERENCES device_session (id),
  kernel_id       INTEGER NOT NULL REFERENCES kernel (id),
  types_id        INTEGER NOT NULL REFERENCES json_value (id),
  shape_id        INTEGER NOT NULL REFERENCES json_value (id),
  device_class_id INTEGER NOT NULL REFERENCES device_class (id),
  config_id       INTEGER NOT NULL REFERENCES json_value (id),
  status          INTEGER NOT NULL CHECK (status BETWEEN 0 AND 5),  -- ok, wrong, fault, timeout, invalid, throttled
  samples_us      BLOB NOT NULL,                                    -- little-endian float64
  median_us       REAL NOT NULL,
  interval_us     REAL NOT NULL,
  max_error       REAL,                                             -- in tolerances; NULL: not a number
  created         INTEGER NOT NULL
) STRICT;
CREATE INDEX measurement_by_shape
  ON measurement (kernel_id, types_id, shape_id, device_class_id, status, median_us);
CREATE INDEX measurement_by_candidate ON measurement (candidate_id);

-- Frozen OCI documents and packs, in pieces so that one is streamed without being held.
CREATE TABLE blob (
  id         INTEGER PRIMARY KEY,
  digest     BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
  size       INTEGER NOT NULL,
  media_type TEXT NOT NULL
) STRICT;

-- Every piece but the last holds 65536 bytes.
CREATE TABLE blob_chunk (
  blob_id  INTEGER NOT NULL REFERENCES blob (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  bytes    BLOB NOT NULL,
  PRIMARY KEY (blob_id, position)
) STRICT;

CREATE TABLE release (
  id               INTEGER PRIMARY KEY,
  name             TEXT NOT NULL UNIQUE,
  index_digest     BLOB NOT NULL UNIQUE REFERENCES blob (digest),
  serial           INTEGER NOT NULL UNIQUE,
  created          INTEGER NOT NULL,
  expires          INTEGER NOT NULL,  -- 0: never
  signature_digest BLOB REFERENCES blob (digest)
) STRICT;

CREATE TABLE release_target (
  release_id INTEGER NOT NULL REFERENCES release (id),
  position   INTEGER NOT NULL,
  target     TEXT NOT NULL,
  PRIMARY KEY (release_id, position)
) STRICT, WITHOUT ROWID;

-- What a release ships: pinned against gc.
CREATE TABLE release_artifact (
  release_id  INTEGER NOT NULL REFERENCES release (id),
  artifact_id INTEGER NOT NULL REFERENCES artifact (id),
  PRIMARY KEY (release_id, artifact_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX release_artifact_by_artifact ON release_artifact (artifact_id);

CREATE TABLE release_blob (
  release_id INTEGER NOT NULL REFERENCES release (id),
  blob_id    INTEGER NOT NULL REFERENCES blob (id),
  signature  INTEGER NOT NULL CHECK (signature IN (0, 1)),  -- 1: only the signature needs it
  PRIMARY KEY (release_id, blob_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX release_blob_by_blob ON release_blob (blob_id);

-- The part of a release's kernel table that one resolve needs: the launch part and the entries of one
-- types combination, as catalogue JSON.
CREATE TABLE released_table (
  release_id INTEGER NOT NULL REFERENCES release (id),
  kernel     TEXT NOT NULL,
  types_id   INTEGER NOT NULL REFERENCES json_value (id),
  target     TEXT NOT NULL,
  json       TEXT NOT NULL,
  PRIMARY KEY (release_id, kernel, types_id, target)
) STRICT;

CREATE TABLE tag (
  name       TEXT PRIMARY KEY,
  digest     BLOB NOT NULL REFERENCES blob (digest),
  media_type TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_by_digest ON tag (digest);

CREATE TABLE referrer (
  subject       BLOB NOT NULL CHECK (length(subject) = 32),
  blob_id       INTEGER NOT NULL REFERENCES blob (id),
  artifact_type TEXT NOT NULL,
  PRIMARY KEY (subject, blob_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX referrer_by_blob ON referrer (blob_id);

-- Access tokens: only SHA-256 of the secret is kept.
CREATE TABLE token (
  id      TEXT PRIMARY KEY,
  name    TEXT NOT NULL,
  scopes  INTEGER NOT NULL,
  hash    BLOB NOT NULL CHECK (length(hash) = 32),
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,  -- 0: never
  revoked INTEGER NOT NULL DEFAULT 0 CHECK (revoked IN (0, 1))
) STRICT, WITHOUT ROWID;
