-- What users used, by hour, key and voice: rolled up from the ledger by the workers, in passing.

-- By which key a task was asked for: null for those from before, and for what no key asked for. The voice that was
-- asked for, of tasks whose request is emptied; until then the request says it.
ALTER TABLE tasks
  ADD COLUMN key_id BINARY(16) NULL,
  ADD COLUMN voice VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL;

-- Each ledger row of a task counts in the hour in which it was written: a hold as a generation, its resolution as what
-- became of it. So nothing here changes but by rows that are added to the ledger. Hours without any have no row.
CREATE TABLE usage_hours (
  user_id BINARY(16) NOT NULL,
  starts_at DATETIME NOT NULL,          -- A whole hour.
  key_id BINARY(16) NOT NULL,           -- All zeros: not known.
  voice VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- Empty: none, or not known.
  generations BIGINT UNSIGNED NOT NULL,
  succeeded BIGINT UNSIGNED NOT NULL,
  failed BIGINT UNSIGNED NOT NULL,
  canceled BIGINT UNSIGNED NOT NULL,
  audio_ms BIGINT UNSIGNED NOT NULL,
  charged BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (user_id, starts_at, key_id, voice)
) ENGINE=InnoDB;

-- The ledger rows of a user up to this number are in usage_hours: written in the transaction that adds them there. The
-- numbers of a user have no gaps and are given under the lock of his balance, so what is committed is always all up
-- to some number; a mark over all users, by a counter or a clock, would pass by what commits late.
CREATE TABLE usage_marks (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  seq BIGINT UNSIGNED NOT NULL
) ENGINE=InnoDB;
