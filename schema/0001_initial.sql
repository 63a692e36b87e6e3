-- The whole data model. Amounts are integers in thousandths of a credit; times are UTC by the database's own clock.
-- Runs unchanged on MariaDB 10.11 and MySQL 8.

CREATE TABLE users (
  id BINARY(16) NOT NULL PRIMARY KEY,
  email VARCHAR(254) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,  -- lower case
  plan TINYINT UNSIGNED NOT NULL DEFAULT 0,       -- 0 free, 1 paid
  purchased TINYINT UNSIGNED NOT NULL DEFAULT 0,  -- a purchase opens API access for good
  created_at DATETIME(6) NOT NULL,
  UNIQUE KEY u_email (email),
  CONSTRAINT users_plan CHECK (plan IN (0, 1))
) ENGINE=InnoDB;

-- One row per user. Locked before anything else of the user is written: the lock order is law.
CREATE TABLE balances (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  available BIGINT NOT NULL,
  held BIGINT NOT NULL,
  seq BIGINT UNSIGNED NOT NULL,  -- ledger rows of this user
  CONSTRAINT balances_available CHECK (available >= 0),
  CONSTRAINT balances_held CHECK (held >= 0)
) ENGINE=InnoDB;

CREATE TABLE api_keys (
  id BINARY(16) NOT NULL PRIMARY KEY,
  user_id BINARY(16) NOT NULL,
  key_hash BINARY(32) NOT NULL,  -- SHA-256 of the key; the key itself is shown once and stored nowhere
  prefix VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at DATETIME(6) NOT NULL,
  last_used_at DATETIME(6) NULL,
  deleted_at DATETIME(6) NULL,
  UNIQUE KEY u_hash (key_hash),
  KEY k_user (user_id)
) ENGINE=InnoDB;

-- The queue of record. A message in the broker is only a hint that a row here may be ready.
CREATE TABLE tasks (
  id BINARY(16) NOT NULL PRIMARY KEY,  -- UUIDv7: rows append
  user_id BINARY(16) NOT NULL,
  state TINYINT UNSIGNED NOT NULL,     -- 1 queued 2 running 3 succeeded 4 failed 5 canceled
  request MEDIUMBLOB NOT NULL,         -- canonical JSON of the validated request
  output_format TINYINT UNSIGNED NOT NULL,
  held BIGINT NOT NULL,
  charged BIGINT NULL,                 -- set exactly when final
  epoch INT UNSIGNED NOT NULL DEFAULT 0,     -- fencing token: grows at every claim and every release
  claims INT UNSIGNED NOT NULL DEFAULT 0,    -- attempts used up
  attempts INT UNSIGNED NOT NULL DEFAULT 0,  -- provider calls so far
  worker BINARY(16) NULL,
  lease_until DATETIME(6) NULL,
  next_run_at DATETIME(6) NOT NULL,
  deadline_at DATETIME(6) NOT NULL,
  wake_at DATETIME(6) NULL,            -- no later than this the sweeper looks at the row; null: never
  output_key VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NULL,
  output_bytes BIGINT UNSIGNED NULL,
  output_sha256 BINARY(32) NULL,
  duration_ms INT UNSIGNED NULL,
  failure TINYINT UNSIGNED NULL,
  failure_message VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  KEY k_wake (wake_at),
  CONSTRAINT tasks_state CHECK (state BETWEEN 1 AND 5),
  CONSTRAINT tasks_charge CHECK (charged IS NULL OR (charged >= 0 AND charged <= held)),
  CONSTRAINT tasks_final CHECK ((state >= 3) = (charged IS NOT NULL)),
  CONSTRAINT tasks_refund CHECK (state < 4 OR charged = 0),
  CONSTRAINT tasks_lease CHECK ((state = 2) = (lease_until IS NOT NULL)),
  CONSTRAINT tasks_output CHECK ((state = 3) = (output_key IS NOT NULL)),
  CONSTRAINT tasks_failure CHECK ((state = 4) = (failure IS NOT NULL))
) ENGINE=InnoDB;

-- Append-only double entry: the service's database user may only insert and read here. One row per hold, one per
-- resolution (charge and return together), one per grant. The primary key makes a lost update of a balance
-- collide; u_source resolves a hold, and books a grant, at most once.
CREATE TABLE ledger (
  user_id BINARY(16) NOT NULL,
  seq BIGINT UNSIGNED NOT NULL,        -- 1, 2, 3 … without gaps
  kind TINYINT UNSIGNED NOT NULL,      -- 1 hold 2 resolve 3 grant 4 clawback
  source_id BINARY(16) NOT NULL,       -- the task (1, 2) or the grant (3, 4)
  d_available BIGINT NOT NULL,
  d_held BIGINT NOT NULL,
  d_system BIGINT NOT NULL,            -- what the service earned (+) or gave (-)
  available_after BIGINT NOT NULL,
  held_after BIGINT NOT NULL,
  created_at DATETIME(6) NOT NULL,
  PRIMARY KEY (user_id, seq),
  UNIQUE KEY u_source (source_id, kind),
  CONSTRAINT ledger_zero CHECK (d_available + d_held + d_system = 0),
  CONSTRAINT ledger_after CHECK (available_after >= 0 AND held_after >= 0),
  CONSTRAINT ledger_kind CHECK (
       (kind = 1 AND d_system = 0 AND d_held > 0)
    OR (kind = 2 AND d_held < 0 AND d_available >= 0 AND d_system >= 0)
    OR (kind = 3 AND d_held = 0 AND d_available > 0)
    OR (kind = 4 AND d_held = 0 AND d_available < 0))
) ENGINE=InnoDB;

CREATE TABLE grants (
  id BINARY(16) NOT NULL PRIMARY KEY,
  reference VARBINARY(128) NOT NULL,   -- the payment's own id: the same one is booked once
  user_id BINARY(16) NOT NULL,
  kind TINYINT UNSIGNED NOT NULL,      -- 1 purchase 2 plan 3 bonus 4 adjustment
  amount BIGINT NOT NULL,
  created_at DATETIME(6) NOT NULL,
  UNIQUE KEY u_reference (reference)
) ENGINE=InnoDB;

-- A row exists exactly when its task was committed with it. Kept 7 days, and while the task is open.
CREATE TABLE idempotency (
  user_id BINARY(16) NOT NULL,
  idem_key VARBINARY(128) NOT NULL,
  fingerprint BINARY(32) NOT NULL,
  task_id BINARY(16) NOT NULL,
  created_at DATETIME(6) NOT NULL,
  PRIMARY KEY (user_id, idem_key),
  KEY k_age (created_at)
) ENGINE=InnoDB;

-- One row per provider call, written before the call.
CREATE TABLE attempts (
  task_id BINARY(16) NOT NULL,
  n INT UNSIGNED NOT NULL,
  epoch INT UNSIGNED NOT NULL,
  provider VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  state TINYINT UNSIGNED NOT NULL,     -- 1 started 2 succeeded 3 failed 4 unknown outcome
  detail VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,  -- for operators, never for clients
  started_at DATETIME(6) NOT NULL,
  ended_at DATETIME(6) NULL,
  PRIMARY KEY (task_id, n)
) ENGINE=InnoDB;

-- Who is working: one row per worker process start, for operators only.
CREATE TABLE workers (
  id BINARY(16) NOT NULL PRIMARY KEY,
  host VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  pid INT UNSIGNED NOT NULL,
  in_flight INT UNSIGNED NOT NULL,
  status BLOB NOT NULL,                -- JSON: version, providers
  started_at DATETIME(6) NOT NULL,
  seen_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;
