-- What a job writes, made less. The newest provider call of a task lives in its task's row, which the claim and
-- the settlement write anyway; and that row never grows.

ALTER TABLE tasks  -- Of the newest provider call, which is number `attempts`. All null before the first.
  ADD COLUMN attempt_provider VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  ADD COLUMN attempt_epoch INT UNSIGNED NULL,
  ADD COLUMN attempt_state TINYINT UNSIGNED NULL,
  ADD COLUMN attempt_detail VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  ADD COLUMN attempt_started_at DATETIME(6) NULL,
  ADD COLUMN attempt_ended_at DATETIME(6) NULL,
  ADD COLUMN room VARBINARY(255) NOT NULL DEFAULT '';

-- Blanks that leave the row as fast as the rest of it grows, and are gone when it is final. Tasks are appended, so
-- their pages are full; a row that grew would split its page, which costs kilobytes of redo log for each task and
-- leaves pages half empty. Enough for an output key of 120 characters (121 bytes) with the size (8), hash (32),
-- duration (4) and charge (8), and for an attempt (21) of a provider whose name has 24 (25); output_deleted_at takes
-- the place of wake_at. More than that, like a failure with long texts, may split a page, no more.
ALTER TABLE tasks ALTER COLUMN room SET DEFAULT (REPEAT(' ', 219));

-- Renamed before its rows move: older programs that still run cannot write between the two steps.
RENAME TABLE attempts TO past_attempts;

UPDATE tasks t JOIN past_attempts a ON a.task_id=t.id AND a.n=t.attempts
SET t.attempt_provider=a.provider, t.attempt_epoch=a.epoch, t.attempt_state=a.state, t.attempt_detail=a.detail,
    t.attempt_started_at=a.started_at, t.attempt_ended_at=a.ended_at;

DELETE a FROM past_attempts a JOIN tasks t ON t.id=a.task_id AND t.attempts=a.n;

-- All provider calls, for who only reads.
CREATE SQL SECURITY INVOKER VIEW attempts AS
  SELECT task_id, n, epoch, provider, state, detail, started_at, ended_at FROM past_attempts
  UNION ALL
  SELECT id, attempts, attempt_epoch, attempt_provider, attempt_state, attempt_detail, attempt_started_at,
    attempt_ended_at FROM tasks WHERE attempts>0;
