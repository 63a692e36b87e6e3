-- What calls to providers were, and cost: one row for each, written once, at its end, in the transaction that its task ends
-- with; of one whose worker has died, by whoever takes the task away from it. Apart from the task's row, which must not
-- grow, and small: a look at some days reads these alone. Rows append, as tasks do; they go with past_attempts.

-- Money is in millionths of the operator's currency. Null: nobody knows.
CREATE TABLE provider_calls (
  task_id BINARY(16) NOT NULL,
  n INT UNSIGNED NOT NULL,                     -- Among the task's calls, as in past_attempts.
  provider VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  outcome TINYINT UNSIGNED NOT NULL,           -- 1 delivered, 2 undelivered, 3 failed, 4 unknown, 5 beaten, 6 dropped, 7 lost
  sent_at DATETIME(6) NOT NULL,
  took_ms INT UNSIGNED NULL,                   -- From then to its end,
  first_byte_ms INT UNSIGNED NULL,             -- to the first byte of what brought its audio.
  audio_ms INT UNSIGNED NULL,                  -- Delivered.
  price_unit TINYINT UNSIGNED NULL,            -- 1 call, 2 1000 characters, 3 audio second, 4 compute second, 5 billable unit
  price BIGINT UNSIGNED NULL,                  -- Of one unit.
  quantity BIGINT UNSIGNED NULL,               -- Thousandths of a unit.
  cost BIGINT UNSIGNED NULL,
  earned BIGINT UNSIGNED NULL,                 -- Thousandths of a credit, of what was delivered.
  PRIMARY KEY (task_id, n)
) ENGINE=InnoDB;
