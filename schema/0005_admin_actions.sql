-- Who changed what by hand, on whom, why, and what came of it: one row per admin command that changes something,
-- written in the same transaction. The admin user may only insert and read here.

CREATE TABLE admin_actions (
  id BINARY(16) NOT NULL PRIMARY KEY,  -- UUIDv7: rows append
  done_at DATETIME(6) NOT NULL,
  who VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  action VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  target VARCHAR(254) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- as it was given
  detail VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- the other arguments, no secrets
  reason VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  result TINYINT UNSIGNED NOT NULL,    -- 1 done 2 refused by a rule 3 failed
  message VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,     -- why not
  CONSTRAINT admin_actions_result CHECK (result BETWEEN 1 AND 3)
) ENGINE=InnoDB;

-- When a worker said that it ended. One that is gone without a word is lost; neither holds work.
ALTER TABLE workers ADD COLUMN ended_at DATETIME(6) NULL;
