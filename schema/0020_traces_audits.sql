-- By what all that was said of a task, in logs here and in the traces of others, is found again. Written with the
-- creation, never changed; null: of a release before, or of no request.

ALTER TABLE tasks
  ADD COLUMN request_id VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  ADD COLUMN trace VARBINARY(25) NULL;  -- W3C Trace Context: number of the trace, of the task's span, flags

-- What audits have found right and need not read again: rows of days long over, which no program may change. A full
-- audit asks none of it.

-- How far each kind of rows was audited, in the order of an index.
CREATE TABLE audit_progress (
  stage TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  done_to VARBINARY(32) NOT NULL  -- an id, or a time as text
) ENGINE=InnoDB;

-- What each user's ledger comes to up to a row.
CREATE TABLE audit_marks (
  user_id BINARY(16) NOT NULL PRIMARY KEY,
  seq BIGINT UNSIGNED NOT NULL,
  available BIGINT NOT NULL,
  held BIGINT NOT NULL,
  compared_to DATETIME(6) NOT NULL  -- usage and spending of the hours and days before it were right
) ENGINE=InnoDB;

-- Where an audit is that has not ended: one that was interrupted goes on there.
CREATE TABLE audit_runs (
  kind TINYINT UNSIGNED NOT NULL PRIMARY KEY,  -- 1 of what is recent 2 of everything
  stage TINYINT UNSIGNED NOT NULL,
  at VARBINARY(32) NOT NULL,
  clean TINYINT UNSIGNED NOT NULL,  -- 1: the stage so far
  bad VARBINARY(1000) NOT NULL,     -- by rule, with commas between
  over_before DATETIME(6) NOT NULL,
  touched_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;

-- What else would grow for ever: provider calls before a task's newest are kept for a while only, and those of all tasks
-- up to this one are gone.
ALTER TABLE retention ADD COLUMN attempts_to BINARY(16) NOT NULL DEFAULT (REPEAT(CHAR(0), 16));

-- Processes that were silent for a day are found by it, however many have been started since.
ALTER TABLE workers ADD KEY k_seen (seen_at);
ALTER TABLE api_processes ADD KEY k_seen (seen_at);
