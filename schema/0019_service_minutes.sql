-- How the service did, minute by minute, for the charts of operators.

-- A row is written once, by whichever worker comes first; a minute in which none was there, or the database was not, has none.
-- What is null nobody knows: a worker did not tell. Times are in milliseconds, right to a twentieth.
CREATE TABLE service_minutes (
  starts_at DATETIME NOT NULL PRIMARY KEY,     -- A whole minute.
  arrivals BIGINT UNSIGNED NOT NULL,           -- Tasks that were asked for.
  arrivals_exact TINYINT UNSIGNED NOT NULL,    -- 0: from a sample, as there were very many.
  completions BIGINT UNSIGNED NULL,            -- Tasks that workers have ended, failed ones included.
  wait_p50 INT UNSIGNED NULL,                  -- Of these: from the creation to the last claim.
  wait_p99 INT UNSIGNED NULL,
  run_p50 INT UNSIGNED NULL,                   -- From there to the end.
  run_p99 INT UNSIGNED NULL,
  captured BIGINT NULL                         -- Credits, in thousandths.
) ENGINE=InnoDB;

-- Which of them failed, by what and where.
CREATE TABLE service_minute_failures (
  starts_at DATETIME NOT NULL,
  code VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  provider VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- The last that was called; empty: none, or not known.
  tasks BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (starts_at, code, provider)
) ENGINE=InnoDB;
