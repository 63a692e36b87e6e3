-- What providers that are polled gave for the calls under way: by it whoever claims the task next asks for the audio, instead
-- of having it made, and paid, once more.

-- Of a task the newest call's alone. Written for such providers only, once a call; forgotten when the call has failed, and in any case after
-- an hour: their files last no longer. Apart from the task's row, which must not grow.
CREATE TABLE tickets (
  task_id BINARY(16) NOT NULL PRIMARY KEY,
  n INT UNSIGNED NOT NULL,                     -- Of the call, among the task's.
  provider VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  ticket VARCHAR(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_at DATETIME(6) NOT NULL,
  KEY k_age (created_at)
) ENGINE=InnoDB;
