-- Which hints the broker has confirmed, said by who sends them and not row by row: a task that waits long for a
-- worker then costs no write at all.

-- One row per audio-api process start. The hints of its tasks below unsent_from were confirmed.
CREATE TABLE api_processes (
  id BINARY(16) NOT NULL PRIMARY KEY,
  unsent_from BINARY(16) NOT NULL,  -- sorts as tasks.id
  seen_at DATETIME(6) NOT NULL
) ENGINE=InnoDB;
