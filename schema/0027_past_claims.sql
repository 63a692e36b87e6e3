-- Claims that took more than a call that went well, and were not canceled: whose they were, and how they ended. A
-- task that comes back to the queue again and again tells by these who had it, also where nobody was called. The
-- usual end has no row here: its task's own row says it all, and it would be one row more for each task. They go with
-- past_attempts.

CREATE TABLE past_claims (
  task_id BINARY(16) NOT NULL,
  epoch INT UNSIGNED NOT NULL,       -- The claim's.
  worker BINARY(16) NOT NULL,
  claimed_at DATETIME(6) NOT NULL,
  ended_at DATETIME(6) NOT NULL,
  ended_as TINYINT UNSIGNED NOT NULL,  -- 1 settled, 2 to be tried again, 3 given back, 4 taken away
  PRIMARY KEY (task_id, epoch)
) ENGINE=InnoDB;
