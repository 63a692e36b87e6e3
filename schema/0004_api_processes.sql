-- Which hints the broker has confirmed, said by who sends them and not row by row: a task that waits for a worker
-- then costs no write for as long as its hint is trusted.

-- One row per audio-api process start. The hints of its tasks below unsent_from were confirmed.
CREATE TABLE api_processes (
  id BINARY(16) NOT NULL PRIMARY KEY,
  unsent_from BINARY(16) NOT NULL,  -- sorts as tasks.id
  seen_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;

-- One row: how far the sweepers have come, all together, past new tasks that they left as they are. Those before it
-- are seen again by the next pass.
CREATE TABLE sweep_pass (
  id TINYINT UNSIGNED NOT NULL PRIMARY KEY,
  after_wake_at DATETIME(6) NOT NULL,  -- as in tasks: what sorts up to here by (wake_at, id) was seen
  after_id BINARY(16) NOT NULL,
  began_at DATETIME(6) NOT NULL,
  CONSTRAINT sweep_pass_one_row CHECK (id = 1)
) ENGINE=InnoDB;

INSERT INTO sweep_pass (id, after_wake_at, after_id, began_at)
  VALUES (1, '2000-01-01', REPEAT(CHAR(0), 16), '2000-01-01');
