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
