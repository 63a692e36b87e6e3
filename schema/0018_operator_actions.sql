-- What operators tell the running programs: to drain a worker, to hold a provider's breaker open or closed, to take no new
-- generations. Each program reads it with what it asks the database for anyway.

-- When somebody asked this worker to finish what it has and to end.
ALTER TABLE workers ADD COLUMN drain_asked_at DATETIME(6) NULL;

-- One of them holds until its end, at the latest, also where the database is away meanwhile.
CREATE TABLE provider_overrides (
  provider VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  state TINYINT UNSIGNED NOT NULL,     -- 1 open: left alone 2 closed: calls pass
  since DATETIME(6) NOT NULL,
  ends_at DATETIME(6) NOT NULL,
  who VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  reason VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  CONSTRAINT provider_overrides_state CHECK (state IN (1, 2))
) ENGINE=InnoDB;

-- What is switched off has a row.
CREATE TABLE service_switches (
  name VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,  -- intake
  since DATETIME(6) NOT NULL,
  who VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  reason VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE=InnoDB;

ALTER TABLE admin_actions MODIFY COLUMN reason VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL;
